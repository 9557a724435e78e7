// SPDX-License-Identifier: Apache-2.0
//
// Grids of devices, equal ones unless people say so: stages of the model x groups that share the batch x devices inside a
// group that share each op (group_split.h),
//
//     16 devices = 2 stages x 2 groups x 4           stage 0            stage 1
//     as 2 nodes of 8                                0 1 2 3  4 5 6 7   8 9 ...   two groups each
//
// groups inside a node, stages over nodes. If people say so there are two levels more, split by the
// same search beside what the level before has split:
//
//     context    so many devices for each of a group share the positions of the sequence, and not the weights
//     experts    so many neighbouring groups have the experts of an op in parts, instead of the batch
//
// What a grid takes is estimated as
//
//     busiest stage + all others / (micro-batches * chunks)    computation and communication of its ops
//
// Chunks are those of the schedule (interleaved:V). Grids that make more than a million parts of
// ops are left out, and so is sharing ops in models of more than 20,000.
//
// Source: Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters Using
// Megatron-LM, SC 2021.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/units.h"
#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"
#include "search/coarsening/group_graph.h"
#include "search/core/parallel_config.h"
#include "search/hybrid_parallel/intra_op/group_split.h"
#include "search/hybrid_parallel/stages.h"

namespace partita::search {

/// All devices as stages x groups x devices of a group.
struct Grid {
    int stages = 1;
    int groups = 1;      ///< that share the batch
    int group_size = 1;  ///< devices that share an op
    int context = 1;     ///< context parallel: so many group_size share each op of a group
    int experts = 1;     ///< expert parallel: of so many neighbouring groups each has some experts
    friend auto operator<=>(const Grid&, const Grid&) = default;
};

/// How all grids are made, beyond their degrees. Otherwise than here, people said so.
struct GridStyle {
    bool share_weights = false;  ///< GroupSplitOptions
    BetweenProducts between = BetweenProducts::free;
    AttentionBy attention = AttentionBy::free;
    GridOrder order = kMegatronOrder;
    std::optional<std::vector<int>> layers;  ///< LayerCut::counts; nullopt: by work
    /// Over these, in this order, of whatever kinds; ops are split as is best on the first of them.
    /// Empty: the equal devices of the fastest kind.
    std::vector<int> devices;
};

/// The grids of a problem.
class Grids {
public:
    /// `graph` must outlive it.
    explicit Grids(const GroupGraph& graph);
    /// With these micro-batches and this schedule instead of the problem's.
    Grids(const GroupGraph& graph, plan::Policy policy, GridStyle style = {});
    /// In another schedule, of as many micro-batches: how ops are shared, which takes longest to find
    /// out, is then the same, and both know it when one does.
    Grids(const Grids& others, plan::Policy policy);

    [[nodiscard]] const plan::Policy& policy() const { return policy_; }
    [[nodiscard]] const GridStyle& style() const { return style_; }

    /// Over all of these devices, or over one node of them. Empty where ops must stay whole, and on
    /// one device.
    [[nodiscard]] std::vector<Grid> all() const;
    /// The same, best estimate first.
    std::vector<Grid> by_estimate();
    plan::Strategy strategy(const Grid& grid);
    /// Why the model cannot be cut like that, naming the op; "" where it can.
    std::string fault(const Grid& grid);
    /// In picoseconds. With other micro-batches: if they cost nothing but the waiting that they
    /// save.
    double estimate(const Grid& grid);
    double estimate(const Grid& grid, int micro_batches);

private:
    /// How far apart in `devices_` the neighbours of each dim are.
    struct Strides {
        int tensor = 1;
        int context = 1;
        int data = 1;
        int pipeline = 1;
    };
    [[nodiscard]] Strides strides(const Grid& grid) const;
    /// How the ops of a stage are shared.
    struct Splits {
        GroupSplit tensor;
        std::optional<GroupSplit> context;
        std::optional<GroupSplit> experts;
        [[nodiscard]] StageAxes axes(graph::OpId op) const;
    };
    [[nodiscard]] int first_device(const Grid& grid, std::size_t stage) const;
    [[nodiscard]] StageBlock block(const Grid& grid, int stage) const;
    const Splits& split(const Grid& grid);
    [[nodiscard]] GroupSplit split_context(const Grid& grid, const Splits& splits) const;
    [[nodiscard]] GroupSplit split_experts(const Grid& grid, const Splits& splits) const;
    std::vector<Time> loads(const Grid& grid);
    const std::vector<int>& slots(const Grid& grid);  ///< of ops
    [[nodiscard]] std::vector<int> find_slots(const Grid& grid) const;
    [[nodiscard]] std::int64_t saved_parts(const Grid& grid, std::size_t slot) const;
    [[nodiscard]] std::string batch_fault(const Grid& grid) const;
    [[nodiscard]] std::string layers_fault(const Grid& grid);
    [[nodiscard]] std::string misplaced_layer(const Grid& grid, const std::vector<int>& said);
    [[nodiscard]] std::vector<int> layers_of_slots(const Grid& grid) const;

    const GroupGraph& graph_;
    const plan::Problem& problem_;
    plan::Policy policy_;
    GridStyle style_;
    std::vector<int> devices_;
    /// By the grid as one stage, and its strides.
    using SplitsOfGrids = std::map<std::tuple<Grid, int, int, int>, Splits>;
    std::shared_ptr<SplitsOfGrids> splits_ = std::make_shared<SplitsOfGrids>();
    /// By stages, devices of a group, and groups that share the batch or its positions.
    std::map<std::tuple<int, int, int>, std::vector<int>> slots_;
};

}  // namespace partita::search
