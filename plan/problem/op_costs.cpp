// SPDX-License-Identifier: Apache-2.0
#include "plan/problem/op_costs.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "graph/op_globs.h"
#include "graph/operators/part_op.h"

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
    const std::string_view which = policy.frozen.empty() ? "" : " that is not --frozen";
    const std::string what =
        policy.loss_output.empty()
            ? fmt::format("no floating-point output depends on a parameter{}", which)
            : fmt::format("output '{}' (--loss) does not exist or depends on no parameter{}",
                          policy.loss_output, which);
    throw UsageError(fmt::format("model '{}' cannot be trained: {}. Its outputs are {}.",
                                 graph.name, what, outputs.empty() ? "none" : outputs));
}

/// Floating-point tensors that depend on a parameter that is trained.
std::vector<char> depends_on_parameter(const graph::OpGraph& graph, const Policy& policy) {
    const std::vector<char> frozen = frozen_parameters(graph, policy);
    std::vector<char> depends(graph.tensor_count(), 0);
    for (const Op& op : graph.ops()) {
        const bool source = std::any_of(op.inputs.begin(), op.inputs.end(), [&](TensorId t) {
            return t.valid() && depends[t.index()];
        });
        for (const TensorId t : op.outputs) {
            const Tensor& tensor = graph.tensor(t);
            const bool trained = tensor.role == TensorRole::parameter && frozen[t.index()] == 0;
            depends[t.index()] = is_floating_point(tensor.dtype) && (source || trained);
        }
    }
    return depends;
}

}  // namespace

std::vector<char> frozen_parameters(const graph::OpGraph& graph, const Policy& policy) {
    std::vector<char> frozen(graph.tensor_count(), 0);
    for (const std::string& glob : policy.frozen) {
        bool matches = false;
        for (const OpId id : matching_ops(graph, glob)) {
            const Op& op = graph.op(id);
            if (op.kind != OpKind::parameter) continue;
            matches = true;
            frozen[op.outputs[0].index()] = 1;
        }
        if (matches) continue;
        throw UsageError(
            fmt::format("--frozen {}: model '{}' has no parameter of that name. `partita inspect "
                        "--ops` lists them.",
                        glob, graph.name));
    }
    return frozen;
}

GradientPaths gradient_paths(const graph::OpGraph& graph, const Policy& policy) {
    const std::vector<char> depends = depends_on_parameter(graph, policy);
    GradientPaths paths{std::vector<char>(graph.tensor_count(), 0),
                        std::vector<char>(graph.op_count(), 0)};
    bool found = false;
    for (std::size_t i = graph.op_count(); i-- > 0;) {
        const Op& op = graph.ops()[i];
        const bool reached = std::any_of(op.outputs.begin(), op.outputs.end(), [&](TensorId t) {
            return paths.gradient[t.index()] != 0;
        });
        const bool loss = is_loss(graph, op, policy);
        if (!reached && !loss) continue;
        for (const TensorId t : op.inputs) {
            if (!t.valid() || !depends[t.index()]) continue;
            if (loss && t != op.inputs[0]) continue;  // loss_graph.h
            paths.gradient[t.index()] = 1;
            paths.backward[i] = 1;
            found = true;
        }
    }
    require_loss(graph, policy, found);
    return paths;
}

Bytes bytes_of(const Tensor& tensor, std::int64_t elements) {
    return elements == tensor.elements() ? tensor.bytes()
                                         : bytes_for(elements, graph::bits_of(tensor.dtype));
}

Bytes gradient_bytes_of(const Tensor& tensor, std::int64_t elements) {
    if (!tensor.gradient_dtype) return bytes_of(tensor, elements);
    return bytes_for(elements, graph::bits_of(*tensor.gradient_dtype));
}

Bytes optimizer_state_bytes(const Tensor& parameter, std::int64_t elements, Optimizer optimizer) {
    const Bytes copy = bytes_for(elements, graph::DType::float64 == parameter.dtype ? 64 : 32);
    const Bytes master = graph::bits_of(parameter.dtype) < 32 ? copy : Bytes{0};
    switch (optimizer) {
    case Optimizer::sgd: return master;
    case Optimizer::momentum: return master + copy;
    case Optimizer::adam: return master + 2 * copy;
    }
    return {};
}

cost::Work accumulate_work(const Tensor& tensor, std::int64_t elements) {
    return {.type = "Accumulate",
            .phase = cost::Phase::accumulate,
            .flops = Flops(elements),
            .bytes = 3 * gradient_bytes_of(tensor, elements),
            .dtype = tensor.type_of(/*gradient=*/true),
            .elements = elements};
}

