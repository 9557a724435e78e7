// SPDX-License-Identifier: Apache-2.0
//
// What the classical placers look at: groups as vertices with summed times and bytes, tensors
// between groups as edges, in CSR arrays. All edges rise (from < to): where `together` makes the
// graph of groups cyclic, edges that would fall are turned round, which keeps their traffic and
// loses their precedence.
//
// Resident tensors are no edges: they are loaded wherever they are used.
// Threads: immutable once built.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/units.h"
#include "graph/ids.h"
#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"
#include "search/coarsening/op_groups.h"

namespace partita::search {

/// A device for every group.
using Placement = std::vector<std::int32_t>;

/// One tensor between two groups.
struct GroupEdge {
    std::int32_t group = 0;  ///< the other end
    graph::TensorId tensor;
    Bytes bytes;  ///< per iteration: the tensor, and its gradient back in training
};

class GroupGraph {
public:
    /// `problem` must outlive it; `groups` must be free of conflict.
    GroupGraph(const plan::Problem& problem, OpGroups groups);

    [[nodiscard]] const plan::Problem& problem() const { return problem_; }
    [[nodiscard]] const OpGroups& groups() const { return groups_; }
    [[nodiscard]] std::size_t size() const { return groups_.size(); }
    [[nodiscard]] int device_count() const { return problem_.device_count(); }
    [[nodiscard]] const std::vector<int>& devices(std::size_t g) const {
        return groups_.devices(g);
    }

    /// Computation of one iteration on a device: forward, backward, update.
    [[nodiscard]] Time time(std::size_t g, int device) const {
        return time_[g * static_cast<std::size_t>(problem_.prices().device_class_count()) +
                     static_cast<std::size_t>(problem_.prices().device_class(device))];
    }
    /// Mean of time() over all devices.
    [[nodiscard]] Time mean_time(std::size_t g) const { return mean_time_[g]; }
    /// An estimate of what the group occupies: all it keeps, and what it saves for backward.
    [[nodiscard]] Bytes bytes(std::size_t g) const { return bytes_[g]; }
    /// Of it, what it saves for backward, of the whole batch.
    [[nodiscard]] Bytes saved_bytes(std::size_t g) const { return saved_bytes_[g]; }
    /// Of all results of its ops.
    [[nodiscard]] Bytes result_bytes(std::size_t g) const { return result_bytes_[g]; }

    [[nodiscard]] std::span<const GroupEdge> incoming(std::size_t g) const { return incoming_[g]; }
    [[nodiscard]] std::span<const GroupEdge> outgoing(std::size_t g) const { return outgoing_[g]; }

    /// Time of moving an edge's tensor, and its gradient back in training. 0 when from == to.
    [[nodiscard]] Time copy_time(const GroupEdge& edge, int from, int to) const;

    /// The longest path to a sink by mean computation alone, this group included.
    [[nodiscard]] Time path_to_sink(std::size_t g) const { return path_to_sink_[g]; }
    /// The same with communication: an edge counts mean_copy_time().
    [[nodiscard]] Time rank(std::size_t g) const { return rank_[g]; }
    /// Mean of copy_time() over a fixed sample of pairs of devices; 0 on a single device.
    [[nodiscard]] Time mean_copy_time(const GroupEdge& edge) const;

    /// Sum of time() over all groups; the device's speed is its inverse.
    [[nodiscard]] Time total_time(int device) const;
    /// All devices, fastest first (least total_time; ties by id).
    [[nodiscard]] const std::vector<int>& devices_by_speed() const { return by_speed_; }

    [[nodiscard]] plan::Strategy strategy(const Placement& placement) const;
    [[nodiscard]] Placement placement(const plan::Strategy& strategy) const;

private:
    void sum_times();
    void sum_bytes();
    void add_saved_bytes(graph::OpId op, std::vector<graph::TensorId>& saved) const;
    void connect();
    void rank_groups();

    const plan::Problem& problem_;
    OpGroups groups_;
    std::vector<Time> time_;
    std::vector<Time> mean_time_;
    std::vector<Bytes> bytes_;
    std::vector<Bytes> saved_bytes_;
    std::vector<Bytes> result_bytes_;
    Csr<GroupEdge> incoming_;
    Csr<GroupEdge> outgoing_;
    std::vector<Time> path_to_sink_;
    std::vector<Time> rank_;
    std::vector<Time> class_total_;
    std::vector<std::pair<int, int>> sample_;  ///< pairs of distinct devices
    std::vector<int> by_speed_;
};

}  // namespace partita::search
