// SPDX-License-Identifier: Apache-2.0
//
// The models of tests/data/onnx, and short ways to name what they hold.
#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "importers/onnx/onnx_importer.h"
#include "tests/support/paths.h"

namespace partita::importers {

inline const std::filesystem::path kSource = tests::repository();

inline OnnxModel fixture(const std::string& name, const OnnxOptions& options = {}) {
    return import_onnx(kSource / "tests/data/onnx" / (name + ".onnx"), options);
}

inline const graph::Op& op(const graph::OpGraph& graph, const std::string& name) {
    const auto id = graph.find_op(name);
    if (!id) throw std::runtime_error("no op '" + name + "'");
    return graph.op(*id);
}

inline const graph::Tensor& result(const graph::OpGraph& graph, const std::string& name,
                                   std::size_t i = 0) {
    return graph.tensor(op(graph, name).outputs.at(i));
}

inline std::vector<std::string> names(const graph::OpGraph& graph, graph::OpKind kind) {
    std::vector<std::string> found;
    for (const graph::Op& op : graph.ops()) {
        if (op.kind == kind) found.push_back(op.name);
    }
    return found;
}

}  // namespace partita::importers
