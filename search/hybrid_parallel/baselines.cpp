// SPDX-License-Identifier: Apache-2.0
#include "search/hybrid_parallel/baselines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "plan/strategy/pipeline_schedule.h"
#include "search/hybrid_parallel/zero.h"

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

}  // namespace

std::string configuration_of(const Problem& problem, const Strategy& strategy) {
    const int devices = devices_used(problem, strategy);
    std::string text = fmt::format("{} device{}", devices, devices == 1 ? "" : "s");
    if (const auto level = static_cast<int>(zero_level(problem, strategy)); level > 0) {
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
