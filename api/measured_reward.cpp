// SPDX-License-Identifier: Apache-2.0
#include "api/measured_reward.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "api/pricing.h"
#include "base/error.h"
#include "base/statistics.h"

namespace partita::api {
namespace {

constexpr int kWarmup = 2;
constexpr int kIterations = 10;

void check_objective(const plan::Problem& problem) {
    if (!has_timeline(problem)) {
        throw UsageError(
            "--reward measured: a workload has costs and no operators that could run. Leave "
            "--reward out, or plan an ONNX model.");
    }
    if (problem.objective() == plan::Objective::throughput) {
        throw UsageError(
            "--reward measured: iterations run one after the other, which says nothing of the "
            "throughput of a full pipeline. Leave --reward out, or ask for --objective latency.");
    }
}

/// As Runtime::execute() would find it.
std::string hardware_of(const runtime::Runtime& runtime, const cost::Machine& machine) {
    try {
        return runtime.hardware("", machine).text;
    } catch (const UsageError& error) {
        throw UsageError(
            fmt::format("--reward measured: plans for machine '{}' cannot run here: {} Leave "
                        "--machine out to plan for this host.",
                        machine.name(), error.what()));
    }
}

}  // namespace

MeasuredReward::MeasuredReward(runtime::Runtime& runtime, const plan::Problem& problem,
                               const graph::TensorSource* values, plan::Scheduler scheduler)
    : runtime_(runtime), problem_(problem), values_(values), scheduler_(scheduler) {
    check_objective(problem);
    hardware_ = hardware_of(runtime, problem.machine());
}

std::optional<Time> MeasuredReward::time(const plan::Strategy& strategy) {
    const plan::Priced priced = plan::price(problem_, strategy, scheduler_, plan::Listed::all);
    if (!fits_host(problem_, priced.evaluation)) {
        return fail("this host has not enough memory for all devices of the plan");
    }
    runtime::ExecuteRequest request{.problem = &problem_,
                                    .strategy = &strategy,
                                    .tasks = &priced.tasks,
                                    .order = priced.timeline->commit_order,
                                    .devices = "",
                                    .sources = {},
                                    .warmup = kWarmup,
                                    .iterations = kIterations,
                                    .until_stable = true,
                                    .limit = limit(),
                                    .learning_rate = {},
                                    .expected = {}};
    request.sources.model = values_;
    request.sources.random_weights = 1;
    try {
        const Time time = median(runtime_.execute(request).iterations);
        best_ = best_ ? std::min(*best_, time) : time;
        return time;
    } catch (const DeviceError& error) {
        return fail(error.what());
    }
}

std::chrono::milliseconds MeasuredReward::limit() const {
    using namespace std::chrono_literals;
    constexpr std::int64_t kTimesTheBest = 20;
    constexpr std::chrono::milliseconds kLeast = 1s;
    if (!best_) return 60s;
    constexpr std::int64_t kPerMillisecond = 1'000'000'000;  // of picoseconds
    return std::max(kLeast,
                    std::chrono::milliseconds(best_->raw() / kPerMillisecond * kTimesTheBest));
}

std::nullopt_t MeasuredReward::fail(std::string why) {
    ++failures_;
    last_failure_ = std::move(why);
    return std::nullopt;
}

}  // namespace partita::api
