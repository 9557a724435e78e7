// SPDX-License-Identifier: Apache-2.0
#include "plan/problem/graph_facts.h"

#include <algorithm>
#include <utility>

namespace partita::plan {

using graph::OpId;
using graph::OpKind;
using graph::TensorId;
using graph::TensorRole;

namespace {

void keep_only_what_gradients_read(const graph::OpGraph& graph, const std::vector<char>& gradient,
                                   std::vector<graph::OpRule>& rules) {
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        const std::vector<TensorId>& operands = graph.ops()[i].inputs;
        graph::OpRule& rule = rules[i];
        std::vector<char> wanted;
        for (const TensorId t : operands) {
            wanted.push_back(t.valid() ? gradient[t.index()] : char{0});
        }
        for (std::size_t o = 0; o < std::min<std::size_t>(operands.size(), 63); ++o) {
            if (!rule.saves_operand(o, wanted)) rule.saves_operands &= ~(std::uint64_t{1} << o);
        }
    }
}

}  // namespace

GraphFacts::GraphFacts(const graph::OpGraph& graph, std::vector<graph::OpRule> rules,
                       const ProblemOptions& options)
    : graph_(graph),
      rules_(std::move(rules)),
      origins_(graph::tensor_origins(graph_, rules_, options.input_sample_dims)),
      optimizer_(options.policy.optimizer),
      gradient_(graph.tensor_count(), 0),
      backward_(graph.op_count(), 0),
      works_(graph_, rules_, gradient_, options.policy) {
    find_resident_tensors(options);
    find_batch();
    if (options.mode == Mode::training) find_gradients(options.policy);
    if (options.mode == Mode::training && splits_backward_of(options.policy.schedule)) {
        find_split_backwards();
    }
    if (options.mode == Mode::training && options.policy.recompute != Recompute::none) {
        recompute_ = RecomputeRegions(graph_, {.rules = rules_,
                                               .has_backward = backward_,
                                               .has_gradient = gradient_,
                                               .is_batched = batched_ops_});
    }
}

void GraphFacts::find_resident_tensors(const ProblemOptions& options) {
    if (options.mode == Mode::training) {
        resident_ = frozen_parameters(graph_, options.policy);
    } else {
        resident_.assign(graph_.tensor_count(), 0);
    }
    for (std::size_t i = 0; i < resident_.size(); ++i) {
        const TensorRole role = graph_.tensors()[i].role;
        const bool parameter = role == TensorRole::parameter;
        if (role == TensorRole::constant || (parameter && options.mode == Mode::inference)) {
            resident_[i] = 1;
        }
    }
}

void GraphFacts::find_batch() {
    batched_.assign(graph_.tensor_count(), 0);
    batched_ops_.assign(graph_.op_count(), 0);
    for (std::size_t i = 0; i < graph_.op_count(); ++i) {
        const graph::Op& op = graph_.ops()[i];
        batch_digits_.push_back(graph::batch_digits(graph_, OpId(i), rules_[i], origins_));
        bool batched = op.kind == OpKind::input && origins_[op.outputs[0].index()].sample_dim >= 0;
        for (const TensorId t : op.inputs) {
            batched = batched || (t.valid() && batched_[t.index()] != 0);
        }
        batched_ops_[i] = batched ? 1 : 0;
        for (const TensorId t : op.outputs) batched_[t.index()] = batched ? 1 : 0;
    }
}

void GraphFacts::find_gradients(const Policy& policy) {
    GradientPaths paths = gradient_paths(graph_, policy);
    gradient_ = std::move(paths.gradient);
    backward_ = std::move(paths.backward);
    keep_only_what_gradients_read(graph_, gradient_, rules_);
    if (policy.bucket_bytes)
        buckets_ = GradientBuckets(graph_, gradient_, batched_ops_, *policy.bucket_bytes);
}

/// Products of activations and weights whose gradients are products again: LSTMs would run their
/// steps twice, and convolutions read what neighbours hold.
void GraphFacts::find_split_backwards() {
    split_.assign(graph_.op_count(), 0);
    for (std::size_t i = 0; i < graph_.op_count(); ++i) {
        const graph::Op& op = graph_.ops()[i];
        if (backward_[i] == 0 || batched_ops_[i] == 0 || !rules_[i].matrix_product) continue;
        bool activations = false;
        bool weights = false;
        bool simple = true;
        for (std::size_t o = 0; o < op.inputs.size(); ++o) {
            const TensorId t = op.inputs[o];
            if (!t.valid() || gradient_[t.index()] == 0) continue;
            (batched_[t.index()] != 0 ? activations : weights) = true;
            const graph::TensorRule& rule = rules_[i].operands[o];
            simple = simple && rule.linear && std::ranges::none_of(rule.dims, [](const auto& dim) {
                         return dim.window.has_value();
                     });
        }
        split_[i] = activations && weights && simple ? 1 : 0;
    }
    if (std::ranges::find(split_, 1) == split_.end()) split_.clear();
}

std::vector<char> GraphFacts::wanted(OpId id, Pass pass) const {
    const bool split = splits_backward(id);
    std::vector<char> wanted;
    for (const TensorId t : graph_.op(id).inputs) {
        const bool any = t.valid() && gradient_[t.index()] != 0;
        const bool of_weights = split && any && batched_[t.index()] == 0;
        wanted.push_back(any && of_weights == (pass == Pass::weights) ? 1 : 0);
    }
    return wanted;
}

bool GraphFacts::saves_operand(OpId id, std::size_t operand, Pass pass) const {
    if (!splits_backward(id)) return pass != Pass::weights && rule(id).saves_operand(operand);
    return rule(id).saves_operand(operand, wanted(id, pass));
}

bool GraphFacts::has_forward(OpId op) const {
    return graph_.op(op).kind == OpKind::compute;
}

Bytes GraphFacts::persistent_bytes(OpId op) const {
    const graph::Op& source = graph_.op(op);
    if (source.given) return source.given->memory;
    if (source.kind == OpKind::compute || source.kind == OpKind::output) return Bytes{0};
    const TensorId t = source.outputs[0];
    if (!has_gradient(t)) return tensor_bytes(t);
    return tensor_bytes(t) + gradient_bytes_of(graph_.tensor(t), graph_.tensor(t).elements()) +
           optimizer_state_bytes(graph_.tensor(t), graph_.tensor(t).elements(), optimizer_);
}

Bytes GraphFacts::tensor_bytes(TensorId t) const {
    return graph_.tensor(t).bytes();
}

Bytes GraphFacts::read_bytes(graph::Use use) const {
    const graph::Tensor& tensor = graph_.tensor(graph_.op(use.op).inputs[use.operand]);
    const graph::Region read = region_of(rule(use.op), rule(use.op).operands[use.operand],
                                         tensor.shape, graph::whole_box(rule(use.op)));
    return bytes_of(tensor, read.volume());
}

}  // namespace partita::plan
