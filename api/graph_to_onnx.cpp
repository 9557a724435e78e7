// SPDX-License-Identifier: Apache-2.0
#include "api/graph_to_onnx.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <variant>

#include <fmt/format.h>
#include <onnx/defs/schema.h>
#include <onnx/onnx_pb.h>

#include "base/error.h"
#include "base/similar.h"
#include "graph/stated_rule.h"
#include "importers/onnx/onnx_importer.h"

namespace partita::api {
namespace {

using Impl = Graph::Impl;

void set_shape(onnx::ValueInfoProto& info, const std::string& name, const Shape& shape,
               DType dtype) {
    info.set_name(name);
    auto& type = *info.mutable_type()->mutable_tensor_type();
    type.set_elem_type(static_cast<std::int32_t>(dtype));
    type.mutable_shape();
    for (const std::int64_t extent : shape) type.mutable_shape()->add_dim()->set_dim_value(extent);
}

void add_input(onnx::GraphProto& graph, const Impl::Input& input) {
    onnx::ValueInfoProto& info = *graph.add_input();
    set_shape(info, input.name, input.shape, input.options.dtype);
    if (input.options.batch_dim < 0) return;
    info.mutable_type()
        ->mutable_tensor_type()
        ->mutable_shape()
        ->mutable_dim(input.options.batch_dim)
        ->set_denotation("DATA_BATCH");
}

/// Shape and type, without contents.
void describe(onnx::TensorProto& tensor, const std::string& name, const Shape& shape, DType dtype) {
    tensor.set_name(name);
    tensor.set_data_type(static_cast<std::int32_t>(dtype));
    for (const std::int64_t extent : shape) tensor.add_dims(extent);
}

void set_external(onnx::TensorProto& tensor, const std::string& key, std::string value) {
    auto& entry = *tensor.add_external_data();
    entry.set_key(key);
    entry.set_value(std::move(value));
}

void leave_outside(onnx::TensorProto& tensor, const std::string& graph,
                   const StoredValues& values) {
    tensor.set_data_location(onnx::TensorProto::EXTERNAL);
    const auto found = values.find(tensor.name());
    if (found == values.end()) {
        set_external(tensor, "location", graph + ".weights");
        return;
    }
    const StoredValue& value = found->second;
    set_external(tensor, "location", value.location);
    set_external(tensor, "offset", std::to_string(value.offset));
    set_external(tensor, "length", std::to_string(value.length));
}

void add_constant(onnx::GraphProto& graph, const Impl::Constant& constant,
                  const StoredValues& values) {
    onnx::NodeProto& node = *graph.add_node();
    node.set_name(constant.name);
    node.set_op_type("Constant");
    node.add_output(constant.name);
    onnx::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name("value");
    attribute.set_type(onnx::AttributeProto::TENSOR);
    onnx::TensorProto& tensor = *attribute.mutable_t();
    describe(tensor, constant.name, constant.shape, constant.dtype);
    if (constant.known) {
        for (const std::int64_t value : constant.values) tensor.add_int64_data(value);
    } else {
        leave_outside(tensor, graph.name(), values);
    }
}

struct SetValue {
    onnx::AttributeProto& attribute;

