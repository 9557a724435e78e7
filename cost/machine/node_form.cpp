// SPDX-License-Identifier: Apache-2.0
#include "cost/machine/node_form.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "cost/machine/machine_fields.h"

namespace partita::cost {

namespace {

struct Group {
    std::string name;
    int count = 0;  ///< that are made
    int listed = 0;
    const Device* figures = nullptr;
};

struct NodeLink {
    JsonField from;
    JsonField to;
    const Link* figures = nullptr;
};

/// Devices each of which has a link to the next one along every axis.
struct Torus {
    std::vector<int> extents;  ///< the last axis fastest
    const Link* figures = nullptr;
    // The last device of an axis has a link to the first:
    int least_of_each = 1;  ///< where the axis is as long as this
    int least_of_all = 1;   ///< and where all axes are as long as this

    [[nodiscard]] bool closes(int extent) const {
        return extent > 2 && extent >= least_of_each && std::ranges::min(extents) >= least_of_all;
    }
};

struct NodeKind {
    std::string name;
    int count = 0;
    std::vector<Group> groups{};
    std::vector<SwitchFigures> switches{};
    std::vector<NodeLink> links{};
    std::optional<Torus> torus{};
};

/// The vertices that an end names: none when the size left them out.
struct End {
    std::vector<int> vertices{};
    bool group = false;
};

/// What the whole file describes; device and link figures live in maps, whose nodes never move.
struct Description {
    std::string name;
    std::map<std::string, Device> device_types{};
    std::map<std::string, Link> link_types{};
    std::vector<SwitchFigures> switches{};
    MachineCollectives collectives{};  ///< reducing switches are found while expanding
    std::vector<NodeKind> nodes{};
};

template <class Type>
const Type* find_type(const std::map<std::string, Type>& types, const JsonField& field,
                      std::string_view where) {
    const auto found = types.find(field.text({"the name of a type"}, 200));
    if (found == types.end()) {
        field.fail({fmt::format("a type listed in {}", where), "Add the type there."});
    }
    return &found->second;
}

std::vector<SwitchFigures> read_switches(const JsonField& field) {
    std::vector<SwitchFigures> switches;
    if (!field.present()) return switches;
    for (const JsonField& item : field.items()) switches.push_back(read_switch(item));
    return switches;
}

int read_count(const JsonField& field) {
    if (!field.present()) return 1;
    return static_cast<int>(field.integer(1, kMostDevices, {"a count from 1 to 65536"}));
}

/// kMostDevices + 1: they are more than a machine may have.
int devices_of(const std::vector<int>& extents) {
    std::int64_t devices = 1;
    for (const int extent : extents)
        devices = std::min<std::int64_t>(devices * extent, kMostDevices + 1);
    return static_cast<int>(devices);
}

constexpr std::string_view kTooMany = "are more than 65536 devices. Write smaller extents.";

Torus read_torus(const JsonField& field, const Description& known) {
    field.allow_only({"extents", "type", "closed"});
    Torus torus{.extents = read_extents(field["extents"]),
                .figures = find_type(known.link_types, field["type"], "link_types")};
    if (devices_of(torus.extents) > kMostDevices) field["extents"].reject(kTooMany);
    const JsonField closed = field["closed"];
    if (!closed.present()) return torus;
    closed.allow_only({"each", "all"});
    const auto least = [&](const char* which) {
        return closed[which].present() ? static_cast<int>(closed[which].integer(
                                             1, kMostDevices, {"an extent from 1 to 65536"}))
                                       : 1;
    };
    torus.least_of_each = least("each");
    torus.least_of_all = least("all");
    return torus;
}

NodeKind read_node(const JsonField& field, const Description& known) {
    field.allow_only({"name", "count", "devices", "switches", "links", "torus"});
    NodeKind node{.name = read_name(field["name"]), .count = read_count(field["count"])};
    for (const JsonField& item : field["devices"].items()) {
        item.allow_only({"name", "count", "type"});
        const int count = read_count(item["count"]);
        node.groups.push_back(
            {.name = read_name(item["name"]),
             .count = count,
             .listed = count,
             .figures = find_type(known.device_types, item["type"], "device_types")});
    }
    if (field["torus"].present()) {
        if (node.groups.size() != 1)
            field["torus"].reject("needs one entry in devices. Remove it.");
        node.torus = read_torus(field["torus"], known);
        const JsonField count = field["devices"].items().front()["count"];
        if (count.present()) count.reject("follows from the torus. Remove it.");
        node.groups[0].count = node.groups[0].listed = devices_of(node.torus->extents);
    }
    node.switches = read_switches(field["switches"]);
    if (!field["links"].present()) return node;
    for (const JsonField& item : field["links"].items()) {
        item.allow_only({"from", "to", "type"});
        node.links.push_back(
            {item["from"], item["to"], find_type(known.link_types, item["type"], "link_types")});
    }
    return node;
}

Description read_description(const JsonField& root) {
    // plan.json embeds a machine together with its digest.
    root.allow_only({"format", "version", "name", "summary", "provider", "digest", "sizes",
                     "collectives", "torus", "device_types", "link_types", "switches", "nodes"});
    Description description{.name = read_name(root["name"])};
    description.collectives = read_collectives(root["collectives"]);
    description.collectives.torus = read_extents(root["torus"]);
    for (const std::string& name : root["device_types"].keys()) {
        const JsonField field = root["device_types"][name];
        field.allow_only({}, kDeviceFigures);
        description.device_types.emplace(name, read_device_figures(field));
    }
    if (root["link_types"].present()) {
        for (const std::string& name : root["link_types"].keys()) {
            const JsonField field = root["link_types"][name];
            field.allow_only({}, kLinkFigures);
            description.link_types.emplace(name, read_link_figures(field));
        }
    }
    description.switches = read_switches(root["switches"]);
    for (const JsonField& field : root["nodes"].items()) {
        description.nodes.push_back(read_node(field, description));
    }
    return description;
}

int device_count(const NodeKind& node) {
    std::int64_t count = 0;
    for (const Group& group : node.groups) count += group.count;
    return static_cast<int>(std::min<std::int64_t>(count, kMostDevices + 1));
}

/// Keeps the first `kept` devices of a node.
void shrink(NodeKind& node, int kept) {
    for (Group& group : node.groups) {
        group.count = std::min(group.count, kept);
        kept -= group.count;
    }
}

constexpr std::string_view kSizes = R"("nodes", "devices" or "torus")";

std::string text_of(const MachineSize& size) {
    return fmt::format("{}", fmt::join(size.numbers, "x"));
}

/// "2": so many nodes; "2x4": of so many devices each.
void resize_nodes(NodeKind& node, const std::string& name, const MachineSize& size) {
    node.count = size.numbers[0];
    if (size.numbers.size() == 1) return;
    const int devices = device_count(node);
    if (size.numbers[1] > devices) {
        throw UsageError(fmt::format(
            "machine '{0}': its nodes have {1} devices, got {2}. Write at most {0}:{3}x{1}.", name,
            devices, size.numbers[1], size.numbers[0]));
    }
    shrink(node, size.numbers[1]);
}

/// "4x8": extents of the torus.
void resize_torus(NodeKind& node, const std::string& name, const MachineSize& size) {
    if (size.numbers.size() != node.torus->extents.size()) {
        throw UsageError(fmt::format(
            "machine '{0}': expected {1} extents, got {2}. Write them as {0}:{3}.", name,
            node.torus->extents.size(), text_of(size), fmt::join(node.torus->extents, "x")));
    }
    if (devices_of(size.numbers) > kMostDevices)
        throw UsageError(fmt::format("machine '{}': {} {}", name, text_of(size), kTooMany));
    node.torus->extents = size.numbers;
    node.groups[0].count = node.groups[0].listed = devices_of(size.numbers);
}

/// Applies the size; the file's "sizes" says what its first number counts.
void resize(Description& description, const JsonField& sizes, const MachineSize& size) {
    const std::string unit = sizes.present() ? sizes.text({kSizes}) : std::string("none");
    if (sizes.present() && unit != "nodes" && unit != "devices" && unit != "torus") {
        sizes.fail({kSizes});
    }
    const bool one_kind = description.nodes.size() == 1;
    if (sizes.present() && (!one_kind || description.nodes[0].groups.size() != 1)) {
        sizes.reject("needs one entry in nodes with one in devices. Remove it.");
    }
    if (unit == "torus" && !description.nodes[0].torus) {
        sizes.reject("needs a torus in nodes. Remove it.");
    }
    if (!size.given()) return;
    const std::string& name = description.name;
    if (!sizes.present()) {
        throw UsageError(fmt::format("machine '{0}' has one size only. Write {0}.", name));
    }
    NodeKind& node = description.nodes[0];
    if (unit == "torus") {
        resize_torus(node, name, size);
    } else if (unit == "devices") {
        if (size.numbers.size() > 1) {
            throw UsageError(fmt::format(
                "machine '{0}' has one node. Write the number of devices, e.g. {0}:2.", name));
        }
        node.groups[0].count = node.groups[0].listed = size.numbers[0];
    } else {
        if (size.numbers.size() > 2) {
            throw UsageError(
                fmt::format("machine '{0}': expected a number of nodes, or nodes x devices, got "
                            "{1}. Write e.g. {0}:2 or {0}:2x4.",
                            name, text_of(size)));
        }
        resize_nodes(node, name, size);
    }
    description.name += ":" + text_of(size);
}

/// Refuses a machine that is too large before anything of it is made.
void check_size(const Description& description, const JsonField& nodes, const MachineSize& size) {
    std::int64_t devices = 0;
    auto switches = static_cast<std::int64_t>(description.switches.size());
    for (const NodeKind& node : description.nodes) {
        devices += std::int64_t{node.count} * device_count(node);
        switches += node.count * static_cast<std::int64_t>(node.switches.size());
    }
    if (devices < 1) nodes.reject("there are no devices. Add at least one.");
    if (devices <= kMostDevices && switches <= kMostSwitches) return;
    const std::string message =
        fmt::format("{} devices and {} switches. A machine has at most {} of each.", devices,
                    switches, kMostDevices);
    if (size.given()) throw UsageError(fmt::format("machine '{}': {}", description.name, message));
    nodes.reject(message);
}

class Expansion {
public:
    explicit Expansion(const Description& description)
        : description_(description), collectives_(description.collectives) {}

