// SPDX-License-Identifier: Apache-2.0
//
// Short ways to build models in memory that no exporter writes, and to say how they are refused.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <onnx/onnx_pb.h>

#include "base/error.h"
#include "importers/onnx/onnx_importer.h"

namespace partita::importers {

using Names = std::vector<std::string>;
using Ints = std::vector<std::int64_t>;

inline void set_type(onnx::ValueInfoProto& info, const std::string& name, const Ints& shape,
                     int type) {
    info.set_name(name);
    auto* tensor = info.mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(type);
    tensor->mutable_shape();  // of a scalar too
    for (const std::int64_t extent : shape)
        tensor->mutable_shape()->add_dim()->set_dim_value(extent);
}

inline void add_input(onnx::GraphProto& graph, const std::string& name, const Ints& shape,
                      int type = onnx::TensorProto::FLOAT) {
    set_type(*graph.add_input(), name, shape, type);
}

inline void add_output(onnx::GraphProto& graph, const std::string& name) {
    graph.add_output()->set_name(name);
}

inline onnx::NodeProto& add_node(google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes,
                                 const std::string& type, const Names& operands,
                                 const Names& results) {
    onnx::NodeProto& node = *nodes.Add();
    node.set_op_type(type);
    for (const std::string& operand : operands) node.add_input(operand);
    for (const std::string& result : results) node.add_output(result);
    return node;
}

inline onnx::NodeProto& add_node(onnx::GraphProto& graph, const std::string& type,
                                 const Names& operands, const Names& results) {
    return add_node(*graph.mutable_node(), type, operands, results);
}

inline onnx::AttributeProto& set_int(onnx::NodeProto& node, const std::string& name,
                                     std::int64_t value) {
    onnx::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(name);
    attribute.set_type(onnx::AttributeProto::INT);
    attribute.set_i(value);
    return attribute;
}

inline onnx::AttributeProto& set_ints(onnx::NodeProto& node, const std::string& name,
                                      const Ints& values) {
    onnx::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(name);
    attribute.set_type(onnx::AttributeProto::INTS);
    for (const std::int64_t value : values) attribute.add_ints(value);
    return attribute;
}

inline onnx::GraphProto& set_graph(onnx::NodeProto& node, const std::string& name) {
    onnx::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(name);
    attribute.set_type(onnx::AttributeProto::GRAPH);
    return *attribute.mutable_g();
}

inline void add_integers(onnx::GraphProto& graph, const std::string& name, const Ints& shape,
                         const Ints& values) {
    onnx::TensorProto& tensor = *graph.add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(onnx::TensorProto::INT64);
    for (const std::int64_t extent : shape) tensor.add_dims(extent);
    for (const std::int64_t value : values) tensor.add_int64_data(value);
}

inline onnx::ModelProto empty_model(int opset = 22) {
    onnx::ModelProto model;
    model.set_ir_version(10);
    model.add_opset_import()->set_version(opset);
    model.mutable_graph()->set_name("g");
    return model;
}

/// A function `name` of domain "f" from x to y.
inline onnx::FunctionProto& add_function(onnx::ModelProto& model, const std::string& name) {
    if (model.functions_size() == 0) {
        onnx::OperatorSetIdProto& import = *model.add_opset_import();
        import.set_domain("f");
        import.set_version(1);
    }
    onnx::FunctionProto& function = *model.add_functions();
    function.set_name(name);
    function.set_domain("f");
    function.add_input("x");
    function.add_output("y");
    *function.mutable_opset_import() = model.opset_import();
    return function;
}

inline OnnxModel import_bytes(const onnx::ModelProto& model) {
    const std::string bytes = model.SerializeAsString();
    return import_onnx(std::as_bytes(std::span(bytes.data(), bytes.size())), {}, "hostile.onnx");
}

/// The message with which a model is refused, or "imported".
inline std::string refusal(const onnx::ModelProto& model) {
    try {
        (void)import_bytes(model);
    } catch (const InputError& error) {
        return error.what();
    }
    return "imported";
}

}  // namespace partita::importers
