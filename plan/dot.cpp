// SPDX-License-Identifier: Apache-2.0
#include "plan/dot.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

namespace partita::plan {
namespace {

using graph::OpId;
using graph::OpKind;

/// A quoted Graphviz string; a newline in a name would end a line of the label.
std::string quoted(std::string_view text) {
    std::string result = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') result += '\\';
        if (c == '\n' || c == '\r') {
            result += ' ';
        } else {
            result += c;
        }
    }
    return result + "\"";
}

/// Hues a golden angle apart: neighbours differ, and any number of devices gets its own.
std::string colour(int device) {
    constexpr double kGoldenRatio = 0.6180339887498949;
    const double turns = 0.58 + static_cast<double>(device) * kGoldenRatio;
    return fmt::format("{:.3f} 0.35 0.95", turns - static_cast<double>(static_cast<int>(turns)));
}

bool is_shown(const graph::Op& op) {
    return op.kind != OpKind::parameter && op.kind != OpKind::constant;
}

std::string node_of(const ExportInput& input, OpId id) {
    const graph::Op& op = input.problem.graph().op(id);
    const int device = input.strategy.device_of(id);
    const int parts = input.strategy.config(id).devices.size();
    const std::string& name = input.problem.machine().device(device).name;
    const std::string where =
        parts == 1 ? " on " + name : fmt::format(" in {} parts from {} on", parts, name);
    const bool end = op.kind == OpKind::input || op.kind == OpKind::output;
    return fmt::format("    op{} [label={}, tooltip={}, shape={}, fillcolor=\"{}\"];\n", id.value,
                       quoted(end ? op.name : op.type), quoted(op.name + where),
                       end ? "ellipse" : "box", colour(device));
}

std::string legend(const ExportInput& input, const std::set<int>& devices) {
    std::string text = "    subgraph cluster_devices {\n    label=\"devices\";\n";
    for (const int device : devices) {
        text += fmt::format("    device{} [label={}, shape=box, fillcolor=\"{}\"];\n", device,
                            quoted(input.problem.machine().device(device).name), colour(device));
    }
    return text + "    }\n";
}

}  // namespace

std::string dot(const ExportInput& input) {
    const graph::OpGraph& graph = input.problem.graph();
    std::map<std::string, std::string> blocks;  // by name: nodes
    std::set<int> devices;
    std::string edges;
    for (std::uint32_t index = 0; index < graph.op_count(); ++index) {
        const OpId id(index);
        const graph::Op& op = graph.op(id);
        if (!is_shown(op)) continue;
        blocks[op.block] += node_of(input, id);
        const DeviceSet& of = input.strategy.config(id).devices;
        for (int part = 0; part < of.size(); ++part) devices.insert(of[part]);
        for (const OpId next : graph.successors(id)) {
            edges += fmt::format("    op{} -> op{};\n", id.value, next.value);
        }
    }

    std::string text = fmt::format(
        "digraph {} {{\n    rankdir=TB;\n    node [style=filled, fontname=\"Helvetica\"];\n",
        quoted(graph.name));
    text += legend(input, devices);
    int cluster = 0;
    for (const auto& [block, nodes] : blocks) {
        if (block.empty()) {
            text += nodes;
            continue;
        }
        text += fmt::format("    subgraph cluster_{} {{\n    label={};\n{}    }}\n", cluster++,
                            quoted(block), nodes);
    }
    return text + edges + "}\n";
}

}  // namespace partita::plan
