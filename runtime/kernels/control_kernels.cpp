// SPDX-License-Identifier: Apache-2.0
//
// Ops with bodies: If, Loop, Scan, and the pointwise ops of a fused kernel. Their bodies run op after
// op on the device of their operands. The last operands are the values that the bodies take from
// outside. A body that never ran has no slices to stack: the result then has none along its first
// dim, and the extents that the graph foresees for the others.
#include <algorithm>
#include <array>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include "runtime/kernels/expected.h"
#include "runtime/kernels/kernel_table.h"
#include "runtime/kernels/run_graph.h"
#include "runtime/kernels/tensors.h"

namespace partita::runtime {

namespace {

const graph::Body& body_of(const KernelCall& call, std::string_view name) {
    for (const graph::Body& body : call.bodies) {
        if (body.name == name) return body;
    }
    throw std::runtime_error("has no body '" + std::string(name) + "'");
}

Tensors run_body(const KernelCall& call, const graph::Body& body,
                 std::span<const at::Tensor> inputs) {
    static const SourceValue kNone;
    return run_graph(*body.graph, inputs, call.source == nullptr ? kNone : *call.source,
                     call.device);
}

std::span<const at::Tensor> captures_of(const KernelCall& call, const graph::Body& body) {
    return call.operands.last(body.captures);
}

Tensors branch(const KernelCall& call) {
    const bool is_true = call.operand(0).item().toBool();
    const graph::Body& body = body_of(call, is_true ? "then_branch" : "else_branch");
    return run_body(call, body, captures_of(call, body));
}

graph::TensorId input_of(const graph::OpGraph& body, std::size_t number) {
    for (const graph::Op& op : body.ops()) {
        if (op.kind == graph::OpKind::input && number-- == 0) return op.outputs[0];
    }
    return {};
}

/// What the iterations gave for one result, in their order.
at::Tensor stacked(const KernelCall& call, std::size_t result, Tensors slices, std::int64_t axis,
                   bool is_reversed) {
    if (slices.empty()) {
        graph::Shape shape;
        const graph::PartResult& planned = call.op.results[result];
        for (const graph::Positions& dim : planned.region.dims) shape.push_back(count(dim));
        if (!shape.empty()) shape[static_cast<std::size_t>(axis)] = 0;
        const auto type = scalar_type_of(planned.dtype).value_or(at::kFloat);
        return at::empty(shape, at::TensorOptions().dtype(type).device(call.device));
    }
    if (is_reversed) std::ranges::reverse(slices);
    return at::stack(slices, axis);
}

// --- Loop --------------------------------------------------------------------------------------

/// Whether a body goes on, where it computes no such thing: as before, or a constant.
std::optional<bool> known_condition(const graph::OpGraph& body) {
    constexpr std::size_t kCondition = 1;  // after the number of the iteration
    const auto output = std::ranges::find(body.ops(), graph::OpKind::output, &graph::Op::kind);
    graph::TensorId t = output->inputs[0];
    const graph::Op* op = &body.op(body.tensor(t).producer);
    while (op->type == "Identity") {
        t = op->inputs[0];
        op = &body.op(body.tensor(t).producer);
    }
    if (t == input_of(body, kCondition)) return true;
    const auto& constant = body.tensor(t).known_integers;
    expect(!constant || !constant->empty(), "its body's condition is a constant of no element");
    return constant ? std::optional(constant->front() != 0) : std::nullopt;
}

/// A number for an input of a body, where the body wants it.
at::Tensor given_number(const KernelCall& call, const graph::OpGraph& body, std::size_t input,
                        const at::Scalar& number, at::ScalarType type) {
    const bool on_host = is_read_on_host(body, input_of(body, input));
    const auto options = at::TensorOptions().dtype(type);
    return at::scalar_tensor(number, options.device(on_host ? at::kCPU : call.device));
}

Tensors loop(const KernelCall& call) {
    const graph::Body& body = call.bodies.front();
    const std::optional<bool> known = known_condition(*body.graph);
    const auto captures = captures_of(call, body);
    const auto states = call.operands.subspan(2, call.operands.size() - 2 - captures.size());
    Tensors current(states.begin(), states.end());
    std::vector<Tensors> slices;
    const std::optional<std::int64_t> trips =
        call.has(0) ? std::optional(call.integers(0).front()) : std::nullopt;
    bool goes_on = !call.has(1) || call.operand(1).item().toBool();
    for (std::int64_t trip = 0; goes_on && (!trips || trip < *trips); ++trip) {
        check_time();
        Tensors inputs{given_number(call, *body.graph, 0, trip, at::kLong),
                       given_number(call, *body.graph, 1, true, at::kBool)};
        inputs.insert(inputs.end(), current.begin(), current.end());
        inputs.insert(inputs.end(), captures.begin(), captures.end());
        const Tensors outputs = run_body(call, body, inputs);
        goes_on = known ? *known : outputs.front().item().toBool();
        const auto scanned = outputs.begin() + 1 + static_cast<std::ptrdiff_t>(current.size());
        current.assign(outputs.begin() + 1, scanned);
        slices.resize(static_cast<std::size_t>(outputs.end() - scanned));
        for (std::size_t i = 0; i < slices.size(); ++i) {
            slices[i].push_back(*(scanned + static_cast<std::ptrdiff_t>(i)));
        }
    }
    slices.resize(call.op.results.size() - std::min(call.op.results.size(), current.size()));
    for (Tensors& each : slices) {
        current.push_back(stacked(call, current.size(), std::move(each), 0, false));
    }
    return current;
}

// --- Scan --------------------------------------------------------------------------------------

std::int64_t listed(const KernelCall& call, std::string_view attribute, std::size_t index) {
    const std::vector<std::int64_t> values = call.op.attributes.get_ints(attribute);
    return index < values.size() ? values[index] : 0;
}

struct ScanOperands {
    Tensors states;
    Tensors sequences;  ///< the scanned dim first, in the order it is scanned in
    std::span<const at::Tensor> captures;
};

ScanOperands scan_operands(const KernelCall& call, std::span<const at::Tensor> operands,
                           std::span<const at::Tensor> captures, std::string_view directions) {
    const auto scanned = static_cast<std::size_t>(call.integer("num_scan_inputs", 0));
    const auto states = operands.first(operands.size() - scanned);
    ScanOperands result{{states.begin(), states.end()}, {}, captures};
    for (std::size_t i = 0; i < scanned; ++i) {
        const at::Tensor& sequence = operands[states.size() + i];
        const at::Tensor moved = sequence.movedim(listed(call, "scan_input_axes", i), 0);
        result.sequences.push_back(listed(call, directions, i) != 0 ? moved.flip(0) : moved);
    }
    return result;
}

/// The final states, then per scanned result its slices in the order they came in.
std::pair<Tensors, std::vector<Tensors>> scanned(const KernelCall& call, ScanOperands operands,
                                                 std::int64_t length) {
    const graph::Body& body = call.bodies.front();
    Tensors states = std::move(operands.states);
    std::vector<Tensors> slices(call.op.results.size() - states.size());
    for (std::int64_t step = 0; step < length; ++step) {
        check_time();
        Tensors inputs = states;
        for (const at::Tensor& each : operands.sequences) inputs.push_back(each.select(0, step));
        inputs.insert(inputs.end(), operands.captures.begin(), operands.captures.end());
        Tensors outputs = run_body(call, body, inputs);
        for (std::size_t i = 0; i < slices.size(); ++i) {
            slices[i].push_back(outputs[states.size() + i]);
        }
        outputs.resize(states.size());
        states = std::move(outputs);
    }
    return {std::move(states), std::move(slices)};
}

Tensors scan(const KernelCall& call) {
    const auto captures = captures_of(call, call.bodies.front());
    const auto given = call.operands.first(call.operands.size() - captures.size());
    ScanOperands operands = scan_operands(call, given, captures, "scan_input_directions");
    const std::int64_t length = operands.sequences.front().size(0);
    auto [results, slices] = scanned(call, std::move(operands), length);
    for (std::size_t i = 0; i < slices.size(); ++i) {
        const auto rank =
            static_cast<std::int64_t>(call.op.results[results.size()].region.dims.size());
        const std::int64_t axis = listed(call, "scan_output_axes", i);
        results.push_back(stacked(call, results.size(), std::move(slices[i]),
                                  axis < 0 ? axis + rank : axis,
                                  listed(call, "scan_output_directions", i) != 0));
    }
    return results;
}

/// Opset 8: operands and results have a batch in front, and entries may be shorter than the
/// longest.
Tensors batched_scan(const KernelCall& call) {
    const auto captures = captures_of(call, call.bodies.front());
    const auto given = call.operands.subspan(1, call.operands.size() - 1 - captures.size());
    const std::vector<std::int64_t> lengths = call.integers(0);
    std::vector<Tensors> entries(call.op.results.size());
    const std::int64_t batch = given.back().size(0);
    expect(lengths.empty() || std::cmp_equal(lengths.size(), batch),
           "operand 0: expected a length for each entry of the batch");
    expect(batch > 0, "a batch of nothing: the extents of the results are those of its entries");
    for (std::int64_t b = 0; b < batch; ++b) {
        Tensors operands;
        for (const at::Tensor& each : given) operands.push_back(each.select(0, b));
        ScanOperands entry = scan_operands(call, operands, captures, "directions");
        const std::int64_t longest = entry.sequences.front().size(0);
        const std::int64_t length =
            lengths.empty() ? longest : lengths[static_cast<std::size_t>(b)];
        expect(length > 0 && length <= longest,
               "operand 0: expected lengths from 1 to that of the longest sequence");
        auto [results, slices] = scanned(call, std::move(entry), length);
        for (Tensors& each : slices) {
            while (static_cast<std::int64_t>(each.size()) < longest) {
                each.push_back(at::zeros_like(each.front()));
            }
            results.push_back(at::stack(each));
        }
        for (std::size_t i = 0; i < entries.size(); ++i) entries[i].push_back(results[i]);
    }
    Tensors results;
    for (const Tensors& each : entries) results.push_back(at::stack(each));
    return results;
}

Tensors any_scan(const KernelCall& call) {
    constexpr int kLastWithBatch = 8;
    const bool is_batched = call.op.opset > 0 && call.op.opset <= kLastWithBatch;
    return is_batched ? batched_scan(call) : scan(call);
}

Tensors pointwise(const KernelCall& call) {
    return run_body(call, call.bodies.front(), call.operands);
}

/// Computes once more what the forward did not keep. An operand that is not kept does not matter.
Tensors pointwise_backward(const BackwardCall& call) {
    const at::AutoGradMode grad(true);
    Tensors operands;
    Tensors leaves;
    for (std::size_t i = 0; i < call.operand_shapes.size(); ++i) {
        const auto type = scalar_type_of(call.op.operands[i].dtype);
        at::Tensor operand = call.has(i) ? call.operand(i).detach()
                                         : at::zeros(call.operand_shapes[i],
                                                     at::TensorOptions(*type).device(call.device));
        if (call.wants(i)) leaves.push_back(operand.requires_grad_(true));
        operands.push_back(std::move(operand));
    }
    const Tensors results = run_body(call, call.bodies.front(), operands);
    Tensors found =
        torch::autograd::grad(results, leaves, {call.gradients[0]}, /*retain_graph=*/std::nullopt,
                              /*create_graph=*/false, /*allow_unused=*/true);
    Tensors gradients(operands.size());
    for (std::size_t i = 0, next = 0; i < gradients.size(); ++i) {
        if (call.wants(i)) gradients[i] = std::move(found[next++]);
    }
    return gradients;
}

}  // namespace

std::span<const KernelRow> control_kernels() {
    static constexpr std::array kRows = {
        KernelRow{.type = "If", .forward = branch, .on_host = bits({0}), .expects = "one"},
        KernelRow{.type = "Loop", .forward = loop, .on_host = bits({0, 1}), .expects = "one, one"},
        KernelRow{.type = "Scan", .forward = any_scan},
        KernelRow{.type = "Pointwise",
                  .forward = pointwise,
                  .backward = pointwise_backward,
                  .domain = "partita"},
    };
    return kRows;
}

}  // namespace partita::runtime
