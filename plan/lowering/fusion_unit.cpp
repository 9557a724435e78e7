// SPDX-License-Identifier: Apache-2.0
#include "plan/lowering/fusion_unit.h"

namespace partita::plan {

namespace {

const PartBlock& block_of(const TensorEvents& events, std::int32_t block) {
    return events.blocks[static_cast<std::size_t>(block)];
}

}  // namespace

FusionUnit fetch_unit(const Problem& problem, const StrategyTensors& layouts, std::size_t row,
                      const TensorEvent& event) {
    const TensorEvents& of = layouts.events()[row];
    const graph::OpId parameter = problem.graph().tensor(of.tensor).producer;
    const std::int32_t bucket = problem.facts().buckets().of_fetches(parameter);
    const PartBlock& readers = block_of(of, event.block);
    if (bucket < 0) return {.block = readers};
    return {.bucket = bucket,
            .device = layouts.of(readers.op, readers.micro_batch).devices[0],
            .backward = readers.pass != Pass::forward,
            .micro_batch = event.micro_batch,
            .block = {}};
}

FusionUnit fusion_unit(const Problem& problem, const StrategyTensors& layouts, std::size_t row,
                       const TensorTasks& tasks, std::size_t task) {
    const std::int32_t fusion = tasks.fusion_blocks[task];
    const TensorEvents& of = layouts.events()[row];
    if (!in_bucket(fusion)) return {.block = block_of(of, fusion)};
    const TensorEvent& event = of.events[event_of(tasks, task)];
    if (is_bucket_fetch(fusion)) return fetch_unit(problem, layouts, row, event);
    const graph::OpId parameter = problem.graph().tensor(of.tensor).producer;
    return {.bucket = problem.facts().buckets().of(parameter),
            .micro_batch = event.micro_batch,
            .block = {}};
}

}  // namespace partita::plan
