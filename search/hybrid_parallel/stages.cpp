// SPDX-License-Identifier: Apache-2.0
#include "search/hybrid_parallel/stages.h"

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <utility>

#include "plan/legality/config_legality.h"
#include "search/configs/standard_configs.h"

namespace partita::search {

using graph::OpId;
using plan::Axis;
using plan::OpConfig;
using plan::Problem;

namespace {

/// Equal neighbours are one.
std::vector<Axis> joined(std::initializer_list<Axis> parts) {
    std::vector<Axis> axes;
    for (const Axis& axis : parts) {
        if (axis.degree == 1) continue;
        if (!axes.empty() && axes.back().with_degree(axis.degree) == axis) {
            axes.back().degree *= axis.degree;
        } else {
            axes.push_back(axis);
        }
    }
    return axes;
}

/// Of parts that are split over group_size first and over context then.
plan::DeviceSet own_first(const StageBlock& block) {
    std::vector<int> devices;
    for (int group = 0; group < block.groups * block.experts; ++group) {
        for (int own = 0; own < block.group_size; ++own) {
            for (int context = 0; context < block.context; ++context) {
                const int at = (group * block.context + context) * block.group_size + own;
                devices.push_back(block.devices[at]);
            }
        }
    }
    return plan::DeviceSet::list(std::move(devices));
}

OpConfig config_of(const StageBlock& block, const Axis& group, const StageAxes& axes) {
    const bool one_factor =
        axes.own.is_factor() && axes.context.is_factor() && axes.own.factor == axes.context.factor;
    if (one_factor && axes.own_first && axes.own.degree > 1 && axes.context.degree > 1) {
        return {.axes = joined({group, axes.experts, axes.own, axes.context}),
                .devices = own_first(block)};
    }
    return {.axes = joined({group, axes.experts, axes.context, axes.own}),
            .devices = block.devices};
}

std::vector<Axis> axes_over_groups(const Problem& problem, OpId op, const StageBlock& block) {
    std::vector<Axis> axes = sample_axes(problem, op, block.groups, block.micro_batches);
    axes.push_back(Axis::replicas(block.groups));
    return axes;
}

/// If it is legal.
std::optional<OpConfig> find_config(const Problem& problem, OpId op, const StageBlock& block,
                                    const Axis& group, const StageAxes& axes) {
    OpConfig config = config_of(block, group, axes);
    if (find_fault(problem, op, config, block.micro_batches)) return std::nullopt;
    return config;
}

}  // namespace

bool may_split(const Problem& problem, OpId op, const StageBlock& block, const StageAxes& axes) {
    const Axis group = axes_over_groups(problem, op, block).front();
    return find_config(problem, op, block, group, axes).has_value();
}

OpConfig stage_config(const Problem& problem, OpId op, const StageBlock& block,
                      const StageAxes& axes) {
    const Axis all_experts = Axis::replicas(block.experts);
    const Axis all_context = Axis::replicas(block.context);
    const Axis all_own = Axis::replicas(block.group_size);
    for (const Axis& group : axes_over_groups(problem, op, block)) {
        for (const Axis& own : {axes.own, all_own}) {
            for (const Axis& context : {axes.context, all_context}) {
                for (const Axis& experts : {axes.experts, all_experts}) {
                    const StageAxes some{own, context, experts, axes.own_first};
                    if (auto config = find_config(problem, op, block, group, some)) return *config;
                }
            }
        }
    }
    return on_one_device(problem, op, block.devices);
}

std::vector<int> slots_of_ops(const GroupGraph& graph, const std::vector<int>& slot_of_group,
                              int slots) {
    std::vector<int> slot;
    for (const std::int32_t group : graph.groups().of) {
        const int own = slot_of_group[static_cast<std::size_t>(group)];
        slot.push_back(own < 0 ? slots - 1 : own);
    }
    return slots_in_order(graph.problem().graph(), std::move(slot));
}

std::vector<int> slots_in_order(const graph::OpGraph& graph, std::vector<int> slot) {
    const auto is_source = [&](OpId op) {
        const graph::OpKind kind = graph.op(op).kind;
        return kind != graph::OpKind::compute && kind != graph::OpKind::output;
    };
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        for (const OpId before : graph.predecessors(OpId(i))) {
            if (!is_source(before)) slot[i] = std::max(slot[i], slot[before.index()]);
        }
    }
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        const auto readers = graph.successors(OpId(i));
        if (is_source(OpId(i)) && !readers.empty()) slot[i] = slot[readers.front().index()];
    }
    return slot;
}

}  // namespace partita::search
