// SPDX-License-Identifier: Apache-2.0
#include "cost/collectives/nccl_model.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "cost/machine/group_links.h"

namespace partita::cost {

namespace {

/// Bytes from which NCCL opens one more channel.
double grain_of(Algorithm algorithm, Protocol protocol, int ranks) {
    switch (protocol) {
    case Protocol::ll: return 8.0 * 512 * (algorithm == Algorithm::ring ? ranks : 1);
    case Protocol::ll128: return 8.0 * 640;
    case Protocol::simple:
    case Protocol::none: break;
    }
    return 64.0 * 512;
}

double bus_of(const NcclFit& fit, const NcclTuning& tuning, Algorithm algorithm, Protocol protocol,
              int ranks, int nodes) {
    const int per_node = ranks / nodes;
    double bus = fit.rate * tuning.topology().share_of_links(per_node);
    if (nodes > 1) bus = std::min(bus, per_node * fit.nic_rate);
    if (protocol == Protocol::ll) bus = std::min(bus / 2, fit.ll * tuning.ll_max(nodes));
    if (protocol == Protocol::ll128) bus *= fit.share_ll128;
    if (algorithm == Algorithm::tree) bus *= nodes == 1 ? 0.92 : 0.85;
    return bus;
}

double net_of(const NcclFit& fit, Protocol protocol) {
    switch (protocol) {
    case Protocol::ll: return fit.net_ll;
    case Protocol::ll128: return fit.net_ll128;
    case Protocol::simple:
    case Protocol::none: break;
    }
    return fit.net_simple;
}

}  // namespace

NcclFit read_nccl_fit(const JsonField& field) {
    std::array<std::string_view, kNcclFitFields.size()> known{};
    std::ranges::transform(kNcclFitFields, known.begin(), &NcclFitField::name);
    field.allow_only({}, known);
    NcclFit fit;
    for (const NcclFitField& each : kNcclFitFields) {
        fit.*each.value = field[each.name].number(1e-9, 1e9, {"a number from 1e-9 to 1e9"});
    }
    return fit;
}

NcclTime nccl_time(const NcclFit& fit, const NcclTuning& tuning, Collective kind, Bytes bytes,
                   int ranks, int nodes) {
    const auto size = static_cast<double>(bytes.raw());
    const auto like = kind == Collective::all_to_all ? Collective::all_gather : kind;
    const double most_channels = tuning.channels(ranks, nodes);
    const int per_node = ranks / nodes;
    const auto choices = tuning.choices(like, ranks, nodes);
    NcclTime best{.microseconds = std::numeric_limits<double>::infinity()};
    for (const NcclTuning::Choice& choice : choices.all()) {
        if (size > choice.to) continue;
        // A pair that NCCL takes for larger calls costs what the smallest of them costs.
        const double moved = std::max(size, choice.from);
        const auto [algorithm, protocol] = std::pair(choice.algorithm, choice.protocol);
        const double opened = std::clamp(moved / grain_of(algorithm, protocol, ranks), 1.0,
                                         std::max(1.0, most_channels));
        // GB/s are bytes per nanosecond, copy is in picoseconds per byte.
        const double bus = 1e3 * bus_of(fit, tuning, algorithm, protocol, ranks, nodes);
        const double time = fit.base * choice.line.base + fit.hop * choice.line.inside +
                            net_of(fit, protocol) * choice.line.between + fit.channel * opened +
                            moved * (choice.line.amount / bus + fit.copy * 1e-6);
        if (time < best.microseconds) best = {time, algorithm, protocol};
    }
    best.microseconds = std::max(best.microseconds, fit.launch * per_node);
    return best;
}

NcclModel::NcclModel(std::map<Collective, NcclFit> fits, NcclTuning tuning, std::string name)
    : fits_(std::move(fits)), tuning_(std::move(tuning)), name_(std::move(name)) {}

std::optional<CollectivePrice> NcclModel::price(const CollectiveCall& call,
                                                const Machine& machine) const {
    const auto found = fits_.find(call.kind);
    if (found == fits_.end()) return std::nullopt;
    if (call.devices.size() == 1) return CollectivePrice{.time = Time{0}};
    const auto links = machine.group_links(call.devices);
    if (call.kind == Collective::all_to_all && links->nodes > 1) return std::nullopt;
    NcclFit fit = found->second;
    // NCCL counts the mean of uneven nodes, but the one with the fewest ranks has the least
    // network.
    const int mean = links->ranks / links->nodes;
    fit.nic_rate *= static_cast<double>(links->fewest_per_node) / mean;
    const NcclTime time =
        nccl_time(fit, tuning_, call.kind, call.bytes, links->ranks, links->nodes);
    return CollectivePrice{.time = time_from_milliseconds(time.microseconds / 1000),
                           .algorithm = time.algorithm,
                           .protocol = time.protocol};
}

}  // namespace partita::cost
