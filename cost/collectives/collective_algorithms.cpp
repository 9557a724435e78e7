// SPDX-License-Identifier: Apache-2.0
#include "cost/collectives/collective_algorithms.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>

namespace partita::cost {

namespace {

using enum Collective;

Bytes part_of(Bytes bytes, std::int64_t parts) {
    return Bytes((bytes.raw() + parts - 1) / parts);
}

/// One way of an all-reduce is a reduce-scatter, the other an all-gather.
int ways(Collective kind) {
    return kind == all_reduce ? 2 : 1;
}

/// Sum over the rounds of a binomial tree of the rounds' times, `bytes` each.
Time over_levels(const std::array<Round, kMostLevels>& rounds, int levels, Bytes bytes) {
    Time total;
    for (int k = 0; k < levels; ++k) total += rounds[static_cast<std::size_t>(k)].time(bytes);
    return total;
}

Round worst_of(const std::array<Round, kMostLevels>& rounds, int levels) {
    Round worst = rounds[0];
    for (int k = 1; k < levels; ++k) {
        const Round& round = rounds[static_cast<std::size_t>(k)];
        worst.latency = std::max(worst.latency, round.latency);
        if (static_cast<Int128>(round.flows) * worst.bandwidth >
            static_cast<Int128>(worst.flows) * round.bandwidth) {
            worst.flows = round.flows;
            worst.bandwidth = round.bandwidth;
        }
    }
    return worst;
}

/// Chunks pass through `stages` stages one behind the other: (stages + k - 1) rounds of bytes / k,
/// and every rank sends at least `sent`. The best k of a fixed list, so that the time never falls
/// when bytes grow.
Time pipelined(std::int64_t stages, const Round& round, Bytes bytes, Bytes sent) {
    const Time sending = round.time(sent) - round.latency;
    Time best = Time::max();
    for (const std::int64_t chunks : {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}) {
        const std::int64_t rounds = stages + chunks - 1;
        const Time moving = rounds * (round.time(part_of(bytes, chunks)) - round.latency);
        best = std::min(best, rounds * round.latency + std::max(moving, sending));
    }
    return best;
}

/// Whole vectors sent at once to or from the root.
Time star(const AlgorithmInput& in, Bytes bytes) {
    switch (in.kind) {
    case broadcast:
    case scatter: return in.links.from_root.time(bytes);
    case reduce:
    case gather: return in.links.to_root.time(bytes);
    case all_reduce: return in.links.to_root.time(bytes) + in.links.from_root.time(bytes);
    case all_gather:
    case reduce_scatter:
    case all_to_all: break;
    }
    assert(false);
    return {};
}

std::optional<Time> ring_time(const AlgorithmInput& in) {
    const std::int64_t n = in.links.ranks;
    if (in.kind == broadcast || in.kind == reduce) {
        return pipelined(n - 1, in.links.ring, in.bytes, in.bytes);
    }
    return ways(in.kind) * (n - 1) * in.links.ring.time(part_of(in.bytes, n));
}

std::optional<Time> tree_time(const AlgorithmInput& in) {
    const int levels = in.links.levels;
    Time total;
    if (in.kind == scatter || in.kind == gather) {
        // The root's first partner takes half of the parts, its next a quarter, and so on.
        const auto& rounds = in.kind == scatter ? in.links.down : in.links.up;
        const Bytes part = part_of(in.bytes, in.links.ranks);
        for (int k = 0; k < levels; ++k) {
            const int parts = std::min(1 << k, in.links.ranks - (1 << k));
            total += rounds[static_cast<std::size_t>(k)].time(parts * part);
        }
        return total;
    }
    if (in.kind != broadcast) total += over_levels(in.links.up, levels, in.bytes);
    if (in.kind != reduce) total += over_levels(in.links.down, levels, in.bytes);
    return total;
}

std::optional<Time> pipelined_tree_time(const AlgorithmInput& in) {
    // Two trees share the vector, each using the links that the other leaves idle:
    // (log2 n + k) rounds of d / (2k) up, and as many down. The published formula counts a rank's
    // children as one: for many chunks it falls below what every rank has to send.
    const int levels = in.links.levels;
    const std::int64_t n = in.links.ranks;
    const Bytes sent = in.kind == all_reduce ? (n - 1) * part_of(in.bytes, n) : in.bytes;
    const auto one_way = [&](const std::array<Round, kMostLevels>& rounds) {
        return pipelined(levels + 1, worst_of(rounds, levels), part_of(in.bytes, 2), sent);
    };
    Time total;
    if (in.kind != broadcast) total += one_way(in.links.up);
    if (in.kind != reduce) total += one_way(in.links.down);
    return total;
}

/// Ranks beyond the highest power of two hand their vector over first and get the sum last.
Time fold_time(const AlgorithmInput& in) {
    const bool power = std::has_single_bit(static_cast<unsigned>(in.links.ranks));
    return power ? Time{0} : 2 * in.links.fold.time(in.bytes);
}

std::optional<Time> butterfly_time(const AlgorithmInput& in) {
    const std::int64_t n = in.links.ranks;
    if (in.kind == all_reduce) {
        const int levels = std::bit_width(static_cast<unsigned>(n)) - 1;
        return fold_time(in) + over_levels(in.links.exchange, levels, in.bytes);
    }
    const Bytes part = part_of(in.bytes, n);
    Time total;
    for (int k = 0; k < in.links.levels; ++k) {
        // All-gather: the parts collected so far. All-to-all: the parts whose way has bit k.
        const std::int64_t step = std::int64_t{1} << k;
        const std::int64_t whole = n / (2 * step) * step;
        const std::int64_t with_bit = whole + std::max<std::int64_t>(0, n % (2 * step) - step);
        const std::int64_t parts = in.kind == all_to_all ? with_bit : std::min(step, n - step);
        total += in.links.rotation[static_cast<std::size_t>(k)].time(parts * part);
    }
    return total;
}

std::optional<Time> halving_doubling_time(const AlgorithmInput& in) {
    const unsigned power = std::bit_floor(static_cast<unsigned>(in.links.ranks));
    Time total;
    for (int k = 0; (1U << k) < power; ++k) {
        const Bytes piece = part_of(in.bytes, power >> k);
        total += 2 * in.links.exchange[static_cast<std::size_t>(k)].time(piece);
    }
    return fold_time(in) + total;
}

std::optional<Time> one_shot_time(const AlgorithmInput& in) {
    if (!in.links.switch_reduces) return std::nullopt;
    const Bytes part = part_of(in.bytes, in.links.ranks);
    return ways(in.kind) * in.links.all_pairs(in.machine).time(part);
}

std::optional<Time> all_to_all_time(const AlgorithmInput& in) {
    return in.links.all_pairs(in.machine).time(in.bytes);
}

std::optional<Time> parameter_server_time(const AlgorithmInput& in) {
    // The server is a process beside the first rank, which talks to it as everyone else does.
    Round in_round = in.links.to_root;
    Round out_round = in.links.from_root;
    ++in_round.flows;
    ++out_round.flows;
    return in_round.time(in.bytes) + out_round.time(in.bytes);
}

std::optional<Time> master_worker_time(const AlgorithmInput& in) {
    return star(in, in.bytes);
}

std::optional<Time> round_robin_time(const AlgorithmInput& in) {
    const std::int64_t n = in.links.ranks;
    const Bytes size = in.kind == all_reduce ? in.bytes : part_of(in.bytes, n);
    return (n - 1) * in.links.worst_shift(in.machine).time(size);
}

std::optional<Time> direct_time(const AlgorithmInput& in) {
    const Bytes part = part_of(in.bytes, in.links.ranks);
    switch (in.kind) {
    case broadcast:
    case reduce: return star(in, in.bytes);
    case scatter:
    case gather: return star(in, part);
    case all_reduce:
    case all_gather:
    case reduce_scatter:
    case all_to_all: break;
    }
    return in.links.all_pairs(in.machine).time(part);
}

std::optional<Time> hierarchical_time(const AlgorithmInput& in) {
    const std::int64_t inside = in.links.ranks_per_node;
    const std::int64_t nodes = in.links.nodes;
    if (inside < 2 || nodes < 2) return std::nullopt;
    const Bytes part = part_of(in.bytes, inside * nodes);
    if (in.kind == all_to_all) {
        return in.links.node_pairs(in.machine).time(nodes * part) +
               in.links.column_pairs(in.machine).time(inside * part);
    }
    const Time within = (inside - 1) * in.links.node_ring.time(nodes * part);
    const Time between = (nodes - 1) * in.links.column_ring.time(part);
    return ways(in.kind) * (within + between);
}

/// The vector in as many parts as the group has axes, each gathered along one axis after the other
/// beginning with its own, in both directions of every link: Jain, Sabharwal, Optimal bucket algorithms for
/// large MPI collectives on torus interconnects, ICS 2010. A reduce-scatter is the reverse.
std::optional<Time> torus_time(const AlgorithmInput& in) {
    const std::vector<TorusAxis>& axes = in.links.torus;
    if (axes.empty()) return std::nullopt;
    const auto count = static_cast<std::int64_t>(axes.size());
    const Bytes piece = part_of(in.bytes, count * in.links.ranks);
    Time total;
    for (std::size_t phase = 0; phase < axes.size(); ++phase) {
        Time slowest;
        for (std::size_t part = 0; part < axes.size(); ++part) {
            std::int64_t gathered = 1;
            for (std::size_t before = 0; before < phase; ++before)
                gathered *= axes[(part + before) % axes.size()].extent;
            const TorusAxis& axis = axes[(part + phase) % axes.size()];
            const std::int64_t others = axis.extent - 1;
            const std::int64_t ways_round = axis.closed ? 2 : 1;
            const std::int64_t hops = (others + ways_round - 1) / ways_round;
            slowest =
                std::max(slowest, hops * axis.latency + transfer_time(others * gathered * piece,
                                                                      ways_round * axis.bandwidth));
        }
        total += slowest;
    }
    return ways(in.kind) * total;
}

constexpr std::array kRows = {
    AlgorithmRow{Algorithm::ring,
                 {all_reduce, all_gather, reduce_scatter, broadcast, reduce},
                 ring_time,
                 "parts, or chunks, travel around a ring"},
    AlgorithmRow{Algorithm::hierarchical,
                 {all_reduce, all_gather, reduce_scatter, all_to_all},
                 hierarchical_time,
                 "rings (all-to-all: directly) inside the nodes, then between them"},
    AlgorithmRow{Algorithm::torus,
                 {all_reduce, all_gather, reduce_scatter},
                 torus_time,
                 "along all axes of a torus at once, both ways"},
    AlgorithmRow{Algorithm::halving_doubling,
                 {all_reduce},
                 halving_doubling_time,
                 "butterfly of halves: reduce-scatter, then all-gather"},
    AlgorithmRow{Algorithm::butterfly,
                 {all_reduce, all_gather, reduce_scatter, all_to_all},
                 butterfly_time,
                 "log2 n rounds, partners 1, 2, 4, ... ranks away"},
    AlgorithmRow{Algorithm::tree,
                 {all_reduce, broadcast, reduce, scatter, gather},
                 tree_time,
                 "binomial tree to the root, from it, or both"},
    AlgorithmRow{Algorithm::pipelined_tree,
                 {all_reduce, broadcast, reduce},
                 pipelined_tree_time,
                 "two trees, chunks one behind the other"},
    AlgorithmRow{Algorithm::one_shot,
                 {all_reduce, all_gather, reduce_scatter},
                 one_shot_time,
                 "parts through a switch that reduces"},
    AlgorithmRow{Algorithm::all_to_all,
                 {all_reduce},
                 all_to_all_time,
                 "everyone sends its whole vector to everyone"},
    AlgorithmRow{Algorithm::direct,
                 {all_gather, reduce_scatter, all_to_all, broadcast, reduce, scatter, gather},
                 direct_time,
                 "every part straight to where it is needed, all at once"},
    AlgorithmRow{Algorithm::round_robin,
                 {all_reduce, all_gather, reduce_scatter, all_to_all},
                 round_robin_time,
                 "one peer a round"},
    AlgorithmRow{Algorithm::master_worker,
                 {all_reduce},
                 master_worker_time,
                 "the first rank sums and sends back"},
    AlgorithmRow{Algorithm::parameter_server,
                 {all_reduce},
                 parameter_server_time,
                 "a server beside the first rank sums and sends back"},
};

}  // namespace

std::span<const AlgorithmRow> collective_algorithms() {
    return kRows;
}

std::optional<CollectivePrice> AlphaBeta::price(const CollectiveCall& call,
                                                const Machine& machine) const {
    if (call.devices.size() == 1) return CollectivePrice{.time = Time{0}};
    const auto links = machine.group_links(call.devices);
    const AlgorithmInput input{call.kind, call.bytes, *links, machine};
    std::optional<CollectivePrice> best;
    for (const AlgorithmRow& row : kRows) {
        if (!row.collectives.holds(call.kind)) continue;
        const auto time = row.time(input);
        if (time && (!best || *time < best->time)) {
            best = CollectivePrice{.time = *time, .algorithm = row.algorithm};
        }
    }
    return best;
}

}  // namespace partita::cost
