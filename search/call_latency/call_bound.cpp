// SPDX-License-Identifier: Apache-2.0
#include "search/call_latency/call_bound.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "plan/evaluation/call_costs.h"
#include "search/coarsening/op_groups.h"

namespace partita::search {

namespace {

constexpr std::int64_t kNo = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t kLongestPath = 4'000;

std::size_t index(std::int32_t i) {
    return static_cast<std::size_t>(i);
}

/// The best that each op can hope for.
struct BestTimes {
    std::vector<std::int64_t> accelerator;  ///< kNo: it may use none
    std::vector<std::int64_t> cpu;          ///< kNo: it may use none
    std::int64_t capacity = 0;              ///< of the roomiest accelerator
};

BestTimes best_times(const plan::Problem& problem, const plan::CallCosts& costs) {
    BestTimes best;
    best.accelerator.assign(costs.ops, kNo);
    best.cpu.assign(costs.ops, kNo);
    for (std::size_t op = 0; op < costs.ops; ++op) {
        for (const int d : problem.constraints().allowed_devices(graph::OpId(op))) {
            const std::size_t device = index(d);
            const bool accelerator = costs.is_accelerator[device] != 0;
            std::int64_t& time = (accelerator ? best.accelerator : best.cpu)[op];
            time = std::min(time, costs.time(op, device));
        }
    }
    for (std::size_t d = 0; d < costs.devices; ++d) {
        if (costs.is_accelerator[d] != 0)
            best.capacity = std::max(best.capacity, costs.capacity[d]);
    }
    return best;
}

using Path = std::vector<std::int32_t>;

/// The path of the largest sum of weights; of equals one, by the smallest ops.
Path heaviest_path(const plan::CallCosts& costs, const std::vector<double>& weight) {
    std::vector<double> sum(costs.ops);
    std::vector<std::int32_t> next(costs.ops, -1);
    std::int32_t first = -1;
    for (std::size_t op = costs.ops; op-- > 0;) {
        double tail = 0;
        for (const std::int32_t to : costs.after[op]) {
            if (next[op] < 0 || sum[index(to)] > tail) {
                next[op] = to;
                tail = sum[index(to)];
            }
        }
        sum[op] = weight[op] + tail;
        if (first < 0 || sum[op] >= sum[index(first)]) first = static_cast<std::int32_t>(op);
    }
    Path path;
    for (std::int32_t op = first; op >= 0; op = next[index(op)]) path.push_back(op);
    return path;
}

/// Along one path, by place.
class PathRuns {
public:
    PathRuns(const plan::CallCosts& costs, const BestTimes& best, const OpGroups& groups,
             const std::vector<std::int64_t>& group_bytes)
        : costs_(costs),
          best_(best),
          groups_(groups),
          group_bytes_(group_bytes),
          place_(costs.ops, -1),
          group_seen_(group_bytes.size(), -1) {}

    std::int64_t least(const Path& path) {
        set(path);
        const std::size_t size = path.size();
        least_.assign(size + 1, kNo);
        least_[0] = 0;
        for (std::size_t first = 0; first < size; ++first) {
            if (least_[first] == kNo) continue;  // nothing before may be anywhere
            const std::int64_t cpu = best_.cpu[op_at(first)];
            if (cpu != kNo) offer(first + 1, least_[first] + cpu);
            extend(first);
        }
        for (const std::int32_t op : path) place_[index(op)] = -1;
        // Without a way to place the path there is no plan at all; the groups say why.
        return least_[size] == kNo ? 0 : least_[size];
    }

private:
    [[nodiscard]] std::size_t op_at(std::size_t place) const { return index((*path_)[place]); }

    void offer(std::size_t place, std::int64_t value) {
        least_[place] = std::min(least_[place], value);
    }

    void set(const Path& path) {
        path_ = &path;
        for (std::size_t i = 0; i < path.size(); ++i) {
            place_[index(path[i])] = static_cast<std::int32_t>(i);
        }
        last_reader_.assign(path.size(), -1);
        done_.assign(path.size(), {});
        read_.assign(path.size(), {});
        seen_.assign(path.size(), -1);
        for (std::size_t i = 0; i < path.size(); ++i) {
            for (const std::int32_t to : costs_.after[op_at(i)]) {
                const std::int32_t at = place_[index(to)];
                if (at < 0) continue;
                last_reader_[i] = std::max(last_reader_[i], at);
                read_[index(at)].push_back(static_cast<std::int32_t>(i));
            }
            if (last_reader_[i] >= 0) {
                done_[index(last_reader_[i])].push_back(static_cast<std::int32_t>(i));
            }
        }
        std::ranges::fill(group_seen_, -1);
    }

