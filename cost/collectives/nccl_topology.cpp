// SPDX-License-Identifier: Apache-2.0
#include "cost/collectives/nccl_topology.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/files.h"
#include "cost/machine/data_folder.h"
#include "cost/machine/machine.h"

namespace partita::cost {

namespace {

constexpr double kMostFigure = 1e6;

double figure(const JsonField& field) {
    return field.number(0, kMostFigure, {"a number from 0 to 1000000"});
}

std::array<double, 3> three(const JsonField& field) {
    const auto items = field.items();
    if (items.size() != 3) field.fail({"three numbers"});
    return {figure(items[0]), figure(items[1]), figure(items[2])};
}

NcclLatencies read_latencies(const JsonField& field) {
    return {.ring = three(field["ring"]),
            .tree = three(field["tree"]),
            .nvls = three(field["nvls"])[2],
            .nvls_tree = three(field["nvls_tree"])[2],
            .collnet_direct = three(field["collnet_direct"])[2],
            .collnet_chain = three(field["collnet_chain"])[2],
            .pat = three(field["pat"])[2]};
}

std::map<int, double> read_links(const JsonField& field) {
    std::map<int, double> links;
    if (!field.present()) return links;
    for (const std::string& key : field.keys()) {
        const auto link = field[key];
        int ranks = 0;
        const char* end = key.data() + key.size();
        const auto [rest, error] = std::from_chars(key.data(), end, ranks);
        if (error != std::errc() || rest != end || ranks < 2 || ranks > kMostDevices) {
            link.reject("the name is no number of ranks from 2 to 65536. Write e.g. \"4\".");
        }
        links[ranks] = link.number(0.01, 1000, {"a number of links > 0"});
    }
    return links;
}

bool read_flag(const JsonField& field) {
    return field.present() && field.boolean();
}

}  // namespace

double NcclTopology::share_of_links(int ranks) const {
    const auto found = links.find(ranks);
    if (found == links.end()) return 1;
    double most = 0;
    for (const auto& [count, each] : links) most = std::max(most, each);
    return found->second / most;
}

NcclTopology read_nccl_topology(const JsonField& field) {
    field.allow_only({"generation", "cpu", "channels_per_rank", "most_channels", "node_channels",
                      "node_bandwidth", "nic_bandwidth", "nvls", "source"},
                     std::array<std::string_view, 4>{"links", "collnet", "pci", "net_latency"});
    const auto count = [&](std::string_view key) {
        return static_cast<int>(field[key].integer(1, 1024, {"a number from 1 to 1024"}));
    };
    NcclTopology topology;
    const std::string generation = field["generation"].text({"a generation of GPUs"});
    const auto known = std::ranges::find(kNcclGenerations, generation);
    if (known == kNcclGenerations.end()) {
        field["generation"].fail({"volta, ampere, hopper or blackwell"});
    }
    topology.generation = static_cast<int>(known - kNcclGenerations.begin());
    const std::string cpu = field["cpu"].text({"\"intel\" or \"amd\""});
    if (cpu != "intel" && cpu != "amd") field["cpu"].fail({"\"intel\" or \"amd\""});
    topology.amd_cpu = cpu == "amd";
    topology.channels_per_rank = count("channels_per_rank");
    topology.most_channels = count("most_channels");
    topology.node_channels = count("node_channels");
    topology.node_bandwidth = figure(field["node_bandwidth"]);
    topology.nic_bandwidth = figure(field["nic_bandwidth"]);
    topology.nvls = field["nvls"].boolean();
    topology.collnet = read_flag(field["collnet"]);
    topology.pci = read_flag(field["pci"]);
    if (field["net_latency"].present()) topology.net_latency = figure(field["net_latency"]);
    topology.links = read_links(field["links"]);
    if (!(topology.node_bandwidth > 0)) field["node_bandwidth"].fail({"GB/s > 0"});
    if (!(topology.nic_bandwidth > 0)) field["nic_bandwidth"].fail({"GB/s > 0"});
    return topology;
}

NcclConstants read_nccl_constants(const JsonField& root) {
    NcclConstants constants;
    constants.base = read_latencies(root["base_latency_us"]);
    constants.nvlink = read_latencies(root["hw_latency_us"]["nvlink"]);
    constants.pci = read_latencies(root["hw_latency_us"]["pci"]);
    constants.net = read_latencies(root["hw_latency_us"]["net"]);
    for (std::size_t i = 0; i < kNcclGenerations.size(); ++i) {
        const std::string_view name = kNcclGenerations[i];
        constants.generations[i] = {
            .ll_max = three(root["ll_max_bw"][name]),
            .ring_ll128_max = three(root["per_channel_max_ring_ll128_bw"][name]),
            .tree_ll128_max = three(root["per_channel_max_tree_ll128_bw"][name]),
            .tree_max = three(root["per_channel_max_tree_bw"][name]),
            .nvls_tree_max = three(root["per_channel_max_nvls_tree_bw"][name]),
            .nvls_efficiency = figure(root["nvls_efficiency"][name])};
    }
    constants.overhead_intel = figure(root["net_overhead_us"]["intel_x86"]);
    constants.overhead_amd = figure(root["net_overhead_us"]["amd_x86"]);
    const JsonField correction = root["tree_correction"];
    for (const auto& [protocol, key] :
         {std::pair{0U, "ll"}, std::pair{1U, "ll128"}, std::pair{2U, "simple"}}) {
        for (const JsonField& item : correction[key].items()) {
            constants.tree_correction[protocol].push_back(
                item.number(0.01, 1, {"a factor in (0, 1]"}));
        }
        // Otherwise a larger call could be cheaper.
        constants.tree_correction[protocol].push_back(1.0);
    }
    return constants;
}

std::shared_ptr<const NcclConstants> nccl_constants() {
    static const auto kConstants = [] {
        const auto path = data_folder() / "collectives" / "nccl_tuning_constants.json";
        const JsonFile json(read_text_file(path), path.string());
        return std::make_shared<const NcclConstants>(read_nccl_constants(json.root()));
    }();
    return kConstants;
}

}  // namespace partita::cost
