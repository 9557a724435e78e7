// SPDX-License-Identifier: Apache-2.0
//
// Shapes of a Loop whose states may change their extents from one iteration to the next. The body
// is read with the states as they come in; if they leave with other extents, two guesses are tried,
// and each is proved by reading the body again:
//
//     grow    every iteration adds what the first one added: read with the states of the last
//             iteration, the largest; it must add as much again. Needs a bound on the iterations.
//     widen   the extents settle: read with the larger of before and after; they must come back
//             unchanged. The result is an upper bound.
//
// When neither holds the extents stay open.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "importers/onnx/model_reader.h"
#include "importers/onnx/onnx_types.h"

namespace partita::importers {

using graph::DType;
using graph::Shape;

namespace {

using Shapes = std::vector<std::optional<Shape>>;

/// Extent after `steps` more iterations, if each adds what the first one did; -1 when that is none.
std::int64_t grown(std::int64_t before, std::int64_t after, std::int64_t steps) {
    std::int64_t extent = 0;
    if (__builtin_mul_overflow(after - before, steps, &extent) ||
        __builtin_add_overflow(before, extent, &extent)) {
        return -1;
    }
    return std::max<std::int64_t>(extent, -1);
}

/// The extents to try: grown by `steps` iterations, or widened when `steps` is negative.
std::optional<Shape> adapted(const std::optional<Shape>& before, const std::optional<Shape>& after,
                             std::int64_t steps) {
    if (!before || !after || before->size() != after->size()) return std::nullopt;
    Shape shape = *before;
    for (std::size_t d = 0; d < shape.size(); ++d) {
        const std::int64_t m = (*before)[d];
        const std::int64_t n = (*after)[d];
        if (m == n) continue;
        if (m < 0 || n < 0) return std::nullopt;
        shape[d] = steps >= 0 ? grown(m, n, steps) : std::max(m, n);
    }
    return shape;
}

/// Whether reading with `in` confirmed what the first reading, `before` to `after`, let expect.
bool confirmed(const Shapes& before, const Shapes& after, const Shapes& in, const Shapes& out,
               bool grows) {
    if (!grows) return in == out;
    for (std::size_t i = 0; i < in.size(); ++i) {
        if (!in[i] || !out[i] || in[i]->size() != out[i]->size()) return false;
        for (std::size_t d = 0; d < in[i]->size(); ++d) {
            const std::int64_t added = (*after[i])[d] - (*before[i])[d];
            if ((*in[i])[d] < 0 || (*out[i])[d] < 0) return false;
            if ((*out[i])[d] - (*in[i])[d] != added) return false;
        }
    }
    return true;
}

std::uint64_t changed_dims(const std::optional<Shape>& before, const std::optional<Shape>& after) {
    if (!before || !after || before->size() != after->size()) return 0;
    std::uint64_t changed = 0;
    for (std::size_t d = 0; d < before->size() && d < 64; ++d) {
        if ((*before)[d] != (*after)[d]) changed |= std::uint64_t{1} << d;
    }
    return changed;
}

/// A type of the same dtype; nullopt leaves the shape open.
onnx::TypeProto with_shape(onnx::TypeProto type, const std::optional<Shape>& shape) {
    if (!type.has_tensor_type()) return type;
    if (shape) return tensor_type(dtype_of(type), *shape);
    type.mutable_tensor_type()->clear_shape();
    return type;
}

}  // namespace

namespace {

/// What `id` is a copy of: exporters hand a loop's condition on by Identity.
ValueId original(const Draft& draft, ValueId id) {
    for (auto node = draft.nodes.rbegin(); node != draft.nodes.rend(); ++node) {
        const bool copies = node->type == "Identity" && node->domain.empty() &&
                            node->operands.size() == 1 && node->results.size() == 1;
        if (copies && node->results[0] == id) id = node->operands[0];
    }
    return id;
}

}  // namespace

ModelReader::LoopCall ModelReader::open_loop(const Node& node) {
    LoopCall call;
    for (const auto& attribute : node.proto->attribute()) {
        if (attribute.name() == "body" && attribute.has_g()) call.graph = &attribute.g();
    }
    if (call.graph == nullptr) fail(node, "attribute 'body': expected a graph, got none");
    call.states = node.operands.size() - 2;
    const auto results = static_cast<std::size_t>(node.proto->output_size());
    if (results < call.states ||
        static_cast<std::size_t>(call.graph->output_size()) != results + 1) {
        fail(node, fmt::format("expected a body of {} results, got {}", results + 1,
                               call.graph->output_size()));
    }
    const auto scalar_operand = [&](std::size_t i) -> const Literal* {
        if (node.operands[i] == kNoValue) return nullptr;
        const Literal* literal = contents(node.operands[i], /*exact_only=*/false);
        return literal != nullptr && literal->integral() && literal->size() == 1 ? literal
                                                                                 : nullptr;
    };
    if (const Literal* trips = scalar_operand(0)) {
        call.most = std::max<std::int64_t>(trips->integer(0), 0);
        call.exact = known_literal(node.operands[0]) != nullptr;
    }
    if (node.operands[1] != kNoValue) {
        const Literal* condition = scalar_operand(1);
        call.exact = call.exact && condition != nullptr;
        if (condition != nullptr && condition->integer(0) == 0) call.most = 0;
    }
    call.inputs = {tensor_type(DType::int64, {}), tensor_type(DType::boolean, {})};
    call.bounded = {0, 0};
    for (std::size_t i = 2; i < node.operands.size(); ++i) {
        const bool given = node.operands[i] != kNoValue;
        call.inputs.push_back(given ? values_[node.operands[i]].type : onnx::TypeProto());
        call.bounded.push_back(given ? values_[node.operands[i]].bounded_dims : 0);
    }
    return call;
}

std::unique_ptr<Draft> ModelReader::read_loop_body(Node& node, LoopCall& call, const Scope& scope,
                                                   bool& grows) {
    const auto shapes_in = [&] {
        Shapes shapes;
        for (std::size_t i = 0; i < call.states; ++i)
            shapes.push_back(shape_of(call.inputs[i + 2]));
        return shapes;
    };
    const auto shapes_out = [&](const Draft& body) {
        Shapes shapes;
        for (std::size_t i = 0; i < call.states; ++i) {
            shapes.push_back(shape_of(values_[body.outputs[i + 1]].type));
        }
        return shapes;
    };
    grows = false;
    auto body = read_body(node, *call.graph, call.inputs, call.bounded, scope);
    const Shapes before = shapes_in();
    const Shapes after = shapes_out(*body);
    if (before == after) return body;
    for (std::size_t i = 0; i < call.states; ++i) {
        call.varying.push_back(changed_dims(before[i], after[i]));
        call.bounded[i + 2] |= call.varying[i];
    }
    const bool bounded_trips = call.most && *call.most > 0;
    for (const bool grow : {true, false}) {
        if (grow && !bounded_trips) continue;
        for (std::size_t i = 0; i < call.states; ++i) {
            const std::int64_t steps = grow ? *call.most - 1 : -1;
            call.inputs[i + 2] =
                with_shape(call.inputs[i + 2], adapted(before[i], after[i], steps));
        }
        body = read_body(node, *call.graph, call.inputs, call.bounded, scope);
        grows = grow;
        if (confirmed(before, after, shapes_in(), shapes_out(*body), grow)) return body;
    }
    for (std::size_t i = 0; i < call.states; ++i) {
        std::optional<Shape> open = before[i];
        for (std::size_t d = 0; open && d < open->size() && d < 64; ++d) {
            if ((call.varying[i] >> d & 1u) != 0) (*open)[d] = -1;
        }
        if (before[i] && after[i] && before[i]->size() != after[i]->size()) open.reset();
        call.inputs[i + 2] = with_shape(call.inputs[i + 2], open);
    }
    return read_body(node, *call.graph, call.inputs, call.bounded, scope);
}

ModelReader::ResultTypes ModelReader::infer_loop(Node& node, Scope& scope) {
    LoopCall call = open_loop(node);
    const std::vector<onnx::TypeProto> initial = call.inputs;
    bool grows = false;
    auto body = read_loop_body(node, call, scope, grows);
    // The loop runs to its limit when the body hands its condition on, or says true.
    const ValueId again = original(*body, body->outputs[0]);
    const Literal* always = known_literal(again);
    const bool unconditional =
        again == body->inputs[1] ||
        (always != nullptr && always->integral() && always->size() == 1 && always->integer(0) != 0);
    const bool exact = call.most && call.exact && (unconditional || *call.most == 0);
    if (exact) node.trip_count = call.most;

    ResultTypes results;
    for (std::size_t i = 0; i + 1 < body->outputs.size(); ++i) {
        const Value& made = values_[body->outputs[i + 1]];
        onnx::TypeProto type = made.type;
        std::uint64_t marks = made.bounded_dims;
        if (i < call.states) {
            if (call.most && *call.most == 0) type = initial[i + 2];
            const std::uint64_t varying = call.varying.empty() ? 0 : call.varying[i];
            // What grew a known number of times is known.
            marks = exact && grows ? marks & ~varying : marks | varying;
        } else if (const auto shape = shape_of(made.type)) {
            Shape stacked = *shape;
            stacked.insert(stacked.begin(), call.most.value_or(-1));
            type = tensor_type(dtype_of(made.type), stacked);
            marks = (marks << 1) | (exact ? 0u : 1u);
        }
        results.types.push_back(std::move(type));
        results.bounded.push_back(marks);
    }
    node.bodies.push_back({"body", std::move(body)});
    return results;
}

}  // namespace partita::importers
