// SPDX-License-Identifier: Apache-2.0
//
// Do predictions hold? Profiles models on this host's cores, predicts strategies by the profile and
// runs them:
//
//     accuracy_bench                        all models, one core and two, to a table
//     accuracy_bench --only resnet50 --csv rows.csv
//
// Strategies on two cores: every placer and searcher, mcmc with several budgets, random placements,
// and random splits of one op in ten, one in three, and all ops, each in one, two and four
// micro-batches. On one core, where an op has one config: up to 64 micro-batches, and orders. In
// training, optimizers too.
//
// Profile and strategies are measured in rounds, all of them in turn, and the quickest round
// counts: other guests of the host slow a machine down for seconds at a time.
//
// Per model it prints the median and the 90th percentile of |predicted / measured - 1|, Spearman's
// rank correlation, and the noise: the median over the strategies of half of what their rounds
// differ by.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/loaded_model.h"
#include "api/pricing.h"
#include "api/profiler.h"
#include "api/request.h"
#include "api/runtime_library.h"
#include "api/transfer_probes.h"
#include "base/statistics.h"
#include "bench/random_splits.h"
#include "bench/repository.h"
#include "bench/run_main.h"
#include "cost/machine/machine_file.h"
#include "cost/profile/profile_database.h"
#include "search/portfolio/search_run.h"
#include "search/portfolio/searcher_table.h"
#include "search/profiling/covering_strategies.h"

namespace partita::bench {
namespace {

using plan::Mode;

struct Options {
    std::string only;
    std::string mode;      ///< empty: both
    int cores = 0;         ///< 0: one and two
    std::string strategy;  ///< those whose name contains it
    std::filesystem::path database = "accuracy.sqlite";
    std::filesystem::path csv;
    int iterations = 15;
    int rounds = 3;
    std::uint64_t seed = 1;
    bool verbose = false;
};

struct Case {
    std::string name;
    std::string file;
    ImportOptions import;
    Mode mode;
};

std::vector<Case> cases() {
    std::vector<Case> all;
    for (const Mode mode : {Mode::inference, Mode::training}) {
        const auto add = [&](const std::string& name, const std::string& file,
                             ImportOptions import) {
            all.push_back({name, file, std::move(import), mode});
        };
        add("mlp", "runnable/mlp/model.onnx", {.batch = 256});
        add("convnet", "runnable/convnet/model.onnx", {.batch = 32});
        add("lstm", "runnable/lstm/model.onnx", {.bindings = {{"sequence", 32}}, .batch = 32});
        add("encoder-layer", "runnable/encoder-layer/model.onnx",
            {.bindings = {{"sequence", 64}}, .batch = 16});
        add("dlrm-tiny", "runnable/dlrm-tiny/model.onnx", {.batch = 512});
        add("resnet50", "models/resnet50.onnx", {.batch = 2});
        add("lstm-lm", "models/lstm-lm.onnx", {.bindings = {{"sequence", 16}}, .batch = 8});
        add("bert-base", "models/bert-base.onnx", {.bindings = {{"sequence", 128}}, .batch = 2});
    }
    return all;
}

struct Row {
    std::string strategy;
    Time predicted;
    Time measured;       ///< in the quickest round
    double noise = 0.0;  ///< half of (slowest - quickest), over the quickest
};

/// Ranks from 0, ties share their mean.
std::vector<double> ranks(const std::vector<double>& values) {
    std::vector<std::size_t> order(values.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, {}, [&](std::size_t i) { return values[i]; });
    std::vector<double> ranks(values.size());
    for (std::size_t first = 0; first < order.size();) {
        std::size_t last = first;
        while (last < order.size() && values[order[last]] == values[order[first]]) ++last;
        for (std::size_t i = first; i < last; ++i) {
            ranks[order[i]] = static_cast<double>(first + last - 1) / 2.0;
        }
        first = last;
    }
    return ranks;
}

double spearman(const std::vector<Row>& rows) {
    std::vector<double> predicted;
    std::vector<double> measured;
    for (const Row& row : rows) {
        predicted.push_back(static_cast<double>(row.predicted.raw()));
        measured.push_back(static_cast<double>(row.measured.raw()));
    }
    const std::vector<double> a = ranks(predicted);
    const std::vector<double> b = ranks(measured);
    const double mean = static_cast<double>(rows.size() - 1) / 2.0;
    double ab = 0.0;
    double aa = 0.0;
    double bb = 0.0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        ab += (a[i] - mean) * (b[i] - mean);
        aa += (a[i] - mean) * (a[i] - mean);
        bb += (b[i] - mean) * (b[i] - mean);
    }
    return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 0.0;
}

/// All for one model, mode and number of cores.
class Trial {
public:
    Trial(const Case& which, int cores, const Options& options)
        : case_(which),
          options_(options),
          cores_(cores),
          model_(api::load_model(repository() / "examples" / which.file, which.import)),
          machine_(cost::load_machine(fmt::format("cpu:{}", cores))) {}

