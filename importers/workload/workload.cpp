// SPDX-License-Identifier: Apache-2.0
#include "importers/workload/workload.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/files.h"
#include "base/json.h"

namespace partita::importers {

namespace {

constexpr double kMostMilliseconds = 1e9;
constexpr double kMostBytes = 0x1p60;
constexpr double kCostTolerance = 1e-6;
constexpr int kMostDevices = 4'096;
constexpr std::size_t kMostIdsInMessage = 10;

struct Node {
    graph::GivenCosts costs;
    std::optional<double> cost_of_edges;  ///< milliseconds, of the first edge
    Bytes result;                         ///< largest "size" of its edges
    std::vector<std::size_t> from;        ///< nodes, in order of the edges
    std::vector<std::size_t> to;
};

/// Sorted by id; an index into it stands for a node.
using Nodes = std::vector<Node>;

std::int64_t read_id(const JsonField& field) {
    return field.integer(std::numeric_limits<std::int64_t>::min(),
                         std::numeric_limits<std::int64_t>::max(), {"an id, a whole number"});
}

double read_milliseconds(const JsonField& field) {
    return field.number(0, kMostMilliseconds, {"milliseconds from 0 to 10^9"});
}

double read_bytes(const JsonField& field) {
    return field.number(0, kMostBytes, {"bytes from 0 to 2^60"});
}

/// Memory of a node counts in full; 0 when the file does not say.
Bytes read_size(const JsonField& field) {
    if (!field.present()) return Bytes{0};
    return Bytes(static_cast<std::int64_t>(std::ceil(read_bytes(field))));
}

/// true, false, 1 or 0.
bool read_flag(const JsonField& field, bool fallback) {
    if (!field.present()) return fallback;
    if (!field.is_number()) return field.boolean();
    return field.integer(0, 1, {"true, false, 1 or 0"}) == 1;
}

graph::GivenCosts read_costs(const JsonField& field) {
    graph::GivenCosts costs;
    costs.id = read_id(field["id"]);
    costs.on_accelerator = read_flag(field["supportedOnFpga"], true);
    costs.cpu_time = time_from_milliseconds(read_milliseconds(field["cpuLatency"]));
    if (costs.on_accelerator || field["fpgaLatency"].present()) {
        costs.accelerator_time = time_from_milliseconds(read_milliseconds(field["fpgaLatency"]));
    }
    costs.memory = read_size(field["size"]);
    costs.backward = read_flag(field["isBackwardNode"], false);
    const JsonField color = field["colorClass"];
    if (color.present() && !color.is_null()) costs.color_class = read_id(color);
    return costs;
}

/// An error in a node is named by its index and, as soon as it is known, its id.
Nodes read_nodes(const JsonField& list) {
    Nodes nodes;
    std::map<std::int64_t, std::string> seen;
    for (const JsonField& field : list.items()) {
        const JsonField id = field["id"];
        const std::int64_t value = read_id(id);
        const auto [first, is_new] = seen.emplace(value, field.place());
        if (!is_new) {
            id.reject(fmt::format("the id {} already belongs to {}. Give each node its own.", value,
                                  first->second));
        }
        nodes.emplace_back().costs = read_costs(field.called(fmt::format("(id {})", value)));
    }
    std::ranges::sort(nodes, {}, [](const Node& node) { return node.costs.id; });
    return nodes;
}

std::size_t read_end(const JsonField& field, const Nodes& nodes) {
    const std::int64_t id = read_id(field);
    const auto found =
        std::ranges::lower_bound(nodes, id, {}, [](const Node& node) { return node.costs.id; });
    if (found == nodes.end() || found->costs.id != id) field.fail({"the id of a node"});
    return static_cast<std::size_t>(found - nodes.begin());
}

void read_edges(const JsonField& list, Nodes& nodes) {
    std::set<std::pair<std::size_t, std::size_t>> seen;
    for (const JsonField& field : list.items()) {
        const std::size_t source = read_end(field["sourceId"], nodes);
        const std::size_t target = read_end(field["destId"], nodes);
        Node& from = nodes[source];
        Node& to = nodes[target];
        const auto refuse = [&](std::string_view reason) {
            field.reject(fmt::format("edge {} -> {} {}", from.costs.id, to.costs.id, reason));
        };
        if (!seen.emplace(source, target).second) refuse("stands twice. Remove one.");
        if (from.costs.backward && !to.costs.backward) {
            refuse("goes from a backward to a forward node. Correct isBackwardNode.");
        }
        const double cost = read_milliseconds(field["cost"]);
        if (!from.cost_of_edges) from.cost_of_edges = cost;
        if (std::abs(cost - *from.cost_of_edges) > kCostTolerance) {
            field["cost"].fail({fmt::format("{} as on the first edge out of node {}",
                                            json_number(*from.cost_of_edges), from.costs.id)});
        }
        from.result = std::max(from.result, read_size(field["size"]));
        from.to.push_back(target);
        to.from.push_back(source);
    }
}

/// Names a cycle among the nodes that are left over, starting with its smallest id.
[[noreturn]] void refuse_cycle(const Nodes& nodes, const std::vector<std::size_t>& waiting,
                               const JsonField& edges) {
    // Every node left has a predecessor that is left: walking backwards must meet itself.
    const auto left = [&](std::size_t node) { return waiting[node] > 0; };
    std::size_t node = 0;
    while (!left(node)) ++node;
    std::vector<std::size_t> position(nodes.size(), nodes.size());
    std::vector<std::size_t> walk;
    while (position[node] == nodes.size()) {
        position[node] = walk.size();
        walk.push_back(node);
        node = *std::ranges::find_if(nodes[node].from, left);
    }
    std::vector<std::int64_t> cycle;
    for (std::size_t i = position[node]; i < walk.size(); ++i) {
        cycle.push_back(nodes[walk[i]].costs.id);
    }
    std::ranges::reverse(cycle);
    std::ranges::rotate(cycle, std::ranges::min_element(cycle));
    const std::int64_t first = cycle.front();
    const bool shortened = cycle.size() > kMostIdsInMessage;
    if (shortened) cycle.resize(kMostIdsInMessage);
    edges.reject(fmt::format("cycle {}{} -> {}. Remove one of its edges.", fmt::join(cycle, " -> "),
                             shortened ? " -> ..." : "", first));
}

/// What all nodes take and send together stays in the range of Time, with room for searchers to add
/// up.
void check_total(const Nodes& nodes, const JsonField& field) {
    double total = 0;
    double most = -1;
    std::int64_t id = 0;
    for (const Node& node : nodes) {
        const double own = to_milliseconds(node.costs.cpu_time) +
                           to_milliseconds(node.costs.accelerator_time) +
                           node.cost_of_edges.value_or(0);
        total += own;
        if (own <= most) continue;
        most = own;
        id = node.costs.id;
    }
    if (total <= kMostMilliseconds) return;
    field.reject(fmt::format(
        "cpuLatency, fpgaLatency and cost of all nodes come to {:.3g} milliseconds, most of it "
        "from node {}; expected 10^9 at most. Correct them.",
        total, id));
}

/// Indices in topological order; among the nodes that are ready the smallest id comes first.
std::vector<std::size_t> sorted(const Nodes& nodes, const JsonField& edges) {
    std::vector<std::size_t> waiting;
    std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        waiting.push_back(nodes[i].from.size());
        if (waiting[i] == 0) ready.push(i);
    }
    std::vector<std::size_t> order;
    while (!ready.empty()) {
        const std::size_t node = ready.top();
        ready.pop();
        order.push_back(node);
        for (const std::size_t next : nodes[node].to) {
            if (--waiting[next] == 0) ready.push(next);
        }
    }
    if (order.size() < nodes.size()) refuse_cycle(nodes, waiting, edges);
    return order;
}

void add_node(const Node& node, const std::vector<graph::TensorId>& results,
              graph::OpGraph& graph) {
    graph::Op op;
    op.name = fmt::to_string(node.costs.id);
    op.type = "Given";
    op.domain = "partita";
    op.given = node.costs;
    if (node.cost_of_edges) {
        op.given->communication_time = time_from_milliseconds(*node.cost_of_edges);
    }
    for (const std::size_t source : node.from) op.inputs.push_back(results[source]);
    graph::Tensor result;
    result.name = op.name;
    result.given_bytes = node.result;
    op.outputs.push_back(graph.add_tensor(std::move(result)));
    graph.add_op(std::move(op));
}

int read_count(const JsonField& field) {
    return static_cast<int>(field.integer(0, kMostDevices, {"a count from 0 to 4096"}));
}

}  // namespace

