// SPDX-License-Identifier: Apache-2.0
#include "search/hybrid_parallel/stages.h"

#include <algorithm>
#include <cstddef>

#include "plan/legality/config_legality.h"
#include "search/configs/standard_configs.h"

namespace partita::search {

using graph::OpId;
using plan::Axis;
using plan::OpConfig;
using plan::Problem;

namespace {

std::vector<Axis> joined(const Axis& group, const Axis& inside) {
    if (group.with_degree(inside.degree) == inside && group.degree > 1 && inside.degree > 1) {
        return {group.with_degree(group.degree * inside.degree)};
    }
    std::vector<Axis> axes;
    if (group.degree > 1) axes.push_back(group);
    if (inside.degree > 1) axes.push_back(inside);
    return axes;
}

}  // namespace

OpConfig stage_config(const Problem& problem, OpId op, const StageBlock& block, const Axis& own) {
    std::vector<Axis> over_groups = batch_axes(problem, op, block.groups);
    over_groups.push_back(Axis::replicas(block.groups));
    for (const Axis& group : over_groups) {
        for (const Axis& inside : {own, Axis::replicas(block.group_size)}) {
            OpConfig config{.axes = joined(group, inside), .devices = block.devices};
            if (!find_fault(problem, op, config, block.micro_batches)) return config;
        }
    }
    return on_one_device(problem, op, block.devices);
}

std::vector<int> slots_of_ops(const GroupGraph& graph, const std::vector<int>& slot_of_group,
                              int slots) {
    const graph::OpGraph& ops = graph.problem().graph();
    const auto is_source = [&](OpId op) {
        const graph::OpKind kind = ops.op(op).kind;
        return kind != graph::OpKind::compute && kind != graph::OpKind::output;
    };
    std::vector<int> slot(ops.op_count());
    for (std::size_t i = 0; i < ops.op_count(); ++i) {
        const int own = slot_of_group[static_cast<std::size_t>(graph.groups().of[i])];
        slot[i] = own < 0 ? slots - 1 : own;
        for (const OpId before : ops.predecessors(OpId(i))) {
            if (!is_source(before)) slot[i] = std::max(slot[i], slot[before.index()]);
        }
    }
    for (std::size_t i = 0; i < ops.op_count(); ++i) {
        const auto readers = ops.successors(OpId(i));
        if (is_source(OpId(i)) && !readers.empty()) slot[i] = slot[readers.front().index()];
    }
    return slot;
}

}  // namespace partita::search
