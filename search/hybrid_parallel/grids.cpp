// SPDX-License-Identifier: Apache-2.0
#include "search/hybrid_parallel/grids.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/op_globs.h"
#include "plan/evaluation/max_load.h"
#include "plan/problem/micro_batches.h"
#include "plan/strategy/pipeline_schedule.h"
#include "search/configs/standard_configs.h"
#include "search/hybrid_parallel/layer_cut.h"

namespace partita::search {

using graph::OpId;
using plan::Problem;
using plan::Strategy;

namespace {

/// A group shares a node, and stages have room for a layer each.
std::vector<Grid> all_grids(const Problem& problem, const plan::Policy& policy, int devices) {
    const int stages_at_most = static_cast<int>(problem.graph().op_count());
    const int node = node_size(problem);
    const bool shares = problem.graph().op_count() <= 20'000;
    const bool chunked = policy.schedule.chunks > 1;
    std::vector<Grid> grids;
    for (int stages = 1; stages <= std::min(devices, stages_at_most); ++stages) {
        if (devices % stages != 0) continue;
        if (chunked && (stages == 1 || policy.micro_batches % stages != 0)) continue;
        for (int group = 1; group <= devices / stages; ++group) {
            const bool fits = group <= node ? node % group == 0 : group % node == 0;
            if (devices / stages % group != 0 || !fits) continue;
            if (is_too_fine(problem, devices / stages, policy.micro_batches)) continue;
            if (group > 1 && !shares) continue;
            grids.push_back({stages, devices / stages / group, group});
        }
    }
    return grids;
}

}  // namespace

Grids::Grids(const GroupGraph& graph) : Grids(graph, graph.problem().policy()) {}

Grids::Grids(const GroupGraph& graph, plan::Policy policy, GridStyle style)
    : graph_(graph),
      problem_(graph.problem()),
      policy_(std::move(policy)),
      style_(std::move(style)),
      devices_(style_.devices.empty() ? equal_devices(graph.problem()) : style_.devices) {}

Grids::Grids(const Grids& others, plan::Policy policy)
    : graph_(others.graph_),
      problem_(others.problem_),
      policy_(std::move(policy)),
      style_(others.style_),
      devices_(others.devices_),
      splits_(others.splits_) {
    assert(policy_.micro_batches == others.policy_.micro_batches);
}

Grids::Strides Grids::strides(const Grid& grid) const {
    Strides strides;
    int next = 1;
    for (const GridDim dim : style_.order) {
        switch (dim) {
        case GridDim::tensor: strides.tensor = std::exchange(next, next * grid.group_size); break;
        case GridDim::context: strides.context = std::exchange(next, next * grid.context); break;
        case GridDim::data: strides.data = std::exchange(next, next * grid.groups); break;
        case GridDim::pipeline: strides.pipeline = std::exchange(next, next * grid.stages); break;
        }
    }
    return strides;
}

int Grids::first_device(const Grid& grid, std::size_t stage) const {
    return devices_[stage * static_cast<std::size_t>(strides(grid).pipeline)];
}

StageBlock Grids::block(const Grid& grid, int stage) const {
    const Strides strides = this->strides(grid);
    std::vector<int> devices;
    for (int group = 0; group < grid.groups; ++group) {
        for (int context = 0; context < grid.context; ++context) {
            for (int i = 0; i < grid.group_size; ++i) {
                const int at = stage * strides.pipeline + group * strides.data +
                               context * strides.context + i * strides.tensor;
                devices.push_back(devices_[static_cast<std::size_t>(at)]);
            }
        }
    }
    return {.devices = plan::DeviceSet::list(std::move(devices)),
            .groups = grid.groups / grid.experts,
            .experts = grid.experts,
            .context = grid.context,
            .group_size = grid.group_size,
            .micro_batches = policy_.micro_batches};
}

const Grids::Splits& Grids::split(const Grid& grid) {
    const Strides strides = this->strides(grid);
    Grid one_stage = grid;
    one_stage.stages = 1;
    const auto [known, is_new] = splits_->try_emplace(
        std::tuple(one_stage, strides.tensor, strides.context, strides.data), Splits{});
    Splits& splits = known->second;
    if (is_new) {
        const bool shares_weights = style_.share_weights && grid.group_size > 1;
        splits.tensor = split_over_group(
            problem_, {.group = some_of(devices_, 0, grid.group_size, strides.tensor),
                       .replicas = some_of(devices_, 0, grid.groups, strides.data),
                       .whole_batch = grid.groups == 1 && !style_.share_weights,
                       .micro_batches = policy_.micro_batches,
                       .must_share = shares_weights ? MustShare::weights : MustShare::nothing,
                       .between = style_.between});
        if (grid.context > 1) splits.context = split_context(grid, splits);
        if (grid.experts > 1) splits.experts = split_experts(grid, splits);
    }
    return splits;
}

/// Beside what tensor parallelism splits already.
GroupSplit Grids::split_context(const Grid& grid, const Splits& splits) const {
    const Strides strides = this->strides(grid);
    Grid without_experts = grid;
    without_experts.experts = 1;
    const StageBlock block = this->block(without_experts, 0);
    const std::int64_t samples = plan::batch_extent(problem_.facts()) / policy_.micro_batches;
    const auto allows = [&](OpId op, const plan::Axis& axis) {
        StageAxes axes = splits.axes(op);
        axes.context = axis;
        return may_split(problem_, op, block, axes);
    };
    return split_over_group(problem_, {.group = some_of(devices_, 0, grid.context, strides.context),
                                       .replicas = some_of(devices_, 0, grid.groups, strides.data),
                                       .whole_batch = samples == grid.groups,
                                       .micro_batches = policy_.micro_batches,
                                       .must_share = MustShare::activations,
                                       .attention = style_.attention,
                                       .allows = allows});
}

/// Beside what tensor and context parallelism split already.
GroupSplit Grids::split_experts(const Grid& grid, const Splits& splits) const {
    const Strides strides = this->strides(grid);
    const StageBlock block = this->block(grid, 0);
    const auto allows = [&](OpId op, const plan::Axis& axis) {
        StageAxes axes = splits.axes(op);
        axes.experts = axis;
        return may_split(problem_, op, block, axes);
    };
    const int apart = strides.data * grid.experts;
    return split_over_group(problem_,
                            {.group = some_of(devices_, 0, grid.experts, strides.data),
                             .replicas = some_of(devices_, 0, grid.groups / grid.experts, apart),
                             .whole_batch = true,
                             .micro_batches = policy_.micro_batches,
                             .must_share = MustShare::experts,
                             .allows = allows});
}

StageAxes Grids::Splits::axes(OpId op) const {
    const std::size_t i = op.index();
    StageAxes axes{.own = tensor.axes[i]};
    if (context) {
        axes.context = context->axes[i];
        axes.own_first = context->turned[i] != 0;
    }
    if (experts) axes.experts = experts->axes[i];
    return axes;
}

/// Micro-batches have as many samples, or one more.
std::string Grids::batch_fault(const Grid& grid) const {
    if (!style_.share_weights) return "";
    const std::int64_t batch = plan::batch_extent(problem_.facts());
    const std::int64_t samples = batch / policy_.micro_batches;
    const auto fault = [&](std::int64_t count, const std::string& why) {
        return fmt::format("dp={}: a micro-batch has {} samples (a batch of {} in {}){}",
                           grid.groups, count, batch, policy_.micro_batches, why);
    };
    if (grid.groups > std::max<std::int64_t>(samples, 1)) {
        return fault(samples, ", and each of dp needs one.");
    }
    const std::int64_t more = batch % policy_.micro_batches != 0 ? samples + 1 : samples;
    for (const std::int64_t count : {samples, more}) {
        if (count == 0 || graph::is_legal_degree(count, grid.groups)) continue;
        const std::int64_t part = (count + grid.groups - 1) / grid.groups;
        return fault(count, fmt::format("; in parts of {} the last one would be empty. Choose a "
                                        "batch that dp divides, or give --micro-batches.",
                                        part));
    }
    return "";
}

std::string Grids::fault(const Grid& grid) {
    if (const int parts = grid.groups * grid.context * grid.group_size; parts > plan::kMostParts) {
        return fmt::format(
            "a stage has {} devices, and no op is split into more than {} parts. Use "
            "more stages (pp) or fewer devices.",
            parts, plan::kMostParts);
    }
    if (const std::string fault = batch_fault(grid); !fault.empty()) return fault;
    if (const std::string fault = layers_fault(grid); !fault.empty()) return fault;
    const Splits& splits = split(grid);
    if (!splits.tensor.fault.empty()) return splits.tensor.fault;
    if (splits.context && !splits.context->fault.empty()) {
        return fmt::format("cp={}: {}", grid.context, splits.context->fault);
    }
    if (splits.experts && !splits.experts->fault.empty()) {
        return fmt::format("ep={}: {}", grid.experts, splits.experts->fault);
    }
    return "";
}

std::string Grids::layers_fault(const Grid& grid) {
    if (!style_.layers) return "";
    const std::vector<std::string_view> layers = graph::layers_of(problem_.graph());
    const std::vector<int> said = layers_of_slots(grid);
    const auto count = std::accumulate(said.begin(), said.end(), std::size_t{0});
    const int chunks = grid.stages * policy_.schedule.chunks;
    if (style_.layers->empty() && !layers.empty() && std::ssize(layers) < chunks) {
        return fmt::format(
            "layers=even: the model has {} layers, and there are {} chunks of stages. Use fewer.",
            layers.size(), chunks);
    }
    if (count == layers.size() && count > 0) return misplaced_layer(grid, said);
    if (layers.empty()) {
        if (style_.layers->empty() && chunks == 1) return "";
        return "layers: the model names no layers (blocks that repeat, such as layers.0 and "
               "layers.1 in the paths of its nodes). layers=work cuts stages by work.";
    }
    return fmt::format("layers={}: these are {} layers, and the model has {}, from '{}' to '{}'.",
                       fmt::join(said, "-"), count, layers.size(), layers.front(), layers.back());
}

/// Of a layer that cannot lie where it is said to, as it reads what comes from a later stage.
std::string Grids::misplaced_layer(const Grid& grid, const std::vector<int>& said) {
    const auto expected = slots_of_layers(problem_.graph(), said);
    const std::vector<int>& slots = this->slots(grid);
    for (std::size_t i = 0; i < slots.size(); ++i) {
        const graph::Op& op = problem_.graph().ops()[i];
        if (op.kind != graph::OpKind::compute) continue;
        const auto layer = expected.find(op.block);
        if (layer == expected.end() || layer->second == slots[i]) continue;
        return fmt::format(
            "layers={}: op '{}' of '{}' should lie in chunk {}, but reads what chunk {} gives: "
            "these layers do not follow each other. Leave it out, and stages are cut by work.",
            fmt::join(said, "-"), op.name, op.block, layer->second, slots[i]);
    }
    return "";
}

/// How many layers each has, where that is said.
std::vector<int> Grids::layers_of_slots(const Grid& grid) const {
    if (!style_.layers->empty()) return *style_.layers;
    const int slots = grid.stages * policy_.schedule.chunks;
    const auto layers = static_cast<int>(graph::layers_of(problem_.graph()).size());
    std::vector<int> counts;
    for (int i = 0; i < slots; ++i) {
        counts.push_back(layers / slots + (i < layers % slots ? 1 : 0));
    }
    return counts;
}

/// What each stage computes and exchanges among its devices, and after that what each sends on.
std::vector<Time> Grids::loads(const Grid& grid) {
    const std::vector<Time>& times = split(grid).tensor.times;
    const std::vector<int>& slots = this->slots(grid);
    const auto stages = static_cast<std::size_t>(grid.stages);
    const auto stage_of = [&](OpId op) {
        return static_cast<std::size_t>(slots[op.index()]) % stages;
    };
    std::vector<Time> loads(2 * stages);
    for (std::size_t i = 0; i < times.size(); ++i) {
        // Nearly: what a context exchanges is not there, nor that updates are not shared.
        loads[stage_of(OpId(i))] += Time(times[i].raw() / grid.context);
    }
    for (std::size_t i = 0; stages > 1 && i < problem_.graph().tensor_count(); ++i) {
        const graph::TensorId t(i);
        const std::size_t from = stage_of(problem_.graph().tensor(t).producer);
        std::set<std::size_t> readers;
        for (const graph::Use& use : problem_.graph().uses(t)) readers.insert(stage_of(use.op));
        readers.erase(from);
        if (readers.empty() || problem_.facts().is_resident(t)) continue;
        const int times_sent = problem_.facts().has_gradient(t) ? 2 : 1;
        for (const std::size_t to : readers) {
            loads[stages + from] +=
                times_sent *
                problem_.transfers().copy_time(t, first_device(grid, from), first_device(grid, to));
        }
    }
    return loads;
}

double Grids::estimate(const Grid& grid) {
    return estimate(grid, policy_.micro_batches);
}

double Grids::estimate(const Grid& grid, int micro_batches) {
    const std::vector<Time> loads = this->loads(grid);
    const auto busiest = static_cast<double>(std::max_element(loads.begin(), loads.end())->raw());
    double others = -busiest;
    for (const Time load : loads) others += static_cast<double>(load.raw());
    return busiest + others / (static_cast<double>(micro_batches) * policy_.schedule.chunks);
}

std::vector<Grid> Grids::all() const {
    if (problem_.constraints().whole_ops() || plan::has_given_costs(problem_)) return {};
    const auto count = static_cast<int>(devices_.size());
    std::vector<Grid> grids;
    for (const int devices : {count, std::min(count, node_size(problem_))}) {
        for (const Grid& grid : all_grids(problem_, policy_, devices)) {
            const bool single = grid == Grid{};
            if (!single && std::ranges::find(grids, grid) == grids.end()) grids.push_back(grid);
        }
    }
    return grids;
}

std::vector<Grid> Grids::by_estimate() {
    const std::vector<Grid> grids = all();
    std::vector<std::pair<double, std::size_t>> order;
    for (std::size_t i = 0; i < grids.size(); ++i) order.emplace_back(estimate(grids[i]), i);
    std::sort(order.begin(), order.end());
    std::vector<Grid> sorted;
    for (const auto& [time, i] : order) sorted.push_back(grids[i]);
    return sorted;
}

const std::vector<int>& Grids::slots(const Grid& grid) {
    const auto [known, is_new] = slots_.try_emplace(
        std::tuple(grid.stages, grid.group_size, grid.groups * grid.context), std::vector<int>());
    if (is_new) known->second = find_slots(grid);
    return known->second;
}

/// A device of a slot holds what it saves of some micro-batches at a time, and of each the share of
/// its group.
std::int64_t Grids::saved_parts(const Grid& grid, std::size_t slot) const {
    const plan::PipelineShape shape{.stages = grid.stages, .micro_batches = policy_.micro_batches};
    const int stage = static_cast<int>(slot % static_cast<std::size_t>(grid.stages));
    const std::int64_t all = std::int64_t{policy_.micro_batches} * policy_.schedule.chunks;
    const int held = plan::held_blocks(policy_.schedule, shape, stage);
    return std::max<std::int64_t>(1, all * grid.groups * grid.context / held);
}

/// The slot of every op: that of its layer, but never before those of what it reads.
std::vector<int> Grids::find_slots(const Grid& grid) const {
    const int chunks = policy_.schedule.chunks;
    if (style_.layers) {
        return slots_in_order(problem_.graph(),
                              slots_by_layers(problem_.graph(), layers_of_slots(grid)));
    }
    std::vector<Slot> slots(static_cast<std::size_t>(grid.stages * chunks));
    for (std::size_t i = 0; i < slots.size(); ++i) {
        const std::size_t stage = i % static_cast<std::size_t>(grid.stages);
        slots[i].device = first_device(grid, stage);
        const Bytes capacity = problem_.constraints().memory_capacity(slots[i].device);
        slots[i].memory = Bytes(capacity.raw() * grid.group_size / chunks);
        slots[i].saved_parts = saved_parts(grid, i);
    }
    std::vector<int> cut = cut_layers(graph_, slots);
    if (std::ranges::find(cut, -1) != cut.end()) {
        // It may fit with less than is counted: what is recomputed, or kept in shards.
        for (Slot& slot : slots) slot.memory = Bytes::max();
        cut = cut_layers(graph_, slots);
    }
    return slots_of_ops(graph_, cut, static_cast<int>(slots.size()));
}

Strategy Grids::strategy(const Grid& grid) {
    const Splits& splits = split(grid);
    const std::vector<int>& slot = slots(grid);
    std::vector<StageBlock> blocks;
    for (int stage = 0; stage < grid.stages; ++stage) blocks.push_back(block(grid, stage));
    Strategy strategy;
    strategy.policy = policy_;
    for (std::size_t i = 0; i < slot.size(); ++i) {
        const auto stage = static_cast<std::size_t>(slot[i] % grid.stages);
        const OpId op(i);
        strategy.ops.push_back(
            {.config = stage_config(problem_, op, blocks[stage], splits.axes(op))});
    }
    accumulate_locally(problem_, strategy);
    plan::apply_recompute(problem_.facts().recompute(), strategy);
    join_groups(problem_, devices_[0], strategy);
    return strategy;
}

}  // namespace partita::search
