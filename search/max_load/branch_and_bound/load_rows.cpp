// SPDX-License-Identifier: Apache-2.0
#include "search/max_load/branch_and_bound/load_rows.h"

#include <algorithm>
#include <bit>

#include "search/max_load/model/piece_graph.h"

namespace partita::search {

std::size_t main_kind(const LoadProblem& problem) {
    std::vector<std::size_t> count(problem.graph.kinds);
    for (const LoadDevice& device : problem.devices) ++count[device.kind];
    return static_cast<std::size_t>(std::max_element(count.begin(), count.end()) - count.begin());
}

LoadRows::LoadRows(const LoadProblem& problem)
    : problem_(problem),
      devices_(problem.devices.size()),
      left_(devices_),
      units_(kCount, 0),
      less_(kCount * devices_, 0) {
    const LoadGraph& graph = problem.graph;
    main_kind_ = main_kind(problem);
    for (std::size_t v = 0; v < graph.size; ++v) {
        const std::int64_t time = graph.time(v, main_kind_);
        if (time > 0 && time < kNever) lengths_.push_back(time);
    }
    std::sort(lengths_.begin(), lengths_.end());
    lengths_.erase(std::unique(lengths_.begin(), lengths_.end()), lengths_.end());
    loose_.reserve(graph.size);
    values_.assign(kCount, std::vector<double>(graph.size * devices_, 0));
    exact_.assign(kCount, std::vector<std::int64_t>(graph.size * devices_, 0));
    for (std::size_t v = 0; v < graph.size; ++v) {
        for (std::size_t d = 0; d < devices_; ++d) {
            const std::int64_t time = graph.time(v, problem.devices[d].kind);
            exact_[0][v * devices_ + d] = time < kNever ? time : 0;
            values_[0][v * devices_ + d] = static_cast<double>(exact_[0][v * devices_ + d]);
        }
    }
}

/// What is to be placed over what there is room for, in units on devices of the main kind.
double LoadRows::crowding(std::int64_t unit, std::span<const std::int64_t> times) const {
    std::int64_t wanted = 0;
    for (const std::int64_t time : times) wanted += time / unit;
    std::int64_t room = 0;
    for (std::size_t d = 0; d < devices_; ++d) {
        if (problem_.devices[d].kind == main_kind_) room += left_[d] / unit;
    }
    return static_cast<double>(wanted) / (static_cast<double>(room) + 0.5);
}

void LoadRows::choose(std::span<const std::uint64_t> masks) {
    loose_.clear();
    for (std::size_t v = 0; v < masks.size(); ++v) {
        if (std::has_single_bit(masks[v])) continue;
        const std::int64_t time = problem_.graph.time(v, main_kind_);
        if (time > 0 && time < kNever) loose_.push_back(time);
    }
    std::fill(units_.begin(), units_.end(), 0);
    std::vector<double> best(kCount, 0);
    for (const std::int64_t length : lengths_) {
        double crowded = crowding(length, loose_);
        std::int64_t unit = length;
        for (std::size_t row = 1; row < kCount; ++row) {
            if (crowded <= best[row]) continue;
            std::swap(crowded, best[row]);
            std::swap(unit, units_[row]);
        }
    }
}

void LoadRows::set(std::span<const std::uint64_t> masks, std::span<const std::int64_t> loads,
                   std::int64_t limit) {
    for (std::size_t d = 0; d < devices_; ++d) {
        left_[d] = std::max<std::int64_t>(0, limit - loads[d]);
    }
    choose(masks);
    for (std::size_t row = 1; row < kCount; ++row) {
        const std::int64_t unit = units_[row];
        for (std::size_t d = 0; d < devices_; ++d) {
            less_[row * devices_ + d] = unit == 0 ? 0 : limit - left_[d] / unit * unit;
        }
        for (std::size_t v = 0; v < masks.size(); ++v) {
            const bool counts = unit > 0 && !std::has_single_bit(masks[v]);
            for (std::size_t d = 0; d < devices_; ++d) {
                const std::size_t i = v * devices_ + d;
                exact_[row][i] = counts ? exact_[0][i] / unit * unit : 0;
                values_[row][i] = static_cast<double>(exact_[row][i]);
            }
        }
    }
}

}  // namespace partita::search
