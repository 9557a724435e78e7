// SPDX-License-Identifier: Apache-2.0
//
// A machine in the node form: its runs of equal nodes (equal_nodes.h), each as one entry. What it
// writes is read again and compared: names may follow another scheme than the form's.
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/json.h"
#include "cost/machine/equal_nodes.h"
#include "cost/machine/machine_fields.h"
#include "cost/machine/node_form.h"

namespace partita::cost {

namespace {

/// "gpu" of "gpu12", or all of it.
std::string_view without_number(std::string_view name) {
    const std::size_t last = name.find_last_not_of("0123456789");
    return last == std::string_view::npos ? name : name.substr(0, last + 1);
}

/// Texts, each with the name of the type that it has become.
class Types {
public:
    explicit Types(std::string_view prefix) : prefix_(prefix) {}

    std::string named(const std::string& figures) {
        const auto [found, is_new] =
            names_.try_emplace(figures, fmt::format("{}{}", prefix_, names_.size()));
        if (is_new) lines_.push_back(fmt::format("\"{}\": {{{}}}", found->second, figures));
        return found->second;
    }

    [[nodiscard]] std::string json(const std::string& margin) const {
        std::string list = json_lines(lines_, margin);
        list.front() = '{';
        list.back() = '}';
        return list;
    }

private:
    std::string_view prefix_;
    std::map<std::string, std::string> names_;
    std::vector<std::string> lines_;
};

class NodeFormWriter {
public:
    NodeFormWriter(const Machine& machine, std::vector<NodeRun> runs, int indent)
        : machine_(machine), runs_(std::move(runs)), indent_(indent) {}

    std::string run() {
        std::vector<std::string> nodes;
        for (const NodeRun& run : runs_) nodes.push_back(node_json(run));
        const std::string margin(static_cast<std::size_t>(indent_), ' ');
        return fmt::format(
            "{}{} \"device_types\": {},\n"
            "{} \"link_types\": {},\n"
            "{} \"switches\": {},\n"
            "{} \"nodes\": {}}}",
            machine_head_json(machine_, indent_), margin, device_types_.json(margin), margin,
            link_types_.json(margin), margin,
            json_lines(switches_json(machine_, 0, runs_.front().first_switch), margin), margin,
            json_lines(nodes, margin));
    }

private:
    std::string node_json(const NodeRun& run) {
        const std::string& first = machine_.device(run.first_device).name;
        const std::size_t slash = first.find('/');
        const bool alone = slash == std::string::npos;
        const std::string_view name =
            alone ? "node" : without_number(std::string_view(first).substr(0, slash));
        prefix_ = alone ? 0 : slash + 1;
        std::vector<std::string> links;
        for (const Link& link : machine_.links().subspan(static_cast<std::size_t>(run.first_link),
                                                         static_cast<std::size_t>(run.links))) {
            links.push_back(fmt::format(R"({{"from": {}, "to": {}, "type": "{}"}})",
                                        end_json(link.from), end_json(link.to),
                                        link_types_.named(figures_json(link))));
        }
        return fmt::format(
            R"({{"name": {}, "count": {}, "devices": [{}], "switches": [{}], "links": [{}]}})",
            json_quoted(name), run.count, fmt::join(groups_json(run), ", "),
            fmt::join(switches_json(machine_, run.first_switch, run.switches, prefix_), ", "),
            fmt::join(links, ", "));
    }

    /// Devices of one type and name that follow one another.
    std::vector<std::string> groups_json(const NodeRun& run) {
        std::vector<std::string> groups;
        for (int i = 0; i < run.devices;) {
            const Device& device = machine_.device(run.first_device + i);
            const std::string figures = figures_json(device);
            const std::string_view name = without_number(own_name(device.name));
            int count = 0;
            for (; i < run.devices; ++i, ++count) {
                const Device& next = machine_.device(run.first_device + i);
                if (without_number(own_name(next.name)) != name) break;
                if (figures_json(next) != figures) break;
            }
            groups.push_back(fmt::format(R"({{"name": {}, "count": {}, "type": "{}"}})",
                                         json_quoted(name), count, device_types_.named(figures)));
        }
        return groups;
    }

    [[nodiscard]] std::string_view own_name(std::string_view name) const {
        return name.substr(std::min(prefix_, name.size()));
    }

    [[nodiscard]] std::string end_json(int vertex) const {
        const bool shared = vertex >= machine_.device_count() &&
                            vertex - machine_.device_count() < runs_.front().first_switch;
        const std::string& name = machine_.vertex_name(vertex);
        return json_quoted(shared ? "/" + name : std::string(own_name(name)));
    }

    const Machine& machine_;
    std::vector<NodeRun> runs_;
    int indent_;
    std::size_t prefix_ = 0;  ///< of the names in the node at hand
    Types device_types_{"device"};
    Types link_types_{"link"};
};

}  // namespace

std::optional<std::string> node_form_json(const Machine& machine, int indent) {
    std::vector<NodeRun> runs =
        runs_of_nodes(machine.devices(), machine.switches(), machine.links());
    if (runs.empty()) return std::nullopt;
    std::string json = NodeFormWriter(machine, std::move(runs), indent).run();
    try {
        if (digest(parse_machine(json, machine.name())) != digest(machine)) return std::nullopt;
    } catch (const InputError&) {
        return std::nullopt;
    }
    return json;
}

}  // namespace partita::cost
