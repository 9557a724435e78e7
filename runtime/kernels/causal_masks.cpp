// SPDX-License-Identifier: Apache-2.0
#include "runtime/kernels/causal_masks.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "graph/operators/op_table.h"
#include "graph/operators/part.h"
#include "runtime/kernels/heads.h"
#include "runtime/kernels/kernel_table.h"
#include "runtime/kernels/run_graph.h"
#include "runtime/kernels/tensors.h"

namespace partita::runtime {

using graph::OpId;
using graph::OpKind;
using graph::TensorId;

namespace {

/// From here on a number hides a key, as in graph/fusion/attention.h.
constexpr double kHides = -10'000;
constexpr std::size_t kShownScores = 3;  // result of Attention
constexpr std::int64_t kMostElements = std::int64_t{1} << 26U;

/// What a tensor is made of, down to constants and what the graph knows.
class Ancestry {
public:
    Ancestry(const graph::OpGraph& graph, std::int64_t most_elements)
        : graph_(graph), most_elements_(most_elements) {}

    /// False: something else decides it, too.
    bool follow(TensorId tensor) {
        std::vector<TensorId> next{tensor};
        while (!next.empty()) {
            const TensorId t = next.back();
            next.pop_back();
            if (!t.valid() || graph_.tensor(t).known_integers) continue;
            const OpId id = graph_.tensor(t).producer;
            if (!ops_.insert(id).second) continue;
            const graph::Op& op = graph_.op(id);
            if (op.kind == OpKind::constant) continue;
            if (!is_decided_by_operands(op)) return false;
            next.insert(next.end(), op.inputs.begin(), op.inputs.end());
        }
        return true;
    }

    /// Operands come first.
    [[nodiscard]] const std::set<OpId>& ops() const { return ops_; }

private:
    [[nodiscard]] bool is_decided_by_operands(const graph::Op& op) const {
        const graph::OpRow* const row = graph::find_row(op.domain, op.type);
        const auto is_small = [&](TensorId t) {
            return !t.valid() || graph_.tensor(t).elements() <= most_elements_;
        };
        return op.kind == OpKind::compute && op.bodies.empty() && row != nullptr && !row->random &&
               find_kernel(op.domain, op.type) != nullptr &&
               std::ranges::all_of(op.outputs, is_small);
    }

    const graph::OpGraph& graph_;
    std::int64_t most_elements_;
    std::set<OpId> ops_;
};

}  // namespace

at::Tensor decided_value(const graph::OpGraph& graph, TensorId tensor,
                         const ConstantValue& constant, std::int64_t most_elements) {
    Ancestry ancestry(graph, most_elements);
    if (!ancestry.follow(tensor)) return {};
    std::map<TensorId, OpId> last_reader;
    for (const OpId id : ancestry.ops()) {
        for (const TensorId t : graph.op(id).inputs) last_reader[t] = id;
    }
    std::map<TensorId, at::Tensor> values;
    const auto value = [&](TensorId t) -> at::Tensor {
        if (!t.valid()) return {};
        const graph::Tensor& of = graph.tensor(t);
        if (!of.known_integers) return values.at(t);
        return integer_tensor(*of.known_integers, of.shape)
            .to(scalar_type_of(of.dtype).value_or(at::kLong));
    };
    for (const OpId id : ancestry.ops()) {
        const graph::Op& op = graph.op(id);
        if (op.kind == OpKind::constant) {
            values[op.outputs[0]] = constant(op.outputs[0]);
            continue;
        }
        Tensors inputs;
        for (const TensorId t : op.inputs) inputs.push_back(value(t));
        const Tensors results = run_op(graph, id, inputs, {});
        for (std::size_t i = 0; i < op.outputs.size(); ++i) {
            if (op.outputs[i].valid()) values[op.outputs[i]] = results[i];
        }
        for (const TensorId t : op.inputs) {
            if (last_reader.at(t) == id) values.erase(t);
        }
    }
    return value(tensor);
}

bool is_causal(const at::Tensor& mask) {
    if (mask.dim() < 2 || mask.size(-1) != mask.size(-2) || mask.numel() == 0) return false;
    const at::Tensor shown = at::ones({mask.size(-1), mask.size(-1)}, at::kBool).tril();
    if (mask.scalar_type() == at::kBool) return mask.eq(shown).all().item<bool>();
    if (!mask.is_floating_point()) return false;
    return at::where(shown, mask.eq(0), mask.le(kHides)).all().item<bool>();
}

CausalMasks::CausalMasks(const graph::OpGraph& graph, ConstantValue constant)
    : graph_(graph), constant_(std::move(constant)) {}

bool CausalMasks::decide(OpId id, const graph::PartOp& part) {
    const graph::Op& op = graph_.op(id);
    const bool is_attention = part.domain.empty() && part.type == "Attention";
    if (!is_attention || part.operands.size() <= kMask) return false;
    using Source = graph::PartOperand::Source;
    const graph::PartOperand& mask = part.operands[kMask];
    // Past keys and numbers of keys move what is causal, windows hide more, and scores that somebody
    // wants to see have the mask's own numbers in them.
    const bool shows_scores =
        part.results.size() > kShownScores && part.results[kShownScores].is_wanted;
    const bool is_plain =
        mask.source == Source::region && !shows_scores &&
        std::all_of(part.operands.begin() + kMask + 1, part.operands.end(),
                    [](const auto& operand) { return operand.source == Source::left_out; }) &&
        part.attributes.get_int("left_window_size", -1) < 0 &&
        part.attributes.get_int("right_window_size", -1) < 0;
    if (!is_plain) return false;
    const TensorId t = op.inputs[kMask];
    const auto [at, is_new] = masks_.try_emplace(t);
    if (is_new) at->second = decided_value(graph_, t, constant_, kMostElements);
    if (!at->second.defined()) return false;
    const at::Tensor own = taken(at->second, mask.region);
    // Not one row for all queries.
    const graph::Shape queries = extents_of(part.operands[0].region);
    return own.dim() >= 2 && own.size(-2) == queries[queries.size() == 3 ? 1 : 2] && is_causal(own);
}

}  // namespace partita::runtime
