// SPDX-License-Identifier: Apache-2.0
#include "plan/legality/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/union_find.h"

namespace partita::plan {

using graph::Op;
using graph::OpId;
using graph::OpKind;

bool is_staged(const Problem& problem, OpId op) {
    const OpKind kind = problem.graph().op(op).kind;
    return problem.facts().is_batched(op) && (kind == OpKind::compute || kind == OpKind::output);
}

namespace {

/// Devices that share an op are one stage, numbered by the first op on them. -1: not used.
std::vector<std::int32_t> stages_by_appearance(const Problem& problem,
                                               const DevicesOfOp& devices_of, int& stages) {
    const auto devices = static_cast<std::size_t>(problem.device_count());
    UnionFind shared(devices);
    for (std::size_t i = 0; i < problem.graph().op_count(); ++i) {
        if (!is_staged(problem, OpId(i))) continue;
        const std::span<const std::int32_t> of = devices_of(OpId(i));
        for (const std::int32_t device : of.subspan(1)) {
            shared.unite(static_cast<std::size_t>(device), static_cast<std::size_t>(of[0]));
        }
    }
    std::vector<std::int32_t> of_root(devices, -1);
    stages = 0;
    for (std::size_t i = 0; i < problem.graph().op_count(); ++i) {
        if (!is_staged(problem, OpId(i))) continue;
        std::int32_t& stage =
            of_root[shared.root(static_cast<std::size_t>(devices_of(OpId(i))[0]))];
        if (stage < 0) stage = stages++;
    }
    std::vector<std::int32_t> of_device(devices);
    for (std::size_t d = 0; d < devices; ++d) {
        of_device[d] = of_root[shared.root(d)];
    }
    return of_device;
}

/// Distinct pairs of stages of which the first sends to the second.
std::set<std::pair<int, int>> links_between(const Problem& problem, const DevicesOfOp& devices_of,
                                            const std::vector<std::int32_t>& stage_of_device) {
    std::set<std::pair<int, int>> links;
    const auto stage_of = [&](OpId id) {
        return stage_of_device[static_cast<std::size_t>(devices_of(id)[0])];
    };
    for (std::size_t i = 0; i < problem.graph().op_count(); ++i) {
        if (!is_staged(problem, OpId(i))) continue;
        for (const OpId next : problem.graph().successors(OpId(i))) {
            if (!is_staged(problem, next) || stage_of(OpId(i)) == stage_of(next)) continue;
            links.emplace(stage_of(OpId(i)), stage_of(next));
        }
    }
    return links;
}

/// The place of each stage in the order of the data, ties by number. Where stages send to each
/// other in a circle, the one that appears first goes first.
std::vector<std::int32_t> places_of(const std::set<std::pair<int, int>>& links, int stages) {
    std::vector<int> waits_for(static_cast<std::size_t>(stages), 0);
    for (const auto& [from, to] : links) ++waits_for[static_cast<std::size_t>(to)];
    std::set<std::pair<int, int>> waiting;  // (what it waits for, stage)
    for (int stage = 0; stage < stages; ++stage) {
        waiting.emplace(waits_for[static_cast<std::size_t>(stage)], stage);
    }
    std::vector<std::int32_t> place(static_cast<std::size_t>(stages), -1);
    for (int next = 0; next < stages; ++next) {
        auto first = waiting.begin();
        if (first->first > 0) {
            first = std::ranges::min_element(waiting, {}, &std::pair<int, int>::second);
        }
        const int stage = first->second;
        waiting.erase(first);
        place[static_cast<std::size_t>(stage)] = next;
        for (auto it = links.lower_bound({stage, 0}); it != links.end() && it->first == stage;
             ++it) {
            const int to = it->second;
            if (place[static_cast<std::size_t>(to)] >= 0) continue;
            int& left = waits_for[static_cast<std::size_t>(to)];
            waiting.erase({left, to});
            waiting.emplace(--left, to);
        }
    }
    return place;
}

/// The first position of that stage that does not lie before `after`.
std::int32_t position_from(std::int32_t after, std::int32_t stage, int stages) {
    if (after < 0) return stage;
    return after + (stage - after % stages + stages) % stages;
}

std::string fault_of_chunks(const Problem& problem, const Pipeline& pipeline, Schedule schedule) {
    if (schedule.chunks > 1) {
        return fmt::format("schedule {}: the data passes the {} stages {} times, not {}",
                           to_text(schedule), pipeline.stages, pipeline.chunks, schedule.chunks);
    }
    for (std::size_t i = 0; i < pipeline.position.size(); ++i) {
        if (pipeline.position[i] < pipeline.stages) continue;
        const Op& op = problem.graph().ops()[i];
        return fmt::format(
            "op '{}' ({}): lies on stage {} of {}, but needs what a later stage makes; schedule {} "
            "passes each stage once",
            op.name, op.type, pipeline.stage(OpId(i)), pipeline.stages, to_text(schedule));
    }
    return {};
}

}  // namespace

Pipeline pipeline_of(const Problem& problem, const DevicesOfOp& devices_of) {
    const graph::OpGraph& graph = problem.graph();
    Pipeline pipeline;
    pipeline.stage_of_device = stages_by_appearance(problem, devices_of, pipeline.stages);
    const std::vector<std::int32_t> place =
        places_of(links_between(problem, devices_of, pipeline.stage_of_device), pipeline.stages);
    for (std::int32_t& stage : pipeline.stage_of_device) {
        if (stage >= 0) stage = place[static_cast<std::size_t>(stage)];
    }
    pipeline.position.assign(graph.op_count(), -1);
    std::vector<std::int32_t> after(graph.op_count(), -1);  // of staged ops their position
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        const OpId id(i);
        for (const OpId before : graph.predecessors(id)) {
            after[i] = std::max(after[i], after[before.index()]);
        }
        if (!is_staged(problem, id)) continue;
        const std::int32_t stage =
            pipeline.stage_of_device[static_cast<std::size_t>(devices_of(id)[0])];
        after[i] = pipeline.position[i] = position_from(after[i], stage, pipeline.stages);
        pipeline.chunks = std::max(pipeline.chunks, after[i] / pipeline.stages + 1);
    }
    return pipeline;
}