    void operator()(std::int64_t value) const {
        attribute.set_type(onnx::AttributeProto::INT);
        attribute.set_i(value);
    }
    void operator()(double value) const {
        attribute.set_type(onnx::AttributeProto::FLOAT);
        attribute.set_f(static_cast<float>(value));
    }
    void operator()(const std::string& value) const {
        attribute.set_type(onnx::AttributeProto::STRING);
        attribute.set_s(value);
    }
    void operator()(const std::vector<std::int64_t>& values) const {
        attribute.set_type(onnx::AttributeProto::INTS);
        for (const std::int64_t value : values) attribute.add_ints(value);
    }
    void operator()(const std::vector<double>& values) const {
        attribute.set_type(onnx::AttributeProto::FLOATS);
        for (const double value : values) attribute.add_floats(static_cast<float>(value));
    }
    void operator()(const std::vector<std::string>& values) const {
        attribute.set_type(onnx::AttributeProto::STRINGS);
        for (const std::string& value : values) attribute.add_strings(value);
    }
};

void add_node(onnx::GraphProto& graph, const Impl::Node& made) {
    onnx::NodeProto& node = *graph.add_node();
    node.set_name(made.options.name);
    node.set_op_type(made.type);
    node.set_domain(made.options.domain);
    for (const Tensor& operand : made.operands) node.add_input(operand.name);
    for (const auto& [name, value] : made.attributes) {
        onnx::AttributeProto& attribute = *node.add_attribute();
        attribute.set_name(name);
        std::visit(SetValue{attribute}, value.value);
    }
    for (const Result& result : made.options.results) {
        node.add_output(result.name);
        if (result.name.empty() || result.dtype == DType::undefined) continue;
        set_shape(*graph.add_value_info(), result.name, result.shape, result.dtype);
    }
}

/// " Is it 'MatMul'?" for "Matmul"; "" when nothing is that close.
std::string suggested_type(const std::string& type) {
    std::vector<std::string> known;
    for (const onnx::OpSchema& schema : onnx::OpSchemaRegistry::get_all_schemas()) {
        if (schema.domain() == onnx::ONNX_DOMAIN) known.push_back(schema.Name());
    }
    return suggestion(type, known);
}

/// Of a domain that ONNX knows beside its standard, the newest version.
int opset_of(const Impl& graph, const std::string& domain) {
    if (domain.empty()) return graph.opset;
    const auto& known = onnx::OpSchemaRegistry::DomainToVersionRange::Instance().Map();
    const auto found = known.find(domain);
    return found == known.end() ? 1 : found->second.second;
}

/// An operator that nobody knows is planned by one conservative rule, but its results need shapes.
void check_known(const Impl& graph, const Impl::Node& node) {
    const std::string& domain = node.options.domain;
    if (onnx::OpSchemaRegistry::Schema(node.type, opset_of(graph, domain), domain) != nullptr)
        return;
    const bool described = std::ranges::all_of(node.options.results, [](const Result& result) {
        return result.name.empty() || result.dtype != DType::undefined;
    });
    const bool says_its_rule = std::ranges::any_of(node.attributes, [](const auto& attribute) {
        return attribute.first == graph::kStatedRule;
    });
    if (described || says_its_rule) return;
    throw InputError(fmt::format(
        "{}: op '{}' ({}): {} has no such operator.{} Correct the type, or give its results shapes "
        "(OpOptions::results) to plan it as an unknown operator, or its rule (partita_rule).",
        graph.name, node.options.name, node.type,
        domain.empty() ? fmt::format("ONNX's operator set {}", graph.opset)
                       : fmt::format("the domain '{}'", domain),
        domain.empty() ? suggested_type(node.type) : ""));
}

void add_opsets(onnx::ModelProto& model, const Impl& graph) {
    std::set<std::string> domains;
    for (const Impl::Node& node : graph.nodes) domains.insert(node.options.domain);
    domains.insert("");
    for (const std::string& domain : domains) {
        auto& opset = *model.add_opset_import();
        opset.set_domain(domain);
        opset.set_version(opset_of(graph, domain));
    }
}

}  // namespace

std::string to_onnx(const Impl& graph, const StoredValues& values) {
    if (graph.outputs.empty()) {
        throw InputError(
            fmt::format("{}: has no output. Name what it computes with output().", graph.name));
    }
    onnx::ModelProto model;
    model.set_ir_version(onnx::IR_VERSION);
    model.set_producer_name("partita");
    auto& metadata = *model.add_metadata_props();
    metadata.set_key(std::string(importers::kExactRoles));
    metadata.set_value("1");
    add_opsets(model, graph);

    onnx::GraphProto& proto = *model.mutable_graph();
    proto.set_name(graph.name);
    for (const Impl::Input& input : graph.inputs) add_input(proto, input);
    for (const Impl::Parameter& parameter : graph.parameters) {
        onnx::TensorProto& tensor = *proto.add_initializer();
        describe(tensor, parameter.name, parameter.shape, parameter.dtype);
        leave_outside(tensor, graph.name, values);
    }
    for (const Impl::Constant& constant : graph.constants) add_constant(proto, constant, values);
    for (const Impl::Node& node : graph.nodes) {
        check_known(graph, node);
        add_node(proto, node);
    }
    for (const std::string& output : graph.outputs) proto.add_output()->set_name(output);
    return model.SerializeAsString();
}

}  // namespace partita::api