    MachineParts run(const JsonField& nodes_field) {
        make_vertices();
        int first_device = 0;
        auto first_switch = static_cast<int>(devices_.size() + description_.switches.size());
        for (const NodeKind& node : description_.nodes) {
            if (node.torus) take_torus(node.torus->extents, nodes_field);
            for (int i = 0; i < node.count; ++i) {
                if (node.torus) make_torus(*node.torus, first_device, nodes_field);
                make_links(node, first_device, first_switch, nodes_field);
                first_device += device_count(node);
                first_switch += static_cast<int>(node.switches.size());
            }
        }
        return {description_.name, std::move(devices_), std::move(switches_), std::move(links_),
                std::move(collectives_)};
    }

private:
    void make_vertices() {
        for (const SwitchFigures& each : description_.switches) add_switch("", each);
        int nodes = 0;
        for (const NodeKind& node : description_.nodes) nodes += node.count;
        std::map<std::string, int> next_number;
        int node_id = 0;
        for (const NodeKind& node : description_.nodes) {
            for (int i = 0; i < node.count; ++i, ++node_id) {
                const int number = next_number[node.name]++;
                const std::string prefix =
                    nodes > 1 ? fmt::format("{}{}/", node.name, number) : std::string();
                for (const Group& group : node.groups) {
                    for (int d = 0; d < group.count; ++d) {
                        Device device = *group.figures;
                        device.name = fmt::format("{}{}{}", prefix, group.name, d);
                        device.node = node_id;
                        devices_.push_back(std::move(device));
                    }
                }
                for (const SwitchFigures& each : node.switches) add_switch(prefix, each);
            }
        }
    }

