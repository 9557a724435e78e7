// SPDX-License-Identifier: Apache-2.0
//
// Large graphs: a workload file and an ONNX file of 100,000 nodes from text to plan with
// critical-path, time per phase and peak memory of the process so far; and what one task costs to
// lower and to simulate.
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/generators.h"
#include "cost/cost_model.h"
#include "cost/machine/machine_file.h"
#include "cost/machine/workload_machine.h"
#include "importers/onnx/onnx_importer.h"
#include "importers/workload/workload.h"
#include "plan/files/plan_file.h"
#include "plan/lowering/lower.h"
#include "plan/problem/problem.h"
#include "plan/simulation/peak_memory.h"
#include "search/bounds/lower_bound.h"
#include "search/portfolio/search_run.h"

namespace partita::bench {
namespace {

constexpr int kNodes = 100'000;

class Phases {
public:
    void end(std::string_view phase) {
        const auto now = std::chrono::steady_clock::now();
        const std::chrono::duration<double> spent = now - last_;
        rusage usage{};
        getrusage(RUSAGE_SELF, &usage);
        fmt::print("{:<28}{:>8.3f} s    peak {:>6.0f} MiB\n", phase, spent.count(),
                   static_cast<double>(usage.ru_maxrss) / 1024);
        last_ = std::chrono::steady_clock::now();
    }

private:
    std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

void plan_of(const graph::OpGraph& graph, Phases& phases) {
    const cost::Machine machine = cost::load_machine("mayer-50");
    const plan::Problem problem(graph, machine, cost::default_cost_model(), {});
    phases.end("problem");
    static_cast<void>(search::lower_bound(problem));
    phases.end("lower bound (once more below)");
    search::EngineOptions options;
    options.searchers = {"critical-path"};
    const search::SearchResult result = search::search(problem, options);
    phases.end("search");
    const plan::Priced priced =
        plan::price(problem, result.strategy, result.scheduler, plan::Listed::folded_if_many);
    const std::string plan = plan::to_json(search::make_plan(problem, result, priced));
    phases.end("plan.json");
    fmt::print("{} ops, value {}, lower bound {}, {} tasks, {} bytes of plan.json\n",
               graph.op_count(), to_text(result.evaluation.value), to_text(result.lower_bound),
               priced.tasks.whole_size(), plan.size());
    std::fflush(stdout);
}

void workload_to_plan(benchmark::State& state) {
    const std::string text = large_workload_json(kNodes, /*seed=*/1);
    for ([[maybe_unused]] auto _ : state) {
        Phases phases;
        const importers::WorkloadModel model = importers::parse_workload(text, "large.json");
        phases.end("import");
        plan_of(model.graph, phases);
    }
}
BENCHMARK(workload_to_plan)->Iterations(1)->Unit(benchmark::kMillisecond);

void onnx_to_plan(benchmark::State& state) {
    const std::string file = large_onnx_model(kNodes);
    for ([[maybe_unused]] auto _ : state) {
        Phases phases;
        const importers::OnnxModel model =
            importers::import_onnx(std::as_bytes(std::span(file)), {.batch = 32});
        phases.end("import");
        plan_of(model.graph, phases);
    }
}
BENCHMARK(onnx_to_plan)->Iterations(1)->Unit(benchmark::kMillisecond);

/// The LSTM's tasks over 8 devices in round robin: many copies, deep dependencies.
struct Lowered {
    Lowered() : machine(cost::load_machine("dgx-a100")), model(lstm(128, 128, true)) {
        problem = std::make_unique<plan::Problem>(model.graph, machine, cost::default_cost_model(),
                                                  plan::ProblemOptions{});
        std::vector<int> devices;
        for (std::size_t i = 0; i < model.graph.op_count(); ++i) {
            devices.push_back(static_cast<int>(i) % machine.device_count());
        }
        strategy = plan::whole_ops(devices, {});
        tasks = plan::lower(*problem, strategy);
    }

    cost::Machine machine;
    GeneratedModel model;
    std::unique_ptr<plan::Problem> problem;
    plan::Strategy strategy;
    plan::TaskGraph tasks;
};

void count_tasks(benchmark::State& state, const plan::TaskGraph& tasks) {
    state.counters["tasks"] = static_cast<double>(tasks.size());
    state.counters["per task"] = benchmark::Counter(
        static_cast<double>(tasks.size()),
        benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void lower(benchmark::State& state) {
    const Lowered lowered;
    for ([[maybe_unused]] auto _ : state) {
        benchmark::DoNotOptimize(plan::lower(*lowered.problem, lowered.strategy));
    }
    count_tasks(state, lowered.tasks);
}
BENCHMARK(lower);

void simulate(benchmark::State& state) {
    const Lowered lowered;
    const auto scheduler = static_cast<plan::Scheduler>(state.range(0));
    for ([[maybe_unused]] auto _ : state) {
        benchmark::DoNotOptimize(plan::simulate(lowered.tasks, scheduler));
    }
    state.SetLabel(std::string(plan::name_of(scheduler)));
    count_tasks(state, lowered.tasks);
}
BENCHMARK(simulate)
    ->Arg(static_cast<int>(plan::Scheduler::fifo))
    ->Arg(static_cast<int>(plan::Scheduler::pct))
    ->Arg(static_cast<int>(plan::Scheduler::msr));

void peak_memory(benchmark::State& state) {
    const Lowered lowered;
    const auto order = plan::simulate(lowered.tasks, plan::Scheduler::pct).commit_order;
    for ([[maybe_unused]] auto _ : state) {
        benchmark::DoNotOptimize(plan::peak_memory(lowered.tasks, order));
    }
    count_tasks(state, lowered.tasks);
}
BENCHMARK(peak_memory);

}  // namespace
}  // namespace partita::bench
