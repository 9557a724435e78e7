// SPDX-License-Identifier: Apache-2.0
#include "plan/lowering/block_order.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <tuple>

namespace partita::plan {

namespace {

constexpr std::size_t kBlocks = 3;  // forward, backward, weights: of a micro-batch in a chunk

Pipeline pipeline_in(const Problem& problem, const Strategy& strategy) {
    const bool scheduled = strategy.policy.schedule.kind != ScheduleKind::none;
    return scheduled ? pipeline_of(problem, strategy) : Pipeline{};
}

}  // namespace

BlockOrder::BlockOrder(const Problem& problem, const Strategy& strategy)
    : BlockOrder(problem, strategy.policy, pipeline_in(problem, strategy)) {}

BlockOrder::BlockOrder(const Problem& problem, const Policy& policy, Pipeline pipeline)
    : micro_batches_(policy.micro_batches),
      splits_backward_(splits_backward_of(policy.schedule)),
      pipeline_(std::move(pipeline)) {
    const Schedule schedule = policy.schedule;
    if (schedule.kind == ScheduleKind::none) return;
    const PipelineShape shape{.stages = pipeline_.stages,
                              .micro_batches = micro_batches_,
                              .training = problem.mode() == Mode::training};
    const std::size_t positions =
        static_cast<std::size_t>(pipeline_.stages) * static_cast<std::size_t>(schedule.chunks);
    schedule_keys_.assign(kBlocks * positions * static_cast<std::size_t>(micro_batches_), -1);
    for (int stage = 0; stage < pipeline_.stages; ++stage) {
        std::int32_t schedule_key = 0;
        for (const Block& block : sequence_of(schedule, shape, stage)) {
            const int position = stage + pipeline_.stages * block.chunk;
            schedule_keys_[index_of(position, block.micro_batch, block.pass)] = schedule_key++;
        }
    }
}

std::size_t BlockOrder::index_of(int position, int micro_batch, Pass pass) const {
    const auto row = static_cast<std::size_t>(position) * static_cast<std::size_t>(micro_batches_);
    const std::size_t first = kBlocks * (row + static_cast<std::size_t>(micro_batch));
    if (pass == Pass::forward) return first;
    // What runs again is part of the backward, and so are gradients of weights where no block is
    // theirs.
    return first + (pass == Pass::weights && splits_backward_ ? 2 : 1);
}

std::int32_t BlockOrder::of(graph::OpId op, int micro_batch, Pass pass) const {
    if (schedule_keys_.empty() || !pipeline_.has(op)) return -1;
    return schedule_keys_[index_of(pipeline_.position[op.index()], micro_batch, pass)];
}

namespace {

/// A block on one device.
using BlockKey = std::pair<std::int32_t, std::int32_t>;  // device, schedule key

BlockKey block_of(const Task& task) {
    return {task.device, task.schedule_key};
}

/// Of every task whether another of its block comes before it, or after it. Seen through one task
/// of no block, so that a collective inside a block counts as part of it.
struct Inside {
    std::vector<char> has_before;
    std::vector<char> has_after;
};

Inside find_inside(const std::vector<Task>& tasks,
                   const std::vector<std::pair<TaskId, TaskId>>& edges) {
    const auto task = [&](TaskId id) -> const Task& { return tasks[id.index()]; };
    Inside inside{std::vector<char>(tasks.size()), std::vector<char>(tasks.size())};
    std::vector<std::pair<TaskId, TaskId>> into;    // (task of no block, of a block)
    std::vector<std::pair<TaskId, TaskId>> out_of;  // the same
    for (const auto& [before, after] : edges) {
        const bool from_block = task(before).schedule_key >= 0;
        const bool to_block = task(after).schedule_key >= 0;
        if (from_block && to_block && block_of(task(before)) == block_of(task(after))) {
            inside.has_after[before.index()] = 1;
            inside.has_before[after.index()] = 1;
        }
        if (from_block && !to_block) into.emplace_back(after, before);
        if (!from_block && to_block) out_of.emplace_back(before, after);
    }
    const auto by_block = [&](const auto& a, const auto& b) {
        return std::tuple(a.first, block_of(task(a.second))) <
               std::tuple(b.first, block_of(task(b.second)));
    };
    std::sort(into.begin(), into.end(), by_block);
    std::sort(out_of.begin(), out_of.end(), by_block);
    const auto mark = [&](const auto& links, const auto& others, std::vector<char>& of) {
        for (const auto& link : links) {
            const bool both = std::binary_search(others.begin(), others.end(), link, by_block);
            if (both) of[link.second.index()] = 1;
        }
    };
    mark(into, out_of, inside.has_after);
    mark(out_of, into, inside.has_before);
    return inside;
}

}  // namespace

void add_control_edges(const std::vector<Task>& tasks,
                       std::vector<std::pair<TaskId, TaskId>>& edges) {
    struct Ends {
        std::vector<TaskId> first;
        std::vector<TaskId> last;
    };
    const Inside inside = find_inside(tasks, edges);
    std::map<BlockKey, Ends> blocks;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
        if (tasks[i].schedule_key < 0) continue;
        Ends& ends = blocks[block_of(tasks[i])];
        if (inside.has_before[i] == 0) ends.first.emplace_back(i);
        if (inside.has_after[i] == 0) ends.last.emplace_back(i);
    }
    for (auto block = blocks.begin(); block != blocks.end(); ++block) {
        const auto next = std::next(block);
        if (next == blocks.end() || next->first.first != block->first.first) continue;
        for (const TaskId before : block->second.last) {
            for (const TaskId after : next->second.first) edges.emplace_back(before, after);
        }
    }
}

void spread_schedule_keys(TaskGraph& graph) {
    const std::vector<TaskId> order = topological_order(graph);
    std::vector<std::int32_t> schedule_keys;
    schedule_keys.reserve(graph.size());
    for (const Task& task : graph.tasks) schedule_keys.push_back(task.schedule_key);
    const auto is_free = [&](std::size_t i) { return graph.tasks[i].schedule_key < 0; };
    for (const TaskId id : order) {
        const std::size_t i = id.index();
        for (const TaskId next : graph.successors[i]) {
            const std::size_t n = next.index();
            if (is_free(n)) schedule_keys[n] = std::max(schedule_keys[n], schedule_keys[i]);
        }
    }
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
        const std::size_t i = it->index();
        if (schedule_keys[i] >= 0) continue;
        std::int32_t earliest = std::numeric_limits<std::int32_t>::max();
        for (const TaskId next : graph.successors[i]) {
            earliest = std::min(earliest, schedule_keys[next.index()]);
        }
        schedule_keys[i] = graph.successors[i].empty() ? 0 : earliest;
    }
    for (std::size_t i = 0; i < graph.size(); ++i) graph.tasks[i].schedule_key = schedule_keys[i];
}

}  // namespace partita::plan
