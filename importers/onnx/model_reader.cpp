// SPDX-License-Identifier: Apache-2.0
#include "importers/onnx/model_reader.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "importers/onnx/blocks.h"
#include "importers/onnx/identity_gather.h"
#include "importers/onnx/model_error.h"
#include "importers/onnx/node_checks.h"
#include "importers/onnx/onnx_types.h"
#include "importers/onnx/reading_order.h"
#include "importers/onnx/unroll.h"

namespace partita::importers {

using graph::DType;
using graph::Shape;

namespace {

/// Functions that call functions can multiply, and so can shape arithmetic: a small file must not
/// become an endless model.
constexpr std::int64_t kMaxNodes = 100'000;
constexpr std::int64_t kMaxNodesPerStored = 100;
constexpr std::int64_t kMaxFoldedElements = std::int64_t{1} << 22;

std::string normalized(const std::string& domain) {
    return domain == "ai.onnx" ? "" : domain;
}

std::map<std::string, int> read_opsets(
    const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& imports) {
    std::map<std::string, int> opsets;
    for (const auto& import : imports) {
        const std::int64_t version = std::clamp<std::int64_t>(import.version(), 0, 1'000'000);
        opsets[normalized(import.domain())] = static_cast<int>(version);
    }
    return opsets;
}

std::string function_key(const std::string& domain, const std::string& name,
                         const std::string& overload) {
    return fmt::format("{}\n{}\n{}", normalized(domain), name, overload);
}

std::string metadata_of(const onnx::NodeProto& node, std::string_view key) {
    for (const auto& entry : node.metadata_props()) {
        if (entry.key() == key) return entry.value();
    }
    return {};
}

}  // namespace

ModelReader::ModelReader(const onnx::ModelProto& model, ReaderOptions options)
    : model_(model),
      options_(std::move(options)),
      opsets_(read_opsets(model.opset_import())),
      limits_(model.ByteSizeLong()) {
    // Before IR version 3 a model could not say; its operators were those of opset 1.
    if (opsets_.empty() && model.ir_version() < 3) opsets_[""] = 1;
    std::int64_t stored = model.graph().node_size();
    for (const onnx::FunctionProto& function : model.functions()) {
        stored += function.node_size();
        functions_.emplace(function_key(function.domain(), function.name(), function.overload()),
                           &function);
        function_opsets_[&function] = read_opsets(function.opset_import());
    }
    max_nodes_ = kMaxNodes + kMaxNodesPerStored * stored;
}

ModelReader::~ModelReader() = default;

Draft ModelReader::read(const std::map<std::string, Shape>& input_shapes) {
    Draft draft = new_draft();
    Scope scope;
    scope.draft = &draft;
    scope.opsets = &opsets_;
    const onnx::GraphProto& graph = model_.graph();
    read_declared(graph, scope);
    read_initializers(graph, scope);
    for (const onnx::ValueInfoProto& input : graph.input()) {
        // Before IR version 4 initializers are listed as inputs too; a default is as good.
        if (scope.names.count(input.name()) != 0 &&
            values_[scope.names[input.name()]].initializer) {
            continue;
        }
        const auto shape = input_shapes.find(input.name());
        const ValueId id = add_value(scope, input.name(),
                                     shape == input_shapes.end()
                                         ? input.type()
                                         : tensor_type(dtype_of(input.type()), shape->second));
        const std::string where = fmt::format("input '{}'", printable(input.name()));
        admit(where, id);
        define(scope, input.name(), id, where);
        const auto contents = options_.contents.find(input.name());
        if (contents != options_.contents.end()) {
            values_[id].estimate = std::make_shared<const Literal>(contents->second);
        }
        draft.inputs.push_back(id);
    }
    read_nodes(graph.node(), scope);
    read_outputs(graph, scope);
    return draft;
}

void ModelReader::read_outputs(const onnx::GraphProto& graph, Scope& scope) {
    for (const onnx::ValueInfoProto& output : graph.output()) {
        const ValueId id = find(scope, output.name());
        if (id == kNoValue) {
            throw_model_error(options_.file, fmt::format("output '{}'", printable(output.name())),
                              "no node makes it, and it is no input");
        }
        scope.draft->outputs.push_back(id);
        scope.draft->output_names.push_back(printable(output.name()));
    }
}

namespace {

std::string name_of(const onnx::NodeProto& node, std::size_t index) {
    if (node.name().empty()) return fmt::format("{}_{}", printable(node.op_type()), index);
    return printable(node.name());
}

}  // namespace

void ModelReader::read_nodes(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes,
                             Scope& scope) {
    const std::vector<int> order = reading_order(nodes);
    if (order.size() < static_cast<std::size_t>(nodes.size())) {
        std::vector<bool> read(static_cast<std::size_t>(nodes.size()), false);
        for (const int i : order) read[static_cast<std::size_t>(i)] = true;
        const auto first = std::find(read.begin(), read.end(), false) - read.begin();
        const onnx::NodeProto& node = nodes[static_cast<int>(first)];
        throw_model_error(
            options_.file,
            node_label(name_of(node, static_cast<std::size_t>(first)), printable(node.op_type())),
            "it waits for its own result: the graph has a cycle");
    }
    for (const int i : order) read_node(nodes[i], static_cast<std::size_t>(i), scope);
}

ModelReader::Node ModelReader::open_node(const onnx::NodeProto& proto, std::size_t index,
                                         Scope& scope) {
    Node node;
    node.proto = &proto;
    node.name = scope.prefix + name_of(proto, index);
    node.domain = normalized(proto.domain());
    if (++nodes_read_ > max_nodes_) {
        fail(node, fmt::format("functions and bodies expand to more than {} nodes", max_nodes_));
    }
    if (proto.op_type().empty()) fail(node, "expected an operator, got none");
    if (!limits_.take_steps(proto.ByteSizeLong() + node.name.size())) {
        fail(node, limits_.steps_text());
    }
    for (int i = 0; i < proto.input_size(); ++i) {
        const std::string& name = proto.input(i);
        const ValueId id = name.empty() ? kNoValue : find(scope, name);
        // Inside a function an operand may be a parameter that the caller left out.
        const bool left_out = name.empty() || scope.names.count(name) != 0;
        if (id == kNoValue && !left_out) {
            fail(node, fmt::format("operand {} '{}': no node, input or initializer makes it", i,
                                   printable(name)));
        }
        node.operands.push_back(id);
    }
    const auto opset = scope.opsets->find(node.domain);
    if (opset != scope.opsets->end()) {
        node.opset = opset->second;
    } else if (node.domain.empty()) {
        fail(node, "the model imports no operator set of the standard domain");
    }
    node.schema =
        onnx::OpSchemaRegistry::Schema(proto.op_type(), std::max(node.opset, 1), node.domain);
    return node;
}

void ModelReader::check_node(const Node& node) const {
    if (node.schema == nullptr) return;
    std::vector<std::optional<int>> ranks(node.operands.size());
    for (std::size_t i = 0; i < ranks.size(); ++i) {
        if (node.operands[i] == kNoValue) continue;
        const auto shape = shape_of(values_[node.operands[i]].type);
        if (shape) ranks[i] = static_cast<int>(shape->size());
    }
    std::string fault = fault_of(*node.proto, *node.schema, ranks);
    // Inside a function a name may stand for an operand that the caller left out.
    const auto& formal = node.schema->inputs();
    for (std::size_t i = 0; fault.empty() && i < std::min(formal.size(), ranks.size()); ++i) {
        if (formal[i].GetOption() == onnx::OpSchema::Single && node.operands[i] == kNoValue) {
            fault = fmt::format("operand {}: expected a tensor, got none", i);
        }
    }
    if (!fault.empty()) fail(node, fault);
    try {
        node.schema->Verify(*node.proto);
    } catch (const std::exception& error) {
        fail(node, printable(error.what()));
    }
}

void ModelReader::read_node(const onnx::NodeProto& proto, std::size_t index, Scope& scope) {
    Node node = open_node(proto, index, scope);
    if (const onnx::FunctionProto* function = find_function(proto)) {
        inline_function(node, *function, scope);
        return;
    }
    check_node(node);
    // What this version of the standard does not have has not been checked: its name says nothing.
    const bool standard = node.domain.empty() && node.schema != nullptr;
    if (standard && proto.op_type() == "Constant") {
        read_constant(node, scope);
        return;
    }
    if (standard && proto.op_type() == "If" && take_branch(node, scope)) return;
    read_attributes(node);
    if (standard && fold_node(node, scope)) return;
    std::optional<Literals> estimates;
    if (standard) estimates = evaluate(node, /*with_estimates=*/true);
    emit(node, scope, infer(node, scope), estimates);
}

std::optional<Literals> ModelReader::evaluate(const Node& node, bool with_estimates) {
    if (!can_fold(node.proto->op_type())) return std::nullopt;
    std::vector<FoldOperand> operands(node.operands.size());
    std::vector<Shape> shapes(node.operands.size());
    bool estimated = false;
    for (std::size_t i = 0; i < operands.size(); ++i) {
        if (node.operands[i] == kNoValue) continue;
        const Value& value = values_[node.operands[i]];
        operands[i].given = true;
        operands[i].literal = known_literal(node.operands[i]);
        if (with_estimates && operands[i].literal == nullptr && value.estimate != nullptr) {
            operands[i].literal = value.estimate.get();
            estimated = true;
        }
        std::optional<Shape> shape = shape_of(value.type);
        if (!shape) continue;
        for (std::size_t d = 0; d < shape->size() && d < 64; ++d) {
            if ((value.bounded_dims >> d & 1u) == 0) continue;
            if (!with_estimates) (*shape)[d] = -1;
            estimated = true;
        }
        shapes[i] = std::move(*shape);
        operands[i].shape = &shapes[i];
    }
    if (with_estimates && !estimated) return std::nullopt;
    if (folded_elements_ > kMaxFoldedElements) return std::nullopt;
    auto results = fold({.type = node.proto->op_type(),
                         .opset = node.opset,
                         .attributes = node.attributes,
                         .tensors = node.tensors,
                         .operands = operands,
                         .results = static_cast<std::size_t>(node.proto->output_size()),
                         .limit = options_.fold_limit,
                         .work_left = &limits_.folding()});
    for (std::size_t i = 0; results && i < results->size(); ++i) {
        folded_elements_ += static_cast<std::int64_t>((*results)[i].size());
    }
    return results;
}

bool ModelReader::fold_node(const Node& node, Scope& scope) {
    std::optional<Literals> results = evaluate(node, /*with_estimates=*/false);
    if (!results) return false;
    for (std::size_t i = 0; i < results->size(); ++i) {
        const std::string& name = node.proto->output(static_cast<int>(i));
        if (name.empty()) continue;
        Literal& literal = (*results)[i];
        const ValueId id = add_value(scope, name, tensor_type(literal.dtype, literal.shape));
        values_[id].literal = std::make_shared<const Literal>(std::move(literal));
        const std::string label = node_label(node.name, node.proto->op_type());
        admit(label, id);
        define(scope, name, id, label);
    }
    ++counts_.folded;
    return true;
}

/// A Gather of everything in order becomes the Reshape that it is.
void ModelReader::read_as_reshape(DraftNode& made, Draft& draft) {
    constexpr int kReshapeTakesItsTarget = 5;
    const bool gathers = made.type == "Gather" || made.type == "GatherND";
    if (!gathers || !made.domain.empty() || !made.known_operator ||
        made.opset < kReshapeTakesItsTarget) {
        return;
    }
    if (made.results[0] == kNoValue) return;
    const auto data = shape_of(values_[made.operands[0]].type);
    const auto result = shape_of(values_[made.results[0]].type);
    const Literal* indices = known_literal(made.operands[1]);
    const bool known = data && result && indices != nullptr &&
                       values_[made.operands[0]].bounded_dims == 0 &&
                       values_[made.results[0]].bounded_dims == 0;
    // It is right as a Gather too: not worth more work than there is left.
    if (!known || !limits_.take_steps(indices->size())) return;
    if (!is_identity_gather(made.type, made.attributes, *data, *indices)) return;
    Value target;
    target.name = made.name + ".shape";
    target.draft = draft.number;
    const auto rank = static_cast<std::int64_t>(result->size());
    target.type = tensor_type(DType::int64, {rank});
    Literal shape = make_literal(DType::int64, {rank});
    std::get<0>(shape.values) = *result;
    target.literal = std::make_shared<const Literal>(std::move(shape));
    made.type = "Reshape";
    made.attributes = {};
    made.operands = {made.operands[0], add_value(std::move(target))};
    ++counts_.reshapes;
}

void ModelReader::emit(Node& node, Scope& scope, ResultTypes results,
                       const std::optional<Literals>& estimates) {
    const std::string label = node_label(node.name, node.proto->op_type());
    DraftNode made;
    made.name = node.name;
    made.type = printable(node.proto->op_type());
    made.domain = printable(node.domain);
    made.opset = node.opset;
    made.known_operator = node.schema != nullptr;
    made.block = block_of(scope.prefix.empty() ? node.proto->name() : made.name,
                          metadata_of(*node.proto, "namespace"));
    if (made.block.empty()) made.block = scope.block;
    constexpr std::size_t kCopies = 3;  // in the draft, in the graph and in passing
    take_memory(label,
                kCopies * (sizeof(DraftNode) + made.name.size() + memory_of(node.attributes) +
                           sizeof(ValueId) * node.operands.size()));
    made.operands = std::move(node.operands);
    made.attributes = std::move(node.attributes);
    made.bodies = std::move(node.bodies);
    made.trip_count = node.trip_count;
    for (std::size_t i = 0; i < results.types.size(); ++i) {
        const std::string& name = node.proto->output(static_cast<int>(i));
        ValueId id = kNoValue;
        if (!name.empty()) {
            id = add_value(scope, name, std::move(results.types[i]));
            values_[id].bounded_dims = results.bounded[i];
            if (estimates) values_[id].estimate = std::make_shared<const Literal>((*estimates)[i]);
            admit(label, id);
            define(scope, name, id, label);
        }
        made.results.push_back(id);
    }
    read_as_reshape(made, *scope.draft);
    if (options_.unroll && can_unroll(made, values_)) {
        ++counts_.unrolled;
        unroll(made, values_, *scope.draft);
        return;
    }
    scope.draft->nodes.push_back(std::move(made));
}

}  // namespace partita::importers