    std::vector<Row> run() {
        profile();
        costs_ = api::load_costs(options_.database, machine_);
        for_each_policy([&](const plan::Problem& problem) {
            problems_.push_back(std::make_unique<plan::Problem>(problem));
            if (cores_ == 1) return add_orders(*problems_.back());
            if (problem.policy().micro_batches == 1) add_found(*problems_.back());
            add_random(*problems_.back());
        });
        for (int round = 0; round < options_.rounds; ++round) {
            for (Candidate& each : candidates_) measure(each);
        }
        return rows();
    }

private:
    /// All that the batch allows.
    void for_each_policy(const std::function<void(const plan::Problem&)>& use) const {
        std::vector<plan::Optimizer> optimizers = {plan::Optimizer::sgd};
        if (cores_ == 1 && case_.mode == Mode::training) {
            optimizers.insert(optimizers.end(), {plan::Optimizer::momentum, plan::Optimizer::adam});
        }
        for (const plan::Optimizer optimizer : optimizers) {
            const int most = cores_ == 1 ? 64 : 4;
            for (int micro_batches = 1; micro_batches <= most; micro_batches *= 2) {
                plan::ProblemOptions options;
                options.mode = case_.mode;
                options.objective = api::default_objective(case_.mode, model_);
                options.policy.optimizer = optimizer;
                options.policy.micro_batches = micro_batches;
                std::optional<plan::Problem> problem;
                try {
                    problem.emplace(api::make_problem(model_, machine_, options, costs_));
                } catch (const UsageError&) {
                    continue;  // the batch cannot be cut so
                }
                use(*problem);
            }
        }
    }

    runtime::SourceOptions sources() {
        runtime::SourceOptions options;
        options.model = model_.source.get();
        options.random_weights = 1;
        return options;
    }

    void profile() {
        auto database = cost::ProfileDatabase::create(options_.database);
        api::ProfilerOptions options;
        options.sources = sources();
        options.iterations = options_.iterations;
        options.rounds = options_.rounds;
        api::Profiler profiler(api::load_runtime(), database, options);
        if (cores_ > 1) api::measure_transfers(profiler, machine_);
        for_each_policy([&](const plan::Problem& problem) {
            profiler.measure(problem, search::covering_strategies(problem));
        });
    }

    struct Candidate {
        std::string name;
        const plan::Problem* problem = nullptr;
        plan::Strategy strategy;
        plan::Priced priced;
        std::vector<Time> measured;            ///< per round the median
        std::vector<runtime::TaskTime> times;  ///< in the quickest round
    };

    void add(const plan::Problem& problem, const std::string& name, plan::Strategy strategy,
             plan::Scheduler scheduler) {
        if (name.find(options_.strategy) == std::string::npos) return;
        plan::Priced priced = plan::price(problem, strategy, scheduler, plan::Listed::all);
        if (!seen_.insert({digest(priced.tasks), scheduler}).second) return;
        candidates_.push_back({.name = name,
                               .problem = &problem,
                               .strategy = std::move(strategy),
                               .priced = std::move(priced),
                               .measured = {},
                               .times = {}});
    }

