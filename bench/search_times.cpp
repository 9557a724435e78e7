// SPDX-License-Identifier: Apache-2.0
//
// How long a search takes until its plan is good, beside the times that FlexFlow published: five
// networks in training on the P100 cluster (4 GPUs a node), 4 to 64 GPUs, per-GPU batches as there.
//
//     search_times_bench --seconds 60 --seeds 3                 all 25 cases, the default searcher
//     search_times_bench --networks alexnet --devices 4,8 --evaluations 200      a short proof
//     search_times_bench --samples 16                           smaller batches: more to gain
//
// Each search adds a line to results/search_times-DATE.csv at once; what a file of the folder has
// is not done again, so an interrupted run goes on where it was. "best" is the best that any search
// in the folder ever found for the case; "to 1 %" the median time over the searches of this kind
// until the plan was at most 1 % above that, and how many of them came so far.
//
// FlexFlow's simulator knows no memory, and a parameter read by 40 steps has 40 gradients before
// they are added: GPUs have --memory-gib 64 here. Its ResNet is ResNet-101; its translator and
// language model have vocabularies that it does not state.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "base/sha256.h"
#include "bench/machines.h"
#include "bench/networks.h"
#include "bench/published_search_times.h"
#include "bench/repository.h"
#include "bench/run_main.h"
#include "bench/search_record.h"
#include "cost/cost_model.h"
#include "cost/machine/machine_file.h"
#include "plan/evaluation/evaluator.h"
#include "plan/files/plan_file.h"
#include "plan/problem/problem.h"
#include "search/hybrid_parallel/data_parallel.h"
#include "search/portfolio/search_run.h"
#include "search/portfolio/searcher_table.h"

namespace partita::bench {
namespace {

struct Options {
    std::vector<std::string> networks;
    std::vector<int> devices{kPublishedDevices.begin(), kPublishedDevices.end()};
    std::string searcher = "mcmc";
    std::uint64_t seeds = 3;
    int threads = 1;
    double seconds = 0;
    std::int64_t evaluations = 0;
    std::int64_t memory_gib = 64;
    std::int64_t samples = 0;  ///< per GPU; 0: as in the paper
    std::string results = (repository() / "bench/results").string();
};

/// `p100-cluster` with that many GPUs of that much memory.
cost::Machine cluster(int devices, std::int64_t memory_gib) {
    const int per_node = std::min(devices, 4);
    return with_memory(
        cost::load_machine(fmt::format("p100-cluster:{}x{}", devices / per_node, per_node)),
        memory_gib);
}

/// One network on one machine, and what all of its searches are compared with.
class Workload {
public:
    Workload(const NetworkRow& network, int devices, const Options& options)
        : samples_(options.samples > 0 ? options.samples : network.samples_per_gpu),
          graph_(network.make(samples_ * devices)),
          machine_(cluster(devices, options.memory_gib)),
          problem_(graph_, machine_, cost::default_cost_model(),
                   {.mode = plan::Mode::training, .objective = plan::Objective::step_time}) {
        record_.of.network = network.name;
        record_.of.devices = devices;
        record_.of.samples_per_gpu = samples_;
        price_data_parallel();
        run_heuristics();
        record_.of.problem = Sha256()
                                 .add(problem_.model_digest())
                                 .add(cost::digest(machine_))
                                 .add(problem_.costs_digest())
                                 .add(record_.data_parallel.raw())
                                 .finish()
                                 .substr(0, 12);
    }

    /// Everything but what a search finds.
    [[nodiscard]] const SearchRecord& record() const { return record_; }

    [[nodiscard]] SearchRecord search(const SearchCase& of) const {
        SearchRecord record = record_;
        record.of = of;
        record.date = fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)));
        search::EngineOptions options;
        options.searchers = {of.searcher};
        options.seed = of.seed;
        options.threads = of.threads;
        if (of.seconds > 0) {
            options.time_limit = std::chrono::duration_cast<search::Duration>(
                std::chrono::duration<double>(of.seconds));
        }
        if (of.most_evaluations > 0) options.evaluations = of.most_evaluations;
        options.progress = [&record](const search::Progress& progress) {
            const auto& last = record.trajectory;
            if (!progress.best || (!last.empty() && last.back().value == *progress.best)) return;
            record.trajectory.push_back({seconds(progress.elapsed), *progress.best});
        };
        const search::SearchResult result = search::search(problem_, options);
        record.value = result.evaluation.value;
        record.lower_bound = result.lower_bound;
        record.evaluations = result.evaluations;
        record.elapsed = seconds(result.elapsed);
        return record;
    }