    /// All runs on an accelerator that begin here.
    void extend(std::size_t first) {
        const auto begin = static_cast<std::int32_t>(first);
        std::int64_t length = 0;
        std::int64_t bytes = 0;
        for (std::size_t last = first; last < path_->size(); ++last) {
            const std::size_t op = op_at(last);
            if (best_.accelerator[op] == kNo) return;
            const std::size_t group = index(groups_.of[op]);
            if (group_seen_[group] != begin) {
                group_seen_[group] = begin;
                bytes += group_bytes_[group];
                if (bytes > best_.capacity) return;
            }
            length += best_.accelerator[op];
            if (last_reader_[last] >= 0) length += costs_.communication[op];
            for (const std::int32_t from : done_[last]) {  // read by nobody behind it
                if (from >= begin) length -= costs_.communication[op_at(index(from))];
            }
            for (const std::int32_t from : read_[last]) {
                if (from >= begin || seen_[index(from)] == begin) continue;
                seen_[index(from)] = begin;
                length += costs_.communication[op_at(index(from))];
            }
            offer(last + 1, least_[first] + length);
        }
    }

    const plan::CallCosts& costs_;
    const BestTimes& best_;
    const OpGroups& groups_;
    const std::vector<std::int64_t>& group_bytes_;
    const Path* path_ = nullptr;
    std::vector<std::int32_t> place_;       ///< per op; -1: not on the path
    std::vector<std::int32_t> group_seen_;  ///< the latest run with an op of the group
    // Per place.
    std::vector<std::int32_t> last_reader_;        ///< on the path; -1: none
    std::vector<std::vector<std::int32_t>> done_;  ///< whose last reader is here
    std::vector<std::vector<std::int32_t>> read_;  ///< what is read here
    std::vector<std::int32_t> seen_;               ///< the latest run that reads it
    std::vector<std::int64_t> least_;              ///< of all that is before
};

/// Shares of time, bytes and communication in the weight of an op.
constexpr std::array<std::array<double, 3>, 8> kMixtures = {{
    {1, 0, 0},
    {0, 1, 0},
    {0, 0, 1},
    {1, 1, 0},
    {1, 4, 0},
    {1, 0, 1},
    {1, 1, 1},
    {1, 4, 1},
}};

std::vector<double> normalized(std::vector<double> weight) {
    double sum = 0;
    for (const double each : weight) sum += each;
    if (sum <= 0) return weight;
    for (double& each : weight) each /= sum;
    return weight;
}

std::vector<double> weights(const plan::CallCosts& costs, const BestTimes& best, std::size_t kind) {
    std::vector<double> weight(costs.ops);
    for (std::size_t op = 0; op < costs.ops; ++op) {
        const std::int64_t value = kind == 0   ? std::min(best.accelerator[op], best.cpu[op])
                                   : kind == 1 ? costs.bytes[op]
                                               : costs.communication[op];
        weight[op] = static_cast<double>(value);
    }
    return normalized(std::move(weight));
}

}  // namespace

Time call_bound(const plan::Problem& problem) {
    const OpGroups groups = make_groups(problem, Grouping::required_only);
    if (!groups.conflict.empty()) return Time{0};
    const plan::CallCosts costs(problem);
    const BestTimes best = best_times(problem, costs);
    std::vector<std::int64_t> group_bytes(groups.size());
    for (std::size_t op = 0; op < costs.ops; ++op) {
        group_bytes[index(groups.of[op])] += costs.bytes[op];
    }
    const std::array kinds = {weights(costs, best, 0), weights(costs, best, 1),
                              weights(costs, best, 2)};
    PathRuns runs(costs, best, groups, group_bytes);
    std::int64_t bound = 0;
    for (const auto& mixture : kMixtures) {
        std::vector<double> weight(costs.ops);
        for (std::size_t op = 0; op < costs.ops; ++op) {
            for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
                weight[op] += mixture[kind] * kinds[kind][op];
            }
        }
        const Path path = heaviest_path(costs, weight);
        if (path.size() <= kLongestPath) bound = std::max(bound, runs.least(path));
    }
    return Time(bound);
}

}  // namespace partita::search