    void add_switch(const std::string& prefix, const SwitchFigures& figures) {
        if (figures.reduces) {
            collectives_.reducing_switches.push_back(static_cast<int>(switches_.size()));
        }
        switches_.push_back(prefix + figures.name);
    }

    void add_link(const Link& figures, int from, int to, const JsonField& nodes_field) {
        if (links_.size() == static_cast<std::size_t>(kMostLinks)) {
            nodes_field.reject(
                fmt::format("more than {} links. Join the devices through a switch.", kMostLinks));
        }
        links_.push_back(figures);
        links_.back().from = from;
        links_.back().to = to;
    }

    /// All nodes are one of these extents.
    void take_torus(const std::vector<int>& extents, const JsonField& nodes_field) {
        if (!collectives_.torus.empty() && collectives_.torus != extents)
            nodes_field.reject("every torus must have the same extents.");
        collectives_.torus = extents;
    }

    void make_torus(const Torus& torus, int first_device, const JsonField& nodes_field) {
        const int devices = devices_of(torus.extents);
        int stride = devices;
        for (const int extent : torus.extents) {
            stride /= extent;
            for (int d = 0; d < devices; ++d) {
                const int at = d / stride % extent;
                if (at + 1 < extent) {
                    add_link(*torus.figures, first_device + d, first_device + d + stride,
                             nodes_field);
                } else if (torus.closes(extent)) {
                    add_link(*torus.figures, first_device + d, first_device + d - at * stride,
                             nodes_field);
                }
            }
        }
    }

