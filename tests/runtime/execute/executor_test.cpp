// SPDX-License-Identifier: Apache-2.0
//
// What goes wrong while a program runs: the error names the task, the other workers stop, nothing
// hangs, and the executor can be used again. Programs are real ones in which steps do what the test
// says.
#include "runtime/execute/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "base/error.h"
#include "plan/lowering/lower.h"
#include "plan/simulation/simulate.h"
#include "runtime/execute/sources.h"
#include "runtime/kernels/expected.h"
#include "tests/plan/small_problems.h"
#include "tests/runtime/execute/executed.h"

namespace partita::runtime {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

/// Does what the test says, then what the step did.
class TestWork final : public Work {
public:
    TestWork(std::function<void()> act, std::unique_ptr<Work> then)
        : act_(std::move(act)), then_(std::move(then)) {}
    void run(Store& store) override {
        act_();
        then_->run(store);
    }

private:
    std::function<void()> act_;
    std::unique_ptr<Work> then_;
};

/// x -> mul1 -> relu on device 0, -> mul2 -> y on device 1; a worker each.
class ExecutorFailure : public testing::Test {
protected:
    ExecutorFailure()
        : graph_(plan::two_layers()),
          machine_(plan::switched_machine(2)),
          problem_(plan::make_problem(graph_, machine_)),
          strategy_(plan::whole_ops({0, 0, 0, 0, 1, 1, 1}, problem_.policy())),
          tasks_(plan::lower(problem_, strategy_)),
          sources_(graph_, {.model = nullptr, .random_weights = 1, .inputs = {}}),
          placement_{{0, 1}, {at::Device(at::kCPU), at::Device(at::kCPU)}} {
        const plan::Timeline timeline = plan::simulate(tasks_, plan::Scheduler::pct);
        program_ = make_program(problem_, strategy_, tasks_, timeline.commit_order, sources_,
                                placement_, {});
    }

    /// The step of a task, by its name; the executor's own words for it.
    Step& step(const std::string& task) {
        for (auto& steps : program_.steps) {
            for (Step& each : steps) {
                if (name_of(each.task) == task) return each;
            }
        }
        throw std::logic_error("no task " + task);
    }
    [[nodiscard]] std::string name_of(plan::TaskId task) const {
        return task_name(problem_, tasks_.tasks[task.index()]);
    }
    [[nodiscard]] std::string quoted(const std::string& task) {
        return "task " + std::to_string(step(task).task.value) + " '" + task + "'";
    }
    static void before(Step& step, std::function<void()> act) {
        step.work = std::make_unique<TestWork>(std::move(act), std::move(step.work));
    }
    void before(const std::string& task, std::function<void()> act) {
        before(step(task), std::move(act));
    }
    /// Nobody does that task.
    void remove(const std::string& task) {
        for (auto& steps : program_.steps) {
            std::erase_if(steps, [&](const Step& each) { return name_of(each.task) == task; });
        }
    }

    Executor executor(std::chrono::milliseconds timeout = std::chrono::minutes(1),
                      std::optional<std::chrono::milliseconds> limit = {}) {
        return {problem_,
                tasks_,
                std::move(program_),
                placement_,
                {.timeout = timeout, .limit = limit, .spin = std::chrono::microseconds(spin_)}};
    }

    /// The message of the DeviceError that running gives.
    static std::string failure(Executor& executor, int iterations = 1) {
        try {
            executor.run(iterations);
        } catch (const DeviceError& error) {
            return error.what();
        }
        return "nothing failed";
    }