cost::Work pack_work(const Tensor& tensor, std::int64_t elements, bool gradient) {
    return {
        .type = "Pack",
        .phase = cost::Phase::pack,
        .bytes = 2 * (gradient ? gradient_bytes_of(tensor, elements) : bytes_of(tensor, elements)),
        .dtype = tensor.type_of(gradient),
        .elements = elements};
}

cost::Work norm_work(Bytes gradients) {
    constexpr std::int64_t kBytesOfFloat32 = 4;
    return {.type = "GradientNorm",
            .flops = 2 * Flops(gradients.raw() / kBytesOfFloat32),
            .bytes = gradients};
}

namespace {

/// A Slice reads what it gives, and so do its parts: the whole must not read more than they
/// together.
std::int64_t elements_read(const graph::OpRule& rule, const graph::TensorRule& operand,
                           const Tensor& tensor) {
    const bool windows =
        std::any_of(operand.dims.begin(), operand.dims.end(),
                    [](const graph::DimRule& dim) { return dim.window.has_value(); });
    return windows ? region_of(rule, operand, tensor.shape, whole_box(rule)).volume()
                   : tensor.elements();
}

}  // namespace

PartSize whole_size(const graph::OpGraph& graph, OpId id, const graph::OpRule& rule) {
    const Op& op = graph.op(id);
    PartSize size{.operands = {}, .results = {}, .flops = rule.flops};
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        const TensorId t = op.inputs[i];
        size.operands.push_back(t.valid() ? elements_read(rule, rule.operands[i], graph.tensor(t))
                                          : 0);
    }
    for (const TensorId t : op.outputs) size.results.push_back(graph.tensor(t).elements());
    return size;
}

namespace {

/// The sum of floor((first + i * step) / divisor) over i < count; all >= 0, divisor > 0. Euclid's
/// algorithm on the lattice points below a line: Graham, Knuth, Patashnik, Concrete Mathematics,
/// section 3.5.
Int128 sum_of_quotients(Int128 count, Int128 first, Int128 step, Int128 divisor) {
    Int128 sum = 0;
    while (count > 0) {
        sum += count * (count - 1) / 2 * (step / divisor) + count * (first / divisor);
        const Int128 last = (step % divisor) * count + first % divisor;
        if (last < divisor) break;
        count = last / divisor;
        first = last % divisor;
        step = std::exchange(divisor, step % divisor);
    }
    return sum;
}

Int128 ceil_div(Int128 a, Int128 b) {
    return a / b + (a % b > 0 ? 1 : 0);
}

/// The sum of floor((first + i * step) / divisor), each clamped to [0, most], over i < count.
Int128 sum_of_clamped(Int128 count, Int128 first, Int128 step, Int128 divisor, Int128 most) {
    if (step < 0) return sum_of_clamped(count, first + (count - 1) * step, -step, divisor, most);
    if (step == 0) return count * std::clamp<Int128>(first < 0 ? 0 : first / divisor, 0, most);
    const Int128 begin = std::clamp<Int128>(ceil_div(-first, step), 0, count);  // >= 0 from here on
    const Int128 end = std::clamp<Int128>(ceil_div(most * divisor - first, step), begin, count);
    return sum_of_quotients(end - begin, first + begin * step, step, divisor) +
           (count - end) * most;
}

/// Positions of a windowed dim that its outputs read, each on its own: operand_range() of all of
/// them, however many there are.
std::int64_t positions_read(const graph::Window& window, std::int64_t outputs,
                            std::int64_t extent) {
    const Int128 ends = sum_of_clamped(outputs, Int128{window.after} + window.divisor,
                                       window.stride, window.divisor, extent);
    const Int128 begins =
        sum_of_clamped(outputs, -Int128{window.before}, window.stride, window.divisor, extent);
    return static_cast<std::int64_t>(
        std::min<Int128>(ends - begins, std::numeric_limits<std::int64_t>::max()));
}

/// Where windows overlap, together is less than each on its own; where they have gaps, more.
std::int64_t least_elements_read(const graph::OpRule& rule, const graph::TensorRule& operand,
                                 const Tensor& tensor) {
    std::int64_t least = 1;
    const graph::Region whole = region_of(rule, operand, tensor.shape, whole_box(rule));
    for (std::size_t dim = 0; dim < whole.dims.size(); ++dim) {
        std::int64_t read = graph::count(whole.dims[dim]);
        if (dim < operand.dims.size() && operand.dims[dim].window) {
            const auto factor = static_cast<std::size_t>(operand.dims[dim].factors[0]);
            read = std::min(read, positions_read(*operand.dims[dim].window,
                                                 rule.factors[factor].extent, tensor.shape[dim]));
        }
        least *= read;
    }
    return least;
}

}  // namespace

