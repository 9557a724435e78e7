// SPDX-License-Identifier: Apache-2.0
//
// Rewards of a runtime that says what each run takes.
#include "api/measured_reward.h"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "plan/lowering/lower.h"
#include "plan/simulation/simulate.h"
#include "search/portfolio/search_run.h"
#include "tests/plan/small_problems.h"

namespace partita::api {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class SlowRuntime final : public runtime::Runtime {
public:
    runtime::ExecuteResult execute(const runtime::ExecuteRequest& request) override {
        limits.push_back(*request.limit);
        order.assign(request.order.begin(), request.order.end());
        runtime::ExecuteResult result;
        result.iterations = run();
        return result;
    }
    std::unique_ptr<runtime::Ranks> join(const runtime::Launch& /*launch*/,
                                         std::chrono::milliseconds /*timeout*/) override {
        return nullptr;
    }
    void check(const graph::OpGraph& /*graph*/) const override {}
    runtime::Hardware hardware(const std::string& /*devices*/,
                               const cost::Machine& machine) const override {
        if (machine.device_count() > 4) throw UsageError("this host has 4 devices.");
        return {.text = "slow:4", .threads = 1, .is_own = true, .transport = "feet"};
    }
    std::string versions() const override { return "none"; }

    std::function<std::vector<Time>()> run;
    std::vector<std::chrono::milliseconds> limits;  ///< per run
    std::vector<plan::TaskId> order;                ///< of the last one
};

class MeasuredRewardTest : public testing::Test {
protected:
    plan::Problem problem(plan::ProblemOptions options = {}) {
        return plan::make_problem(graph_, machine_, std::move(options));
    }
    plan::Strategy on(int device) {
        return plan::whole_ops(std::vector<int>(graph_.op_count(), device), {});
    }
    std::string complaint(const plan::Problem& problem) {
        try {
            const MeasuredReward reward(runtime_, problem, nullptr, plan::Scheduler::pct);
        } catch (const UsageError& error) {
            return error.what();
        }
        return "nothing";
    }

    graph::OpGraph graph_ = plan::two_layers();
    cost::Machine machine_ = plan::switched_machine(3);
    SlowRuntime runtime_;
};

TEST_F(MeasuredRewardTest, IsTheMedianOfTheIterations) {
    const plan::Problem problem = this->problem();
    MeasuredReward reward(runtime_, problem, nullptr, plan::Scheduler::pct);
    EXPECT_EQ(reward.hardware(), "slow:4");
    runtime_.run = [] { return std::vector{microseconds(9), microseconds(2), microseconds(3)}; };
    EXPECT_EQ(reward.time(on(0)), microseconds(3));
    runtime_.run = [] { return std::vector{microseconds(4)}; };
    EXPECT_EQ(reward.time(on(0)), microseconds(4));
    EXPECT_EQ(reward.failures(), 0);
}

TEST_F(MeasuredRewardTest, RunsTheOrderThatThePlanWouldHave) {
    const plan::Problem problem = this->problem();
    runtime_.run = [] { return std::vector{microseconds(3)}; };
    for (const plan::Scheduler scheduler : {plan::Scheduler::pct, plan::Scheduler::fifo}) {
        MeasuredReward reward(runtime_, problem, nullptr, scheduler);
        const search::SearchResult result =
            search::search(problem, {.searchers = {"hash"}, .scheduler = scheduler});
        ASSERT_TRUE(reward.time(result.strategy));
        const plan::TaskGraph tasks = plan::lower(problem, result.strategy);
        EXPECT_EQ(runtime_.order, plan::simulate(tasks, scheduler).commit_order);
    }
}

TEST_F(MeasuredRewardTest, AFailureOrATimeOutIsNoTime) {
    const plan::Problem problem = this->problem();
    MeasuredReward reward(runtime_, problem, nullptr, plan::Scheduler::pct);
    runtime_.run = []() -> std::vector<Time> { throw DeviceError("it burns"); };
    EXPECT_EQ(reward.time(on(0)), std::nullopt);
    EXPECT_EQ(reward.time(on(1)), std::nullopt);
    EXPECT_EQ(reward.failures(), 2);
    EXPECT_EQ(reward.last_failure(), "it burns");
    // An op without a kernel, or a value that cannot be had, will fail every candidate.
    runtime_.run = []() -> std::vector<Time> { throw UsageError("no kernel"); };
    EXPECT_THROW(static_cast<void>(reward.time(on(0))), UsageError);
    runtime_.run = []() -> std::vector<Time> { throw InputError("no weights"); };
    EXPECT_THROW(static_cast<void>(reward.time(on(0))), InputError);
}

TEST_F(MeasuredRewardTest, ACandidateMayTakeTwentyTimesTheBest) {
    const plan::Problem problem = this->problem();
    MeasuredReward reward(runtime_, problem, nullptr, plan::Scheduler::pct);
    for (const int time : {500, 600, 300, 1}) {
        runtime_.run = [time] { return std::vector{milliseconds(time)}; };
        EXPECT_EQ(reward.time(on(0)), milliseconds(time));
    }
    EXPECT_EQ(reward.time(on(0)), milliseconds(1));
    using namespace std::chrono_literals;
    EXPECT_THAT(runtime_.limits, ElementsAre(60s, 10s, 10s, 6s, 1s));
}

TEST_F(MeasuredRewardTest, IsRefusedWhereIterationsSayNothing) {
    plan::ProblemOptions throughput;
    throughput.objective = plan::Objective::throughput;
    EXPECT_THAT(complaint(problem(throughput)), HasSubstr("ask for --objective latency"));
    EXPECT_EQ(complaint(problem()), "nothing");
    graph_ = plan::WorkloadBuilder().node("a", 10).build();
    EXPECT_THAT(complaint(problem()), HasSubstr("a workload has costs and no operators"));
}

TEST_F(MeasuredRewardTest, IsRefusedForAMachineThatIsNotThisHost) {
    machine_ = plan::switched_machine(5);
    EXPECT_THAT(complaint(problem()),
                AllOf(HasSubstr("plans for machine '"), HasSubstr("this host has 4 devices."),
                      HasSubstr("Leave --machine out")));
}

}  // namespace
}  // namespace partita::api