    graph::OpGraph graph_;
    cost::Machine machine_;
    plan::Problem problem_;
    plan::Strategy strategy_;
    plan::TaskGraph tasks_;
    Sources sources_;
    Placement placement_;
    Program program_;
    int spin_ = 200;  ///< microseconds
};

TEST_F(ExecutorFailure, OfAKernelNamesTheTaskAndStopsTheOthers) {
    const std::string expected = quoted("forward relu") + ": out of luck";
    std::atomic<int> failed = 0;
    std::atomic<int> after = 0;
    before("forward relu", [&] {
        ++failed;
        throw std::runtime_error("out of luck");
    });
    before("forward mul2", [&] { ++after; });
    Executor executor = this->executor();
    EXPECT_EQ(failure(executor, 3), expected);
    EXPECT_EQ(failed, 1) << "the iterations that follow must not begin";
    EXPECT_EQ(after, 0) << "another worker went on with what was never made";
}

TEST_F(ExecutorFailure, OfATensorLibraryComesWithoutItsBacktrace) {
    const std::string expected = quoted("forward mul1") + ": sizes 3 and 4 differ";
    before("forward mul1", [] { TORCH_CHECK(false, "sizes ", 3, " and ", 4, " differ"); });
    Executor executor = this->executor();
    EXPECT_EQ(failure(executor), expected);
}

TEST_F(ExecutorFailure, OfAnUnexpectedOperandIsThatOfTheModel) {
    const std::string expected = quoted("forward relu") + ": operand 1 is short. Correct the model";
    before("forward relu", [] { expect(false, "operand 1 is short"); });
    Executor executor = this->executor();
    try {
        executor.run(1);
        FAIL() << "no error";
    } catch (const InputError& error) {
        EXPECT_THAT(error.what(), HasSubstr(expected));
    }
}

// As kernels do whose loops are as long as the data says. On one device: who waits for the task on
// another gives up at the same time.
TEST_F(ExecutorFailure, OfATaskThatTakesTooLongNamesIt) {
    strategy_ = plan::whole_ops({0, 0, 0, 0, 0, 0, 0}, problem_.policy());
    tasks_ = plan::lower(problem_, strategy_);
    const plan::Timeline timeline = plan::simulate(tasks_, plan::Scheduler::pct);
    program_ =
        make_program(problem_, strategy_, tasks_, timeline.commit_order, sources_, placement_, {});
    const std::string expected = quoted("forward relu") + ": took longer than a task may";
    before("forward relu", [] {
        while (true) check_time();
    });
    Executor executor = this->executor(std::chrono::milliseconds(1));
    EXPECT_THAT(failure(executor), HasSubstr(expected));
}

TEST_F(ExecutorFailure, WakesWhoSleeps) {
    before("forward mul1", [] { throw std::runtime_error("out of luck"); });
    spin_ = 0;  // who waits sleeps at once
    Executor executor = this->executor();
    for (int i = 0; i < 50; ++i) {
        ASSERT_THAT(failure(executor), HasSubstr("out of luck"));
    }
}

TEST_F(ExecutorFailure, OfTwoWorkersAtOnceSaysOne) {
    std::barrier both(2);
    program_.predecessors = {};  // nobody waits
    program_.predecessors.offsets.assign(tasks_.size() + 1, 0);
    std::vector<std::string> expected;
    for (auto& steps : program_.steps) {
        expected.push_back(quoted(name_of(steps.front().task)) + ": out of luck");
        before(steps.front(), [&] {
            both.arrive_and_wait();
            throw std::runtime_error("out of luck");
        });
    }
    Executor executor = this->executor();
    for (int i = 0; i < 20; ++i) ASSERT_THAT(expected, Contains(failure(executor)));
}

TEST_F(ExecutorFailure, OfATimeOutNamesTheTaskAndWhatItWaitsFor) {
    const std::string waiting = quoted("forward relu");
    const std::string missing = quoted("forward mul1");
    for (const int spin : {0, 200}) {
        SCOPED_TRACE(spin);
        const plan::Timeline timeline = plan::simulate(tasks_, plan::Scheduler::pct);
        program_ = make_program(problem_, strategy_, tasks_, timeline.commit_order, sources_,
                                placement_, {});
        remove("forward mul1");
        spin_ = spin;
        Executor executor = this->executor(std::chrono::milliseconds(1));
        EXPECT_THAT(failure(executor, 2),
                    AnyOf("worker 0, " + waiting + ": waited longer than 1 ms for " + missing +
                              ". Give it more time with --timeout.",
                          AllOf(HasSubstr("worker 1, "), HasSubstr("waited longer than 1 ms for "),
                                Not(HasSubstr(missing)))))
            << "worker 1 may be the first: it waits for worker 0, which waits too";
    }
}

TEST_F(ExecutorFailure, OfAnIterationBeyondItsLimitComesBetweenTasks) {
    using namespace std::chrono_literals;
    Executor none = this->executor(1min, 0ms);
    EXPECT_THAT(
        failure(none),
        HasSubstr(": not done when the iteration had taken 0 ms, the most that it may take."));
    const plan::Timeline timeline = plan::simulate(tasks_, plan::Scheduler::pct);
    program_ =
        make_program(problem_, strategy_, tasks_, timeline.commit_order, sources_, placement_, {});
    Executor enough = this->executor(1min, 1min);
    EXPECT_EQ(enough.run(2).size(), 2);
}

TEST_F(ExecutorFailure, OfAnIterationBeyondItsLimitEndsWaiting) {
    using namespace std::chrono_literals;
    remove("forward mul1");
    Executor executor = this->executor(1h, 1ms);
    EXPECT_THAT(failure(executor), HasSubstr("had taken 1 ms, the most that it may take."));
}

TEST_F(ExecutorFailure, IsOverWhenTheExecutorRunsAgain) {
    const Executed expected = executed(problem_, strategy_, sources_, 2, 1);
    bool fails = true;
    before("forward relu", [&] {
        if (std::exchange(fails, false)) throw std::runtime_error("out of luck");
    });
    Executor executor = this->executor();
    EXPECT_THAT(failure(executor), HasSubstr("out of luck"));
    EXPECT_EQ(executor.run(2).size(), 2);
    EXPECT_EQ(largest_difference(executor.outputs(), expected.outputs), 0.0);
}

}  // namespace
}  // namespace partita::runtime