PartSize least_size(const graph::OpGraph& graph, OpId id, const graph::OpRule& rule) {
    PartSize size = whole_size(graph, id, rule);
    const Op& op = graph.op(id);
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        if (!op.inputs[i].valid()) continue;
        size.operands[i] =
            std::min(size.operands[i],
                     least_elements_read(rule, rule.operands[i], graph.tensor(op.inputs[i])));
    }
    return size;
}

bool has_gaps(const graph::OpGraph& graph, OpId id, const graph::OpRule& rule) {
    return least_size(graph, id, rule).operands != whole_size(graph, id, rule).operands;
}

PartSize size_of_part(const graph::OpGraph& graph, OpId id, const graph::OpRule& rule,
                      const graph::Box& box) {
    const Op& op = graph.op(id);
    PartSize size{.operands = {}, .results = {}, .flops = flops_of(rule, box)};
    const auto volume = [&](TensorId t, const graph::TensorRule& tensor) {
        return t.valid() ? region_of(rule, tensor, graph.tensor(t).shape, box).volume() : 0;
    };
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        size.operands.push_back(volume(op.inputs[i], rule.operands[i]));
    }
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
        size.results.push_back(volume(op.outputs[i], rule.results[i]));
    }
    size.signature = part_signature(graph, id, part_op(graph, id, rule, box));
    return size;
}

Flops flops_of(const graph::OpRule& rule, const graph::Box& box) {
    Int128 flops = rule.flops.raw();
    for (std::size_t f = 0; f < box.size(); ++f) {
        const std::int64_t extent = rule.factors[f].extent;
        const std::int64_t part = graph::count(box[f]);
        if (part == extent) continue;
        flops = (flops * part + extent - 1) / extent;
    }
    return Flops(flops);
}

namespace {

bool has_factor(const graph::TensorRule& tensor, int factor) {
    return std::ranges::any_of(tensor.dims, [factor](const graph::DimRule& dim) {
        return std::ranges::find(dim.factors, factor) != dim.factors.end();
    });
}

/// Is the operand one that is added to every row of the result, and has the part it?
bool is_bias(const graph::OpRule& rule, std::size_t operand, const PartSize& size) {
    return operand < rule.operands.size() && rule.operands[operand].apply_once &&
           size.operands[operand] > 0 && size.operands[operand] < size.results[0];
}

/// Is there a factor that both operands and the result of a product have?
bool is_batched(const graph::OpRule& rule) {
    if (rule.operands.size() < 2 || rule.results.empty()) return false;
    for (int factor = 0; std::cmp_less(factor, rule.factors.size()); ++factor) {
        if (has_factor(rule.operands[0], factor) && has_factor(rule.operands[1], factor) &&
            has_factor(rule.results[0], factor)) {
            return true;
        }
    }
    return false;
}

}  // namespace

cost::Work OpWorks::base(OpId id) const {
    const Op& op = graph_.op(id);
    const graph::OpRule& rule = rules_[id.index()];
    cost::Work work{.type = op.type,
                    .matrix_product = rule.matrix_product,
                    .batched = rule.matrix_product && is_batched(rule),
                    .product_type = op.product_type,
                    .row_bytes = op.row_bytes,
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

Bytes OpWorks::moved(const Op& op, Bytes whole, const PartSize& size) const {
    const std::int64_t all = graph_.tensor(op.outputs[0]).elements();
    if (all == 0 || size.results[0] == all) return whole;
    const Int128 scaled = (Int128{whole.raw()} * size.results[0] + all - 1) / all;
    return Bytes(static_cast<std::int64_t>(scaled));
}

cost::Work OpWorks::forward(OpId id) const {
    return forward(id, whole_size(graph_, id, rules_[id.index()]));
}

cost::Work OpWorks::forward(OpId id, const PartSize& size) const {
    cost::Work work = base(id);
    if (work.alias || work.given != nullptr) return work;
    const graph::OpRule& rule = rules_[id.index()];
    const Op& op = graph_.op(id);
    work.flops = size.flops;
    if (rule.bytes_moved) {
        work.bytes = moved(op, *rule.bytes_moved, size);
        return work;
    }
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        if (!op.inputs[i].valid()) continue;
        work.bytes += bytes_of(graph_.tensor(op.inputs[i]), size.operands[i]);
    }
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
        work.bytes += bytes_of(graph_.tensor(op.outputs[i]), size.results[i]);
    }
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        if (is_bias(rule, i, size)) {
            work.biased = bytes_of(graph_.tensor(op.outputs[0]), size.results[0]);
        }
    }
    return work;
}