WorkloadModel parse_workload(std::string_view json, const std::string& name) {
    const JsonFile file(json, name);
    const JsonField root = file.root();
    WorkloadModel model;
    model.graph.name = name;
    model.accelerators = read_count(root["maxFPGAs"]);
    model.cpus = read_count(root["maxCPUs"]);
    if (model.accelerators + model.cpus < 1 || model.accelerators + model.cpus > kMostDevices) {
        root["maxFPGAs"].reject(
            fmt::format("expected 1 to {} devices together with maxCPUs, got "
                        "{}. Correct it.",
                        kMostDevices, model.accelerators + model.cpus));
    }
    model.accelerator_memory = Bytes(static_cast<std::int64_t>(read_bytes(root["maxSizePerFPGA"])));

    Nodes nodes = read_nodes(root["nodes"]);
    read_edges(root["edges"], nodes);
    check_total(nodes, root["nodes"]);
    std::vector<graph::TensorId> results(nodes.size());
    for (const std::size_t i : sorted(nodes, root["edges"])) {
        results[i] = graph::TensorId(model.graph.tensor_count());
        add_node(nodes[i], results, model.graph);
    }
    return model;
}

WorkloadModel import_workload(const std::filesystem::path& file) {
    return parse_workload(read_text_file(file), file.string());
}

std::vector<std::vector<graph::OpId>> color_classes(const graph::OpGraph& graph) {
    std::map<std::int64_t, std::vector<graph::OpId>> classes;
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        const auto& given = graph.ops()[i].given;
        if (given && given->color_class) classes[*given->color_class].emplace_back(i);
    }
    std::vector<std::vector<graph::OpId>> together;
    for (auto& [color, ops] : classes) {
        if (ops.size() > 1) together.push_back(std::move(ops));
    }
    return together;
}

}  // namespace partita::importers
