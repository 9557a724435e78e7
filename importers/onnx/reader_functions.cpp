// SPDX-License-Identifier: Apache-2.0
//
// Functions and control flow: bodies are read by the same code as the main graph, in a scope of
// their own.
#include <algorithm>

#include <fmt/format.h>

#include "graph/error.h"
#include "importers/onnx/model_error.h"
#include "importers/onnx/model_reader.h"
#include "importers/onnx/onnx_types.h"

namespace partita::importers {

using graph::DType;
using graph::Shape;

namespace {

constexpr int kMaxDepth = 64;

const onnx::GraphProto* graph_attribute(const onnx::NodeProto& node, std::string_view name) {
    for (const auto& attribute : node.attribute()) {
        if (attribute.name() == name && attribute.has_g()) return &attribute.g();
    }
    return nullptr;
}

bool has_references(const onnx::NodeProto& node) {
    for (const auto& attribute : node.attribute()) {
        if (!attribute.ref_attr_name().empty()) return true;
        for (const auto& inner : attribute.g().node()) {
            if (has_references(inner)) return true;
        }
    }
    return false;
}

using AttributeMap = std::map<std::string, const onnx::AttributeProto*>;

/// Replaces references to the function's attributes by the caller's values; a reference to an
/// attribute that has none disappears.
void bind_attributes(onnx::NodeProto& node, const AttributeMap& given) {
    auto& attributes = *node.mutable_attribute();
    for (int i = 0; i < attributes.size();) {
        onnx::AttributeProto& attribute = attributes[i];
        if (attribute.ref_attr_name().empty()) {
            if (attribute.has_g()) {
                for (auto& inner : *attribute.mutable_g()->mutable_node()) {
                    bind_attributes(inner, given);
                }
            }
            ++i;
            continue;
        }
        const auto value = given.find(attribute.ref_attr_name());
        if (value == given.end()) {
            attributes.DeleteSubrange(i, 1);
            continue;
        }
        const std::string name = attribute.name();
        attribute = *value->second;
        attribute.set_name(name);
        ++i;
    }
}

}  // namespace

ModelReader::Scope ModelReader::child_scope(const Scope& scope, Draft& draft) const {
    Scope child;
    child.draft = &draft;
    child.opsets = scope.opsets;
    child.prefix = scope.prefix;
    child.block = scope.block;
    child.depth = scope.depth + 1;
    child.caller = &scope;
    return child;
}

// --- functions ---------------------------------------------------------------------------------

const onnx::FunctionProto* ModelReader::find_function(const onnx::NodeProto& node) const {
    if (functions_.empty()) return nullptr;
    const std::string domain = node.domain() == "ai.onnx" ? "" : node.domain();
    const auto found =
        functions_.find(fmt::format("{}\n{}\n{}", domain, node.op_type(), node.overload()));
    return found == functions_.end() ? nullptr : found->second;
}

std::vector<ValueId> ModelReader::read_function(const Node& node,
                                                const onnx::FunctionProto& function, Scope& body) {
    for (const Scope* s = body.caller; s != nullptr; s = s->caller) {
        if (s->function == &function) fail(node, "the function calls itself");
    }
    if (body.depth > kMaxDepth) {
        fail(node, fmt::format("functions and bodies nest more than {} deep", kMaxDepth));
    }
    body.function = &function;
    const std::string label = node_label(node.name, node.proto->op_type());
    for (int i = 0; i < function.input_size(); ++i) {
        const auto position = static_cast<std::size_t>(i);
        define(body, function.input(i),
               position < node.operands.size() ? node.operands[position] : kNoValue, label);
    }
    AttributeMap given;
    for (const auto& attribute : function.attribute_proto()) given[attribute.name()] = &attribute;
    for (const auto& attribute : node.proto->attribute()) given[attribute.name()] = &attribute;
    // Nodes of the function may be read in any order; references make a copy necessary.
    auto bound = std::make_shared<onnx::FunctionProto>();
    const bool copy = std::any_of(function.node().begin(), function.node().end(), has_references);
    if (copy) {
        *bound->mutable_node() = function.node();
        for (auto& inner : *bound->mutable_node()) bind_attributes(inner, given);
        arena_.push_back(bound);
    }
    read_nodes(copy ? bound->node() : function.node(), body);
    std::vector<ValueId> results;
    for (const std::string& output : function.output()) results.push_back(find(body, output));
    return results;
}

void ModelReader::inline_function(const Node& node, const onnx::FunctionProto& function,
                                  Scope& scope) {
    Scope body = child_scope(scope, *scope.draft);
    body.opsets = &function_opsets_.at(&function);
    body.prefix = node.name + "/";
    const std::vector<ValueId> results = read_function(node, function, body);
    for (int i = 0; i < node.proto->output_size(); ++i) {
        const auto position = static_cast<std::size_t>(i);
        if (node.proto->output(i).empty()) continue;
        if (position >= results.size() || results[position] == kNoValue) {
            fail(node, fmt::format("result {}: the function does not make it", i));
        }
        define(scope, node.proto->output(i), results[position],
               node_label(node.name, node.proto->op_type()));
    }
    ++counts_.inlined_functions;
}

bool ModelReader::complete_from_function(Node& node, const Scope& scope, ResultTypes& results) {
    if (node.schema == nullptr) return false;
    const onnx::FunctionProto* function = node.schema->GetFunction(node.opset);
    if (function == nullptr && node.schema->HasContextDependentFunction()) {
        std::vector<onnx::TypeProto> types;
        for (const ValueId id : node.operands) {
            types.push_back(id == kNoValue ? onnx::TypeProto() : values_[id].type);
        }
        auto built = std::make_shared<onnx::FunctionProto>();
        try {
            const onnx::FunctionBodyBuildContextImpl context(*node.proto, types);
            if (!node.schema->BuildContextDependentFunction(context, *built, node.opset)) {
                return false;
            }
        } catch (const std::exception&) {
            return false;  // the builder does not know these types; the result stays open
        }
        arena_.push_back(built);
        function = built.get();
    }
    if (function == nullptr) return false;
    Draft unused = new_draft();
    Scope body = child_scope(scope, unused);
    Opsets opsets;
    for (const auto& import : function->opset_import()) {
        opsets[import.domain() == "ai.onnx" ? "" : import.domain()] =
            static_cast<int>(import.version());
    }
    body.opsets = &opsets;
    const ReaderCounts counts = counts_;
    std::vector<ValueId> values;
    try {
        values = read_function(node, *function, body);
    } catch (const InputError&) {
        values.clear();  // an open operand inside; the node itself has passed its schema
    }
    counts_ = counts;
    bool completed = false;
    for (std::size_t i = 0; i < values.size() && i < results.types.size(); ++i) {
        if (values[i] == kNoValue || is_static(results.types[i])) continue;
        const onnx::TypeProto& type = values_[values[i]].type;
        if (type.value_case() == onnx::TypeProto::VALUE_NOT_SET) continue;
        results.types[i] = type;
        results.bounded[i] = values_[values[i]].bounded_dims;
        completed = true;
    }
    return completed;
}

// --- bodies ------------------------------------------------------------------------------------

std::unique_ptr<Draft> ModelReader::read_body(const Node& node, const onnx::GraphProto& graph,
                                              std::span<const onnx::TypeProto> inputs,
                                              const std::vector<std::uint64_t>& bounded,
                                              const Scope& scope) {
    if (scope.depth + 1 > kMaxDepth) {
        fail(node, fmt::format("functions and bodies nest more than {} deep", kMaxDepth));
    }
    if (static_cast<std::size_t>(graph.input_size()) != inputs.size()) {
        fail(node, fmt::format("expected a body of {} inputs, got {}", inputs.size(),
                               graph.input_size()));
    }
    auto draft = std::make_unique<Draft>(new_draft());
    Scope body = child_scope(scope, *draft);
    body.parent = &scope;
    read_declared(graph, body);
    for (int i = 0; i < graph.input_size(); ++i) {
        const auto position = static_cast<std::size_t>(i);
        const onnx::ValueInfoProto& input = graph.input(i);
        onnx::TypeProto type = inputs[position];
        if (type.value_case() == onnx::TypeProto::VALUE_NOT_SET ||
            (type.has_tensor_type() && dtype_of(type) == DType::undefined && input.has_type())) {
            type = input.type();
        }
        const ValueId id = add_value(body, input.name(), std::move(type));
        if (position < bounded.size()) values_[id].bounded_dims = bounded[position];
        define(body, input.name(), id, node_label(node.name, node.proto->op_type()));
        draft->inputs.push_back(id);
    }
    read_initializers(graph, body);
    read_nodes(graph.node(), body);
    read_outputs(graph, body);
    return draft;
}

bool ModelReader::take_branch(const Node& node, Scope& scope) {
    if (node.operands.empty() || node.operands[0] == kNoValue) return false;
    const Literal* condition = known_literal(node.operands[0]);
    if (condition == nullptr || !condition->integral() || condition->size() != 1) return false;
    const std::string_view name = condition->integer(0) != 0 ? "then_branch" : "else_branch";
    const onnx::GraphProto* graph = graph_attribute(*node.proto, name);
    if (graph == nullptr || graph->output_size() != node.proto->output_size()) return false;
    if (scope.depth + 1 > kMaxDepth) {
        fail(node, fmt::format("functions and bodies nest more than {} deep", kMaxDepth));
    }
    Scope body = child_scope(scope, *scope.draft);
    body.parent = &scope;
    read_declared(*graph, body);
    read_initializers(*graph, body);
    read_nodes(graph->node(), body);
    for (int i = 0; i < graph->output_size(); ++i) {
        const ValueId id = find(body, graph->output(i).name());
        if (id == kNoValue) fail(node, fmt::format("result {}: the branch does not make it", i));
        if (!node.proto->output(i).empty()) {
            define(scope, node.proto->output(i), id, node_label(node.name, "If"));
        }
    }
    ++counts_.taken_branches;
    return true;
}

ModelReader::ResultTypes ModelReader::infer_if(Node& node, Scope& scope) {
    ResultTypes results;
    for (const char* name : {"then_branch", "else_branch"}) {
        const onnx::GraphProto* graph = graph_attribute(*node.proto, name);
        if (graph == nullptr || graph->output_size() != node.proto->output_size()) {
            fail(node, fmt::format("attribute '{}': expected a graph of {} results", name,
                                   node.proto->output_size()));
        }
        node.bodies.push_back({name, read_body(node, *graph, {}, {}, scope)});
    }
    const Draft& taken = *node.bodies[0].draft;
    const Draft& other = *node.bodies[1].draft;
    for (std::size_t i = 0; i < taken.outputs.size(); ++i) {
        const Value& a = values_[taken.outputs[i]];
        const Value& b = values_[other.outputs[i]];
        onnx::TypeProto type = a.type;
        std::uint64_t bounded = a.bounded_dims | b.bounded_dims;
        const auto shape_a = shape_of(a.type);
        const auto shape_b = shape_of(b.type);
        if (shape_a && shape_b && shape_a->size() == shape_b->size()) {
            for (std::size_t d = 0; d < shape_a->size(); ++d) {
                const std::int64_t m = (*shape_a)[d];
                const std::int64_t n = (*shape_b)[d];
                if (m == n) continue;
                set_extent(type, static_cast<int>(d), m < 0 || n < 0 ? -1 : std::max(m, n));
                if (d < 64) bounded |= std::uint64_t{1} << d;
            }
        } else if (type.has_tensor_type()) {
            type.mutable_tensor_type()->clear_shape();  // ranks differ: only the run decides
        }
        results.types.push_back(std::move(type));
        results.bounded.push_back(bounded);
    }
    complete_from_declared(node, scope, results);
    return results;
}

// --- Loop --------------------------------------------------------------------------------------

namespace {

/// Extents of a loop's states before the first and the second iteration.
struct Growth {
    std::vector<std::optional<Shape>> before;
    std::vector<std::optional<Shape>> after;

