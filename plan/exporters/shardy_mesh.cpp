// SPDX-License-Identifier: Apache-2.0
#include "plan/exporters/shardy_mesh.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace partita::plan {
namespace {

/// a, b, ..., z, a1, b1, ...
std::string axis_name(std::size_t index) {
    constexpr std::size_t kLetters = 26;
    const std::string letter(1, static_cast<char>('a' + index % kLetters));
    return index < kLetters ? letter : letter + std::to_string(index / kLetters);
}

}  // namespace

std::vector<MeshSpan> spans_of(const OpConfig& config) {
    std::vector<MeshSpan> spans;
    int before = 1;
    for (const Axis& axis : config.axes) {
        spans.push_back({.before = before, .size = axis.degree});
        before *= axis.degree;
    }
    return spans;
}

void ShardyMesh::add(const OpConfig& config) {
    cuts_.push_back(1);
    for (const MeshSpan span : spans_of(config)) cuts_.push_back(span.before * span.size);
    std::sort(cuts_.begin(), cuts_.end());
    cuts_.erase(std::unique(cuts_.begin(), cuts_.end()), cuts_.end());
}

std::vector<int> ShardyMesh::kept() const {
    std::vector<int> kept;
    for (const int cut : cuts_) {
        const bool suits_all = std::all_of(cuts_.begin(), cuts_.end(), [cut](int other) {
            return std::max(cut, other) % std::min(cut, other) == 0;
        });
        if (suits_all) kept.push_back(cut);
    }
    return kept;
}

std::string ShardyMesh::definition() const {
    if (is_one_device()) {
        return fmt::format("sdy.mesh @{} = <[], device_ids=[{}]>", name_, devices_[0]);
    }
    const std::vector<int> cuts = kept();
    std::vector<std::string> axes;
    for (std::size_t i = 1; i < cuts.size(); ++i) {
        axes.push_back(fmt::format("\"{}\"={}", axis_name(i - 1), cuts[i] / cuts[i - 1]));
    }
    std::vector<int> order(static_cast<std::size_t>(devices_.size()));
    for (int part = 0; part < devices_.size(); ++part) {
        order[static_cast<std::size_t>(part)] = devices_[part];
    }
    std::vector<int> rising = order;
    std::sort(rising.begin(), rising.end());
    std::string ids;
    if (order != rising) {  // the dialect refuses ids that are in order
        for (int& device : order) {
            const auto at = std::lower_bound(rising.begin(), rising.end(), device);
            device = static_cast<int>(at - rising.begin());
        }
        ids = fmt::format(", device_ids=[{}]", fmt::join(order, ", "));
    }
    return fmt::format("sdy.mesh @{} = <[{}]{}>", name_, fmt::join(axes, ", "), ids);
}

std::string ShardyMesh::axes(const std::vector<MeshSpan>& spans) const {
    std::vector<MeshSpan> joined;  // a sub-axis must be as large as can be
    for (const MeshSpan span : spans) {
        if (!joined.empty() && joined.back().before * joined.back().size == span.before) {
            joined.back().size *= span.size;
        } else {
            joined.push_back(span);
        }
    }
    const std::vector<int> cuts = kept();
    std::vector<std::string> texts;
    for (const MeshSpan span : joined) {
        for (std::size_t i = 1; i < cuts.size(); ++i) {
            const int from = std::max(span.before, cuts[i - 1]);
            const int to = std::min(span.before * span.size, cuts[i]);
            if (from >= to) continue;
            const std::string name = fmt::format("\"{}\"", axis_name(i - 1));
            const bool is_whole = from == cuts[i - 1] && to == cuts[i];
            texts.push_back(
                is_whole ? name : fmt::format("{}:({}){}", name, from / cuts[i - 1], to / from));
        }
    }
    return fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace partita::plan
