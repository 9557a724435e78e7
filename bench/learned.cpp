// SPDX-License-Identifier: Apache-2.0
//
// How well learned placers place, beside the searchers that do not learn: six fixed cases.
//
//     learned_bench --searcher rl,rl-hierarchical,mcmc --seconds 300 --seeds 3 --csv FILE
//
// Prints value, gap to the lower bound, placements per minute. With --csv a table that was
// interrupted goes on where it stopped. Further options change how `rl` learns, for ablations.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "bench/case_models.h"
#include "bench/learner_flags.h"
#include "bench/run_main.h"
#include "rl/rl_search.h"
#include "search/portfolio/search_run.h"
#include "search/portfolio/searcher_table.h"

namespace partita::bench {
namespace {

using plan::Mode;
using plan::Objective;

struct Options {
    CaseBudget budget{.threads = 2};
    std::string only;
    std::string searchers = "rl";
    std::uint64_t seeds = 1;  ///< 1, 2, ... of those that draw
    std::string before;       ///< a searcher whose plan `rl` begins with
    std::string csv;          ///< what is in it is not run again
    bool verbose = false;
};

std::vector<Case> cases() {
    return {
        {.name = "alexnet", .make = network("alexnet", 256, "p100-cluster:1x4")},
        {.name = "language-model", .make = network("language-model", 64, "p100-cluster:1x4")},
        {.name = "bert-base",
         .make = onnx("bert-base", {{"batch", 16}, {"sequence", 128}}, "p100-cluster:1x4")},
        {.name = "inception-v3", .make = network("inception-v3", 64, "a100-t4")},
        {.name = "bert_l-3-inference",
         .mode = Mode::inference,
         .objective = Objective::throughput,
         .make = workload("throughput/op_bert_l-3_inference")},
        {.name = "gnmt-training",
         .mode = Mode::inference,
         .objective = Objective::throughput,
         .make = workload("throughput/layer_gnmt_training")},
    };
}

rl::LearnerOptions& learner_options() {
    static rl::LearnerOptions options;
    return options;
}

rl::Lessons& lessons() {
    static rl::Lessons lessons;
    return lessons;
}

std::unique_ptr<search::Searcher> make_rl(search::Engine& /*engine*/) {
    lessons() = {};
    return std::make_unique<rl::RlSearch>(rl::RlOptions{.learner = learner_options()}, lessons());
}

/// One search: a line of the table, and of the file.
struct Row {
    std::string name;  ///< case, searcher, seed, threads, budget: what it is known by
    double milliseconds = 0;
    double gap = 0;
    std::int64_t evaluations = 0;
    double seconds = 0;
};

/// A new file begins with the names of its columns.
void add_to(const std::string& file, const Row& row) {
    const bool is_new = !std::filesystem::exists(file);
    std::ofstream csv(file, std::ios::app);
    if (is_new) {
        csv << "case,searcher,seed,threads,seconds budget,evaluations budget,ms,gap,evaluations,"
               "seconds\n";
    }
    csv << fmt::format("{},{:.6f},{:.6f},{},{:.2f}\n", row.name, row.milliseconds, row.gap,
                       row.evaluations, row.seconds);
}

/// The line that begins with that name; empty: there is none.
std::string known_line(const std::string& file, const std::string& name) {
    std::ifstream lines(file);
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with(name + ",")) return line;
    }
    return "";
}

void watch(search::EngineOptions& engine, double every) {
    engine.progress = [every, next = 0.0](const search::Progress& progress) mutable {
        const double seconds = std::chrono::duration<double>(progress.elapsed).count();
        if (seconds < next || !progress.best) return;
        next = seconds + every;
        fmt::print(stderr, "    {:6.1f} s {:8} {:12.4f} ms\n", seconds, progress.evaluations,
                   to_milliseconds(*progress.best));
    };
}

Row run(const plan::Problem& problem, const std::string& searcher, const Options& options) {
    const bool learns = searcher.starts_with("rl");
    constexpr std::int64_t kGroups = 32;  // as rl-hierarchical has them
    const std::int64_t groups_asked = learner_options().net.groups;
    if (searcher == "rl-hierarchical") learner_options().net.groups = kGroups;
    search::EngineOptions engine = engine_options(learns ? "auto" : searcher, options.budget);
    if (options.verbose) watch(engine, options.budget.seconds / 8);
    std::vector<search::SearcherRow> rows;
    if (!options.before.empty()) rows.push_back(*search::find_searcher(options.before));
    rows.push_back({.name = "rl", .summary = "", .make = make_rl});
    const auto result =
        learns ? search::search(problem, engine, rows) : search::search(problem, engine);
    learner_options().net.groups = groups_asked;
    return {.milliseconds = to_milliseconds(result.evaluation.value),
            .gap = result.gap.value_or(0),
            .evaluations = result.evaluations,
            .seconds = std::chrono::duration<double>(result.elapsed).count()};
}

bool draws(const std::string& searcher) {
    return searcher.starts_with("rl") || searcher == "mcmc" || searcher == "auto" ||
           searcher == "random" || searcher == "local-search";
}

void run_case(const Case& of, const Options& options) {
    const CaseModel model = of.make();
    const plan::Problem problem = make_problem(of, model);
    std::stringstream names(options.searchers);
    for (std::string searcher; std::getline(names, searcher, ',');) {
        for (std::uint64_t seed = 1; seed <= (draws(searcher) ? options.seeds : 1); ++seed) {
            Options own = options;
            if (options.seeds > 1) own.budget.seed = seed;
            const std::string name =
                fmt::format("{},{},{},{},{:g},{}", of.name, searcher, own.budget.seed,
                            own.budget.threads, own.budget.seconds, own.budget.evaluations);
            if (!options.csv.empty() && !known_line(options.csv, name).empty()) continue;
            Row row = run(problem, searcher, own);
            row.name = name;
            fmt::print("{:<20}{:<18}{:>3}{:>14.4f} ms{:>9.1f} %{:>10}{:>8.0f} s{:>10.0f}/min\n",
                       of.name, searcher, own.budget.seed, row.milliseconds, 100 * row.gap,
                       row.evaluations, row.seconds,
                       static_cast<double>(row.evaluations) / row.seconds * 60);
            std::fflush(stdout);
            if (!options.csv.empty()) add_to(options.csv, row);
        }
    }
}

int start(int argc, char** argv) {
    Options options;
    CLI::App app("Learned placers beside others.");
    app.add_option("--seconds", options.budget.seconds, "budget of a search, default 30");
    app.add_option("--evaluations", options.budget.evaluations);
    app.add_option("--seed", options.budget.seed);
    app.add_option("--threads", options.budget.threads)->check(CLI::Range(1, 1'024));
    app.add_option("--only", options.only, "cases whose name contains this");
    app.add_option("--searcher", options.searchers, "one or more, with commas");
    app.add_option("--seeds", options.seeds, "as many seeds, from 1 on");
    app.add_option("--csv", options.csv, "adds every search to this file; what it has is not run");
    app.add_flag("--verbose", options.verbose, "how far a search is");
    app.add_option("--before", options.before);
    add_learner_flags(app, learner_options());
    CLI11_PARSE(app, argc, argv);
    if (options.budget.seconds <= 0 && options.budget.evaluations <= 0) options.budget.seconds = 30;
    for (const Case& of : cases()) {
        if (of.name.find(options.only) != std::string::npos) run_case(of, options);
    }
    return 0;
}

}  // namespace
}  // namespace partita::bench

int main(int argc, char** argv) {
    return partita::bench::run_main("learned_bench", partita::bench::start, argc, argv);
}
