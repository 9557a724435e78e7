// SPDX-License-Identifier: Apache-2.0
//
// Mayer's grid: 5 partitioners x 3 schedulers and HEFT, on the three generated training graphs and
// the machine of REFERENCES 5, beside the published times. A report: it prints what comes out and
// says where that departs from the published order. Only collocation moves ops together, as there.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "bench/generators.h"
#include "cost/cost_model.h"
#include "cost/machine/machine_file.h"
#include "plan/problem/problem.h"
#include "search/portfolio/search_run.h"

namespace partita::bench {
namespace {

using plan::Scheduler;

constexpr std::int64_t kBatch = 128;
constexpr std::int64_t kHidden = 128;

/// Figure 3 of Mayer, Mayer, Laich 2017: conv net, dynamic RNN, RNN.
struct Row {
    const char* searcher;
    Scheduler scheduler;
    std::array<double, 3> published;
};
constexpr std::array kRows = {
    Row{"hash", Scheduler::fifo, {387, 4720, 4380}},
    Row{"hash", Scheduler::msr, {335, 4350, 4250}},
    Row{"hash", Scheduler::pct, {301, 4320, 4200}},
    Row{"batch-split", Scheduler::fifo, {218, 3150, 3020}},
    Row{"batch-split", Scheduler::msr, {203, 2820, 2780}},
    Row{"batch-split", Scheduler::pct, {194, 2670, 2700}},
    Row{"heft", Scheduler::pct, {180, 3320, 3360}},
    Row{"multi-objective", Scheduler::fifo, {178, 2740, 2250}},
    Row{"multi-objective", Scheduler::msr, {160, 2270, 2140}},
    Row{"multi-objective", Scheduler::pct, {142, 2200, 2110}},
    Row{"dfs", Scheduler::fifo, {151, 2590, 2380}},
    Row{"dfs", Scheduler::msr, {138, 2150, 2150}},
    Row{"dfs", Scheduler::pct, {127, 2080, 2090}},
    Row{"critical-path", Scheduler::fifo, {124, 2190, 2110}},
    Row{"critical-path", Scheduler::msr, {111, 1890, 1980}},
    Row{"critical-path", Scheduler::pct, {98, 1820, 1950}},
};

/// Milliseconds of one strategy; the best of all searchers and the bound come from `auto`.
search::SearchResult plan_with(const plan::Problem& problem, const char* searcher,
                               Scheduler scheduler) {
    search::EngineOptions options;
    options.searchers = {searcher};
    options.scheduler = scheduler;
    options.group = false;
    return search::search(problem, options);
}

void print_grid(const GeneratedModel& model, std::size_t column, const cost::Machine& machine) {
    plan::ProblemOptions options;
    options.constraints = model.constraints;
    const plan::Problem problem(model.graph, machine, cost::default_cost_model(), options);
    std::vector<double> ours;
    for (const Row& row : kRows) {
        const auto result = plan_with(problem, row.searcher, row.scheduler);
        ours.push_back(to_milliseconds(result.evaluation.value));
    }
    fmt::print("\n{}: {} ops\n{:<18}{:<6}{:>12}{:>10}{:>12}{:>10}\n", model.name,
               model.graph.op_count(), "partitioner", "rule", "here ms", "ratio", "published",
               "ratio");
    for (std::size_t i = 0; i < kRows.size(); ++i) {
        fmt::print("{:<18}{:<6}{:>12.3f}{:>10.2f}{:>12.0f}{:>10.2f}\n", kRows[i].searcher,
                   plan::name_of(kRows[i].scheduler), ours[i], ours[0] / ours[i],
                   kRows[i].published[column],
                   kRows[0].published[column] / kRows[i].published[column]);
    }
    const auto best = plan_with(problem, "auto", Scheduler::pct);
    fmt::print("best of all: {:.3f} ms by {}; lower bound {:.3f} ms\n",
               to_milliseconds(best.evaluation.value), best.searcher,
               to_milliseconds(best.lower_bound));
    int pairs = 0;
    std::string departures;
    for (std::size_t a = 0; a < kRows.size(); ++a) {
        for (std::size_t b = a + 1; b < kRows.size(); ++b) {
            const double published = kRows[a].published[column] - kRows[b].published[column];
            if (published * (ours[a] - ours[b]) >= 0) continue;
            ++pairs;
            const bool same_partitioner = std::string_view(kRows[a].searcher) == kRows[b].searcher;
            const bool both_pct =
                kRows[a].scheduler == Scheduler::pct && kRows[b].scheduler == Scheduler::pct;
            if (!same_partitioner && !both_pct) continue;
            departures += fmt::format("\n    {} {} / {} {}: {:.3f} / {:.3f} ms", kRows[a].searcher,
                                      plan::name_of(kRows[a].scheduler), kRows[b].searcher,
                                      plan::name_of(kRows[b].scheduler), ours[a], ours[b]);
        }
    }
    fmt::print("pairs in the other order than published: {} of {}", pairs,
               kRows.size() * (kRows.size() - 1) / 2);
    fmt::print("; among partitioners at pct, and schedulers of a partitioner:{}\n",
               departures.empty() ? " none" : departures);
}

void mayer_grid(benchmark::State& state) {
    const cost::Machine machine = cost::load_machine("mayer-50");
    for ([[maybe_unused]] auto _ : state) {
        print_grid(conv_net(kBatch), 0, machine);
        print_grid(lstm(kBatch, kHidden, /*length_masks=*/true), 1, machine);
        print_grid(lstm(kBatch, kHidden, /*length_masks=*/false), 2, machine);
        std::fflush(stdout);
    }
}
BENCHMARK(mayer_grid)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace partita::bench
