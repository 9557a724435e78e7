// SPDX-License-Identifier: Apache-2.0
//
// How long a worker waits for its GPU at the end of an iteration; on a pretend GPU that is not done
// until the test says so.
#include "runtime/execute/stream_driver.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "plan/lowering/lower.h"
#include "plan/simulation/simulate.h"
#include "runtime/execute/nccl_groups.h"
#include "runtime/execute/program.h"
#include "tests/plan/small_problems.h"
#include "tests/runtime/pretend_gpus/pretend_gpu.h"

namespace partita::runtime {
namespace {

using Clock = Driver::Clock;

/// All steps of two layers are handed over.
class StreamDriverEnd : public testing::Test {
protected:
    StreamDriverEnd()
        : graph_(plan::two_layers()),
          machine_(plan::switched_machine(1)),
          problem_(plan::make_problem(graph_, machine_)),
          strategy_(plan::whole_ops(std::vector<int>(graph_.op_count(), 0), problem_.policy())),
          tasks_(plan::lower(problem_, strategy_)),
          sources_(graph_, {.model = nullptr, .random_weights = 1, .inputs = {}}) {
        reset_pretend_gpus();
        program_ = make_program(problem_, strategy_, tasks_,
                                plan::simulate(tasks_, plan::Scheduler::pct).commit_order, sources_,
                                placement_, {});
        driver_ = std::move(stream_drivers(program_, tasks_, placement_)[0]);
        const at::NoGradGuard no_grad;
        driver_->attach();
        driver_->begin(Clock::now());
        for (std::size_t step = 0; step < program_.steps[0].size(); ++step) {
            driver_->enter(step);
            program_.steps[0][step].work->run(program_.store);
            driver_->leave(step, program_.store);
        }
    }
    ~StreamDriverEnd() override {
        hold_pretend_gpus(false);
        const c10::impl::VirtualGuardImpl impl(pretend_gpu().type());
        impl.exchangeStream(impl.getDefaultStream(pretend_gpu()));
        reset_pretend_gpus();
    }

    graph::OpGraph graph_;
    cost::Machine machine_;
    plan::Problem problem_;
    plan::Strategy strategy_;
    plan::TaskGraph tasks_;
    Sources sources_;
    Placement placement_{.worker = {0}, .device = {pretend_gpu()}};
    Program program_;
    std::unique_ptr<Driver> driver_;
    Clock::time_point hour_from_now_ = Clock::now() + std::chrono::hours(1);
};

TEST_F(StreamDriverEnd, NamesTheFirstStepThatHasNotRunWhenTheTimeIsOver) {
    hold_pretend_gpus(true);
    EXPECT_EQ(driver_->end(Clock::now(), [] { return false; }), std::optional<std::size_t>(0));
}

TEST_F(StreamDriverEnd, WaitsWhileThereIsTime) {
    hold_pretend_gpus(true);
    int asked = 0;
    const auto let_go_at_last = [&] {
        if (++asked == 3) hold_pretend_gpus(false);
        return false;
    };
    EXPECT_EQ(driver_->end(hour_from_now_, let_go_at_last), std::nullopt);
    EXPECT_EQ(asked, 3);
}

TEST_F(StreamDriverEnd, WaitsNoLongerWhenNobodyWaitsForIt) {
    hold_pretend_gpus(true);
    EXPECT_EQ(driver_->end(hour_from_now_, [] { return true; }), std::optional<std::size_t>(0));
}

TEST_F(StreamDriverEnd, TakesWhatHasRunAlthoughTheTimeIsOver) {
    EXPECT_EQ(driver_->end(Clock::time_point(), [] { return true; }), std::nullopt);
    ASSERT_GE(driver_->ends().size(), 2);
    EXPECT_LE(driver_->ends().front(), driver_->ends().back());
}

// The second layer is on a CPU: it must not begin before the GPU has run the first.
TEST(CpuBesideAGpu, WaitsForItOnTheHost) {
    reset_pretend_gpus();
    const graph::OpGraph graph = plan::two_layers();
    const cost::Machine machine = plan::switched_machine(2);
    const plan::Problem problem = plan::make_problem(graph, machine);
    std::vector<int> devices(graph.op_count(), 0);
    devices[graph.op_count() - 2] = 1;
    devices[graph.op_count() - 1] = 1;  // the output
    const plan::Strategy strategy = plan::whole_ops(devices, problem.policy());
    const plan::TaskGraph tasks = plan::lower(problem, strategy);
    const Sources sources(graph, {.model = nullptr, .random_weights = 1, .inputs = {}});
    const Placement placement{.worker = {0, 1}, .device = {pretend_gpu(), at::kCPU}};
    Program program = make_program(problem, strategy, tasks,
                                   plan::simulate(tasks, plan::Scheduler::pct).commit_order,
                                   sources, placement, {});
    const auto drivers = stream_drivers(program, tasks, placement);
    const at::NoGradGuard no_grad;
    for (const auto& driver : drivers) driver->attach();
    drivers[0]->begin(Clock::now());
    for (std::size_t step = 0; step < program.steps[0].size(); ++step) {
        drivers[0]->enter(step);
        program.steps[0][step].work->run(program.store);
        drivers[0]->leave(step, program.store);
    }
    const auto waits = [&](Clock::time_point until, bool stopped) {
        bool all = true;
        for (std::size_t step = 0; step < program.steps[1].size(); ++step) {
            all = drivers[1]->wait_for_gpus(step, until, [&] { return stopped; }) && all;
        }
        return all;
    };
    const auto hour_from_now = Clock::now() + std::chrono::hours(1);
    hold_pretend_gpus(true);
    EXPECT_FALSE(waits(Clock::now(), false));
    EXPECT_FALSE(waits(hour_from_now, true));
    hold_pretend_gpus(false);
    EXPECT_TRUE(waits(hour_from_now, false));
    const c10::impl::VirtualGuardImpl impl(pretend_gpu().type());
    impl.exchangeStream(impl.getDefaultStream(pretend_gpu()));
    reset_pretend_gpus();
}

}  // namespace
}  // namespace partita::runtime
