// SPDX-License-Identifier: Apache-2.0
//
// How long `elimination` takes, and how good it is: networks in training on one node of P100, or
// more, beside OptCNN's published times.
//
//     elimination_bench                                   the published networks, 4 GPUs, batch 32 a GPU
//     elimination_bench --networks resnet-50,nmt --devices 16 --mcmc 4000
//
// CPU seconds of this thread: "space" prices all configs and pairs, "solve" eliminates once,
// "search" is all of it in an engine: space, three eliminations, their evaluations, bound and
// baselines. Values in ms: in the additive evaluator, and as step times of the timeline.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <numeric>
#include <string>
#include <vector>

#include "bench/machines.h"
#include "bench/networks.h"
#include "bench/published_search_times.h"
#include "bench/run_main.h"
#include "cost/cost_model.h"
#include "cost/machine/machine_file.h"
#include "plan/evaluation/additive.h"
#include "plan/problem/problem.h"
#include "search/configs/standard_configs.h"
#include "search/hybrid_parallel/data_parallel.h"
#include "search/portfolio/search_run.h"
#include "search/variable_elimination/elimination_space.h"
#include "search/variable_elimination/variable_elimination.h"

namespace partita::bench {
namespace {

struct Options {
    std::vector<std::string> networks;
    int devices = 4;
    std::int64_t samples = 32;
    std::int64_t memory_gib = 64;
    std::int64_t mcmc = 0;
};

double cpu_seconds() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

search::SearchResult run(const plan::Problem& problem, const char* searcher,
                         std::int64_t evaluations) {
    search::EngineOptions options;
    options.searchers = {searcher};
    if (evaluations > 0) options.evaluations = evaluations;
    return search::search(problem, options);
}

void print_row(const std::string& name, const Options& options) {
    const graph::OpGraph graph = make_network(name, options.samples * options.devices);
    const int per_node = std::min(options.devices, 4);
    const cost::Machine machine = with_memory(
        cost::load_machine(fmt::format("p100-cluster:{}x{}", options.devices / per_node, per_node)),
        options.memory_gib);
    plan::ProblemOptions kind{.mode = plan::Mode::training,
                              .objective = plan::Objective::step_time};
    const plan::Problem problem(graph, machine, cost::default_cost_model(), kind);

    const double begin = cpu_seconds();
    const std::vector<int> devices = search::equal_devices(problem);
    search::EliminationSpace space(problem, devices, search::detail_for(problem, devices.size()));
    const double built = cpu_seconds();
    const search::CostGraph costs = space.costs({});
    const search::Elimination best = search::eliminate(costs);
    const double solved = cpu_seconds();
    const search::SearchResult found = run(problem, "elimination", 0);
    const double searched = cpu_seconds();

    plan::LoweringCache cache(problem);
    const plan::Strategy data_parallel = search::data_parallel_strategy(
        problem, plan::DeviceSet::progression(0, options.devices, 1));
    const auto published =
        std::ranges::find(kPublishedEliminations, name, &PublishedElimination::network);
    const auto baseline =
        std::ranges::find(found.baselines, "data-parallel", &search::Baseline::name);
    std::string mcmc = "-";
    if (options.mcmc > 0) {
        mcmc = fmt::format("{:.2f}",
                           to_milliseconds(run(problem, "mcmc", options.mcmc).evaluation.value));
    }
    fmt::print(
        "{:<15}{:>5}{:>6}{:>6}{:>8.3f}{:>8.3f}{:>8.3f}{:>10}{:>10.2f}{:>10.2f}{:>10.2f}{:>10}{:>10}"
        "\n",
        name, space.variables(), space.most_choices(), best.width, built - begin, solved - built,
        searched - solved,
        published == kPublishedEliminations.end() ? "-" : fmt::format("{}", published->elimination),
        to_milliseconds(Time{best.value}),
        to_milliseconds(plan::additive_time(problem, data_parallel, cache)),
        to_milliseconds(found.evaluation.value),
        baseline == found.baselines.end() || !baseline->value
            ? "-"
            : fmt::format("{:.2f}", to_milliseconds(*baseline->value)),
        mcmc);
    std::fflush(stdout);
}

int start(int argc, char** argv) {
    Options options;
    for (const PublishedElimination& row : kPublishedEliminations) {
        options.networks.emplace_back(row.network);
    }
    CLI::App app("Time and value of elimination, beside OptCNN's times.");
    app.add_option("--networks", options.networks)->delimiter(',');
    app.add_option("--devices", options.devices, "1, 2, 3 or a multiple of 4")
        ->check(CLI::Range(1, 1'024));
    app.add_option("--samples", options.samples, "per GPU")->check(CLI::Range(1, 1'024));
    app.add_option("--memory-gib", options.memory_gib, "of a GPU")->check(CLI::Range(1, 1'024));
    app.add_option("--mcmc", options.mcmc, "compare with mcmc of so many evaluations");
    CLI11_PARSE(app, argc, argv);
    fmt::print("{:<15}{:>5}{:>6}{:>6}{:>8}{:>8}{:>8}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}\n",
               "network", "ops", "conf.", "width", "space", "solve", "search", "OptCNN s",
               "additive", "of d.par.", "step time", "data par.", "mcmc");
    for (const std::string& name : options.networks) print_row(name, options);
    return 0;
}

}  // namespace
}  // namespace partita::bench

int main(int argc, char** argv) {
    return partita::bench::run_main("elimination_bench", partita::bench::start, argc, argv);
}
