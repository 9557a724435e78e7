// SPDX-License-Identifier: Apache-2.0
#include "plan/exporters/dot.h"

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
std::string dot_quoted(std::string_view text) {
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

/// More devices than that cannot be told apart in one node.
constexpr int kMostStripes = 8;
constexpr const char* kManyDevices = "0 0 0.85";

/// A stripe per device of a split op, or one grey.
std::string fill(const DeviceSet& devices) {
    if (devices.size() > kMostStripes) return kManyDevices;
    std::string colours;
    for (int part = 0; part < devices.size(); ++part) {
        colours += (part == 0 ? "" : ":") + colour(devices[part]);
    }
    return colours;
}

bool is_shown(const graph::Op& op) {
    return op.kind != OpKind::parameter && op.kind != OpKind::constant;
}

/// "on gpu0", "split n 2, k 4 on 8 devices: gpu0 gpu1 ...".
std::string place_of(const ExportInput& input, OpId op) {
    const OpConfig& config = input.strategy.config(op);
    const auto name = [&](int part) -> const std::string& {
        return input.problem.machine().device(config.devices[part]).name;
    };
    const int parts = config.devices.size();
    if (parts == 1) return "on " + name(0);
    std::string text = "split";
    for (const Axis& axis : config.axes) {
        text += fmt::format("{}{} {}", &axis == config.axes.data() ? " " : ", ",
                            name_of(input.problem.facts().rule(op), axis), axis.degree);
    }
    text += fmt::format(" on {} devices:", parts);
    for (int part = 0; part < std::min(parts, kMostStripes); ++part) text += ' ' + name(part);
    return parts > kMostStripes ? text + " ..." : text;
}

std::string node_of(const ExportInput& input, OpId id) {
    const graph::Op& op = input.problem.graph().op(id);
    const OpConfig& config = input.strategy.config(id);
    const int parts = config.devices.size();
    const bool end = op.kind == OpKind::input || op.kind == OpKind::output;
    // Ops with given costs are all of one type.
    std::string label = end || op.given ? op.name : op.type;
    if (parts > 1) label += fmt::format(" x{}", parts);
    const bool striped = parts > 1 && parts <= kMostStripes;
    return fmt::format("    op{} [label={}, tooltip={}, shape={}, fillcolor=\"{}\"{}];\n", id.value,
                       dot_quoted(label), dot_quoted(op.name + ' ' + place_of(input, id)),
                       end ? "ellipse" : "box", fill(config.devices),
                       !striped ? ""
                       : end    ? ", style=wedged"
                                : ", style=striped");
}

std::string legend(const ExportInput& input, const std::set<int>& devices, bool has_grey) {
    std::string text = "    subgraph cluster_devices {\n    label=\"devices\";\n";
    for (const int device : devices) {
        text +=
            fmt::format("    device{} [label={}, shape=box, fillcolor=\"{}\"];\n", device,
                        dot_quoted(input.problem.machine().device(device).name), colour(device));
    }
    if (has_grey) {
        text += fmt::format("    many [label=\"more than {} devices\", fillcolor=\"{}\"];\n",
                            kMostStripes, kManyDevices);
    }
    return text + "    }\n";
}

}  // namespace

std::string dot(const ExportInput& input) {
    const graph::OpGraph& graph = input.problem.graph();
    std::map<std::string, std::string> blocks;  // by name: nodes
    std::set<int> devices;
    bool has_grey = false;
    std::string edges;
    for (std::uint32_t index = 0; index < graph.op_count(); ++index) {
        const OpId id(index);
        const graph::Op& op = graph.op(id);
        if (!is_shown(op)) continue;
        blocks[op.block] += node_of(input, id);
        const DeviceSet& of = input.strategy.config(id).devices;
        for (int part = 0; part < of.size(); ++part) devices.insert(of[part]);
        has_grey = has_grey || of.size() > kMostStripes;
        for (const OpId next : graph.successors(id)) {
            edges += fmt::format("    op{} -> op{};\n", id.value, next.value);
        }
    }

    std::string text = fmt::format(
        "digraph {} {{\n    rankdir=TB;\n    node [style=filled, fontname=\"Helvetica\"];\n",
        dot_quoted(graph.name));
    text += legend(input, devices, has_grey);
    int cluster = 0;
    for (const auto& [block, nodes] : blocks) {
        if (block.empty()) {
            text += nodes;
            continue;
        }
        text += fmt::format("    subgraph cluster_{} {{\n    label={};\n{}    }}\n", cluster++,
                            dot_quoted(block), nodes);
    }
    return text + edges + "}\n";
}

}  // namespace partita::plan
