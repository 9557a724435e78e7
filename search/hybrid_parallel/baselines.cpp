// SPDX-License-Identifier: Apache-2.0
#include "search/hybrid_parallel/baselines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "plan/strategy/pipeline_schedule.h"

namespace partita::search {

using graph::OpId;
using plan::Problem;
using plan::Strategy;

namespace {

int devices_used(const Problem& problem, const Strategy& strategy) {
    std::vector<char> used(static_cast<std::size_t>(problem.device_count()), 0);
    for (const plan::OpDecision& op : strategy.ops) {
        const plan::DeviceSet& devices = op.config.devices;
        for (int part = 0; part < devices.size(); ++part) {
            used[static_cast<std::size_t>(devices[part])] = 1;
        }
    }
    return static_cast<int>(std::ranges::count(used, 1));
}

int zero_level(const plan::UpdateConfig& update, int micro_batches) {
    if (update.refetch) return 3;
    if (update.update.devices.size() < 2 || update.update.axes.empty()) return 0;
    return micro_batches > 1 && update.accumulate_locally ? 1 : 2;
}

int zero_level(const Problem& problem, const Strategy& strategy) {
    int level = 0;
    for (std::size_t i = 0; i < problem.graph().op_count(); ++i) {
        if (problem.graph().ops()[i].kind != graph::OpKind::parameter) continue;
        level =
            std::max(level, zero_level(strategy.update(OpId(i)), strategy.policy.micro_batches));
    }
    return level;
}

}  // namespace

std::string configuration_of(const Problem& problem, const Strategy& strategy) {
    const int devices = devices_used(problem, strategy);
    std::string text = fmt::format("{} device{}", devices, devices == 1 ? "" : "s");
    if (const int level = zero_level(problem, strategy); level > 0) {
        text += fmt::format(", ZeRO {}", level);
    }
    if (const int count = strategy.policy.micro_batches; count > 1) {
        text += fmt::format(", {} micro-batches", count);
        if (strategy.policy.schedule != plan::Schedule{}) {
            text += " in " + to_text(strategy.policy.schedule);
        }
    }
    return text;
}

}  // namespace partita::search
