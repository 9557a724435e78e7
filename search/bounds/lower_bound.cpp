// SPDX-License-Identifier: Apache-2.0
#include "search/bounds/lower_bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "graph/op_graph.h"
#include "plan/evaluation/max_load.h"
#include "plan/evaluation/subgraph_latency.h"
#include "search/bounds/chain_bound.h"
#include "search/bounds/critical_path_bound.h"
#include "search/bounds/work_bound.h"
#include "search/call_latency/call_bound.h"
#include "search/max_load/branch_and_bound/load_bound.h"
#include "search/part_costs/micro_batch_costs.h"
#include "search/part_costs/part_costs.h"

namespace partita::search {

namespace {

std::string devices(int count) {
    return fmt::format("{} device{}", count, count == 1 ? "" : "s");
}

std::string named(const plan::Problem& problem, graph::OpId op) {
    return op.valid() ? fmt::format("'{}'", problem.graph().op(op).name) : std::string("no op");
}

/// Of equals the first stays.
void raise(LowerBound& bound, Time value, std::string limited_by) {
    if (value <= bound.value) return;
    bound.value = value;
    bound.limited_by = std::move(limited_by);
}

void raise_by_work(LowerBound& bound, const plan::Problem& problem, const WorkBound& work) {
    bound.work = work.work();
    bound.unit = work.unit();
    const int tight = work.devices_short_of_memory();
    raise(bound, bound.unit,
          fmt::format("{} on its best device", named(problem, work.longest_op())));
    raise(bound, bound.work,
          tight > 0 ? "memory of " + devices(tight) : "work of " + devices(problem.device_count()));
}

void raise_by_path(LowerBound& bound, const plan::Problem& problem,
                   const CriticalPathBounds& path) {
    bound.critical_path = path.critical_path;
    raise(bound, bound.critical_path,
          fmt::format("critical path through {}", named(problem, path.on_path)));
}

/// Numbers 2, 3 and 7.
LowerBound throughput_bound(const plan::Problem& problem) {
    const MicroBatchCosts times(problem, 1);
    const WorkBound work(problem, times);
    LowerBound bound;
    bound.shortage = work.shortage();
    raise_by_work(bound, problem, work);
    if (!plan::has_given_costs(problem) || !bound.shortage.empty()) return bound;
    bound.cuts = load_bound(problem, bound.value);
    raise(bound, bound.cuts, "work and communication of " + devices(problem.device_count()));
    return bound;
}

/// What the bounds of a number of micro-batches are made of.
struct OfMicroBatches {
    OfMicroBatches(const plan::Problem& problem, int micro_batches)
        : times(problem, micro_batches),
          work(problem, times),
          parts(problem, times, work.classes().device) {}

    MicroBatchCosts times;
    WorkBound work;
    PartCosts parts;
    LowerBound bound;
};

/// Numbers 1 to 6, of plans with so many micro-batches.
std::unique_ptr<OfMicroBatches> quick_bounds(const plan::Problem& problem, int micro_batches) {
    auto of = std::make_unique<OfMicroBatches>(problem, micro_batches);
    LowerBound& bound = of->bound;
    bound.shortage = of->work.shortage();
    bound.micro_batches = micro_batches;
    const CriticalPathBounds path = critical_path_bounds(problem, of->times, of->parts, of->work);
    raise_by_path(bound, problem, path);
    if (plan::is_subgraph_latency(problem)) {
        bound.calls = call_bound(problem);
        raise(bound, bound.calls, "memory, which cuts a path into calls");
        return of;
    }
    raise_by_work(bound, problem, of->work);
    bound.windows = path.windows;
    bound.stage = path.stage;
    raise(bound, bound.windows,
          fmt::format("work of {}, with what must come before and after it",
                      devices(problem.device_count())));
    raise(bound, bound.stage,
          fmt::format("all micro-batches through the stage of {}",
                      named(problem, path.longest_stage)));
    return of;
}

/// Number 8.
void raise_by_chain(OfMicroBatches& of, const plan::Problem& problem) {
    const ChainBound chain = chain_bound(problem, of.times, of.parts, of.work);
    of.bound.chain = chain.value;
    raise(of.bound, of.bound.chain,
          fmt::format("work of {}, more of it the shorter the chain from {} to {}",
                      devices(problem.device_count()), named(problem, chain.first),
                      named(problem, chain.last)));
}

}  // namespace

LowerBound lower_bound(const plan::Problem& problem) {
    if (problem.objective() == plan::Objective::throughput) return throughput_bound(problem);
    std::vector<std::unique_ptr<OfMicroBatches>> all;
    for (const int micro_batches : problem.batch().micro_batch_choices()) {
        all.push_back(quick_bounds(problem, micro_batches));
    }
    // Of equals that of fewer micro-batches.
    std::ranges::sort(all, {}, [](const auto& of) {
        return std::pair(of->bound.value, of->bound.micro_batches);
    });
    // Number 8 only raises a bound, so those that are above one that has it stay as they are.
    LowerBound* least = nullptr;
    for (const auto& of : all) {
        if (least != nullptr && least->value <= of->bound.value) break;
        if (!plan::is_subgraph_latency(problem)) raise_by_chain(*of, problem);
        if (least == nullptr || of->bound.value < least->value) least = &of->bound;
    }
    if (least->micro_batches > 1 && !least->limited_by.empty()) {
        least->limited_by += fmt::format(", in {} micro-batches", least->micro_batches);
    }
    return std::move(*least);
}

}  // namespace partita::search
