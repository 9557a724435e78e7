// SPDX-License-Identifier: Apache-2.0
//
// Types of a node's results, from the schema's inference function to the declared shape.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "graph/stated_rule.h"
#include "importers/onnx/bounded_results.h"
#include "importers/onnx/model_error.h"
#include "importers/onnx/model_reader.h"
#include "importers/onnx/onnx_types.h"

namespace partita::importers {

using graph::Shape;

namespace {

/// ONNX prefixes its complaints with their kind and sometimes repeats the node; we name the node.
std::string complaint(const std::exception& error) {
    std::string text = printable(error.what());
    for (const std::string_view kind :
         {"[ShapeInferenceError] ", "[TypeInferenceError] ", "[ParseError] "}) {
        if (text.rfind(kind, 0) == 0) text.erase(0, kind.size());
    }
    while (!text.empty() && (text.back() == '.' || text.back() == ' ')) text.pop_back();
    return text;
}

/// The type with every marked extent left open.
onnx::TypeProto without_bounds(onnx::TypeProto type, std::uint64_t bounded) {
    const auto shape = shape_of(type);
    for (std::size_t d = 0; shape && d < shape->size() && d < 64; ++d) {
        if ((bounded >> d & 1u) != 0) set_extent(type, static_cast<int>(d), -1);
    }
    return type;
}

/// Extents of `type` that `exact` cannot say are upper bounds.
std::uint64_t bounds_in(const onnx::TypeProto& type, const onnx::TypeProto* exact) {
    const auto shape = shape_of(type);
    if (!shape) return 0;
    const auto sure = exact != nullptr ? shape_of(*exact) : std::nullopt;
    const bool same_rank = sure && sure->size() == shape->size();
    std::uint64_t bounded = 0;
    for (std::size_t d = 0; d < shape->size() && d < 64; ++d) {
        if (!same_rank || (*sure)[d] != (*shape)[d]) bounded |= std::uint64_t{1} << d;
    }
    return bounded;
}

}  // namespace

/// " (operands [2, 3], [4, 5])", for a complaint about them.
std::string ModelReader::shapes_text(const Node& node) const {
    std::vector<std::string> shapes;
    for (const ValueId id : node.operands) {
        const auto shape = id == kNoValue ? std::nullopt : shape_of(values_[id].type);
        shapes.push_back(shape ? fmt::format("[{}]", fmt::join(*shape, ", ")) : std::string("-"));
    }
    return shapes.empty() ? std::string() : fmt::format(" (operands {})", fmt::join(shapes, ", "));
}

const Literal* ModelReader::contents(ValueId id, bool exact_only) {
    const Literal* literal = known_literal(id);
    if (literal == nullptr && !exact_only) literal = values_[id].estimate.get();
    return literal;
}

std::vector<onnx::TypeProto> ModelReader::infer_once(Node& node, Scope& scope, bool exact_only) {
    struct Bodies final : BodyTyper {
        ModelReader& reader;
        Node& node;
        Scope& scope;
        Bodies(ModelReader& r, Node& n, Scope& s) : reader(r), node(n), scope(s) {}
        std::vector<onnx::TypeProto> body_types(
            const std::string& attribute, std::span<const onnx::TypeProto* const> inputs) override {
            std::vector<onnx::TypeProto> types;
            for (const onnx::TypeProto* type : inputs) {
                types.push_back(type != nullptr ? *type : onnx::TypeProto());
            }
            for (const auto& candidate : node.proto->attribute()) {
                if (candidate.name() != attribute || !candidate.has_g()) continue;
                auto draft = reader.read_body(node, candidate.g(), types, {}, scope);
                types.clear();
                for (const ValueId id : draft->outputs) types.push_back(reader.values_[id].type);
                std::erase_if(node.bodies,
                              [&](const DraftBody& b) { return b.attribute == attribute; });
                node.bodies.push_back({attribute, std::move(draft)});
                return types;
            }
            reader.fail(node, fmt::format("attribute '{}': expected a graph, got none", attribute));
        }
    } bodies(*this, node, scope);

    std::vector<InferenceOperand> operands(node.operands.size());
    std::vector<onnx::TypeProto> opened(node.operands.size());
    for (std::size_t i = 0; i < operands.size(); ++i) {
        if (node.operands[i] == kNoValue) continue;
        const Value& value = values_[node.operands[i]];
        operands[i].given = true;
        operands[i].type = &value.type;
        if (exact_only && value.bounded_dims != 0) {
            opened[i] = without_bounds(value.type, value.bounded_dims);
            operands[i].type = &opened[i];
        }
        operands[i].literal = contents(node.operands[i], exact_only);
        // Weights are no literals; their contents matter to few rules (scales of Resize).
        const bool small = value.data != nullptr && !is_external(*value.data) &&
                           element_count(dims_of(*value.data), options_.fold_limit).has_value();
        if (small) operands[i].data = value.data;
    }
    std::size_t elements_read = 0;
    auto types = infer_types(*node.proto, *node.schema, operands, bodies, elements_read);
    if (!limits_.take_steps(elements_read)) fail(node, limits_.steps_text());
    return types;
}

ModelReader::ResultTypes ModelReader::infer(Node& node, Scope& scope) {
    const auto count = static_cast<std::size_t>(node.proto->output_size());
    ResultTypes results{std::vector<onnx::TypeProto>(count), std::vector<std::uint64_t>(count)};
    const bool standard = node.domain.empty() && node.schema != nullptr;
    if (standard && node.proto->op_type() == "If") return infer_if(node, scope);
    if (standard && node.proto->op_type() == "Loop") {
        results = infer_loop(node, scope);
        complete_from_declared(node, scope, results);
        return results;
    }
    bool tainted = false;
    for (const ValueId id : node.operands) {
        if (id == kNoValue) continue;
        const Value& value = values_[id];
        tainted = tainted || value.bounded_dims != 0 || value.estimate != nullptr;
    }
    if (node.schema != nullptr) {
        try {
            results.types = infer_once(node, scope, /*exact_only=*/false);
        } catch (const InputError&) {
            throw;
        } catch (const std::exception& error) {
            if (!tainted) fail(node, complaint(error) + shapes_text(node));
        }
        results.types.resize(count);
    } else {
        // No schema says what the bodies of an unknown operator get; what they take from outside
        // still counts.
        for (const auto& attribute : node.proto->attribute()) {
            if (!attribute.has_g()) continue;
            std::vector<onnx::TypeProto> types;
            for (const auto& input : attribute.g().input()) types.push_back(input.type());
            node.bodies.push_back(
                {printable(attribute.name()), read_body(node, attribute.g(), types, {}, scope)});
        }
    }
    if (tainted && node.schema != nullptr) {
        std::vector<onnx::TypeProto> exact;
        try {
            exact = infer_once(node, scope, /*exact_only=*/true);
        } catch (const InputError&) {
            throw;
        } catch (const std::exception&) {
            exact.clear();  // nothing is sure, so everything is marked
        }
        for (std::size_t i = 0; i < count; ++i) {
            results.bounded[i] =
                bounds_in(results.types[i], i < exact.size() ? &exact[i] : nullptr);
        }
    }
    bound_results(node, results);
    const auto is_open = [](const onnx::TypeProto& type) {
        return type.value_case() == onnx::TypeProto::VALUE_NOT_SET ||
               (is_tensor(type) && !is_static(type));
    };
    if (std::any_of(results.types.begin(), results.types.end(), is_open) &&
        complete_from_function(node, scope, results) && tainted) {
        for (std::size_t i = 0; i < count; ++i)
            results.bounded[i] = bounds_in(results.types[i], nullptr);
    }
    complete_from_declared(node, scope, results);
    if (node.schema == nullptr) complete_from_rule(node, results);
    if (standard && node.proto->op_type() == "Scan") node.trip_count = scan_steps(node);
    return results;
}

/// Of an operator that nobody knows and that says its rule; the type is that of the first operand.
void ModelReader::complete_from_rule(const Node& node, ResultTypes& results) const {
    if (!graph::states_rule(node.attributes) || node.operands.empty()) return;
    std::vector<Shape> operands;
    for (const ValueId id : node.operands) {
        const auto shape = id == kNoValue ? std::nullopt : shape_of(values_[id].type);
        if (!shape) return;
        operands.push_back(*shape);
    }
    const auto shapes = graph::stated_shapes(node.attributes, operands, results.types.size());
    if (!shapes) return;
    for (std::size_t i = 0; i < shapes->size(); ++i) {
        onnx::TypeProto& type = results.types[i];
        if (type.value_case() == onnx::TypeProto::VALUE_NOT_SET)
            type = tensor_type(dtype_of(values_[node.operands[0]].type), (*shapes)[i]);
    }
}

std::optional<std::int64_t> ModelReader::scan_steps(const Node& node) const {
    const std::int64_t scanned = node.attributes.get_int("num_scan_inputs", 0);
    const auto operands = static_cast<std::int64_t>(node.operands.size());
    if (scanned < 1 || scanned > operands) return std::nullopt;
    const ValueId first = node.operands[static_cast<std::size_t>(operands - scanned)];
    const auto shape = first == kNoValue ? std::nullopt : shape_of(values_[first].type);
    if (!shape) return std::nullopt;
    const auto axes = node.attributes.get_ints("scan_input_axes");
    // Opset 8 had a batch dim in front of the steps.
    std::int64_t axis = node.opset < 9 ? 1 : axes.empty() ? 0 : axes[0];
    const auto rank = static_cast<std::int64_t>(shape->size());
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank) return std::nullopt;
    const std::int64_t steps = (*shape)[static_cast<std::size_t>(axis)];
    return steps < 0 ? std::nullopt : std::optional(steps);
}

