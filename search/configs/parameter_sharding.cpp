// SPDX-License-Identifier: Apache-2.0
#include "search/configs/parameter_sharding.h"

#include <algorithm>
#include <utility>

#include "plan/legality/config_legality.h"
#include "search/configs/layout_propagation.h"
#include "search/configs/standard_configs.h"

namespace partita::search {

using graph::OpId;
using plan::Axis;
using plan::OpConfig;
using plan::OpDecision;
using plan::Problem;

namespace {

/// Replicas become shards of the first dim that allows it.
std::optional<OpConfig> in_shards(const Problem& problem, OpId source, const OpConfig& read,
                                  int micro_batches) {
    for (auto& axes : axes_in_shards(problem, source, read.axes)) {
        OpConfig shards{.axes = std::move(axes), .devices = read.devices};
        if (!find_fault(problem, source, shards, micro_batches)) return shards;
    }
    return std::nullopt;
}

}  // namespace

bool is_trained(const Problem& problem, OpId op) {
    const graph::Op& of = problem.graph().op(op);
    return of.kind == graph::OpKind::parameter && problem.facts().has_gradient(of.outputs[0]);
}

std::vector<std::vector<Axis>> axes_in_shards(const Problem& problem, OpId source,
                                              const std::vector<Axis>& read) {
    std::vector<std::vector<Axis>> all;
    if (std::ranges::none_of(read, &Axis::is_replica)) return all;
    const auto splits = [&](std::size_t f) {
        return std::ranges::any_of(read, [&](const Axis& axis) {
            return axis.is_factor() && static_cast<std::size_t>(axis.factor) == f;
        });
    };
    for (const bool split : {false, true}) {
        for (std::size_t f = 0; f < problem.facts().rule(source).factors.size(); ++f) {
            if (splits(f) != split) continue;
            all.push_back(read);
            for (Axis& axis : all.back()) {
                if (axis.is_replica()) axis = Axis::along(f, axis.degree);
            }
        }
    }
    return all;
}

OpId leading_reader(const Problem& problem, OpId source) {
    const auto uses = problem.graph().uses(problem.graph().op(source).outputs[0]);
    return uses.empty() ? OpId{} : uses.front().op;
}

OpConfig as_read(const Problem& problem, OpId source, const OpConfig& config, int micro_batches) {
    const graph::Use use = problem.graph().uses(problem.graph().op(source).outputs[0]).front();
    return propagate(problem, {source, 0, use.op, use.operand}, use.op, config, micro_batches);
}

std::optional<OpDecision> sharded(const Problem& problem, OpId source, const OpConfig& read,
                                  ParameterSharding sharding, int micro_batches) {
    const bool trained = is_trained(problem, source);
    if (sharding == ParameterSharding::as_read) {
        return OpDecision{read, {.accumulate_locally = trained && micro_batches > 1}};
    }
    if (!trained || read.devices.size() == 1) return std::nullopt;
    if (sharding == ParameterSharding::on_one_device) {
        // In turn, so that no device serves them all.
        const int part = static_cast<int>(source.index()) % read.devices.size();
        return OpDecision{
            on_one_device(problem, source, plan::DeviceSet::single(read.devices[part])),
            {.accumulate_locally = micro_batches > 1}};
    }
    const auto shards = in_shards(problem, source, read, micro_batches);
    if (!shards) return std::nullopt;
    if (sharding == ParameterSharding::updates_in_shards)
        return OpDecision{read, {.update = *shards}};
    return OpDecision{*shards, {.refetch = true}};
}

std::optional<ParameterSharding> sharding_of(const Problem& problem, OpId source,
                                             const plan::Strategy& strategy) {
    const OpId reader = leading_reader(problem, source);
    if (!reader.valid()) return std::nullopt;
    const int micro_batches = strategy.policy.micro_batches;
    const OpConfig read = as_read(problem, source, strategy.config(reader), micro_batches);
    const plan::UpdateConfig& update = strategy.update(source);
    for (const ParameterSharding sharding : kParameterShardings) {
        const auto decision = sharded(problem, source, read, sharding, micro_batches);
        // Where gradients of micro-batches add up is another question.
        const bool same = decision && decision->config == strategy.config(source) &&
                          decision->update.update == update.update &&
                          decision->update.refetch == update.refetch;
        if (same) return sharding;
    }
    return std::nullopt;
}

}  // namespace partita::search
