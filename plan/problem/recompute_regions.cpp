// SPDX-License-Identifier: Apache-2.0
#include "plan/problem/recompute_regions.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "graph/op_globs.h"

namespace partita::plan {

using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::TensorId;

namespace {

std::vector<LayerBlock> layer_blocks(const graph::OpGraph& graph) {
    std::vector<LayerBlock> blocks;
    std::map<std::string_view, std::size_t> index;
    for (const std::string_view layer : graph::layers_of(graph)) {
        index.emplace(layer, blocks.size());
        blocks.push_back({.name = std::string(layer), .ops = {}, .regions = {}});
    }
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        const Op& op = graph.ops()[i];
        const auto block = index.find(op.block);
        const bool inside = op.kind == OpKind::compute && block != index.end();
        if (inside) blocks[block->second].ops.emplace_back(i);
    }
    return blocks;
}

/// The regions of one block.
class Finder {
public:
    Finder(const graph::OpGraph& graph, const BackwardNeeds& needs, const LayerBlock& block)
        : graph_(graph), needs_(needs), ops_(block.ops), inside_(ops_.begin(), ops_.end()) {}

    std::vector<RecomputeRegion> run() const {
        std::vector<RecomputeRegion> regions;
        const auto add = [&](Recompute choice, const std::set<OpId>& candidates) {
            RecomputeRegion region = region_of(candidates);
            region.choice = choice;
            if (!region.ops.empty()) regions.push_back(std::move(region));
        };
        add(Recompute::selective, attention());
        add(Recompute::full, inside_);
        return regions;
    }

private:
    [[nodiscard]] const graph::OpRule& rule(OpId op) const { return needs_.rules[op.index()]; }
    [[nodiscard]] bool is_batched(OpId op) const { return needs_.is_batched[op.index()] != 0; }
    [[nodiscard]] bool has_backward(OpId op) const { return needs_.has_backward[op.index()] != 0; }
    [[nodiscard]] OpId producer(TensorId t) const { return graph_.tensor(t).producer; }

    /// Of two activations.
    [[nodiscard]] bool is_product(OpId op) const {
        const std::vector<TensorId>& operands = graph_.op(op).inputs;
        return rule(op).matrix_product && operands.size() == 2 &&
               is_batched(producer(operands[0])) && is_batched(producer(operands[1]));
    }

    /// What lies between two products with a softmax among it, and the first of them.
    [[nodiscard]] std::set<OpId> attention() const {
        std::set<OpId> core;
        for (const OpId op : ops_) {
            if (graph_.op(op).type != "Softmax") continue;
            std::set<OpId> around{op};
            const bool begins = add_back_to_product(around);
            if (begins && add_up_to_product(op, around)) core.merge(around);
        }
        return core;
    }

    /// All that leads to the ops found so far, from the products on. False: there is none.
    bool add_back_to_product(std::set<OpId>& found) const {
        bool begins = false;
        std::vector<OpId> open(found.begin(), found.end());
        while (!open.empty()) {
            const OpId op = open.back();
            open.pop_back();
            for (const TensorId t : graph_.op(op).inputs) {
                if (!t.valid() || needs_.has_gradient[t.index()] == 0) continue;
                const OpId by = producer(t);
                if (!inside_.contains(by) || !found.insert(by).second) continue;
                begins = begins || is_product(by);
                if (!is_product(by)) open.push_back(by);
            }
        }
        return begins;
    }

    /// All that the op leads to, up to the products.
    bool add_up_to_product(OpId softmax, std::set<OpId>& found) const {
        bool ends = false;
        std::vector<OpId> open{softmax};
        while (!open.empty()) {
            const OpId op = open.back();
            open.pop_back();
            for (const TensorId t : graph_.op(op).outputs) {
                for (const graph::Use use : graph_.uses(t)) {
                    if (!inside_.contains(use.op) || !has_backward(use.op)) continue;
                    ends = ends || is_product(use.op);
                    if (!is_product(use.op) && found.insert(use.op).second) open.push_back(use.op);
                }
            }
        }
        return ends;
    }

    /// Does the backward of another block, or a loss, follow from it?
    [[nodiscard]] bool leaves_block(OpId op) const {
        const std::vector<TensorId>& results = graph_.op(op).outputs;
        return std::any_of(results.begin(), results.end(), [&](TensorId t) {
            const auto uses = graph_.uses(t);
            return std::any_of(uses.begin(), uses.end(), [&](graph::Use use) {
                return !inside_.contains(use.op) && has_backward(use.op);
            });
        });
    }

