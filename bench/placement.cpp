// SPDX-License-Identifier: Apache-2.0
//
// The public workloads with given costs beside what is known of them (REFERENCES 8): every searcher
// of the list on every workload, for the throughput objective, and for latency on those made for
// it.
//
//     placement_bench                                      contiguous, auto and local-search
//     placement_bench --searcher contiguous,mcmc --seconds 10 --threads 2 --only bert
//
// Prints objective, value, the best known plan of any kind, value by that and by the best known
// contiguous plan, the gap (value by the engine's lower bound - 1), CPU seconds of all threads and
// the largest resident memory, which starts from that of the program itself (some ten MB). A value
// below the best known one, by more than that one is rounded, is called a record.
#include <sys/resource.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "bench/repository.h"
#include "bench/run_main.h"
#include "cost/cost_model.h"
#include "cost/machine/workload_machine.h"
#include "importers/workload/workload.h"
#include "plan/problem/problem.h"
#include "search/portfolio/search_run.h"
#include "search/portfolio/searcher_table.h"

namespace partita::bench {
namespace {

struct Options {
    std::vector<std::string> searchers{"contiguous", "auto", "local-search"};
    double seconds = 0;  ///< of each search; 0: no limit
    std::int64_t evaluations = 0;
    std::uint64_t seed = 1;
    int threads = 1;
    std::string engine = "both";  ///< of exact
    std::string only;
};

/// Milliseconds, REFERENCES 8: the contiguous optimum (for latency, the split of the published
/// dynamic program for throughput) and the best known plan.
struct Case {
    std::string_view file;
    double contiguous;
    double best;
    std::string_view folder = "throughput";  ///< and the objective
};
constexpr std::array kCases = {
    Case{"layer_bert24_inference", 17.78990625, 17.71471875},
    Case{"layer_bert24_training", 41.7458125, 39.7895388794},
    Case{"layer_gnmt_inference", 32.9106582031, 31.6873105469},
    Case{"layer_gnmt_training", 107.0044140625, 88.4622421875},
    Case{"layer_resnet50_inference", 33.7746660156, 33.3805976563},
    Case{"layer_resnet50_training", 78.6318125, 76.3631074219},
    Case{"op_bert_l-3_inference", 27.9185676799, 21.9083761057},
    Case{"op_bert_l-3_training", 65.3031491221, 54.2073991917},
    Case{"op_resnet50_inference", 124.3488497740, 124.3488497740},
    Case{"op_resnet50_training", 255.1944164522, 255.1944164522},
    Case{"bert24_inference", 108.031, 100.2185, "latency"},
    Case{"gnmt_inference", 244.330578125, 225.647890625, "latency"},
    Case{"op_bert_l-3_inference", 414.4409555822, 408.4744081857, "latency"},
    Case{"op_resnet50_inference", 1123.6529954962, 666.0743722734, "latency"},
};

/// Of the numbers above, as a share.
constexpr double kRounding = 1e-9;

double cpu_seconds() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// From now on the largest resident memory is counted anew, where the system lets us.
void forget_peak() {
    std::ofstream("/proc/self/clear_refs") << "5";
}

double peak_megabytes() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) / 1024;
    }
    return 0;
}

/// Of what a solver says in floating point; empty: nothing.
std::string numerical_gap(const search::SearchResult& result) {
    if (!result.numerical_bound || !result.numerical_bound->gap) return "";
    return fmt::format("{:.4f}", 100 * *result.numerical_bound->gap);
}

void print_row(const Case& of, const plan::Problem& problem, const std::string& searcher,
               const Options& options) {
    search::EngineOptions engine;
    engine.searchers = {searcher};
    engine.seed = options.seed;
    engine.threads = options.threads;
    if (options.seconds > 0) {
        engine.time_limit = std::chrono::duration_cast<search::Duration>(
            std::chrono::duration<double>(options.seconds));
    }
    if (options.evaluations > 0) engine.evaluations = options.evaluations;
    engine.default_budget = options.seconds <= 0 && options.evaluations <= 0;
    engine.exact_engine = search::parse_exact_engine(options.engine);
    forget_peak();
    const double begin = cpu_seconds();
    const search::SearchResult result = search::search(problem, engine);
    const double cpu = cpu_seconds() - begin;
    if (!result.has_plan()) {
        fmt::print("{:<26}{:<14}{:<12}{:>15}\n", of.file, searcher, name_of(problem.objective()),
                   "no plan fits");
        return;
    }
    const double value = to_milliseconds(result.evaluation.value);
    const bool record = value < of.best * (1 - kRounding);
    fmt::print(
        "{:<26}{:<14}{:<12}{:>15.10f}{:>16.10f}{:>10.5f}{:>11.5f}{:>9.2f}{:>10}{:>10.3f}{:>8.1f}{}"
        "\n",
        of.file, searcher, name_of(problem.objective()), value, of.best, value / of.best,
        value / of.contiguous, 100 * result.gap.value_or(0), numerical_gap(result), cpu,
        peak_megabytes(), record ? "  record" : "");
    std::fflush(stdout);
}

void run_case(const Case& of, const Options& options) {
    const auto model = importers::import_workload(repository() / "examples/workloads" / of.folder /
                                                  fmt::format("{}.json", of.file));
    const cost::Machine machine = cost::make_workload_machine(model.graph, model.accelerators,
                                                              model.cpus, model.accelerator_memory);
    plan::ProblemOptions kind{.objective = of.folder == "latency" ? plan::Objective::latency
                                                                  : plan::Objective::throughput};
    kind.constraints.together = importers::color_classes(model.graph);
    const plan::Problem problem(model.graph, machine, cost::default_cost_model(), kind);
    for (const std::string& searcher : options.searchers) {
        print_row(of, problem, searcher, options);
    }
}

int start(int argc, char** argv) {
    Options options;
    CLI::App app("Searchers on the public workloads, beside the best known plans.");
    app.add_option("--searcher", options.searchers,
                   "default: contiguous,auto,local-search; all: every one that does not learn")
        ->delimiter(',');
    app.add_option("--seconds", options.seconds, "budget of a search; default: none");
    app.add_option("--evaluations", options.evaluations, "budget of a search; default: none");
    app.add_option("--engine", options.engine, "of exact: own, highs or both (default)");
    app.add_option("--seed", options.seed);
    app.add_option("--threads", options.threads)->check(CLI::Range(1, 1'024));
    app.add_option("--only", options.only, "workloads whose name contains this");
    CLI11_PARSE(app, argc, argv);
    if (options.searchers == std::vector<std::string>{"all"}) {
        options.searchers.clear();
        for (const auto& row : search::searcher_table()) {
            if (!row.learned) options.searchers.emplace_back(row.name);
        }
    }
    fmt::print("{:<26}{:<14}{:<12}{:>15}{:>16}{:>10}{:>11}{:>9}{:>10}{:>10}{:>8}\n", "workload",
               "searcher", "objective", "value, ms", "known best", "/ known", "/ contig.", "gap, %",
               "HiGHS, %", "CPU s", "MB");
    for (const Case& of : kCases) {
        if (of.file.find(options.only) != std::string_view::npos) run_case(of, options);
    }
    return 0;
}

}  // namespace
}  // namespace partita::bench

int main(int argc, char** argv) {
    return partita::bench::run_main("placement_bench", partita::bench::start, argc, argv);
}
