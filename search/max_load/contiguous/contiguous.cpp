// SPDX-License-Identifier: Apache-2.0
#include "search/max_load/contiguous/contiguous.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "plan/evaluation/max_load.h"
#include "search/core/engine.h"
#include "search/list_scheduling/memory_repair.h"
#include "search/max_load/model/piece_order.h"

namespace partita::search {

namespace {

constexpr std::int64_t kPairsPerStep = 20'000'000;

/// Comparisons for one order, about; longer orders are cut into blocks of vertices first.
constexpr double kOrderWork = 5e7;

struct Cut {
    std::int64_t value = kNever;
    Placement placement;  ///< of groups
};

void in_turn(std::size_t size, const std::function<void(std::size_t)>& work) {
    for (std::size_t i = 0; i < size; ++i) work(i);
}

Placement placement_of(const PieceGraph& graph, PieceTable& table) {
    const std::vector<int> devices = table.devices_of_vertices();
    Placement placement;
    for (const std::int32_t vertex : graph.of) {
        placement.push_back(devices[static_cast<std::size_t>(vertex)]);
    }
    return placement;
}

/// Places become blocks of about equal work, no more than `most`.
std::vector<std::int32_t> blocks_of(const PieceGraph& graph, std::vector<std::int32_t> places,
                                    std::size_t most) {
    if (graph.size <= most) return places;
    for (std::int32_t& place : places) {
        place = static_cast<std::int32_t>(static_cast<std::size_t>(place) * most / graph.size);
    }
    return places;
}

/// How many blocks are worth their time: every pair of ends is looked at, and for every end all
/// nets.
std::size_t most_blocks(const PieceGraph& graph, const PieceDevices& devices) {
    double pins = 1;
    for (const PieceNet& net : graph.nets) pins += 1 + static_cast<double>(net.others.size());
    const double per_pair = static_cast<double>(devices.transitions()) + 16;
    const double most = std::min(std::sqrt(2 * kOrderWork / per_pair), 4 * kOrderWork / pins);
    return 32 + static_cast<std::size_t>(most);
}

/// The best plan of at most `limit` whose pieces are stretches of the order.
Cut cut_order(const PieceGraph& graph, const PieceDevices& devices,
              const std::vector<std::int32_t>& places, std::int64_t limit) {
    const std::size_t most = most_blocks(graph, devices);
    const PieceGraph line =
        contract(graph, blocks_of(graph, places, most), std::min(most, graph.size));
    PieceTable table(line, devices, PieceLattice::prefixes(line.size), limit);
    while (!table.advance(kPairsPerStep, in_turn)) {
    }
    Cut cut{.value = table.value(), .placement = {}};
    if (cut.value != kNever) cut.placement = placement_of(line, table);
    return cut;
}

Cut best_cut(const PieceGraph& graph, const PieceDevices& devices) {
    Cut best;
    for (const auto& places : linear_orders(graph)) {
        Cut cut = cut_order(graph, devices, places, best.value - 1);
        if (cut.value < best.value) best = std::move(cut);
        if (best.value == 0) break;
    }
    return best;
}

PieceDevices without_memory(PieceDevices devices) {
    for (PieceKind& kind : devices.kinds) kind.capacity = Bytes::max();
    return devices;
}

}  // namespace

Contiguous::Contiguous(ContiguousOptions options) : options_(options) {}

Contiguous::~Contiguous() = default;

Status Contiguous::step(Engine& engine) {
    if (!table_) {
        if (graph_.kinds == 0) return cut_orders(engine);
        return open_table(engine);
    }
    const auto parallel = [&](std::size_t size, const std::function<void(std::size_t)>& work) {
        engine.parallel(size, work);
    };
    if (!table_->advance(kPairsPerStep, parallel)) return Status::in_progress;
    return finish(engine);
}

Status Contiguous::cut_orders(Engine& engine) {
    const plan::Problem& problem = engine.problem();
    const GroupGraph& groups = engine.groups();
    exact_ = problem.objective() == plan::Objective::throughput && plan::has_given_costs(problem);
    devices_ = make_piece_devices(groups);
    graph_ = make_piece_graph(groups, devices_);
    Cut cut = best_cut(graph_, devices_);
    if (cut.value == kNever) cut = best_cut(graph_, without_memory(devices_));
    if (cut.value == kNever) {
        propose_anything(engine);
        return Status::found;
    }
    if (!exact_) {
        evaluate_and_repair(engine, cut.placement);
        return Status::found;
    }
    static_cast<void>(engine.evaluate(groups.strategy(cut.placement)));
    if (!devices_.in_turn) return Status::in_progress;
    engine.note(
        "contiguous: too many devices differ in what may run on them to try all contiguous plans; "
        "only pieces in the order of the devices were tried, along a few orders of the ops.");
    return Status::found;
}

/// No device may run all of a piece that precedence keeps together.
void Contiguous::propose_anything(Engine& engine) {
    engine.note(
        "contiguous: no plan is contiguous, because ops that must share a piece may not share a "
        "device; what was tried instead is not.");
    Placement placement;
    for (std::size_t g = 0; g < engine.groups().size(); ++g) {
        placement.push_back(engine.groups().devices(g).front());
    }
    evaluate_and_repair(engine, std::move(placement));
}

Status Contiguous::open_table(Engine& engine) {
    // The table and what the lattice needs for an ideal with a few steps.
    const std::size_t bytes = 8 * devices_.states + 100;
    const std::size_t most = std::min(options_.most_ideals, options_.most_bytes / bytes);
    std::optional<PieceLattice> lattice = PieceLattice::all(graph_, most);
    if (!lattice) {
        engine.note(fmt::format(
            "contiguous: the graph has more than {} ideals, too many to try all contiguous plans; "
            "only a few orders of its ops were cut into pieces.",
            most));
        return Status::found;
    }
    std::int64_t limit = kNever - 1;
    const plan::Evaluation* best = engine.best_evaluation();
    if (best != nullptr && best->feasible()) limit = std::min(limit, best->value.raw() - 1);
    table_ = std::make_unique<PieceTable>(graph_, devices_, std::move(*lattice), limit);
    return Status::in_progress;
}

Status Contiguous::finish(Engine& engine) {
    if (table_->value() != kNever) {
        const Placement placement = placement_of(graph_, *table_);
        static_cast<void>(engine.evaluate(engine.groups().strategy(placement)));
    }
    const plan::Evaluation* best = engine.best_evaluation();
    if (best != nullptr && best->feasible()) {
        if (engine.options().contiguous) {
            engine.raise_lower_bound(best->value, "contiguous pieces, all tried");
        }
        engine.note(
            fmt::format("contiguous: no contiguous plan is better (all tried, over {} ideals).",
                        table_->ideals()));
    } else {
        engine.note(fmt::format(
            "contiguous: no contiguous plan fits the memory (all tried, over {} ideals).",
            table_->ideals()));
    }
    return Status::found;
}

}  // namespace partita::search