Pipeline pipeline_of(const Problem& problem, const Strategy& strategy) {
    std::vector<std::int32_t> devices;
    return pipeline_of(problem, [&](OpId op) -> std::span<const std::int32_t> {
        const DeviceSet& set = strategy.config(op).devices;
        devices.clear();
        for (int part = 0; part < set.size(); ++part) devices.push_back(set[part]);
        return devices;
    });
}

bool keeps_schedule(const Policy& policy, const Pipeline& pipeline) {
    const Schedule schedule = policy.schedule;
    if (schedule.kind == ScheduleKind::none) return true;
    if (pipeline.stages == 0) return true;  // nothing depends on the batch
    const bool in_groups = schedule.chunks == 1 || policy.micro_batches % pipeline.stages == 0;
    return pipeline.chunks == schedule.chunks && in_groups;
}

namespace {

/// Does its backward read what runs again?
bool reads_recomputed(const Problem& problem, OpId id, const RecomputeOfOp& recompute_of) {
    const GraphFacts& facts = problem.facts();
    if (!facts.has_backward(id)) return false;
    const Op& op = problem.graph().op(id);
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        if (!op.inputs[i].valid() || !facts.rule(id).saves_operand(i)) continue;
        const OpId producer = problem.graph().tensor(op.inputs[i]).producer;
        const bool is_near = facts.recompute().block_of(producer) == facts.recompute().block_of(id);
        if (is_near && recompute_of(producer) != Recompute::none) return true;
    }
    return false;
}

}  // namespace

const LayerBlock* find_recomputed_in_chunks(const Problem& problem, const Pipeline& pipeline,
                                            const RecomputeOfOp& recompute_of) {
    if (pipeline.chunks < 2) return nullptr;
    for (const LayerBlock& block : problem.facts().recompute().blocks()) {
        std::map<int, int> chunk_of_stage;
        for (const OpId op : block.ops) {
            const bool is_concerned =
                recompute_of(op) != Recompute::none || reads_recomputed(problem, op, recompute_of);
            if (!is_concerned || !pipeline.has(op)) continue;
            const int chunk = pipeline.chunk(op);
            if (chunk_of_stage.try_emplace(pipeline.stage(op), chunk).first->second != chunk) {
                return &block;
            }
        }
    }
    return nullptr;
}

std::optional<std::string> find_schedule_fault(const Problem& problem, const Strategy& strategy) {
    const Schedule schedule = strategy.policy.schedule;
    if (schedule.kind == ScheduleKind::none) return std::nullopt;
    const Pipeline pipeline = pipeline_of(problem, strategy);
    const LayerBlock* const torn = find_recomputed_in_chunks(
        problem, pipeline, [&](OpId op) { return strategy.ops[op.index()].recompute; });
    if (torn != nullptr) {
        return fmt::format(
            "schedule {}: layer block '{}' is recomputed, but one stage has several chunks of it. "
            "Use fewer chunks or stages",
            to_text(schedule), torn->name);
    }
    if (keeps_schedule(strategy.policy, pipeline)) return std::nullopt;
    if (pipeline.chunks != schedule.chunks) return fault_of_chunks(problem, pipeline, schedule);
    return fmt::format("schedule {}: {} micro-batches are no multiple of the {} stages",
                       to_text(schedule), strategy.policy.micro_batches, pipeline.stages);
}

}  // namespace partita::plan
