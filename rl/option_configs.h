// SPDX-License-Identifier: Apache-2.0
//
// What a choice means for every op of a decision: the op that takes longest gets the degrees, the
// others of its group follow from neighbour to neighbour, as do parameters, inputs and outputs
// (search/configs/layout_propagation.h); other groups of the decision take the kind that is most
// alike.
//
//     chosen: Gemm by sample x 4 ─▶ Relu by sample x 4 ─▶ output by sample x 4
//                └─▶ weight: copies on all four
#pragma once

#include <cstddef>
#include <vector>

#include "graph/ids.h"
#include "rl/decisions.h"
#include "rl/split_kind.h"
#include "search/configs/search_space.h"

namespace partita::rl {

/// What a decision is made: the config of its lead op, and the kind of split that this is.
struct LeadConfig {
    graph::OpId op;
    search::ConfigId config;
    Kind kind;
};

/// What an option makes of one op.
struct OptionConfig {
    graph::OpId op;
    search::ConfigId config;
};

class OptionConfigs {
public:
    /// Both must outlive it.
    OptionConfigs(search::SearchSpace& space, const Decisions& decisions);

    /// Of all ops of the decision, by op, rising. `micro_batches_id`: of the config table.
    std::vector<OptionConfig> find(std::size_t decision, const LeadConfig& lead,
                                   search::MicroBatchesId micro_batches_id);

private:
    void split_groups(std::size_t decision, const LeadConfig& lead,
                      search::MicroBatchesId micro_batches_id);
    void split_ends(std::size_t decision, search::MicroBatchesId micro_batches_id);
    [[nodiscard]] search::DegreesId most_alike(graph::OpId op, const LeadConfig& lead,
                                               search::MicroBatchesId micro_batches_id);
    void share_output(graph::OpId output, search::MicroBatchesId micro_batches_id);

    search::SearchSpace& space_;
    const Decisions& decisions_;
    std::vector<search::ConfigId> found_;  ///< per op
};

}  // namespace partita::rl
