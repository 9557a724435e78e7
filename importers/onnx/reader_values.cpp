// SPDX-License-Identifier: Apache-2.0
//
// Values of a scope: names, initializers, constants and what is declared of the rest.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "importers/onnx/model_error.h"
#include "importers/onnx/model_reader.h"
#include "importers/onnx/onnx_types.h"

namespace partita::importers {

using graph::DType;
using graph::Shape;

namespace {

/// More elements than any memory holds, few enough to be multiplied by an element's width.
constexpr std::int64_t kMaxElements = std::int64_t{1} << 55;

}  // namespace

void ModelReader::fail(const Node& node, std::string_view what) const {
    // "node 'n' (Conv), attribute 'strides': ...": a part of the node joins its label.
    std::string where = node_label(node.name, node.proto->op_type());
    const std::size_t colon = what.find(": ");
    for (const std::string_view part : {"attribute '", "operand ", "result "}) {
        if (what.rfind(part, 0) != 0 || colon == std::string_view::npos) continue;
        where += fmt::format(", {}", what.substr(0, colon));
        what.remove_prefix(colon + 2);
        break;
    }
    throw_model_error(options_.file, where, what);
}

Draft ModelReader::new_draft() {
    Draft draft;
    draft.number = drafts_++;
    return draft;
}

void ModelReader::admit(std::string_view where, ValueId id) {
    const Value& value = values_[id];
    const auto shape = shape_of(value.type);
    if (shape && shape->size() > static_cast<std::size_t>(kMaxRank)) {
        throw_model_error(options_.file, where,
                          fmt::format("expected '{}' to have at most {} dims, got {}", value.name,
                                      kMaxRank, shape->size()));
    }
    // The type is kept once more by whoever reads it next.
    take_memory(where, sizeof(Value) + 2 * value.name.size() + 2 * value.type.SpaceUsedLong());
}

void ModelReader::take_memory(std::string_view where, std::size_t bytes) {
    if (!limits_.take_memory(bytes)) throw_model_error(options_.file, where, limits_.memory_text());
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
        admit(where, id);
        define(scope, tensor.name(), id, where);
    }
    for (const onnx::SparseTensorProto& tensor : graph.sparse_initializer()) {
        const std::string& name = tensor.values().name();
        const std::string where = fmt::format("sparse initializer '{}'", printable(name));
        const Shape shape(tensor.dims().begin(), tensor.dims().end());
        if (!element_count(shape, kMaxElements)) {
            throw_model_error(options_.file, where, "expected extents >= 0 of a possible size");
        }
        check_data(tensor.values(), where);
        check_data(tensor.indices(), where);
        const ValueId id = add_value(
            scope, name, tensor_type(dtype_from_onnx(tensor.values().data_type()), shape));
        values_[id].sparse = &tensor;
        values_[id].initializer = true;
        admit(where, id);
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

void ModelReader::read_attributes(Node& node) const {
    std::vector<graph::Attributes::Entry> entries;
    entries.reserve(static_cast<std::size_t>(node.proto->attribute_size()));
    const auto set = [&entries](const std::string& name, graph::AttributeValue value) {
        entries.emplace_back(name, std::move(value));
    };
    for (const onnx::AttributeProto& attribute : node.proto->attribute()) {
        const std::string name = printable(attribute.name());
        switch (attribute.type()) {
        case onnx::AttributeProto::INT: set(name, attribute.i()); break;
        case onnx::AttributeProto::FLOAT: set(name, static_cast<double>(attribute.f())); break;
        case onnx::AttributeProto::STRING: set(name, printable(attribute.s())); break;
        case onnx::AttributeProto::INTS:
            set(name, std::vector<std::int64_t>(attribute.ints().begin(), attribute.ints().end()));
            break;
        case onnx::AttributeProto::FLOATS:
            set(name, std::vector<double>(attribute.floats().begin(), attribute.floats().end()));
            break;
        case onnx::AttributeProto::STRINGS: {
            std::vector<std::string> strings;
            for (const std::string& s : attribute.strings()) strings.push_back(printable(s));
            set(name, std::move(strings));
            break;
        }
        case onnx::AttributeProto::TENSOR: {
            check_data(attribute.t(), node_label(node.name, node.proto->op_type()));
            std::optional<Literal> literal = literal_of(attribute.t(), options_.fold_limit);
            if (!literal) {
                set(name, std::string("tensor"));
                break;
            }
            // One element is the usual case (ConstantOfShape); it stays readable as a number.
            if (literal->size() == 1 && literal->integral()) {
                set(name, literal->integer(0));
            } else if (literal->size() == 1) {
                set(name, literal->real(0));
            } else if (literal->integral()) {
                set(name, std::get<0>(literal->values));
            } else {
                set(name, std::get<1>(literal->values));
            }
            node.tensors.emplace_back(name, std::move(*literal));
            break;
        }
        default: break;  // graphs become bodies; types and sparse tensors matter to no rule
        }
    }
    // Sorted, each goes to the end: one by one in any order takes quadratic time.
    std::stable_sort(entries.begin(), entries.end(),
                     [](const auto& m, const auto& n) { return m.first < n.first; });
    for (auto& [name, value] : entries) node.attributes.set(std::move(name), std::move(value));
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
        if (!element_count(shape, kMaxElements)) fail(node, "its extents are impossible");
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
    const std::string label = node_label(node.name, "Constant");
    const ValueId id = add_value(std::move(value));
    admit(label, id);
    define(scope, node.proto->output(0), id, label);
}

const Literal* ModelReader::known_literal(ValueId id) {
    Value& value = values_[id];
    if (value.literal != nullptr || value.data == nullptr) return value.literal.get();
    const DType dtype = dtype_of(value.type);
    // A floating-point initializer of several elements is a weight: what is computed from it must
    // follow its updates.
    const bool integral = is_integral(dtype);
    const std::int64_t limit = integral ? options_.fold_limit : value.initializer ? 1 : 64;
    if (value.unknown_contents) return nullptr;
    std::optional<Literal> literal = literal_of(*value.data, limit);
    value.unknown_contents = !literal;
    if (!literal) return nullptr;
    constexpr std::size_t kBytesPerElement = 16;  // here and in the graph
    take_memory(fmt::format("value '{}'", value.name), kBytesPerElement * literal->size());
    value.literal = std::make_shared<const Literal>(std::move(*literal));
    return value.literal.get();
}

}  // namespace partita::importers
