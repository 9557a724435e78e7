// SPDX-License-Identifier: Apache-2.0
//
// Executing plans with several processes on this host: what comes out, and that nobody waits for
// ever. Started by mpirun, and by ourselves with the variables that torchrun sets.
#include <csignal>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cost/machine/machine_file.h"
#include "tests/cli/program.h"
#include "tests/support/fusion_prices.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace partita::tests {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using Arguments = std::vector<std::string>;
using Clock = Process::Clock;

constexpr auto kPatience = std::chrono::seconds(120);
/// Long enough for a machine that does other things, too.
constexpr const char* kTimeout = "5";

Arguments operator+(Arguments a, const Arguments& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

class Ranks : public ProgramTest {
protected:
    std::string mlp_ = example("runnable/mlp/model.onnx");

    void plan(const Arguments& more, const std::string& machine = "cpu:2",
              const std::string& file = "plan.json") {
        ASSERT_EQ(run(Arguments{"plan", mlp_, "--machine", machine, "-o", file} + more).code, 0);
    }

    [[nodiscard]] Arguments program(const Arguments& more,
                                    const std::string& file = "plan.json") const {
        return Arguments{tests::program().string(), "execute", (folder() / file).string(), mlp_} +
               more;
    }

    [[nodiscard]] Ended mpirun(int ranks, const Arguments& more) const {
        return Process(mpirun_arguments(PARTITA_MPIRUN, ranks) + program(more))
            .end(Clock::now() + kPatience);
    }

    using Started = std::vector<std::unique_ptr<Process>>;
    /// Rank 1 executes `other` instead.
    [[nodiscard]] Started torchrun(int ranks, const Arguments& more,
                                   const std::string& other = "plan.json") const {
        const int port = free_port();
        Started started;
        for (int rank = 0; rank < ranks; ++rank) {
            started.push_back(
                std::make_unique<Process>(torchrun_arguments(rank, ranks, port) +
                                          program(more, rank == 1 ? other : "plan.json")));
        }
        return started;
    }

    static Ended ended(Process& process) { return process.end(Clock::now() + kPatience); }

    /// Iterations without end, until something happens to a rank.
    Arguments endless_ = {"--verbose", "--warmup",  "1",     "--iterations",
                          "1000000",   "--timeout", kTimeout};
    static constexpr const char* kGoes = "loaded and warmed up";
};

class MpiRanks : public Ranks {
protected:
    void SetUp() override {
        if (std::string_view(PARTITA_MPIRUN).empty())
            GTEST_SKIP() << "built without MPI: scripts/setup installs it";
    }
};

TEST_F(MpiRanks, TwoGiveTheOutputsOfTheDataSet) {
    const std::string data = example("runnable/mlp/test_data_set_0");
    plan({"--inputs", data, "--searcher", "data-parallel"});
    const Ended result = mpirun(2, {"--inputs", data, "--check", "--iterations", "2"});
    EXPECT_EQ(result.exit_code, 0) << result.output;
    EXPECT_THAT(result.output,
                AllOf(HasSubstr("2 ranks of cpu:1"), HasSubstr("check      passed")));
}

TEST_F(MpiRanks, FourTrainLikeOneDevice) {
    plan({"--batch", "64", "--mode", "training", "--optimizer", "adam", "--loss", "cross-entropy",
          "--searcher", "expert"},
         "cpu:4");
    const Ended result = mpirun(4, {"--check", "--json", "--iterations", "2"});
    ASSERT_EQ(result.exit_code, 0) << result.output;
    const json summary = json::parse(result.output);
    EXPECT_TRUE(summary["check"]["ok"].get<bool>());
    EXPECT_GT(summary["measured_ps"]["median"].get<std::int64_t>(), 0);
    for (const json& device : summary["devices"]) {
        EXPECT_GT(device["measured_bytes"].get<std::int64_t>(), 0) << summary;
    }
}

TEST_F(MpiRanks, EndWithAKilledOne) {
    plan({"--batch", "8", "--searcher", "data-parallel"});
    Process run(mpirun_arguments(PARTITA_MPIRUN, 2) + program(endless_));
    ASSERT_TRUE(run.prints(kGoes, Clock::now() + kPatience)) << run.output();
    ASSERT_EQ(kill(process_of_rank(run.pid(), 1), SIGKILL), 0);
    const Ended result = ended(run);
    EXPECT_NE(result.exit_code, 0) << result.output;
    EXPECT_NE(result.exit_code, -SIGALRM) << result.output;
}

TEST_F(MpiRanks, NameAStoppedOneAndTheTask) {
    plan({"--batch", "8", "--mode", "training", "--searcher", "data-parallel"});
    Process run(mpirun_arguments(PARTITA_MPIRUN, 2) + program(endless_));
    ASSERT_TRUE(run.prints(kGoes, Clock::now() + kPatience)) << run.output();
    ASSERT_EQ(kill(process_of_rank(run.pid(), 1), SIGSTOP), 0);
    const Ended result = ended(run);
    EXPECT_EQ(result.exit_code, 5) << result.output;
    EXPECT_THAT(result.output, AllOf(HasSubstr("partita: rank 0 of 2, "), HasSubstr("task "),
                                     HasSubstr(": rank 1"), HasSubstr("within 5 s")));
}

TEST_F(MpiRanks, NoticeAnotherPlan) {
    plan({"--batch", "8", "--searcher", "data-parallel"});
    plan({"--batch", "8", "--searcher", "single-device"}, "cpu:2", "other.json");
    Process run(mpirun_arguments(PARTITA_MPIRUN, 1) + program({}) +
                Arguments{":", "--oversubscribe", "-n", "1"} + program({}, "other.json"));
    const Ended result = ended(run);
    EXPECT_EQ(result.exit_code, 5) << result.output;
    EXPECT_THAT(result.output, HasSubstr("rank 1: its plan is not that of rank 0"));
}

TEST_F(MpiRanks, MoreThanDevicesAreRefused) {
    plan({"--batch", "8", "--searcher", "data-parallel"});
    const Ended result = mpirun(3, {});
    EXPECT_EQ(result.exit_code, 2) << result.output;
    EXPECT_THAT(result.output, HasSubstr("3 processes for 2 devices"));
}

using StoreRanks = Ranks;

TEST_F(StoreRanks, TwoTrainLikeOneDevice) {
    plan({"--batch", "8", "--mode", "training", "--searcher", "data-parallel"});
    const Started started = torchrun(2, {"--check", "--iterations", "2"});
    const Ended first = ended(*started[0]);
    EXPECT_EQ(first.exit_code, 0) << first.output;
    EXPECT_THAT(first.output, HasSubstr("check      passed"));
    const Ended second = ended(*started[1]);
    EXPECT_EQ(second.exit_code, 0);
    EXPECT_EQ(second.output, "");
}

TEST_F(StoreRanks, FourGiveTheOutputsOfOneDevice) {
    write("layers.json", R"({"ops": [{"match": "/0/*", "devices": [3]},
                                     {"match": "/2/*", "devices": [0]},
                                     {"match": "/3/*", "devices": [1]},
                                     {"match": "/4/*", "devices": [2]}]})");
    plan({"--batch", "8", "--searcher", "critical-path", "--fix", "layers.json"}, "cpu:4");
    const Started started = torchrun(4, {"--check", "--iterations", "2"});
    for (const auto& process : started) {
        const Ended result = ended(*process);
        EXPECT_EQ(result.exit_code, 0) << result.output;
    }
}

TEST_F(StoreRanks, NameAKilledOneAndTheTask) {
    plan({"--batch", "8", "--searcher", "data-parallel"});
    const Started started = torchrun(2, endless_);
    ASSERT_TRUE(started[0]->prints(kGoes, Clock::now() + kPatience)) << started[0]->output();
    ASSERT_EQ(kill(started[1]->pid(), SIGKILL), 0);
    const Ended result = ended(*started[0]);
    EXPECT_EQ(result.exit_code, 5) << result.output;
    EXPECT_THAT(result.output, AllOf(HasSubstr("partita: rank 0 of 2, "), HasSubstr("task "),
                                     HasSubstr("rank 1"), HasSubstr("within 5 s")));
}

TEST_F(StoreRanks, NameAStoppedFirstOneAndTheTask) {
    plan({"--batch", "8", "--mode", "training", "--searcher", "data-parallel"});
    const Started started = torchrun(2, endless_);
    ASSERT_TRUE(started[0]->prints(kGoes, Clock::now() + kPatience)) << started[0]->output();
    ASSERT_EQ(kill(started[0]->pid(), SIGSTOP), 0);
    const Ended result = ended(*started[1]);
    EXPECT_EQ(result.exit_code, 5) << result.output;
    EXPECT_THAT(result.output, AllOf(HasSubstr("partita: rank 1 of 2, "), HasSubstr("task "),
                                     HasSubstr("that of rank 0, hangs")));
}

TEST_F(StoreRanks, NoticeAnotherPlan) {
    plan({"--batch", "8", "--searcher", "data-parallel"});
    plan({"--batch", "8", "--searcher", "single-device"}, "cpu:2", "other.json");
    const Started started = torchrun(2, {}, "other.json");
    for (const auto& process : started) {
        const Ended result = ended(*process);
        EXPECT_EQ(result.exit_code, 5) << result.output;
        EXPECT_THAT(result.output, HasSubstr("rank 1: its plan is not that of rank 0"));
    }
}

/// What is predicted is the business of rank 0.
TEST_F(StoreRanks, MayKnowOtherPrices) {
    plan({"--batch", "8", "--mode", "training", "--searcher", "data-parallel"});
    support::write_fusion_profile(folder() / "prices.sqlite", support::Fusions::dear,
                                  cost::load_machine("cpu:2"));
    const int port = free_port();
    const Arguments options = {"--iterations", "2"};
    const Arguments profile = {"--profile", (folder() / "prices.sqlite").string()};
    Process first(torchrun_arguments(0, 2, port) + program(options));
    Process second(torchrun_arguments(1, 2, port) + program(options + profile));
    const Ended result = ended(first);
    EXPECT_EQ(result.exit_code, 0) << result.output;
    EXPECT_EQ(ended(second).exit_code, 0);
}

/// Long before the time-out: the one that cannot go on says so.
TEST_F(StoreRanks, HearWhyAnotherCannotStart) {
    plan({"--batch", "8", "--searcher", "data-parallel"});
    const Started started = torchrun(2, {}, "missing.json");
    EXPECT_EQ(ended(*started[1]).exit_code, 3);
    const Ended result = ended(*started[0]);
    EXPECT_EQ(result.exit_code, 5) << result.output;
    EXPECT_THAT(result.output, HasSubstr("missing.json"));
}

}  // namespace
}  // namespace partita::tests
