// SPDX-License-Identifier: Apache-2.0
//
// What may be computed once more for the backward instead of being kept, per layer block:
//
//     full        every op that makes something the block's backward reads, but what comes from other
//                 blocks or goes to them: that stays
//     selective   of these, what attention makes between its two products: scores, softmax, dropout
//
//     block   x ─▶ Norm ─▶ Q K V ─▶ [scores ─▶ Softmax] ─▶ context ─▶ out ─▶ Add ─▶ Norm ─▶ ... ─▶ Add ─▶ next
//             kept └────────────────────────── full ──────────────────────────────────────┘   kept
//
// An op of which nobody needs a result again does not run again (the last Add above). A layer block
// is what Op::block names, where there are blocks of the same name but for the number at its end.
//
// A region runs, in the order of its ops, right before the first backward that reads something of
// it. Its first ops, whose operands are all kept, wait until the gradient of that backward's result
// is there: earlier they would only hold memory. Ops that are the same in all micro-batches keep
// what they make.
//
// Source: Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016; Korthikanti et al.,
// Reducing Activation Recomputation in Large Transformer Models, MLSys 2023, sections 4 and 5.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/op_graph.h"
#include "graph/operators/op_rule.h"
#include "plan/strategy/strategy.h"

namespace partita::plan {

/// What runs again where that is chosen for a layer block.
struct RecomputeRegion {
    Recompute choice = Recompute::full;
    std::vector<graph::OpId> ops;    ///< rising, never empty
    std::vector<graph::OpId> first;  ///< of these: all that they read is kept
    graph::OpId before;              ///< the op whose backward needs something of it first
    graph::TensorId awaited;         ///< the result of `before` whose gradient comes first

    [[nodiscard]] bool has(graph::OpId op) const;
};

/// A layer of the model of which something can be recomputed.
struct LayerBlock {
    std::string name;
    std::vector<graph::OpId> ops;          ///< computing ones, rising
    std::vector<RecomputeRegion> regions;  ///< at most one for each choice

    /// Null: the choice changes nothing here.
    [[nodiscard]] const RecomputeRegion* region(Recompute choice) const;
};

/// What decides which regions there are.
struct BackwardNeeds {
    std::span<const graph::OpRule> rules;
    std::span<const char> has_backward;  ///< per op
    std::span<const char> has_gradient;  ///< per tensor
    std::span<const char> is_batched;    ///< per op
};

class RecomputeRegions {
public:
    RecomputeRegions() = default;  ///< none
    RecomputeRegions(const graph::OpGraph& graph, const BackwardNeeds& needs);

    [[nodiscard]] const std::vector<LayerBlock>& blocks() const { return blocks_; }
    [[nodiscard]] bool any() const { return !blocks_.empty(); }
    /// Null: of none of which anything can be recomputed.
    [[nodiscard]] const LayerBlock* block_of(graph::OpId op) const {
        const std::int32_t block = block_of_.empty() ? -1 : block_of_[op.index()];
        return block < 0 ? nullptr : &blocks_[static_cast<std::size_t>(block)];
    }
    /// Those that run right before the backward of the op.
    [[nodiscard]] std::vector<const RecomputeRegion*> before(graph::OpId op) const;
    /// Are there blocks with such a region?
    [[nodiscard]] bool has(Recompute choice) const;

private:
    std::vector<LayerBlock> blocks_;
    std::vector<std::int32_t> block_of_;  ///< per op, of blocks_; -1: none
};

/// What the strategy chooses for the block; of a legal one all ops of the region say so.
Recompute recompute_of(const LayerBlock& block, const Strategy& strategy);
/// Nothing runs again where the block has no such region.
void set_recompute(const LayerBlock& block, Recompute choice, Strategy& strategy);
/// What the strategy's policy says of all blocks; nothing changes where that is for the search to say.
void apply_recompute(const RecomputeRegions& regions, Strategy& strategy);

}  // namespace partita::plan
