// SPDX-License-Identifier: Apache-2.0
//
// Functions and control flow: bodies are read by the same code as the main graph, in a scope of
// their own.
#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "importers/onnx/model_error.h"
#include "importers/onnx/model_reader.h"
#include "importers/onnx/onnx_types.h"
#include "importers/onnx/reading_order.h"

namespace partita::importers {

using graph::DType;
using graph::Shape;

namespace {

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
        constexpr std::size_t kBytesPerStored = 8;
        take_memory(label, kBytesPerStored * function.ByteSizeLong());
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
        const std::string label = node_label(node.name, node.proto->op_type());
        admit(label, id);
        define(body, input.name(), id, label);
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
        } else if (const Literal* condition = contents(node.operands[0], /*exact_only=*/false)) {
            // Ranks differ; contents of the data set say which branch is meant.
            type = condition->integral() && condition->size() == 1 && condition->integer(0) != 0
                       ? a.type
                       : b.type;
            const auto rank = shape_of(type).value_or(Shape{}).size();
            bounded = (std::uint64_t{1} << std::min<std::size_t>(rank, 63)) - 1;
        } else if (type.has_tensor_type()) {
            type.mutable_tensor_type()->clear_shape();  // only the run decides
        }
        results.types.push_back(std::move(type));
        results.bounded.push_back(bounded);
    }
    complete_from_declared(node, scope, results);
    return results;
}

}  // namespace partita::importers