private:
    /// In milliseconds: what is stored shall be readable.
    static double seconds(search::Duration duration) {
        const std::chrono::duration<double, std::milli> milliseconds = duration;
        return std::round(milliseconds.count()) / 1e3;
    }

    void price_data_parallel() {
        const plan::DeviceSet devices = plan::DeviceSet::progression(0, problem_.device_count(), 1);
        const auto evaluator = plan::make_evaluator(problem_, plan::Scheduler::pct);
        const plan::Evaluation evaluation =
            evaluator->evaluate(search::data_parallel_strategy(problem_, devices));
        if (evaluation.feasible()) record_.data_parallel = evaluation.value;
    }

    void run_heuristics() {
        search::EngineOptions options;
        options.searchers.clear();
        for (const search::SearcherRow& row : search::searcher_table()) {
            if (row.in_auto) options.searchers.emplace_back(row.name);
        }
        const search::SearchResult result = search::search(problem_, options);
        if (result.evaluation.feasible()) record_.heuristics = result.evaluation.value;
        record_.heuristics_seconds = seconds(result.elapsed);
    }

    std::int64_t samples_;  ///< per GPU
    graph::OpGraph graph_;
    cost::Machine machine_;
    plan::Problem problem_;
    SearchRecord record_;
};

/// The searches of one case that are asked for, done or read; and the best of all that were ever.
struct Outcome {
    SearchRecord base;
    std::vector<SearchRecord> records;
    Time best = Time::max();
};

class Runs {
public:
    explicit Runs(const Options& options)
        : options_(options),
          folder_(options.results),
          file_(folder_ /
                fmt::format("search_times-{:%Y-%m-%d}.csv", fmt::gmtime(std::time(nullptr)))),
          known_(read_records(folder_)) {
        std::filesystem::create_directories(folder_);
        if (std::filesystem::exists(file_)) {
            today_ = records_from_csv(read_text_file(file_), file_.string());
        }
    }

    Outcome run(const NetworkRow& network, int devices) {
        const Workload workload(network, devices, options_);
        Outcome outcome{.base = workload.record(), .records = {}};
        for (std::uint64_t seed = 1; seed <= options_.seeds; ++seed) {
            SearchCase of = workload.record().of;
            of.searcher = options_.searcher;
            of.seed = seed;
            of.threads = options_.threads;
            of.seconds = options_.seconds;
            of.most_evaluations = options_.evaluations;
            const auto done = std::ranges::find(known_, of, &SearchRecord::of);
            if (done == known_.end()) {
                outcome.records.push_back(workload.search(of));
                keep(outcome.records.back());
            } else {
                outcome.records.push_back(*done);
            }
        }
        for (const SearchRecord& record : known_) {
            if (record.of.problem == outcome.base.of.problem) {
                outcome.best = std::min(outcome.best, record.value);
            }
        }
        return outcome;
    }

private:
    void keep(const SearchRecord& record) {
        known_.push_back(record);
        today_.push_back(record);
        write_file(file_, to_csv(today_));
    }

    const Options& options_;
    std::filesystem::path folder_;
    std::filesystem::path file_;
    std::vector<SearchRecord> known_;  ///< of all files
    std::vector<SearchRecord> today_;  ///< of the file that is written
};

/// The median; of those that never came so far: infinite.
std::string median_time(const Outcome& outcome) {
    std::vector<double> times;
    for (const SearchRecord& record : outcome.records) {
        const auto time = seconds_to(record, outcome.best, 0.01);
        if (time) times.push_back(*time);
    }
    std::ranges::sort(times);
    const std::size_t middle = (outcome.records.size() - 1) / 2;
    const std::string count = fmt::format("({}/{})", times.size(), outcome.records.size());
    if (middle >= times.size()) return "> budget " + count;
    return fmt::format("{:.2f} s {}", times[middle], count);
}