    void measure(Candidate& which) {
        runtime::ExecuteResult result =
            api::load_runtime().execute({.problem = which.problem,
                                         .strategy = &which.strategy,
                                         .tasks = &which.priced.tasks,
                                         .order = which.priced.timeline->commit_order,
                                         .devices = "",
                                         .sources = sources(),
                                         .warmup = 2,
                                         .iterations = options_.iterations,
                                         .until_stable = true,
                                         .learning_rate = {},
                                         .expected = {}});
        std::vector<Time>& times = result.iterations;
        const auto middle = times.begin() + std::ssize(times) / 2;
        std::ranges::nth_element(times, middle);
        if (which.measured.empty() || *middle < std::ranges::min(which.measured)) {
            which.times = std::move(result.times);
        }
        which.measured.push_back(*middle);
    }

    std::vector<Row> rows() const {
        std::vector<Row> rows;
        for (const Candidate& each : candidates_) {
            const auto [least, most] = std::ranges::minmax(each.measured);
            rows.push_back({.strategy = each.name,
                            .predicted = each.priced.timeline->makespan,
                            .measured = least,
                            .noise = (most - least) / least / 2});
            if (!options_.verbose) continue;
            const Row& row = rows.back();
            fmt::print("  {:26} predicted {:>9}  measured {:>9} +- {:4.1f} %  {:+6.1f} %\n",
                       each.name, to_text(row.predicted), to_text(row.measured), 100 * row.noise,
                       100 * (row.predicted / row.measured - 1));
            print_worst(each);
        }
        return rows;
    }

