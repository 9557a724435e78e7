// SPDX-License-Identifier: Apache-2.0
//
// What a Graph holds: what was said, in the order in which it was said. Turned into an ONNX model
// (graph_to_onnx.h), it goes through the importer like any other.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include <partita/graph.h>

namespace partita {

struct Graph::Impl {
    struct Input {
        std::string name;
        Shape shape;
        InputOptions options;
    };
    struct Parameter {
        std::string name;
        Shape shape;
        DType dtype = DType::float32;
    };
    struct Constant {
        std::string name;
        Shape shape;
        DType dtype = DType::float32;
        std::vector<std::int64_t> values;  ///< of integers() and integer(); else empty
        bool known = false;                ///< whether `values` says anything
    };
    struct Node {
        std::string type;
        std::vector<Tensor> operands;
        Attributes attributes;
        OpOptions options;  ///< name and results filled in
    };

    std::string name;
    int opset = 0;
    std::vector<Input> inputs;
    std::vector<Parameter> parameters;
    std::vector<Constant> constants;
    std::vector<Node> nodes;
    std::vector<std::string> outputs;
    std::unordered_set<std::string> tensor_names;
    std::unordered_set<std::string> op_names;
};

}  // namespace partita
