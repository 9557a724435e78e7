// SPDX-License-Identifier: Apache-2.0
//
// Expert: what people who know the field do by hand.
//
// First the model cut by its layers (layer_cut.h), one stretch on each device, slow devices with
// less: the manual placements that others compare with. Then, on equal devices, grids: stages of the
// model x groups that share the batch x devices inside a group that share each op (group_split.h),
//
//     16 devices = 2 stages x 2 groups x 4           stage 0            stage 1
//     as 2 nodes of 8                                0 1 2 3  4 5 6 7   8 9 ...   two groups each
//
// as Megatron-LM does: groups inside a node, stages over nodes. Grids are tried by estimate,
//
//     busiest stage + all others / (micro-batches * chunks)    computation and communication of its ops
//
// until kMostGrids fit. Chunks are those of the schedule (interleaved:V). Grids that make more than a
// million parts of ops are left out, and so is sharing ops in models of more than 20,000.
//
// Optimal: no. Infeasible where no grid fits.
// Source: Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters Using
// Megatron-LM, SC 2021; Krizhevsky 2014; the manual placements of REFERENCES.md 7 and 8.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "search/group_graph.h"
#include "search/group_split.h"
#include "search/layer_cut.h"
#include "search/searcher.h"

namespace partita::search {

/// The cut over all devices, one whole op on one device.
Placement place_expert(const GroupGraph& graph);

/// All devices as stages x groups x devices of a group.
struct Grid {
    int stages = 1;
    int groups = 1;      ///< that share the batch
    int group_size = 1;  ///< devices that share an op
    friend bool operator==(const Grid&, const Grid&) = default;
};

/// The grids of a problem, over the equal devices of the fastest kind.
class Grids {
public:
    /// `graph` must outlive it.
    explicit Grids(const GroupGraph& graph);
    /// With these micro-batches and this schedule instead of the problem's.
    Grids(const GroupGraph& graph, plan::Policy policy);

    /// Over all of these devices, or over one node of them. Empty where ops must stay whole, and on one
    /// device.
    [[nodiscard]] std::vector<Grid> all() const;
    /// The same, best estimate first.
    std::vector<Grid> by_estimate();
    plan::Strategy strategy(const Grid& grid);
    /// In picoseconds. With other micro-batches: if they cost nothing but the waiting that they save.
    double estimate(const Grid& grid);
    double estimate(const Grid& grid, int micro_batches);

private:
    const GroupSplit& split(const Grid& grid);
    std::vector<Time> loads(const Grid& grid);
    const std::vector<int>& slots_of_ops(const Grid& grid);
    [[nodiscard]] std::vector<int> find_slots(const Grid& grid) const;

    const GroupGraph& graph_;
    const plan::Problem& problem_;
    plan::Policy policy_;
    std::vector<int> devices_;
    std::map<std::pair<int, int>, GroupSplit> splits_;       ///< by groups and devices of a group
    std::map<std::pair<int, int>, std::vector<int>> slots_;  ///< by stages and devices of a group
};

class PipelineSearch;

class Expert final : public Searcher {
public:
    static constexpr int kMostGrids = 6;

    Expert();
    ~Expert() override;

    [[nodiscard]] Status step(Engine& engine) override;

private:
    std::optional<Grids> grids_;
    std::vector<Grid> order_;
    std::size_t next_ = 0;
    int fitting_ = 0;
    bool placed_ = false;
    std::unique_ptr<PipelineSearch> pipelines_;
};

}  // namespace partita::search