    /// The tasks that the prediction misses most.
    static void print_worst(const Candidate& which) {
        constexpr std::size_t kWorst = 3;
        const auto& tasks = which.priced.tasks.tasks;
        std::vector<std::size_t> order(tasks.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        const auto error = [&](std::size_t t) {
            return std::abs((which.times[t].median - tasks[t].duration).raw());
        };
        std::ranges::sort(order, std::greater<>(), error);
        for (std::size_t i = 0; i < std::min(kWorst, order.size()); ++i) {
            const std::size_t t = order[i];
            fmt::print("    {:40} predicted {:>9}  measured {:>9}\n",
                       plan::task_name(*which.problem, tasks[t]), to_text(tasks[t].duration),
                       to_text(which.times[t].median));
        }
    }

    void add_orders(const plan::Problem& problem) {
        const plan::Policy& policy = problem.policy();
        const plan::Strategy whole =
            plan::whole_ops(std::vector<int>(problem.graph().op_count(), 0), policy);
        for (const auto scheduler : {plan::Scheduler::pct, plan::Scheduler::fifo}) {
            add(problem,
                fmt::format("{} micro-batches {} {}", policy.micro_batches, name_of(scheduler),
                            name_of(policy.optimizer)),
                whole, scheduler);
        }
    }

    void add_found(const plan::Problem& problem, const std::string& searchers,
                   std::int64_t evaluations, std::uint64_t seed) {
        search::EngineOptions options;
        options.searchers = search::parse_searchers(searchers);
        options.evaluations = evaluations;
        options.seed = seed;
        const auto found = search::search(problem, std::move(options));
        add(problem, fmt::format("{} {} {}", searchers, evaluations, seed), found.strategy,
            plan::Scheduler::pct);
    }

    void add_found(const plan::Problem& problem) {
        for (const char* searcher : {"single-device", "data-parallel", "expert", "critical-path",
                                     "multi-objective", "heft", "m-etf", "hash", "dfs"}) {
            add_found(problem, searcher, 1'000, options_.seed);
        }
        for (const std::int64_t evaluations : {20, 200, 2'000}) {
            for (std::uint64_t seed = 1; seed <= 2; ++seed) {
                add_found(problem, "mcmc", evaluations, seed);
            }
        }
        for (std::uint64_t seed = 1; seed <= 3; ++seed) add_found(problem, "random", 1, seed);
    }

    void add_random(const plan::Problem& problem) {
        for (const double share : {0.1, 0.33, 1.0}) {
            for (std::uint64_t seed = 1; seed <= 2; ++seed) {
                add(problem,
                    fmt::format("{:.0f} % at random {} in {}", 100 * share, seed,
                                problem.policy().micro_batches),
                    random_splits(problem, share, options_.seed + seed), plan::Scheduler::pct);
            }
        }
    }

    const Case& case_;
    const Options& options_;
    int cores_;
    api::LoadedModel model_;
    cost::Machine machine_;
    api::Costs costs_;
    std::set<std::pair<std::string, plan::Scheduler>> seen_;
    std::vector<std::unique_ptr<plan::Problem>> problems_;
    std::vector<Candidate> candidates_;
};

void print_row(const Case& which, int cores, const std::vector<Row>& rows) {
    std::vector<double> errors;
    std::vector<double> noises;
    for (const Row& row : rows) {
        errors.push_back(std::abs(row.predicted / row.measured - 1));
        noises.push_back(row.noise);
    }
    const auto [least, most] = std::ranges::minmax(rows, {}, &Row::measured);
    fmt::print("{:14} {:9} {:5} {:10} {:>9} {:>9} {:8.1f} % {:5.1f} % {:8.3f} {:7.1f} %\n",
               which.name, name_of(which.mode), cores, rows.size(), to_text(least.measured),
               to_text(most.measured), 100 * quantile(errors, 0.5), 100 * quantile(errors, 0.9),
               spearman(rows), 100 * quantile(noises, 0.5));
    std::fflush(stdout);
}

void write_rows(const std::filesystem::path& file, const Case& which, int cores,
                const std::vector<Row>& rows) {
    const bool is_new = !std::filesystem::exists(file);
    std::ofstream out(file, std::ios::app);
    if (is_new) out << "model,mode,cores,strategy,predicted_ps,measured_ps,noise\n";
    for (const Row& row : rows) {
        out << fmt::format("{},{},{},{},{},{},{:.4f}\n", which.name, name_of(which.mode), cores,
                           row.strategy, row.predicted.raw(), row.measured.raw(), row.noise);
    }
}

int run(int argc, char** argv) {
    Options options;
    CLI::App app("Predicted against measured times of many strategies on this host's cores.");
    app.add_option("--only", options.only, "models whose name contains this");
    app.add_option("--mode", options.mode, "inference or training; both when left out");
    app.add_option("--cores", options.cores, "1 or 2; both when left out");
    app.add_option("--strategy", options.strategy, "strategies whose name contains this");
    app.add_option("--db", options.database, "the profile; what it has is not measured again");
    app.add_option("--csv", options.csv, "adds every strategy to this file");
    app.add_option("--iterations", options.iterations, "of each strategy, at most");
    app.add_option("--rounds", options.rounds, "in which all is repeated");
    app.add_option("--seed", options.seed);
    app.add_flag("--verbose", options.verbose, "a line per strategy");
    CLI11_PARSE(app, argc, argv);
    fmt::print("{:14} {:9} {:>5} {:>10} {:>9} {:>9} {:>10} {:>7} {:>8} {:>9}\n", "model", "mode",
               "cores", "strategies", "fastest", "slowest", "median err", "p90", "Spearman",
               "noise");
    for (const Case& each : cases()) {
        if (each.name.find(options.only) == std::string::npos) continue;
        if (!options.mode.empty() && options.mode != name_of(each.mode)) continue;
        for (const int cores : {1, 2}) {
            if (options.cores != 0 && options.cores != cores) continue;
            const std::vector<Row> rows = Trial(each, cores, options).run();
            print_row(each, cores, rows);
            if (!options.csv.empty()) write_rows(options.csv, each, cores, rows);
        }
    }
    return 0;
}

}  // namespace
}  // namespace partita::bench

int main(int argc, char** argv) {
    return partita::bench::run_main("accuracy_bench", partita::bench::run, argc, argv);
}