    /// Does its own backward, or that of a reader in the block, read what it makes? Or a reader that
    /// runs again?
    [[nodiscard]] bool is_needed(OpId op, const std::set<OpId>& again) const {
        const Op& of = graph_.op(op);
        for (std::size_t i = 0; i < of.outputs.size(); ++i) {
            if (has_backward(op) && rule(op).saves_result(i)) return true;
            for (const graph::Use use : graph_.uses(of.outputs[i])) {
                if (!inside_.contains(use.op)) continue;
                if (again.contains(use.op)) return true;
                if (has_backward(use.op) && rule(use.op).saves_operand(use.operand)) return true;
            }
        }
        return false;
    }

    /// Does the backward of the op read anything of these?
    [[nodiscard]] bool reads(OpId op, const std::set<OpId>& again) const {
        if (!has_backward(op)) return false;
        const Op& of = graph_.op(op);
        if (again.contains(op)) {
            for (std::size_t i = 0; i < of.outputs.size(); ++i) {
                if (rule(op).saves_result(i)) return true;
            }
        }
        for (std::size_t i = 0; i < of.inputs.size(); ++i) {
            if (!of.inputs[i].valid() || !rule(op).saves_operand(i)) continue;
            if (again.contains(producer(of.inputs[i]))) return true;
        }
        return false;
    }

    /// No ops: nothing of the candidates has to run again.
    [[nodiscard]] RecomputeRegion region_of(const std::set<OpId>& candidates) const {
        std::set<OpId> again;
        for (auto op = ops_.rbegin(); op != ops_.rend(); ++op) {
            const bool may = candidates.contains(*op) && is_batched(*op) && !leaves_block(*op);
            if (may && is_needed(*op, again)) again.insert(*op);
        }
        RecomputeRegion region;
        const auto before =
            std::find_if(ops_.rbegin(), ops_.rend(), [&](OpId op) { return reads(op, again); });
        if (before == ops_.rend()) return region;
        region.before = *before;
        for (const TensorId t : graph_.op(*before).outputs) {
            const bool awaited = needs_.has_gradient[t.index()] != 0;
            if (awaited && !region.awaited.valid()) region.awaited = t;
        }
        region.ops.assign(again.begin(), again.end());
        for (const OpId op : region.ops) {
            const auto& operands = graph_.op(op).inputs;
            const bool kept = std::none_of(operands.begin(), operands.end(), [&](TensorId t) {
                return t.valid() && again.contains(producer(t));
            });
            if (kept) region.first.push_back(op);
        }
        return region;
    }

    const graph::OpGraph& graph_;
    const BackwardNeeds& needs_;
    const std::vector<OpId>& ops_;
    std::set<OpId> inside_;
};

}  // namespace

bool RecomputeRegion::has(OpId op) const {
    return std::binary_search(ops.begin(), ops.end(), op);
}

const RecomputeRegion* LayerBlock::region(Recompute choice) const {
    const auto found = std::find_if(regions.begin(), regions.end(),
                                    [&](const RecomputeRegion& r) { return r.choice == choice; });
    return found == regions.end() ? nullptr : &*found;
}

RecomputeRegions::RecomputeRegions(const graph::OpGraph& graph, const BackwardNeeds& needs)
    : blocks_(layer_blocks(graph)) {
    for (LayerBlock& block : blocks_) block.regions = Finder(graph, needs, block).run();
    std::erase_if(blocks_, [](const LayerBlock& block) { return block.regions.empty(); });
    if (blocks_.empty()) return;
    block_of_.assign(graph.op_count(), -1);
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
        for (const OpId op : blocks_[b].ops) {
            block_of_[op.index()] = static_cast<std::int32_t>(b);
        }
    }
}

std::vector<const RecomputeRegion*> RecomputeRegions::before(OpId op) const {
    std::vector<const RecomputeRegion*> found;
    const LayerBlock* const block = block_of(op);
    if (block == nullptr) return found;
    for (const RecomputeRegion& region : block->regions) {
        if (region.before == op) found.push_back(&region);
    }
    return found;
}

bool RecomputeRegions::has(Recompute choice) const {
    return std::any_of(blocks_.begin(), blocks_.end(),
                       [&](const LayerBlock& block) { return block.region(choice) != nullptr; });
}

Recompute recompute_of(const LayerBlock& block, const Strategy& strategy) {
    for (const OpId op : block.ops) {
        const Recompute choice = strategy.ops[op.index()].recompute;
        if (choice != Recompute::none) return choice;
    }
    return Recompute::none;
}

void set_recompute(const LayerBlock& block, Recompute choice, Strategy& strategy) {
    for (const OpId op : block.ops) strategy.ops[op.index()].recompute = Recompute::none;
    const RecomputeRegion* const region = block.region(choice);
    if (region == nullptr) return;
    for (const OpId op : region->ops) strategy.ops[op.index()].recompute = choice;
}

void apply_recompute(const RecomputeRegions& regions, Strategy& strategy) {
    const Recompute choice = strategy.policy.recompute;
    if (choice == Recompute::automatic) return;
    for (const LayerBlock& block : regions.blocks()) set_recompute(block, choice, strategy);
}

}  // namespace partita::plan
