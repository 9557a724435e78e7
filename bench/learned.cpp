// SPDX-License-Identifier: Apache-2.0
//
// How well learned placers place, beside the searchers that do not learn: six fixed cases.
//
//     learned_bench --searcher rl --seconds 300                  learns
//     learned_bench --searcher mcmc --seconds 300                for comparison
//
// Prints value, gap to the lower bound, placements per minute.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "bench/case_models.h"
#include "rl/learner_options.h"
#include "rl/rl_search.h"
#include "search/engine.h"
#include "search/searchers.h"

namespace partita::bench {
namespace {

using plan::Mode;
using plan::Objective;

struct Options {
    CaseBudget budget{.threads = 2};
    std::string only;
    std::string searcher = "rl";
    std::string before;  ///< a searcher whose plan `rl` begins with
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

std::unique_ptr<search::Searcher> make_rl(search::Engine& /*engine*/) {
    static rl::Lessons lessons;
    lessons = {};
    return std::make_unique<rl::RlSearch>(rl::RlOptions{.learner = learner_options()}, lessons);
}

void print_case(const Case& of, const Options& options) {
    const CaseModel model = of.make();
    const plan::Problem problem = make_problem(of, model);
    const bool learns = options.searcher == "rl";
    search::EngineOptions engine =
        engine_options(learns ? "auto" : options.searcher, options.budget);
    double next = 0;
    engine.progress = [&](const search::Progress& progress) {
        const double seconds = std::chrono::duration<double>(progress.elapsed).count();
        if (seconds < next || !progress.best) return;
        next = seconds + options.budget.seconds / 8;
        fmt::print(stderr, "    {:6.1f} s {:8} {:12.4f} ms\n", seconds, progress.evaluations,
                   to_milliseconds(*progress.best));
    };
    const search::SearcherRow rl{.name = "rl", .summary = "", .options = "", .make = make_rl};
    search::Engine search(problem, engine);
    std::vector<search::SearcherRow> rows;
    if (!options.before.empty()) rows.push_back(*search::find_searcher(options.before));
    rows.push_back(rl);
    const auto result = learns ? search.run(rows) : search.run();
    const double seconds = std::chrono::duration<double>(result.elapsed).count();
    fmt::print("{:<20}{:>5}{:<14}{:>14.4f} ms{:>10.1f} %{:>10}{:>8.0f} s{:>10.0f}/min\n", of.name,
               "", options.searcher, to_milliseconds(result.evaluation.value),
               100 * result.gap.value_or(0), result.evaluations, seconds,
               static_cast<double>(result.evaluations) / seconds * 60);
    std::fflush(stdout);
}

int start(int argc, char** argv) {
    Options options;
    rl::LearnerOptions& learner = learner_options();
    CLI::App app("Learned placers beside others.");
    app.add_option("--seconds", options.budget.seconds, "budget of a search, default 30");
    app.add_option("--evaluations", options.budget.evaluations);
    app.add_option("--seed", options.budget.seed);
    app.add_option("--threads", options.budget.threads)->check(CLI::Range(1, 1'024));
    app.add_option("--only", options.only, "cases whose name contains this");
    app.add_option("--searcher", options.searcher);
    app.add_option("--before", options.before);
    app.add_option("--batch", learner.batch);
    app.add_option("--rate", learner.rate);
    app.add_option("--entropy", learner.entropy);
    app.add_option("--elites", learner.elites);
    app.add_option("--elite-weight", learner.elite_weight);
    app.add_option("--epochs", learner.epochs);
    app.add_option("--hidden", learner.net.hidden);
    app.add_option("--graph-layers", learner.net.graph_layers);
    app.add_option("--sequence", learner.net.sequence);
    app.add_option("--revise", learner.revise);
    app.add_option("--explore", learner.explore);
    app.add_option("--whim", learner.whim);
    app.add_option("--prior", learner.net.prior);
    CLI11_PARSE(app, argc, argv);
    if (options.budget.seconds <= 0 && options.budget.evaluations <= 0) options.budget.seconds = 30;
    try {
        for (const Case& of : cases()) {
            if (of.name.find(options.only) != std::string::npos) print_case(of, options);
        }
    } catch (const std::exception& error) {
        fmt::print(stderr, "learned_bench: {}\n", error.what());
        return 1;
    }
    return 0;
}

}  // namespace
}  // namespace partita::bench

int main(int argc, char** argv) {
    return partita::bench::start(argc, argv);
}
