// SPDX-License-Identifier: Apache-2.0
#include "cost/nccl_model.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>
#include <system_error>
#include <utility>

#include "cost/group_links.h"

namespace partita::cost {

NcclConstants read_nccl_constants(const graph::JsonField& field) {
    std::array<std::string_view, kNcclConstantCount + 1> known{};
    std::ranges::copy(kNcclConstants, known.begin());
    known.back() = "links";
    field.allow_only({}, known);
    NcclConstants constants;
    for (std::size_t i = 0; i < kNcclConstantCount; ++i) {
        constants.values[i] =
            field[kNcclConstants[i]].number(1e-9, 1e9, {"a number from 1e-9 to 1e9"});
    }
    if (!field["links"].present()) return constants;
    for (const std::string& key : field["links"].keys()) {
        const auto link = field["links"][key];
        int ranks = 0;
        const char* end = key.data() + key.size();
        const auto [rest, error] = std::from_chars(key.data(), end, ranks);
        if (error != std::errc() || rest != end || ranks < 2 || ranks > kMostDevices) {
            link.reject("the name is no number of ranks from 2 to 4096. Write e.g. \"4\".");
        }
        constants.links[ranks] = link.number(0.01, 1000, {"a number of links > 0"});
    }
    return constants;
}

NcclTime nccl_time(const NcclConstants& constants, Collective kind, Bytes bytes, int ranks,
                   int nodes) {
    constexpr std::array kProtocols = {Protocol::ll, Protocol::ll128, Protocol::simple};
    const auto& value = constants.values;
    const bool both_ways = kind == Collective::all_reduce;
    const auto size = static_cast<double>(bytes.raw());
    const double steps = (both_ways ? 2.0 : 1.0) * (ranks - 1);
    const double inter = (both_ways ? 2.0 : 1.0) * (nodes - 1);
    const double per_node = static_cast<double>(ranks) / nodes;
    const auto found = constants.links.find(ranks);
    const double links = found == constants.links.end() ? 1 : found->second;
    const double tree_levels = nodes > 1 ? std::log2(nodes) : 0;
    const std::array shares = {value[9], value[10], 1.0};
    const std::array net_shares = {value[12], value[13], 1.0};
    NcclTime best{.microseconds = std::numeric_limits<double>::infinity()};
    for (std::size_t p = 0; p < 3; ++p) {
        const double base = value[p];
        const double hop = value[3 + p];
        const double net = value[6 + p];
        double rate = value[11] * links * shares[p];
        if (nodes > 1) rate = std::min(rate, value[14] * net_shares[p]);
        // GB/s are bytes per nanosecond; copy is in picoseconds per byte.
        const double copy = value[15] * 1e-6;
        const double ring = base + (steps - inter) * hop + inter * net +
                            size * (steps / ranks / (rate * 1e3) + copy);
        if (ring < best.microseconds) best = {ring, Algorithm::ring, kProtocols[p]};
        if (!both_ways) continue;
        const double tree = base + 2 * ((per_node - 1) * hop + tree_levels * net) +
                            size * (2 / (rate * 1e3) + copy);
        if (tree < best.microseconds) best = {tree, Algorithm::tree, kProtocols[p]};
    }
    return best;
}

NcclModel::NcclModel(std::map<Collective, NcclConstants> constants, std::string name)
    : constants_(std::move(constants)), name_(std::move(name)) {}

std::optional<CollectivePrice> NcclModel::price(const CollectiveCall& call,
                                                const Machine& machine) const {
    const auto fitted = constants_.find(call.kind);
    if (fitted == constants_.end()) return std::nullopt;
    if (call.devices.size() == 1) return CollectivePrice{.time = Time{0}};
    const auto links = machine.group_links(call.devices);
    if (links->ranks_per_node == 0) return std::nullopt;
    const NcclTime time =
        nccl_time(fitted->second, call.kind, call.bytes, links->ranks, links->nodes);
    return CollectivePrice{.time = time_from_milliseconds(time.microseconds / 1000),
                           .algorithm = time.algorithm,
                           .protocol = time.protocol};
}

}  // namespace partita::cost
