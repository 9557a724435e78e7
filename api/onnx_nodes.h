// SPDX-License-Identifier: Apache-2.0
//
// Nodes of a model's ONNX file and the ops that they became, found by the names of their results.
#pragma once

#include <optional>
#include <string_view>
#include <unordered_map>

#include <onnx/onnx_pb.h>

#include "graph/op_graph.h"

namespace partita::api {

class OnnxNodes {
public:
    /// The graph must outlive it.
    explicit OnnxNodes(const graph::OpGraph& graph) : graph_(graph) {
        for (std::size_t t = 0; t < graph.tensors().size(); ++t) {
            tensors_.emplace(graph.tensors()[t].name, graph::TensorId(t));
        }
    }

    [[nodiscard]] std::optional<graph::TensorId> tensor(std::string_view name) const {
        const auto known = tensors_.find(name);
        return known == tensors_.end() ? std::nullopt : std::optional(known->second);
    }

    /// nullopt: the node is no op, such as one that was evaluated, or is part of another.
    [[nodiscard]] std::optional<graph::OpId> op(const onnx::NodeProto& node) const {
        for (const std::string& output : node.output()) {
            const auto made = output.empty() ? std::nullopt : tensor(output);
            if (!made) continue;
            const graph::OpId producer = graph_.tensor(*made).producer;
            const bool computes = graph_.op(producer).kind == graph::OpKind::compute;
            return computes ? std::optional(producer) : std::nullopt;
        }
        return std::nullopt;
    }

private:
    const graph::OpGraph& graph_;
    std::unordered_map<std::string_view, graph::TensorId> tensors_;  ///< by name
};

}  // namespace partita::api
