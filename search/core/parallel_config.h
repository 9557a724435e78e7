// SPDX-License-Identifier: Apache-2.0
//
// Degrees of parallelism as people name them, for a machine of equal devices:
//
//     dp=2,tp=4,pp=2,cp=2,vpp=2,zero=1,sp,order=tp-cp-dp-pp
//
//     dp      groups of devices that share the batch
//     tp      devices of a group that share every op with a weight
//     pp      stages of a pipeline
//     cp      context parallelism: devices that share the positions of the sequence, and not the weights
//     cp-by   what attention is split by over these: heads, or queries (where nothing is said, whichever
//             is quicker)
//     ep      expert parallelism: of dp, so many neighbours have the experts of a layer in parts
//     vpp     chunks of the model in each stage (interleaved schedule)
//     zero    what a group keeps in shards over dp: 1 optimizer state, 2 gradients too, 3 parameters too
//     sp      sequence parallelism: between the products of a group activations lie in shards (sp=0:
//             repeated)
//     reduce  gradients of several micro-batches: last, once all are added up, as in PyTorch's no_sync, or
//             each for itself. zero=0 and zero=3 leave the choice; where nothing is said, the one reduces
//             last, the other each. zero=1 is last, zero=2 each
//     layers  of the model in each chunk of each stage, in its order: 4-8-8-4, even, or (as where
//             nothing is said) cut by work
//     order   which devices are neighbours, innermost first
//
// What is not said is left to the search, but for cp and ep, which are then 1; the product of dp, tp,
// pp and cp is the number of devices.
//
// Source: Narayanan et al., Megatron-LM, SC 2021, sections 2 and 3; Korthikanti et al., Reducing
// Activation Recomputation, 2022, section 4.2 (sp); Rajbhandari et al., ZeRO, SC 2020, section 5; Jacobs
// et al., DeepSpeed Ulysses, 2023, section 3 (cp); Lepikhin et al., GShard, ICLR 2021, section 3 (ep).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace partita::search {

enum class GridDim : std::uint8_t { tensor, context, data, pipeline };

/// Innermost first: devices of a tensor parallel group are neighbours, stages are far apart.
using GridOrder = std::array<GridDim, 4>;
inline constexpr GridOrder kMegatronOrder = {GridDim::tensor, GridDim::context, GridDim::data,
                                             GridDim::pipeline};

/// Where a pipeline cuts the model.
struct LayerCut {
    bool by_work = false;  ///< anywhere
    /// Else: layers of each chunk of each stage, in the order of the model; empty: equally many.
    std::vector<int> counts;
    friend bool operator==(const LayerCut&, const LayerCut&) = default;
};

struct ParallelConfig {
    std::optional<int> data;       ///< dp, >= 1
    std::optional<int> tensor;     ///< tp, >= 1
    std::optional<int> pipeline;   ///< pp, >= 1
    std::optional<int> context;    ///< cp, >= 1
    std::optional<int> experts;    ///< ep, >= 1, a divisor of dp
    std::optional<int> chunks;     ///< vpp, 1 to kMostChunks (pipeline_schedule.h)
    std::optional<int> zero;       ///< 0 to 3
    std::optional<bool> sequence;  ///< sp
    /// cp-by: heads, which everybody exchanges positions for before attention and back behind it, or
    /// queries, whose devices need all keys and values.
    std::optional<bool> context_by_heads;
    std::optional<bool> reduce_each;  ///< reduce: each micro-batch's gradients, or the last's
    std::optional<LayerCut> layers;   ///< where nothing is said: by work
    std::optional<GridOrder> order;   ///< the same: kMegatronOrder

    /// Do devices that share ops keep their shards alone for the backward, of what they gather?
    /// Where nothing is said, they do not.
    [[nodiscard]] bool gathers_again() const {
        return *this != ParallelConfig{} && tensor.value_or(2) > 1 && sequence.value_or(true);
    }
    /// What parse_parallel_config() reads as the same.
    [[nodiscard]] std::string text() const;
    friend bool operator==(const ParallelConfig&, const ParallelConfig&) = default;
};

/// What is said, and what is usual where nothing is.
ParallelConfig completed(const ParallelConfig& said, const ParallelConfig& usual);

/// "dp=2,tp=4,sp". Throws UsageError that names the part that is wrong and `option`.
ParallelConfig parse_parallel_config(std::string_view text, std::string_view option = "--strategy");

}  // namespace partita::search
