// SPDX-License-Identifier: Apache-2.0
//
// How many distinct proposals a chain evaluates per second, one thread, with what FlexFlow's delta
// simulation did on networks of as many ops (REFERENCES.md 6):
//
//     chains_bench --seconds 10 --machine p100-cluster:2
//
//     near    from data parallelism (in a schedule: expert's pipeline), at a temperature of 0.2 % of
//             the value
//     mixed   from a random state, at 0.2 % of the value
//     hot     from a random state, at 0.2 % of its value there: the chain stays among such states
//
// A proposal is another config of a random op. One that was rejected in the same state before is
// neither evaluated nor counted. Time is that of evaluating and accepting; drawing is printed
// apart.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "bench/machines.h"
#include "bench/networks.h"
#include "bench/run_main.h"
#include "cost/cost_model.h"
#include "cost/machine/machine_file.h"
#include "plan/incremental/evaluator.h"
#include "plan/strategy/pipeline_schedule.h"
#include "search/configs/written_change.h"
#include "search/mcmc/chain.h"
#include "search/portfolio/search_run.h"

namespace partita::bench {
namespace {

struct Options {
    double seconds = 10;
    std::int64_t proposals = 0;  ///< instead, if not 0: the same work each time
    std::string machine = "p100-cluster:2";
    std::int64_t memory_gib = 1024;
    int micro_batches = 1;
    std::string schedule = "none";
    std::string only;   ///< networks whose name contains it
    std::string chain;  ///< the same of chains
};

/// FlexFlow's simulator of July 2018 (scripts/simulator.cc): full simulations a second on one core
/// of a machine with two under Debian 12, of as many ops on 8 workers. Not published.
struct Row {
    const char* network;
    double flexflow;
};
constexpr Row kRows[] = {{"alexnet", 15'400},
                         {"nmt", 4'340},
                         {"resnet-101-chain", 3'160},
                         {"inception-v3", 1'980},
                         {"densenet-121", 1'320}};

constexpr double kTemperature = 0.002;
/// After so many proposals the value is printed: what they are worth, whatever they cost.
constexpr std::int64_t kEqualProposals = 1'000;

/// Of this thread on a processor: what else runs does not count.
double seconds_now() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

plan::ProblemOptions training(const Options& options) {
    const auto schedule = plan::schedule_from_text(options.schedule);
    if (!schedule) throw UsageError("--schedule: one of " + plan::schedule_names());
    return {.mode = plan::Mode::training,
            .objective = plan::Objective::step_time,
            .policy = {.micro_batches = options.micro_batches, .schedule = *schedule}};
}

/// Everything that one row of the table needs.
struct Case {
    Case(const Row& row, const Options& options)
        : machine(with_memory(cost::load_machine(options.machine), options.memory_gib)),
          graph(make_network(row.network,
                             find_network(row.network).samples_per_gpu * machine.device_count())),
          problem(graph, machine, cost::default_cost_model(), training(options)),
          start(search::search(problem, {.searchers = {problem.policy().schedule == plan::Schedule{}
                                                           ? "data-parallel"
                                                           : "expert"}})
                    .strategy),
          groups(problem, search::make_groups(problem, search::Grouping::all)),
          space(groups) {}

    cost::Machine machine;
    graph::OpGraph graph;
    plan::Problem problem;
    plan::Strategy start;
    search::GroupGraph groups;
    search::SearchSpace space;
};

class Run {
public:
    Run(Case& of, const plan::Strategy& start)
        : case_(of),
          evaluator_(of.problem),
          chain_(of.space, start, evaluator_.start(start), search::Random(1)) {}

    /// One proposal at a temperature that is a share of the value.
    void step(double temperature) {
        const search::Move* const moves[] = {search::find_move("change-degrees"),
                                             search::find_move("change-devices")};
        const double begin = seconds_now();
        const bool drawn = chain_.draw(moves, temperature) && chain_.known() == nullptr;
        const double middle = seconds_now();
        drawing += middle - begin;
        if (!drawn) return;
        const auto& change = change_.write(chain_.changes(), case_.space.table());
        const auto score = evaluator_.evaluate(change, chain_.limit());
        if (score) evaluator_.accept();
        evaluating += seconds_now() - middle;
        ++proposals;
        if (score) {
            chain_.accept(*score);
            ++acceptances;
        } else {
            chain_.reject(std::nullopt);
        }
        if (proposals == kEqualProposals) value_then = value();
    }

    [[nodiscard]] double value() const {
        return static_cast<double>(evaluator_.score().value.raw());
    }
    [[nodiscard]] const plan::IncrementalEvaluator& evaluator() const { return evaluator_; }
    [[nodiscard]] const plan::Strategy& strategy() const { return evaluator_.strategy(); }

    double drawing = 0;
    double evaluating = 0;
    double value_then = 0;  ///< after kEqualProposals; 0: there were fewer
    std::int64_t proposals = 0;
    std::int64_t acceptances = 0;

private:
    Case& case_;
    plan::IncrementalEvaluator evaluator_;
    search::Chain chain_;
    search::WrittenChange change_;
};

/// Accepts nearly everything, but for what needs more memory than there is.
plan::Strategy random_state(Case& of) {
    Run run(of, of.start);
    const auto ops = static_cast<std::int64_t>(of.graph.op_count());
    for (std::int64_t i = 0; i < 30 * ops && run.acceptances < 3 * ops; ++i) run.step(1e3);
    return run.strategy();
}

/// Evaluations a second of whole strategies.
double whole_rate(const plan::Problem& problem, const plan::Strategy& strategy) {
    const auto evaluator = plan::make_evaluator(problem, plan::Scheduler::rank);
    static_cast<void>(evaluator->evaluate(strategy));
    const double begin = seconds_now();
    int count = 0;
    for (; seconds_now() - begin < 0.5; ++count) {
        static_cast<void>(evaluator->evaluate(strategy));
    }
    return count / (seconds_now() - begin);
}

void print(const Row& row, const char* chain, const Case& of, const Run& run, double before) {
    const auto count = static_cast<double>(run.proposals);
    const plan::EvaluatorEffort& effort = run.evaluator().effort();
    const plan::TimelineEffort* const known = run.evaluator().timeline_effort();
    const plan::TimelineEffort timeline = known != nullptr ? *known : plan::TimelineEffort{};
    const double rate = count / run.evaluating;
    const double whole = whole_rate(of.problem, run.strategy());
    const double tasks = std::max(1.0, static_cast<double>(run.evaluator().tasks()));
    const double by_load = static_cast<double>(effort.rejected_by_parts + effort.rejected_by_load +
                                               timeline.rejected_by_load);
    fmt::print(
        "{:16} {:5} {:6} {:9.0f} {:7.2f} {:7.1f} {:6.1f} {:6.1f} {:8.1f} {:7.2f} {:7.0f} {:7.0f} "
        "{:7.1f} {:9.2f} {:9.2f} {:9.2f}\n",
        row.network, chain, tasks, rate, rate / row.flexflow, 1e6 * run.drawing / count,
        100 * static_cast<double>(run.acceptances) / count, 100 * by_load / count,
        100 * static_cast<double>(effort.memory) / count,
        100 * static_cast<double>(timeline.replayed) / count / tasks,
        1e9 * run.evaluating / static_cast<double>(timeline.replayed), whole, rate / whole,
        before / 1e9, run.value_then / 1e9, run.value() / 1e9);
    std::fflush(stdout);
}

void measure(const Row& row, const Options& options) {
    Case of(row, options);
    const plan::Strategy mixed = random_state(of);
    for (const char* const chain : {"near", "mixed", "hot"}) {
        if (std::string_view(chain).find(options.chain) == std::string_view::npos) continue;
        const bool near = std::string_view(chain) == "near";
        const bool hot = std::string_view(chain) == "hot";
        Run run(of, near ? of.start : mixed);
        const double before = run.value();
        const double begin = seconds_now();
        const auto goes_on = [&] {
            if (options.proposals > 0) return run.proposals < options.proposals;
            return seconds_now() - begin < options.seconds;
        };
        while (goes_on()) {
            run.step(kTemperature * (hot ? before / run.value() : 1));
        }
        print(row, chain, of, run, before);
    }
}

int run(int argc, char** argv) {
    Options options;
    CLI::App app{"Distinct proposals evaluated per second"};
    app.add_option("--seconds", options.seconds, "of each chain")->check(CLI::PositiveNumber);
    app.add_option("--proposals", options.proposals,
                   "of each chain, instead of seconds: the same work each time")
        ->check(CLI::PositiveNumber);
    app.add_option("--machine", options.machine, "as for partita plan");
    app.add_option("--memory-gib", options.memory_gib,
                   "of each device; with little, what is quick enough has its memory looked at");
    app.add_option("--micro-batches", options.micro_batches, "of every strategy")
        ->check(CLI::PositiveNumber);
    app.add_option("--schedule", options.schedule,
                   "of every strategy; then from expert's pipeline");
    app.add_option("--only", options.only, "networks whose name contains this");
    app.add_option("--chain", options.chain, "near, mixed or hot alone");
    CLI11_PARSE(app, argc, argv);
    fmt::print(
        "{:16} {:5} {:>6} {:>9} {:>7} {:>7} {:>6} {:>6} {:>8} {:>7} {:>7} {:>7} {:>7} {:>9} {:>9} "
        "{:>9}\n",
        "network", "chain", "tasks", "1/s", "x publ.", "draw us", "acc. %", "load %", "memory %",
        "touch %", "ns/task", "whole/s", "x whole", "start ms", "1000th ms", "end ms");
    for (const Row& row : kRows) {
        const bool wanted =
            std::string_view(row.network).find(options.only) != std::string_view::npos;
        if (wanted) measure(row, options);
    }
    return 0;
}

}  // namespace
}  // namespace partita::bench

int main(int argc, char** argv) {
    return partita::bench::run_main("chains_bench", partita::bench::run, argc, argv);
}