cost::Work OpWorks::loss(const Op& op, std::int64_t elements) const {
    const Tensor& tensor = graph_.tensor(op.inputs[0]);
    // All write the gradient; a sum's is a constant, the others read the output, and mse a target
    // of each element.
    const std::int64_t passes = loss_ == LossKind::sum ? 1 : loss_ == LossKind::mse ? 3 : 2;
    const std::int64_t flops = loss_ == LossKind::cross_entropy ? 3 : 2;
    return {.type = "Loss",
            .phase = cost::Phase::backward,
            .flops = flops * Flops(elements),
            .bytes = passes * bytes_of(tensor, elements),
            .dtype = tensor.dtype,
            .elements = elements,
            .variant = name_of(loss_)};
}

int cores_beside(const cost::Device& device, int parts) {
    return device.kind == cost::DeviceKind::cpu ? parts - 1 : 0;
}

std::vector<char> OpWorks::wanted(OpId id) const {
    std::vector<char> wanted;
    for (const TensorId t : graph_.op(id).inputs) {
        wanted.push_back(t.valid() && gradient_[t.index()] != 0 ? 1 : 0);
    }
    return wanted;
}

cost::WorkSignature OpWorks::forward_signature(OpId id, const PartSize& size) const {
    return cost::forward_signature(size.signature, wanted(id), size.beside);
}

cost::WorkSignature OpWorks::backward_signature(const PartSize& size,
                                                std::span<const char> wanted) {
    return cost::backward_signature(size.signature, wanted, size.beside);
}

cost::Work OpWorks::backward(OpId id) const {
    return backward(id, whole_size(graph_, id, rules_[id.index()]));
}

cost::Work OpWorks::backward(OpId id, const PartSize& size) const {
    return backward(id, size, wanted(id));
}

cost::Work OpWorks::backward(OpId id, const PartSize& size, std::span<const char> wanted) const {
    const Op& op = graph_.op(id);
    if (op.kind == OpKind::output) return loss(op, size.operands[0]);
    cost::Work work = base(id);
    work.phase = cost::Phase::backward;
    if (work.alias || work.given != nullptr) return work;
    const graph::OpRule& rule = rules_[id.index()];
    std::int64_t gradients = 0;
    Bytes bytes;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        const TensorId t = op.inputs[i];
        if (!t.valid()) continue;
        const Bytes operand = bytes_of(graph_.tensor(t), size.operands[i]);
        const bool has_gradient = wanted[i] != 0;
        if (has_gradient) bytes += gradient_bytes_of(graph_.tensor(t), size.operands[i]);
        if (i < rule.operands.size() && rule.saves_operand(i, wanted)) bytes += operand;
        const bool once = i < rule.operands.size() && rule.operands[i].apply_once;
        if (has_gradient && !once) ++gradients;
        if (has_gradient && is_bias(rule, i, size)) {
            work.biased = bytes_of(graph_.tensor(op.outputs[0]), size.results[0]);
        }
    }
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
        const Bytes result = bytes_of(graph_.tensor(op.outputs[i]), size.results[i]);
        if (gradient_[op.outputs[i].index()] != 0) bytes += result;
        if (rule.saves_result(i)) bytes += result;
    }
    gradients = std::max<std::int64_t>(gradients, 1);
    if (rule.matrix_product) gradients = std::min<std::int64_t>(gradients, 2);
    work.flops = gradients * size.flops;
    work.bytes = rule.bytes_moved ? gradients * moved(op, *rule.bytes_moved, size) : bytes;
    return work;
}

bool OpWorks::is_updated(OpId id) const {
    const Op& op = graph_.op(id);
    return op.kind == OpKind::parameter && gradient_[op.outputs[0].index()] != 0;
}

cost::Work OpWorks::update(OpId id) const {
    return update(id, graph_.tensor(graph_.op(id).outputs[0]).elements());
}

cost::Work OpWorks::update(OpId id, std::int64_t elements) const {
    const Tensor& parameter = graph_.tensor(graph_.op(id).outputs[0]);
    std::int64_t flops = 0;
    switch (optimizer_) {
    case Optimizer::sgd: flops = 2; break;
    case Optimizer::momentum: flops = 4; break;
    case Optimizer::adam: flops = 12; break;
    }
    return {.type = "Update",
            .phase = cost::Phase::update,
            .flops = flops * Flops(elements),
            .bytes = 2 * bytes_of(parameter, elements) + gradient_bytes_of(parameter, elements) +
                     2 * optimizer_state_bytes(parameter, elements, optimizer_),
            .dtype = parameter.dtype,
            .elements = elements,
            .variant = name_of(optimizer_)};
}

}  // namespace partita::plan
