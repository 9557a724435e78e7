// SPDX-License-Identifier: Apache-2.0
#include "importers/onnx/model_reader.h"

#include <algorithm>
#include <cassert>
#include <queue>

#include <fmt/format.h>

#include "graph/error.h"
#include "importers/onnx/blocks.h"
#include "importers/onnx/model_error.h"
#include "importers/onnx/node_checks.h"
#include "importers/onnx/onnx_types.h"
#include "importers/onnx/unroll.h"

namespace partita::importers {

using graph::DType;
using graph::Shape;

namespace {

/// Functions that call functions can multiply: a small file must not become an endless model.
constexpr std::int64_t kMaxNodes = 4'000'000;
constexpr int kMaxDepth = 64;

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
    : model_(model), options_(std::move(options)), opsets_(read_opsets(model.opset_import())) {
    // Before IR version 3 a model could not say; its operators were those of opset 1.
    if (opsets_.empty() && model.ir_version() < 3) opsets_[""] = 1;
    for (const onnx::FunctionProto& function : model.functions()) {
        functions_.emplace(function_key(function.domain(), function.name(), function.overload()),
                           &function);
        function_opsets_[&function] = read_opsets(function.opset_import());
    }
}

ModelReader::~ModelReader() = default;

void ModelReader::fail(const Node& node, std::string_view what) const {
    throw_model_error(options_.file, node_label(node.name, node.proto->op_type()), what);
}

Draft ModelReader::new_draft() {
    Draft draft;
    draft.number = drafts_++;
    return draft;
}

ValueId ModelReader::add_value(Value value) {
    values_.push_back(std::move(value));
    return static_cast<ValueId>(values_.size() - 1);
}

ValueId ModelReader::add_value(const Scope& scope, const std::string& name, onnx::TypeProto type) {
    Value value;
    value.name = scope.prefix + printable(name);
    value.draft = scope.draft->number;
    value.type = std::move(type);
    return add_value(std::move(value));
}

void ModelReader::define(Scope& scope, const std::string& name, ValueId id, std::string_view what) {
    if (!scope.names.emplace(name, id).second) {
        throw_model_error(
            options_.file, what,
            fmt::format("the name '{}' is taken by an earlier value", printable(name)));
    }
}

ValueId ModelReader::find(const Scope& scope, const std::string& name) const {
    for (const Scope* s = &scope; s != nullptr; s = s->parent) {
        const auto found = s->names.find(name);
        if (found != s->names.end()) return found->second;
    }
    return kNoValue;
}

void ModelReader::check_data(const onnx::TensorProto& tensor, std::string_view where) const {
    const std::string fault = fault_of(tensor);
    if (!fault.empty()) throw_model_error(options_.file, where, fault);
}

void ModelReader::read_initializers(const onnx::GraphProto& graph, Scope& scope) {
    for (const onnx::TensorProto& tensor : graph.initializer()) {
        const std::string where = fmt::format("initializer '{}'", printable(tensor.name()));
        check_data(tensor, where);
        const ValueId id =
            add_value(scope, tensor.name(),
                      tensor_type(dtype_from_onnx(tensor.data_type()), dims_of(tensor)));
        values_[id].data = &tensor;
        values_[id].initializer = true;
        define(scope, tensor.name(), id, where);
    }
    for (const onnx::SparseTensorProto& tensor : graph.sparse_initializer()) {
        const std::string& name = tensor.values().name();
        const std::string where = fmt::format("sparse initializer '{}'", printable(name));
        const Shape shape(tensor.dims().begin(), tensor.dims().end());
        if (!element_count(shape, std::int64_t{1} << 55)) {
            throw_model_error(options_.file, where, "expected extents >= 0 of a possible size");
        }
        check_data(tensor.values(), where);
        check_data(tensor.indices(), where);
        const ValueId id = add_value(
            scope, name, tensor_type(dtype_from_onnx(tensor.values().data_type()), shape));
        values_[id].sparse = &tensor;
        values_[id].initializer = true;
        define(scope, name, id, where);
    }
}

void ModelReader::read_declared(const onnx::GraphProto& graph, Scope& scope) const {
    const auto read = [&](const onnx::ValueInfoProto& info) {
        if (!info.has_type() || info.name().empty()) return;
        onnx::TypeProto type = info.type();
        if (type.has_tensor_type() && type.tensor_type().has_shape()) {
            for (auto& dim : *type.mutable_tensor_type()->mutable_shape()->mutable_dim()) {
                const auto bound = dim.has_dim_param() ? options_.bindings.find(dim.dim_param())
                                                       : options_.bindings.end();
                if (bound != options_.bindings.end()) dim.set_dim_value(bound->second);
                if (dim.has_dim_value() && dim.dim_value() < 0) dim.clear_dim_value();
            }
        }
        scope.declared[info.name()] = std::move(type);
    };
    for (const auto& info : graph.value_info()) read(info);
    for (const auto& info : graph.output()) read(info);
}

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
        define(scope, input.name(), id, fmt::format("input '{}'", printable(input.name())));
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

// --- order -------------------------------------------------------------------------------------

namespace {

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

/// Names that a node reads, those that its bodies take from outside included.
void add_names_read(const onnx::NodeProto& node, std::set<std::string>& names, int depth) {
    if (depth > kMaxDepth) return;
    for (const std::string& name : node.input()) names.insert(name);
    for (const auto& attribute : node.attribute()) {
        if (!attribute.has_g()) continue;
        for (const auto& inner : attribute.g().node()) add_names_read(inner, names, depth + 1);
        for (const auto& output : attribute.g().output()) names.insert(output.name());
    }
}

/// Numbers of the nodes so that makers come before readers: the file's order, as far as it can be
/// kept. Nodes on a cycle are missing.
std::vector<int> reading_order(const Nodes& nodes) {
    std::unordered_map<std::string, int> maker;
    for (int i = 0; i < nodes.size(); ++i) {
        for (const std::string& name : nodes[i].output()) {
            if (!name.empty()) maker.emplace(name, i);
        }
    }
    std::vector<std::vector<int>> readers(static_cast<std::size_t>(nodes.size()));
    std::vector<int> waiting(static_cast<std::size_t>(nodes.size()));
    bool sorted = true;
    for (int i = 0; i < nodes.size(); ++i) {
        std::set<std::string> names;
        add_names_read(nodes[i], names, 0);
        std::set<int> makers;
        for (const std::string& name : names) {
            const auto found = maker.find(name);
            if (found != maker.end()) makers.insert(found->second);
        }
        for (const int made : makers) {
            sorted = sorted && made < i;
            readers[static_cast<std::size_t>(made)].push_back(i);
            ++waiting[static_cast<std::size_t>(i)];
        }
    }
    std::vector<int> order;
    order.reserve(waiting.size());
    if (sorted) {
        for (int i = 0; i < nodes.size(); ++i) order.push_back(i);
        return order;
    }
    std::priority_queue<int, std::vector<int>, std::greater<>> ready;
    for (int i = 0; i < nodes.size(); ++i) {
        if (waiting[static_cast<std::size_t>(i)] == 0) ready.push(i);
    }
    while (!ready.empty()) {
        const int node = ready.top();
        ready.pop();
        order.push_back(node);
        for (const int reader : readers[static_cast<std::size_t>(node)]) {
            if (--waiting[static_cast<std::size_t>(reader)] == 0) ready.push(reader);
        }
    }
    return order;
}

std::string name_of(const onnx::NodeProto& node, std::size_t index) {
    if (node.name().empty()) return fmt::format("{}_{}", printable(node.op_type()), index);
    return printable(node.name());
}

}  // namespace

void ModelReader::read_nodes(const Nodes& nodes, Scope& scope) {
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

// --- one node ----------------------------------------------------------------------------------

ModelReader::Node ModelReader::open_node(const onnx::NodeProto& proto, std::size_t index,
                                         Scope& scope) {
    Node node;
    node.proto = &proto;
    node.name = scope.prefix + name_of(proto, index);
    node.domain = normalized(proto.domain());
    if (++nodes_read_ > kMaxNodes) {
        fail(node, fmt::format("functions and bodies expand to more than {} nodes", kMaxNodes));
    }
    if (proto.op_type().empty()) fail(node, "expected an operator, got none");
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

void ModelReader::read_attributes(Node& node) const {
    for (const onnx::AttributeProto& attribute : node.proto->attribute()) {
        const std::string name = printable(attribute.name());
        switch (attribute.type()) {
        case onnx::AttributeProto::INT: node.attributes.set(name, attribute.i()); break;
        case onnx::AttributeProto::FLOAT:
            node.attributes.set(name, static_cast<double>(attribute.f()));
            break;
        case onnx::AttributeProto::STRING:
            node.attributes.set(name, printable(attribute.s()));
            break;
        case onnx::AttributeProto::INTS:
            node.attributes.set(
                name, std::vector<std::int64_t>(attribute.ints().begin(), attribute.ints().end()));
            break;
        case onnx::AttributeProto::FLOATS:
            node.attributes.set(
                name, std::vector<double>(attribute.floats().begin(), attribute.floats().end()));
            break;
        case onnx::AttributeProto::STRINGS: {
            std::vector<std::string> strings;
            for (const std::string& s : attribute.strings()) strings.push_back(printable(s));
            node.attributes.set(name, std::move(strings));
            break;
        }
        case onnx::AttributeProto::TENSOR: {
            check_data(attribute.t(), node_label(node.name, node.proto->op_type()));
            std::optional<Literal> literal = literal_of(attribute.t(), options_.fold_limit);
            if (!literal) {
                node.attributes.set(name, std::string("tensor"));
                break;
            }
            // One element is the usual case (ConstantOfShape); it stays readable as a number.
            if (literal->size() == 1 && literal->integral()) {
                node.attributes.set(name, literal->integer(0));
            } else if (literal->size() == 1) {
                node.attributes.set(name, literal->real(0));
            } else if (literal->integral()) {
                node.attributes.set(name, std::get<0>(literal->values));
            } else {
                node.attributes.set(name, std::get<1>(literal->values));
            }
            node.tensors.emplace_back(name, std::move(*literal));
            break;
        }
        default: break;  // graphs become bodies; types and sparse tensors matter to no rule
        }
    }
}

void ModelReader::read_node(const onnx::NodeProto& proto, std::size_t index, Scope& scope) {
    Node node = open_node(proto, index, scope);
    if (const onnx::FunctionProto* function = find_function(proto)) {
        inline_function(node, *function, scope);
        return;
    }
    if (node.schema != nullptr) {
        std::optional<int> rank;
        if (!node.operands.empty() && node.operands[0] != kNoValue) {
            const auto shape = shape_of(values_[node.operands[0]].type);
            if (shape) rank = static_cast<int>(shape->size());
        }
        std::string fault = fault_of(proto, *node.schema, rank);
        if (!fault.empty()) fail(node, fault);
        try {
            node.schema->Verify(proto);
        } catch (const std::exception& error) {
            fail(node, printable(error.what()));
        }
    }
    const bool standard = node.domain.empty();
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

void ModelReader::read_constant(const Node& node, Scope& scope) {
    Value value;
    value.name = scope.prefix + printable(node.proto->output(0));
    value.draft = scope.draft->number;
    const auto literal = [&](DType dtype, const Shape& shape) -> Literal& {
        auto made = std::make_shared<Literal>(make_literal(dtype, shape));
        value.literal = made;
        value.type = tensor_type(dtype, shape);
        return *made;
    };
    if (node.proto->attribute_size() != 1) {
        fail(node, fmt::format("expected 1 attribute, got {}", node.proto->attribute_size()));
    }
    const onnx::AttributeProto& attribute = node.proto->attribute(0);
    switch (attribute.type()) {
    case onnx::AttributeProto::TENSOR:
        check_data(attribute.t(), node_label(node.name, "Constant"));
        value.data = &attribute.t();
        value.type =
            tensor_type(dtype_from_onnx(attribute.t().data_type()), dims_of(attribute.t()));
        break;
    case onnx::AttributeProto::SPARSE_TENSOR: {
        const onnx::SparseTensorProto& sparse = attribute.sparse_tensor();
        const Shape shape(sparse.dims().begin(), sparse.dims().end());
        check_data(sparse.values(), node_label(node.name, "Constant"));
        check_data(sparse.indices(), node_label(node.name, "Constant"));
        if (!element_count(shape, std::int64_t{1} << 55)) fail(node, "its extents are impossible");
        value.sparse = &sparse;
        value.type = tensor_type(dtype_from_onnx(sparse.values().data_type()), shape);
        break;
    }
    case onnx::AttributeProto::INT:
        std::get<0>(literal(DType::int64, {}).values)[0] = attribute.i();
        break;
    case onnx::AttributeProto::INTS: {
        auto& list = std::get<0>(literal(DType::int64, {attribute.ints_size()}).values);
        list.assign(attribute.ints().begin(), attribute.ints().end());
        break;
    }
    case onnx::AttributeProto::FLOAT:
        std::get<1>(literal(DType::float32, {}).values)[0] = attribute.f();
        break;
    case onnx::AttributeProto::FLOATS: {
        auto& list = std::get<1>(literal(DType::float32, {attribute.floats_size()}).values);
        list.assign(attribute.floats().begin(), attribute.floats().end());
        break;
    }
    case onnx::AttributeProto::STRING: value.type = tensor_type(DType::string, {}); break;
    case onnx::AttributeProto::STRINGS:
        value.type = tensor_type(DType::string, {attribute.strings_size()});
        break;
    default: fail(node, "expected a tensor, a number or a list of numbers");
    }
    ++counts_.folded;
    const std::string& name = node.proto->output(0);
    define(scope, name, add_value(std::move(value)), node_label(node.name, "Constant"));
}

// --- folding -----------------------------------------------------------------------------------

const Literal* ModelReader::known_literal(ValueId id) {
    Value& value = values_[id];
    if (value.literal != nullptr || value.data == nullptr) return value.literal.get();
    const DType dtype = dtype_of(value.type);
    // A floating-point initializer of several elements is a weight: what is computed from it must
    // follow its updates.
    const bool integral = is_integral(dtype);
    const std::int64_t limit = integral ? options_.fold_limit : value.initializer ? 1 : 64;
    std::optional<Literal> literal = literal_of(*value.data, limit);
    if (literal) value.literal = std::make_shared<const Literal>(std::move(*literal));
    return value.literal.get();
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
    return fold({.type = node.proto->op_type(),
                 .opset = node.opset,
                 .attributes = node.attributes,
                 .tensors = node.tensors,
                 .operands = operands,
                 .results = static_cast<std::size_t>(node.proto->output_size()),
                 .limit = options_.fold_limit});
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
        define(scope, name, id, node_label(node.name, node.proto->op_type()));
    }
    ++counts_.folded;
    return true;
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
            define(scope, name, id, label);
        }
        made.results.push_back(id);
    }
    if (options_.unroll && can_unroll(made, values_)) {
        ++counts_.unrolled;
        unroll(std::move(made), values_, *scope.draft);
        return;
    }
    scope.draft->nodes.push_back(std::move(made));
}

}  // namespace partita::importers
