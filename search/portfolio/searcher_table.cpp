// SPDX-License-Identifier: Apache-2.0
#include "search/portfolio/searcher_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "search/core/engine.h"
#include "search/hybrid_parallel/data_parallel.h"
#include "search/hybrid_parallel/expert.h"
#include "search/hybrid_parallel/grid_search.h"
#include "search/list_scheduling/batch_split.h"
#include "search/list_scheduling/critical_path.h"
#include "search/list_scheduling/dfs.h"
#include "search/list_scheduling/hash.h"
#include "search/list_scheduling/heft.h"
#include "search/list_scheduling/m_etf.h"
#include "search/list_scheduling/mite.h"
#include "search/list_scheduling/placer.h"
#include "search/list_scheduling/random_search.h"
#include "search/list_scheduling/single_device.h"
#include "search/max_load/contiguous/contiguous.h"
#include "search/portfolio/composed_searchers.h"
#include "search/portfolio/learned.h"
#include "search/variable_elimination/elimination.h"

namespace partita::search {

namespace {

template <class S>
std::unique_ptr<Searcher> make(Engine& /*engine*/) {
    return std::make_unique<S>();
}

template <Placer::Place place>
std::unique_ptr<Searcher> make_placer(Engine& /*engine*/) {
    return std::make_unique<Placer>(place);
}

std::unique_ptr<Searcher> make_learned(std::string_view name, Engine& engine) {
    return learned_searchers(engine.options()).make(name, engine);
}

constexpr std::array kSearchers = {
    SearcherRow{
        .name = "auto",
        .summary = "the quick searchers below, then mcmc or local-search from the best of them",
        .make = [](Engine& /*engine*/) { return make_auto(); }},
    SearcherRow{.name = "single-device",
                .summary = "everything on the fastest device that holds it",
                .make = make<SingleDevice>,
                .in_auto = true},
    SearcherRow{.name = "random",
                .summary = "uniformly random devices, the best of many samples",
                .make = make<RandomSearch>},
    SearcherRow{.name = "hash",
                .summary = "devices by a hash of the op's name, in proportion to their memory",
                .make = make_placer<place_hash>},
    SearcherRow{.name = "critical-path",
                .summary = "longest path on the fastest device, the rest to the least loaded",
                .make = make_placer<place_critical_path>,
                .in_auto = true},
    SearcherRow{.name = "multi-objective",
                .summary = "MITE: memory, importance, traffic and execution time in one score",
                .make = make_placer<place_multi_objective>,
                .in_auto = true},
    SearcherRow{.name = "dfs",
                .summary = "depth-first order, score of traffic and execution time",
                .make = make_placer<place_dfs>,
                .in_auto = true},
    SearcherRow{.name = "batch-split",
                .summary = "whole paths, longest first, each to the device that finishes it first",
                .make = make_placer<place_batch_split>,
                .in_auto = true},
    SearcherRow{.name = "heft",
                .summary = "by upward rank, earliest finish with insertion",
                .make = make_placer<place_heft>,
                .in_auto = true},
    SearcherRow{.name = "m-etf",
                .summary = "the ready op and device with memory that can start earliest (Baechi)",
                .make = make_placer<place_m_etf>,
                .in_auto = true},
    SearcherRow{
        .name = "expert",
        .summary = "layers in stages, and grids of stages, batch and tensor parallel groups",
        .make = make<Expert>,
        .in_auto = true},
    SearcherRow{
        .name = "data-parallel",
        .summary = "the batch over all devices, or over halves of them; parameters repeated",
        .make = make<DataParallel>,
        .in_auto = true},
    SearcherRow{.name = "grids",
                .summary = "every grid of data, tensor and pipeline parallelism, with chunks and "
                           "ZeRO levels; what --strategy asks",
                .make = make<GridSearch>},
    SearcherRow{.name = "contiguous",
                .summary = "one contiguous piece per device, by dynamic programming; the best of "
                           "these for the throughput of given costs",
                .make = make<Contiguous>},
    SearcherRow{.name = "local-search",
                .summary =
                    "starts from the best of the quick ones; descends and is shaken, or anneals "
                    "whole blocks where costs are given",
                .make = [](Engine& /*engine*/) { return make_local_search(); },
                .endless = true},
    SearcherRow{.name = "exact",
                .summary =
                    "the best placement and its proof, by branch and bound, as far as the time "
                    "allows; for the throughput of given costs",
                .make = [](Engine& engine) { return make_exact(engine); },
                .endless = true},
    SearcherRow{.name = "elimination",
                .summary = "the best split of every op if nothing overlapped, by elimination of "
                           "ops (OptCNN)",
                .make = make<EliminationSearch>},
    SearcherRow{
        .name = "mcmc",
        .summary = "starts from the best of the quick ones and goes on improving by random moves",
        .make = [](Engine& /*engine*/) { return make_mcmc(); },
        .endless = true},
    SearcherRow{.name = "rl",
                .summary = "learns to place and split: a policy over the graph that is rewarded "
                           "for quick plans (ColocRL)",
                .make = [](Engine& engine) { return make_learned("rl", engine); },
                .endless = true,
                .learned = true},
    SearcherRow{.name = "rl-hierarchical",
                .summary = "the same; learns to group the ops too, and places the groups",
                .make = [](Engine& engine) { return make_learned("rl-hierarchical", engine); },
                .endless = true,
                .learned = true},
};

}  // namespace

std::span<const SearcherRow> searcher_table() {
    return kSearchers;
}

const SearcherRow* find_searcher(std::string_view name) {
    const auto at = std::find_if(kSearchers.begin(), kSearchers.end(),
                                 [&](const SearcherRow& row) { return row.name == name; });
    return at == kSearchers.end() ? nullptr : &*at;
}

ExactEngine parse_exact_engine(std::string_view name) {
    for (const ExactEngine engine : {ExactEngine::own, ExactEngine::highs, ExactEngine::both}) {
        if (name_of(engine) == name) return engine;
    }
    throw UsageError(fmt::format("--engine {}: expected own, highs or both.", name));
}

std::string_view name_of(ExactEngine engine) {
    switch (engine) {
    case ExactEngine::own: return "own";
    case ExactEngine::highs: return "highs";
    case ExactEngine::both: return "both";
    }
    return {};
}

bool any_learned(std::span<const std::string> names) {
    return std::ranges::any_of(names, [](const std::string& name) {
        const SearcherRow* const row = find_searcher(name);
        return row != nullptr && row->learned;
    });
}

std::vector<std::string> parse_searchers(std::string_view list) {
    std::vector<std::string> names;
    for (std::size_t begin = 0; begin <= list.size();) {
        const std::size_t comma = std::min(list.find(',', begin), list.size());
        names.emplace_back(list.substr(begin, comma - begin));
        begin = comma + 1;
        if (find_searcher(names.back()) != nullptr) continue;
        std::string known;
        for (const SearcherRow& row : kSearchers) {
            known += (known.empty() ? "" : ", ") + std::string(row.name);
        }
        throw UsageError(
            fmt::format("--searcher: unknown searcher '{}'. Known are {}.", names.back(), known));
    }
    return names;
}

}  // namespace partita::search