    [[nodiscard]] bool constant() const { return before == after; }
};

/// Extent after `steps` more iterations, if each adds what the first one did.
std::int64_t grown(std::int64_t before, std::int64_t after, std::int64_t steps) {
    if (before < 0 || after < 0) return -1;
    std::int64_t change = 0;
    if (__builtin_mul_overflow(after - before, steps, &change) ||
        __builtin_add_overflow(before, change, &change)) {
        return -1;
    }
    return std::max<std::int64_t>(change, -1);
}

}  // namespace

// States may change their shape. When they do, and the number of iterations is bounded, each
// iteration is assumed to add what the first one added, and the second confirms it; the body is
// read once more with the states of the last iteration, the largest.
ModelReader::ResultTypes ModelReader::infer_loop(Node& node, Scope& scope) {
    const onnx::GraphProto* graph = graph_attribute(*node.proto, "body");
    if (graph == nullptr) fail(node, "attribute 'body': expected a graph, got none");
    const std::size_t states = node.operands.size() - 2;
    const auto count = static_cast<std::size_t>(node.proto->output_size());
    if (count < states || static_cast<std::size_t>(graph->output_size()) != count + 1) {
        fail(node,
             fmt::format("expected a body of {} results, got {}", count + 1, graph->output_size()));
    }
    const auto scalar_operand = [&](std::size_t i) -> const Literal* {
        if (node.operands[i] == kNoValue) return nullptr;
        const Literal* literal = contents(node.operands[i], /*exact_only=*/false);
        return literal != nullptr && literal->integral() && literal->size() == 1 ? literal
                                                                                 : nullptr;
    };
    std::optional<std::int64_t> most;
    if (const Literal* trips = scalar_operand(0))
        most = std::max<std::int64_t>(trips->integer(0), 0);
    const Literal* condition = scalar_operand(1);
    const bool starts =
        node.operands[1] == kNoValue || (condition != nullptr && condition->integer(0) != 0);
    if (condition != nullptr && condition->integer(0) == 0) most = 0;

    std::vector<onnx::TypeProto> inputs = {tensor_type(DType::int64, {}),
                                           tensor_type(DType::boolean, {})};
    std::vector<std::uint64_t> bounded = {0, 0};
    for (std::size_t i = 2; i < node.operands.size(); ++i) {
        const bool given = node.operands[i] != kNoValue;
        inputs.push_back(given ? values_[node.operands[i]].type : onnx::TypeProto());
        bounded.push_back(given ? values_[node.operands[i]].bounded_dims : 0);
    }
    const auto shapes_before = [&] {
        std::vector<std::optional<Shape>> shapes;
        for (std::size_t i = 0; i < states; ++i) shapes.push_back(shape_of(inputs[i + 2]));
        return shapes;
    };
    const auto shapes_after = [&](const Draft& body) {
        std::vector<std::optional<Shape>> shapes;
        for (std::size_t i = 0; i < states; ++i) {
            shapes.push_back(shape_of(values_[body.outputs[i + 1]].type));
        }
        return shapes;
    };
    const std::vector<onnx::TypeProto> initial = inputs;
    auto body = read_body(node, *graph, inputs, bounded, scope);
    Growth growth{shapes_before(), shapes_after(*body)};
    std::vector<std::uint64_t> varying(states, 0);
    if (!growth.constant()) {
        for (std::size_t i = 0; i < states; ++i) {
            const auto& before = growth.before[i];
            const auto& after = growth.after[i];
            if (before == after) continue;
            onnx::TypeProto& type = inputs[i + 2];
            if (!before || !after || before->size() != after->size()) {
                if (type.has_tensor_type()) type.mutable_tensor_type()->clear_shape();
                continue;
            }
            for (std::size_t d = 0; d < before->size(); ++d) {
                if ((*before)[d] == (*after)[d]) continue;
                const std::int64_t last =
                    most && *most > 0 ? grown((*before)[d], (*after)[d], *most - 1) : -1;
                set_extent(type, static_cast<int>(d), last);
                if (d < 64) varying[i] |= std::uint64_t{1} << d;
            }
            bounded[i + 2] |= varying[i];
        }
        node.bodies.clear();
        body = read_body(node, *graph, inputs, bounded, scope);
    }
    // Whether the loop runs to its limit: the body hands its condition on, or says true.
    const ValueId again = body->outputs[0];
    const Literal* always = known_literal(again);
    const bool unconditional =
        again == body->inputs[1] ||
        (always != nullptr && always->integral() && always->size() == 1 && always->integer(0) != 0);
    const bool exact = most && (*most == 0 || (starts && unconditional)) &&
                       (node.operands[0] == kNoValue || known_literal(node.operands[0]) != nullptr);
    if (exact) node.trip_count = most;

    ResultTypes results;
    for (std::size_t i = 0; i < count; ++i) {
        const Value& made = values_[body->outputs[i + 1]];
        onnx::TypeProto type = made.type;
        std::uint64_t marks = made.bounded_dims;
        if (i < states) {
            if (most && *most == 0) type = initial[i + 2];
            const auto before = shape_of(inputs[i + 2]);
            const auto after = shape_of(type);
            const bool steady = growth.before[i] && growth.after[i] && before && after &&
                                before->size() == after->size() &&
                                before->size() == growth.before[i]->size();
            for (std::size_t d = 0; steady && d < after->size() && d < 64; ++d) {
                if ((varying[i] >> d & 1u) == 0) continue;
                // The second reading must add what the first one added.
                const std::int64_t added = (*growth.after[i])[d] - (*growth.before[i])[d];
                const bool confirmed =
                    (*before)[d] >= 0 && (*after)[d] >= 0 && (*after)[d] - (*before)[d] == added;
                if (most && *most > 0 && !confirmed) set_extent(type, static_cast<int>(d), -1);
                marks = exact ? marks & ~(std::uint64_t{1} << d) : marks | (std::uint64_t{1} << d);
            }
        } else if (const auto shape = shape_of(made.type)) {
            Shape stacked = *shape;
            stacked.insert(stacked.begin(), most.value_or(-1));
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
