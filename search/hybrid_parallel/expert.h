// SPDX-License-Identifier: Apache-2.0
//
// Expert: what people who know the field do by hand.
//
// First the model cut by its layers (layer_cut.h), one stretch on each device, slow devices with
// less: the manual placements that others compare with. Then, on equal devices, grids as
// Megatron-LM has them (grids.h), best estimate first, until kMostGrids fit; then pipelines with
// more micro-batches (pipeline_search.h).
//
// Optimal: no. Infeasible where no grid fits.
// Source: Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters Using
// Megatron-LM, SC 2021; Krizhevsky 2014; the manual placements of REFERENCES.md 7 and 8.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "search/coarsening/group_graph.h"
#include "search/core/searcher.h"
#include "search/hybrid_parallel/grids.h"
#include "search/hybrid_parallel/pipeline_search.h"

namespace partita::search {

/// The cut over all devices, one whole op on one device.
Placement place_expert(const GroupGraph& graph);

class Expert final : public Searcher {
public:
    static constexpr int kMostGrids = 6;

    [[nodiscard]] Status step(Engine& engine) override;

private:
    void look_at_next_grid(const Engine& engine);

    std::optional<Grids> grids_;
    std::vector<Grid> order_;
    std::size_t next_ = 0;
    std::deque<plan::Strategy> ahead_;  ///< of grids before next_, not evaluated yet
    int fitting_ = 0;
    bool placed_ = false;
    std::optional<PipelineSearch> pipelines_;
};

}  // namespace partita::search
