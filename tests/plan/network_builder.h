// SPDX-License-Identifier: Apache-2.0
//
// Small networks with real operators, op by op.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "graph/op_graph.h"

namespace partita::plan {

inline graph::TensorId add_source(graph::OpGraph& graph, const std::string& name,
                                  graph::TensorRole role, graph::Shape shape,
                                  graph::DType dtype = graph::DType::float32) {
    graph::Tensor tensor;
    tensor.name = name;
    tensor.shape = std::move(shape);
    tensor.role = role;
    tensor.dtype = dtype;
    return graph.add_source(std::move(tensor));
}

/// An op with one result, "NAME.out".
inline graph::TensorId add_compute(graph::OpGraph& graph, const std::string& name,
                                   const std::string& type, std::vector<graph::TensorId> operands,
                                   graph::Shape shape, graph::Attributes attributes = {},
                                   const std::string& block = {}) {
    graph::Op op;
    op.name = name;
    op.type = type;
    op.opset = 17;
    op.block = block;
    op.inputs = std::move(operands);
    op.attributes = std::move(attributes);
    graph::Tensor tensor;
    tensor.name = name + ".out";
    tensor.shape = std::move(shape);
    op.outputs = {graph.add_tensor(std::move(tensor))};
    const graph::TensorId result = op.outputs[0];
    graph.add_op(std::move(op));
    return result;
}

class NetworkBuilder {
public:
    graph::TensorId source(const std::string& name, graph::TensorRole role, graph::Shape shape,
                           graph::DType dtype = graph::DType::float32) {
        return add_source(graph, name, role, std::move(shape), dtype);
    }
    /// "w0", "w3", ...: numbered with the ops.
    graph::TensorId weight(graph::Shape shape) {
        return source("w" + std::to_string(count_++), graph::TensorRole::parameter,
                      std::move(shape));
    }
    /// An op called `type` and a number, with that many results.
    std::vector<graph::TensorId> add(const std::string& type, std::vector<graph::TensorId> operands,
                                     const std::vector<graph::Shape>& shapes,
                                     graph::Attributes attributes = {},
                                     const std::string& domain = "") {
        graph::Op op;
        op.name = type + std::to_string(count_++);
        op.type = type;
        op.domain = domain;
        op.opset = 13;
        op.inputs = std::move(operands);
        op.attributes = std::move(attributes);
        for (std::size_t i = 0; i < shapes.size(); ++i) {
            graph::Tensor tensor;
            tensor.name = op.name + ".y" + std::to_string(i);
            tensor.shape = shapes[i];
            op.outputs.push_back(graph.add_tensor(std::move(tensor)));
        }
        std::vector<graph::TensorId> results = op.outputs;
        graph.add_op(std::move(op));
        return results;
    }
    /// Everything that nobody reads becomes an output.
    void add_outputs() {
        const std::size_t tensors = graph.tensor_count();
        for (std::size_t i = 0; i < tensors; ++i) {
            const graph::TensorId t(i);
            if (graph.uses(t).empty()) graph.add_output("out" + std::to_string(i), t);
        }
    }

    graph::OpGraph graph;

private:
    int count_ = 0;
};

/// Attributes with one value.
template <class Value>
graph::Attributes attribute(const std::string& name, Value value) {
    graph::Attributes attributes;
    attributes.set(name, std::move(value));
    return attributes;
}

/// Layers of two products with a Gelu between them, x [64 32], each a block of its own:
/// layers.0, layers.1, ...
inline graph::OpGraph equal_layers(int count) {
    NetworkBuilder build;
    graph::TensorId t = build.source("x", graph::TensorRole::input, {64, 32});
    for (int i = 0; i < count; ++i) {
        const std::size_t first = build.graph.op_count();
        const graph::TensorId wide =
            build.add("MatMul", {t, build.weight({32, 128})}, {{64, 128}})[0];
        const graph::TensorId gelu = build.add("Gelu", {wide}, {{64, 128}})[0];
        t = build.add("MatMul", {gelu, build.weight({128, 32})}, {{64, 32}})[0];
        for (std::size_t op = first; op < build.graph.op_count(); ++op) {
            build.graph.op(graph::OpId(op)).block = "layers." + std::to_string(i);
        }
    }
    build.add_outputs();
    return std::move(build.graph);
}

}  // namespace partita::plan