void ModelReader::bound_results(const Node& node, ResultTypes& results) {
    if (!node.domain.empty()) return;
    std::vector<BoundOperand> operands(node.operands.size());
    std::vector<Shape> shapes(node.operands.size());
    for (std::size_t i = 0; i < operands.size(); ++i) {
        if (node.operands[i] == kNoValue) continue;
        operands[i].literal = contents(node.operands[i], /*exact_only=*/false);
        auto shape = shape_of(values_[node.operands[i]].type);
        if (!shape || !element_count(*shape, std::int64_t{1} << 55)) continue;
        shapes[i] = std::move(*shape);
        operands[i].shape = &shapes[i];
    }
    const auto bounds = upper_bounds({.type = node.proto->op_type(),
                                      .opset = node.opset,
                                      .attributes = node.attributes,
                                      .operands = operands,
                                      .results = results.types.size()});
    for (std::size_t i = 0; i < bounds.size() && i < results.types.size(); ++i) {
        if (!bounds[i]) continue;
        onnx::TypeProto& type = results.types[i];
        const auto known = shape_of(type);
        if (known && known->size() != bounds[i]->size()) continue;
        if (known && is_static(type)) continue;
        onnx::TypeProto bounded = tensor_type(dtype_of(type), *bounds[i]);
        for (std::size_t d = 0; d < bounds[i]->size(); ++d) {
            if (known && (*known)[d] >= 0) {
                set_extent(bounded, static_cast<int>(d), (*known)[d]);
            } else if (d < 64) {
                results.bounded[i] |= std::uint64_t{1} << d;
            }
        }
        type = std::move(bounded);
    }
}

void ModelReader::complete_from_declared(const Node& node, const Scope& scope,
                                         ResultTypes& results) const {
    for (std::size_t i = 0; i < results.types.size(); ++i) {
        const auto declared = scope.declared.find(node.proto->output(static_cast<int>(i)));
        if (declared == scope.declared.end()) continue;
        onnx::TypeProto& type = results.types[i];
        if (type.value_case() == onnx::TypeProto::VALUE_NOT_SET) {
            type = declared->second;
            continue;
        }
        if (!type.has_tensor_type() || !declared->second.has_tensor_type()) continue;
        if (dtype_of(type) == graph::DType::undefined) {
            type.mutable_tensor_type()->set_elem_type(declared->second.tensor_type().elem_type());
        }
        const auto shape = shape_of(type);
        const auto fallback = shape_of(declared->second);
        if (!fallback) continue;
        if (!shape) {
            *type.mutable_tensor_type()->mutable_shape() = declared->second.tensor_type().shape();
            continue;
        }
        for (std::size_t d = 0; shape->size() == fallback->size() && d < shape->size(); ++d) {
            if ((*shape)[d] < 0) set_extent(type, static_cast<int>(d), (*fallback)[d]);
        }
    }
}

}  // namespace partita::importers
