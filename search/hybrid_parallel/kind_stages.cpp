// SPDX-License-Identifier: Apache-2.0
#include "search/hybrid_parallel/kind_stages.h"

#include <algorithm>
#include <utility>

#include "plan/evaluation/max_load.h"
#include "search/configs/parameter_sharding.h"
#include "search/configs/standard_configs.h"
#include "search/hybrid_parallel/stages.h"
#include "search/part_costs/micro_batch_costs.h"

namespace partita::search {

using graph::OpId;
using graph::TensorId;
using plan::DeviceSet;
using plan::Problem;
using plan::Strategy;

namespace {

/// Borders between nodes take long to cross: with twice as many micro-batches under way that delays
/// nobody.
constexpr plan::Schedule kKindOrder{.kind = plan::ScheduleKind::eager_1f1b};

/// The devices of each class, the class first that would take longest for everything.
std::vector<std::vector<int>> kinds_of(const GroupGraph& graph) {
    const Problem& problem = graph.problem();
    std::vector<std::vector<int>> kinds(
        static_cast<std::size_t>(problem.prices().device_class_count()));
    for (int d = 0; d < problem.device_count(); ++d) {
        kinds[static_cast<std::size_t>(problem.prices().device_class(d))].push_back(d);
    }
    const auto time = [&](const std::vector<int>& kind) {
        return graph.total_time(kind.front()).raw() / static_cast<std::int64_t>(kind.size());
    };
    std::ranges::stable_sort(kinds,
                             [&](const auto& a, const auto& b) { return time(a) > time(b); });
    return kinds;
}

bool is_over_batch(const Problem& problem, OpId op, const plan::Axis& axis) {
    const std::vector<plan::Axis> batch = batch_axes(problem, op, axis.degree);
    return std::ranges::find(batch, axis) != batch.end();
}

bool applies(const Problem& problem) {
    return problem.prices().device_class_count() > 1 && !problem.constraints().whole_ops() &&
           !plan::has_given_costs(problem) && problem.graph().op_count() <= KindStages::kMostOps;
}

}  // namespace

KindStages::KindStages(const GroupGraph& graph, std::vector<int> micro_batches)
    : graph_(graph), problem_(graph.problem()), micro_batches_(std::move(micro_batches)) {
    if (applies(problem_)) kinds_ = kinds_of(graph);
}

std::optional<Strategy> KindStages::next() {
    if (!std::exchange(found_, true)) find_candidates();
    if (next_ == candidates_.size()) return std::nullopt;
    return strategy(candidates_[next_++]);
}

void KindStages::find_candidates() {
    if (kinds_.empty()) return;
    std::vector<std::size_t> order(kinds_.size());
    for (std::size_t k = 0; k < order.size(); ++k) order[k] = k;
    const std::vector<std::size_t> reverse(order.rbegin(), order.rend());
    for (const int count : micro_batches_) {
        if (is_too_fine(problem_, problem_.device_count(), count)) continue;
        for (const std::vector<std::size_t>& kinds : {order, reverse}) {
            for (StageCut& cut : cuts(kinds, count)) {
                if (cut.stage.front() == cut.stage.back()) continue;  // no pipeline
                candidates_.push_back({count, kinds, std::move(cut)});
            }
        }
    }
    std::ranges::stable_sort(candidates_, [](const Candidate& a, const Candidate& b) {
        return a.cut.estimate < b.cut.estimate;
    });
    const auto is_hopeless = [&](const Candidate& candidate) {
        return candidate.cut.estimate > kHopeless * candidates_.front().cut.estimate;
    };
    const auto end = std::ranges::find_if(candidates_, is_hopeless);
    const auto most = static_cast<std::ptrdiff_t>(std::min(candidates_.size(), kMostTried));
    candidates_.erase(std::min(end, candidates_.begin() + most), candidates_.end());
}

std::vector<StageCut> KindStages::cuts(const std::vector<std::size_t>& kinds, int micro_batches) {
    std::vector<Bytes> bytes;
    for (std::size_t g = 0; g < graph_.size(); ++g) bytes.push_back(graph_.bytes(g));
    std::vector<CutStage> stages;
    for (std::size_t s = 0; s < kinds.size(); ++s) {
        const std::vector<int>& devices = kinds_[kinds[s]];
        CutStage stage{.work = work(kinds[s], micro_batches), .send = {}, .memory = {}};
        if (s > 0) stage.send = send_times(kinds_[kinds[s - 1]].front(), devices.front());
        for (const int device : devices)
            stage.memory += problem_.constraints().memory_capacity(device);
        stages.push_back(std::move(stage));
    }
    return cut_into_stages(stages, bytes, micro_batches);
}

/// Of every group: what its ops take if the kind shares them, and what several micro-batches add to
/// that.
std::vector<Time> KindStages::work(std::size_t kind, int micro_batches) {
    const std::vector<int>& devices = kinds_[kind];
    const GroupSplit& split = this->split(kind, micro_batches);
    const MicroBatchCosts once(problem_, 1);
    const MicroBatchCosts often(problem_, micro_batches);
    std::vector<Time> work(graph_.size());
    for (std::size_t i = 0; i < split.times.size(); ++i) {
        const OpId op(i);
        Time more = often.all_passes(op, devices.front()) - once.all_passes(op, devices.front());
        if (is_trained(problem_, op)) {
            const TensorId t = problem_.graph().op(op).outputs.front();
            more +=
                often.additions(t) * problem_.bounds().least_accumulate_time(t, devices.front());
        }
        // Who shares the batch reads and adds all of a parameter, who shares the parameter a part
        // of it.
        const bool whole = problem_.facts().is_batched(op)
                               ? is_over_batch(problem_, op, split.axes[i])
                               : split.axes[i].is_replica();
        const Time own(more.raw() / (whole ? 1 : static_cast<std::int64_t>(devices.size())));
        work[static_cast<std::size_t>(graph_.groups().of[i])] += split.times[i] + own;
    }
    return work;
}

const GroupSplit& KindStages::split(std::size_t kind, int micro_batches) {
    const auto [known, is_new] = splits_.try_emplace(std::pair(kind, micro_batches), GroupSplit{});
    if (is_new) {
        const std::vector<int>& devices = kinds_[kind];
        known->second = split_over_group(
            problem_, {.group = some_of(devices, 0, static_cast<int>(devices.size())),
                       .replicas = DeviceSet::single(devices.front()),
                       .whole_batch = true,
                       .micro_batches = micro_batches});
    }
    return known->second;
}

/// For a border before each group: what crosses it, and its gradient back.
std::vector<Time> KindStages::send_times(int from, int to) const {
    std::vector<Time> changes(graph_.size() + 1);
    const auto group_of = [&](OpId op) {
        return static_cast<std::size_t>(graph_.groups().of[op.index()]);
    };
    for (std::size_t i = 0; i < problem_.graph().tensor_count(); ++i) {
        const TensorId t(i);
        if (problem_.facts().is_resident(t)) continue;
        const std::size_t first = group_of(problem_.graph().tensor(t).producer);
        std::size_t last = first;
        for (const graph::Use& use : problem_.graph().uses(t)) {
            last = std::max(last, group_of(use.op));
        }
        if (last == first) continue;
        const Time time = (problem_.facts().has_gradient(t) ? 2 : 1) *
                          problem_.transfers().copy_time(t, from, to);
        changes[first + 1] += time;
        changes[last + 1] -= time;
    }
    std::vector<Time> send(graph_.size());
    Time open;
    for (std::size_t g = 0; g < send.size(); ++g) send[g] = open += changes[g];
    return send;
}

Strategy KindStages::strategy(const Candidate& candidate) {
    const std::vector<int> slot =
        slots_of_ops(graph_, candidate.cut.stage, static_cast<int>(candidate.kinds.size()));
    Strategy strategy;
    strategy.policy = policy_with(problem_, candidate.micro_batches);
    if (problem_.batch().free_schedule()) strategy.policy.schedule = kKindOrder;
    for (std::size_t i = 0; i < slot.size(); ++i) {
        const std::size_t kind = candidate.kinds[static_cast<std::size_t>(slot[i])];
        const std::vector<int>& devices = kinds_[kind];
        const auto size = static_cast<int>(devices.size());
        const StageBlock block{.devices = some_of(devices, 0, size),
                               .group_size = size,
                               .micro_batches = candidate.micro_batches};
        const plan::Axis& own = split(kind, candidate.micro_batches).axes[i];
        strategy.ops.push_back({.config = stage_config(problem_, OpId(i), block, {.own = own})});
    }
    accumulate_locally(problem_, strategy);
    plan::apply_recompute(problem_.facts().recompute(), strategy);
    join_groups(problem_, kinds_.back().front(), strategy);
    return strategy;
}

}  // namespace partita::search