std::string milliseconds_of(Time time) {
    return time > Time{0} ? fmt::format("{:.2f}", to_milliseconds(time)) : "-";
}

void print_header(const Options& options) {
    fmt::print("{} per search of {}, {} seeds, {} threads, {} GiB a GPU; times in ms\n\n",
               options.seconds > 0 ? fmt::format("{} s", options.seconds)
                                   : fmt::format("{} evaluations", options.evaluations),
               options.searcher, options.seeds, options.threads, options.memory_gib);
    fmt::print("{:<15}{:>4}{:>8}{:>10}{:>10}{:>10}{:>10}{:>9}{:>10}{:>9}{:>18}{:>23}\n", "network",
               "GPUs", "samples", "bound", "best", "data par.", "quick", "quick s", "speed-up",
               "eval/s", "to 1 %", "FlexFlow full/delta s");
}

void print_row(const Outcome& outcome) {
    const SearchRecord& base = outcome.base;
    const auto published =
        std::ranges::find(kPublishedSearchTimes, base.of.network, &PublishedSearchTimes::network);
    const auto column = std::ranges::find(kPublishedDevices, base.of.devices);
    std::string theirs = "-";
    if (published != kPublishedSearchTimes.end() && column != kPublishedDevices.end()) {
        const auto at = static_cast<std::size_t>(column - kPublishedDevices.begin());
        theirs = fmt::format("{} / {}", published->seconds[at].full, published->seconds[at].delta);
    }
    double evaluations = 0;
    double elapsed = 0;
    for (const SearchRecord& record : outcome.records) {
        evaluations += static_cast<double>(record.evaluations);
        elapsed += record.elapsed;
    }
    const std::string speed_up = base.data_parallel > Time{0}
                                     ? fmt::format("{:.2f}", base.data_parallel / outcome.best)
                                     : "-";
    fmt::print("{:<15}{:>4}{:>8}{:>10}{:>10}{:>10}{:>10}{:>9.2f}{:>10}{:>9.0f}{:>18}{:>23}\n",
               base.of.network, base.of.devices, base.of.samples_per_gpu,
               milliseconds_of(outcome.records.front().lower_bound), milliseconds_of(outcome.best),
               milliseconds_of(base.data_parallel), milliseconds_of(base.heuristics),
               base.heuristics_seconds, speed_up, elapsed > 0 ? evaluations / elapsed : 0,
               median_time(outcome), theirs);
    std::fflush(stdout);
}

void run(const Options& options) {
    Runs runs(options);
    print_header(options);
    for (const std::string& network : options.networks) {
        for (const int devices : options.devices) {
            print_row(runs.run(find_network(network), devices));
        }
    }
}

int start(int argc, char** argv) {
    Options options;
    for (const PublishedSearchTimes& row : kPublishedSearchTimes) {
        options.networks.emplace_back(row.network);
    }
    CLI::App app("Time of a search until its plan is good, beside FlexFlow's.");
    app.add_option("--networks", options.networks)->delimiter(',');
    app.add_option("--devices", options.devices, "1, 2, 3 or multiples of 4")
        ->delimiter(',')
        ->check(CLI::Range(1, 1'024));
    app.add_option("--searcher", options.searcher, "one name");
    app.add_option("--seeds", options.seeds, "1 to N")->check(CLI::Range(1, 100));
    app.add_option("--threads", options.threads)->check(CLI::Range(1, 1'024));
    app.add_option("--seconds", options.seconds, "budget of a search, default 60");
    app.add_option("--evaluations", options.evaluations, "budget of a search, instead or beside");
    app.add_option("--memory-gib", options.memory_gib, "of a GPU")->check(CLI::Range(1, 1'024));
    app.add_option("--samples", options.samples,
                   "per GPU, default 64 (AlexNet 256) as in the paper")
        ->check(CLI::Range(1, 1'024));
    app.add_option("--results", options.results, "folder");
    CLI11_PARSE(app, argc, argv);
    if (options.seconds <= 0 && options.evaluations <= 0) options.seconds = 60;
    run(options);
    return 0;
}

}  // namespace
}  // namespace partita::bench

int main(int argc, char** argv) {
    return partita::bench::run_main("search_times_bench", partita::bench::start, argc, argv);
}