    void make_links(const NodeKind& node, int first_device, int first_switch,
                    const JsonField& nodes_field) {
        for (const NodeLink& link : node.links) {
            const End from = resolve(link.from, node, first_device, first_switch);
            const End to = resolve(link.to, node, first_device, first_switch);
            const bool pairs = from.group && to.group && from.vertices == to.vertices;
            for (const int a : from.vertices) {
                for (const int b : to.vertices) {
                    if (pairs && a >= b) continue;  // each pair once
                    add_link(*link.figures, a, b, nodes_field);
                }
            }
        }
    }

    End resolve(const JsonField& field, const NodeKind& node, int first_device,
                int first_switch) const {
        const std::string text = field.text({"a device, group* or switch"}, 200);
        const auto position = [&](const std::vector<SwitchFigures>& names, std::string_view name) {
            const auto found = std::ranges::find(names, name, &SwitchFigures::name);
            return found == names.end() ? -1 : static_cast<int>(found - names.begin());
        };
        if (text.starts_with('/')) {
            const int shared = position(description_.switches, std::string_view(text).substr(1));
            if (shared >= 0) return {{static_cast<int>(devices_.size()) + shared}};
        }
        if (const int own = position(node.switches, text); own >= 0) return {{first_switch + own}};
        int first = first_device;
        for (const Group& group : node.groups) {
            if (text == group.name + "*") {
                End end{.group = true};
                for (int d = 0; d < group.count; ++d) end.vertices.push_back(first + d);
                return end;
            }
            if (const auto number = number_in(group, text)) {
                return *number < group.count ? End{{first + *number}} : End{};
            }
            first += group.count;
        }
        field.fail({"a device, group* or switch of the node, or a slash and a shared switch"});
    }

    static std::optional<int> number_in(const Group& group, std::string_view text) {
        if (!text.starts_with(group.name)) return std::nullopt;
        const std::string_view digits = text.substr(group.name.size());
        int number = -1;
        std::from_chars(digits.data(), digits.data() + digits.size(), number);
        const bool named = number >= 0 && number < group.listed && digits == fmt::to_string(number);
        return named ? std::optional(number) : std::nullopt;
    }

    const Description& description_;
    std::vector<Device> devices_;
    std::vector<std::string> switches_;
    std::vector<Link> links_;
    MachineCollectives collectives_;
};

}  // namespace

MachineParts expand_nodes(const JsonField& root, const MachineSize& size) {
    Description description = read_description(root);
    resize(description, root["sizes"], size);
    check_size(description, root["nodes"], size);
    return Expansion(description).run(root["nodes"]);
}

}  // namespace partita::cost
