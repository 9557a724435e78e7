// SPDX-License-Identifier: Apache-2.0
#include "plan/op_costs.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/error.h"

namespace partita::plan {

using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::Tensor;
using graph::TensorId;
using graph::TensorRole;

namespace {

bool is_loss(const graph::OpGraph& graph, const Op& op, const Policy& policy) {
    if (op.kind != OpKind::output) return false;
    const Tensor& tensor = graph.tensor(op.inputs[0]);
    if (!policy.loss_output.empty()) return tensor.name == policy.loss_output;
    return is_floating_point(tensor.dtype);
}

void require_loss(const graph::OpGraph& graph, const Policy& policy, bool found) {
    if (found) return;
    std::string outputs;
    for (const Op& op : graph.ops()) {
        if (op.kind != OpKind::output) continue;
        outputs += (outputs.empty() ? "'" : ", '") + graph.tensor(op.inputs[0]).name + "'";
    }
    const std::string what = policy.loss_output.empty()
                                 ? "no floating-point output depends on a parameter"
                                 : fmt::format(
                                       "output '{}' (--loss) does not exist or depends on "
                                       "no parameter",
                                       policy.loss_output);
    throw UsageError(fmt::format("model '{}' cannot be trained: {}. Its outputs are {}.",
                                 graph.name, what, outputs.empty() ? "none" : outputs));
}

/// Floating-point tensors that depend on a parameter.
std::vector<char> depends_on_parameter(const graph::OpGraph& graph) {
    std::vector<char> depends(graph.tensor_count(), 0);
    for (const Op& op : graph.ops()) {
        const bool source = std::any_of(op.inputs.begin(), op.inputs.end(), [&](TensorId t) {
            return t.valid() && depends[t.index()];
        });
        for (const TensorId t : op.outputs) {
            const Tensor& tensor = graph.tensor(t);
            depends[t.index()] =
                is_floating_point(tensor.dtype) && (source || tensor.role == TensorRole::parameter);
        }
    }
    return depends;
}

Flops elements_times(const Tensor& tensor, std::int64_t factor) {
    return factor * Flops(tensor.elements());
}

}  // namespace

GradientPaths gradient_paths(const graph::OpGraph& graph, const Policy& policy) {
    const std::vector<char> depends = depends_on_parameter(graph);
    GradientPaths paths{std::vector<char>(graph.tensor_count(), 0),
                        std::vector<char>(graph.op_count(), 0)};
    bool found = false;
    for (std::size_t i = graph.op_count(); i-- > 0;) {
        const Op& op = graph.ops()[i];
        const bool reached = std::any_of(op.outputs.begin(), op.outputs.end(), [&](TensorId t) {
            return paths.gradient[t.index()] != 0;
        });
        if (!reached && !is_loss(graph, op, policy)) continue;
        for (const TensorId t : op.inputs) {
            if (!t.valid() || !depends[t.index()]) continue;
            paths.gradient[t.index()] = 1;
            paths.backward[i] = 1;
            found = true;
        }
    }
    require_loss(graph, policy, found);
    return paths;
}

Bytes optimizer_state_bytes(const Tensor& parameter, const Policy& policy) {
    const Bytes copy = graph::DType::float64 == parameter.dtype
                           ? bytes_for(parameter.elements(), 64)
                           : bytes_for(parameter.elements(), 32);
    const Bytes master = graph::bits_of(parameter.dtype) < 32 ? copy : Bytes{0};
    switch (policy.optimizer) {
    case Optimizer::sgd: return master;
    case Optimizer::momentum: return master + copy;
    case Optimizer::adam: return master + 2 * copy;
    }
    return {};
}

cost::Work accumulate_work(const Tensor& tensor) {
    return {.type = "Accumulate",
            .phase = cost::Phase::accumulate,
            .flops = elements_times(tensor, 1),
            .bytes = 3 * tensor.bytes(),
            .dtype = tensor.dtype};
}

Bytes OpWorks::operand_bytes(const Op& op) const {
    Bytes sum;
    for (const TensorId t : op.inputs) {
        if (t.valid()) sum += graph_.tensor(t).bytes();
    }
    return sum;
}

Bytes OpWorks::result_bytes(const Op& op) const {
    Bytes sum;
    for (const TensorId t : op.outputs) sum += graph_.tensor(t).bytes();
    return sum;
}

cost::Work OpWorks::base(OpId id) const {
    const Op& op = graph_.op(id);
    const graph::OpRule& rule = rules_[id.index()];
    cost::Work work{.type = op.type,
                    .matrix_product = rule.matrix_product,
                    .alias = rule.alias,
                    .given = op.given ? &*op.given : nullptr};
    // The widest figure that counts: the first floating-point operand, else the first result.
    for (const TensorId t : op.inputs) {
        if (!t.valid() || !is_floating_point(graph_.tensor(t).dtype)) continue;
        work.dtype = graph_.tensor(t).dtype;
        return work;
    }
    if (!op.outputs.empty()) work.dtype = graph_.tensor(op.outputs[0]).dtype;
    return work;
}

cost::Work OpWorks::forward(OpId id) const {
    cost::Work work = base(id);
    if (work.alias || work.given != nullptr) return work;
    const graph::OpRule& rule = rules_[id.index()];
    const Op& op = graph_.op(id);
    work.flops = rule.flops;
    work.bytes = rule.bytes_moved ? *rule.bytes_moved : operand_bytes(op) + result_bytes(op);
    return work;
}

cost::Work OpWorks::loss(const Op& op) const {
    const Tensor& tensor = graph_.tensor(op.inputs[0]);
    // A sum's gradient is a constant; the others read the output and its target.
    const std::int64_t passes = policy_.loss == LossKind::sum ? 1 : 3;
    return {.type = "Loss",
            .phase = cost::Phase::backward,
            .flops = elements_times(tensor, policy_.loss == LossKind::cross_entropy ? 6 : 2),
            .bytes = passes * tensor.bytes(),
            .dtype = tensor.dtype};
}

cost::Work OpWorks::backward(OpId id) const {
    const Op& op = graph_.op(id);
    if (op.kind == OpKind::output) return loss(op);
    cost::Work work = base(id);
    work.phase = cost::Phase::backward;
    if (work.alias || work.given != nullptr) return work;
    const graph::OpRule& rule = rules_[id.index()];
    std::int64_t gradients = 0;
    Bytes bytes;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        const TensorId t = op.inputs[i];
        if (!t.valid()) continue;
        const bool has_gradient = gradient_[t.index()] != 0;
        const bool saved = i < 64 && ((rule.saves_operands >> i) & 1U) != 0;
        if (has_gradient) bytes += graph_.tensor(t).bytes();
        if (saved) bytes += graph_.tensor(t).bytes();
        // The gradient of a bias is a sum that rides along with the product.
        const bool once = i < rule.operands.size() && rule.operands[i].apply_once;
        if (has_gradient && !once) ++gradients;
    }
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
        const Bytes size = graph_.tensor(op.outputs[i]).bytes();
        if (gradient_[op.outputs[i].index()] != 0) bytes += size;
        if (i < 64 && ((rule.saves_results >> i) & 1U) != 0) bytes += size;
    }
    gradients = std::max<std::int64_t>(gradients, 1);
    if (rule.matrix_product) gradients = std::min<std::int64_t>(gradients, 2);
    work.flops = gradients * rule.flops;
    work.bytes = rule.bytes_moved ? gradients * *rule.bytes_moved : bytes;
    return work;
}

bool OpWorks::is_updated(OpId id) const {
    const Op& op = graph_.op(id);
    return op.kind == OpKind::parameter && gradient_[op.outputs[0].index()] != 0;
}

cost::Work OpWorks::update(OpId id) const {
    const Tensor& parameter = graph_.tensor(graph_.op(id).outputs[0]);
    std::int64_t flops = 0;
    switch (policy_.optimizer) {
    case Optimizer::sgd: flops = 2; break;
    case Optimizer::momentum: flops = 4; break;
    case Optimizer::adam: flops = 12; break;
    }
    return {.type = "Update",
            .phase = cost::Phase::update,
            .flops = elements_times(parameter, flops),
            .bytes = 3 * parameter.bytes() + 2 * optimizer_state_bytes(parameter, policy_),
            .dtype = parameter.dtype};
}

}  // namespace partita::plan
