// SPDX-License-Identifier: Apache-2.0
//
// Several processes on this host, each running processes_program.cpp: by mpirun, and by ourselves
// with the variables that torchrun sets.
#include "runtime/communicate/processes.h"

#include <csignal>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "runtime/communicate/message_pieces.h"
#include "tests/runtime/communicate/ranks.h"
#include "tests/support/process.h"

namespace partita::runtime {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Clock = tests::Process::Clock;

using tests::Ended;
using tests::Process;

constexpr auto kPatience = std::chrono::seconds(120);
constexpr const char* kProgram = PARTITA_PROCESSES_PROGRAM;

Ended mpirun(int ranks, const std::string& what, int timeout_ms = 60'000,
             std::int64_t largest_message = std::int64_t{1} << 30) {
    auto arguments = tests::mpirun_arguments(PARTITA_MPIRUN, ranks);
    arguments.insert(arguments.end(),
                     {"-x", "TIMEOUT_MS=" + std::to_string(timeout_ms), "-x",
                      "LARGEST_MESSAGE=" + std::to_string(largest_message), kProgram, what});
    return Process(arguments).end(Clock::now() + kPatience);
}

// Everyone but `except` is given time to end; that one is killed.
std::vector<Ended> torchrun(int ranks, const std::string& what, int timeout_ms = 60'000,
                            int except = -1) {
    const int port = tests::free_port();
    std::vector<std::unique_ptr<Process>> processes;
    for (int rank = 0; rank < ranks; ++rank) {
        auto arguments = tests::torchrun_arguments(rank, ranks, port);
        arguments.insert(arguments.end(),
                         {"TIMEOUT_MS=" + std::to_string(timeout_ms), kProgram, what});
        processes.push_back(std::make_unique<Process>(std::move(arguments)));
    }
    std::vector<Ended> ended(ranks);
    const auto deadline = Clock::now() + kPatience;
    for (int rank = 0; rank < ranks; ++rank) {
        if (rank != except) ended[rank] = processes[rank]->end(deadline);
    }
    if (except >= 0) ended[except] = processes[except]->end(Clock::now());
    return ended;
}

class MpiProcesses : public testing::Test {
protected:
    void SetUp() override {
        if (!has_mpi()) GTEST_SKIP() << "built without MPI: scripts/setup installs it";
    }
};

class MpiRanks : public MpiProcesses, public testing::WithParamInterface<int> {};

TEST_P(MpiRanks, Conform) {
    const Ended ended = mpirun(GetParam(), "conform");
    EXPECT_EQ(ended.exit_code, 0) << ended.output;
}

TEST_P(MpiRanks, ConformInGroupsSideBySide) {
    const Ended ended = mpirun(GetParam(), "groups");
    EXPECT_EQ(ended.exit_code, 0) << ended.output;
}

INSTANTIATE_TEST_SUITE_P(Of, MpiRanks, testing::Values(2, 4));

TEST_F(MpiProcesses, SendMoreThanOneMessageHolds) {
    const Ended ended = mpirun(2, "send_much");
    EXPECT_EQ(ended.exit_code, 0) << ended.output;
}

// As large ones are sent whose bytes an int cannot count.
TEST_F(MpiProcesses, SendAndPostInPieces) {
    for (const char* const what : {"conform", "groups", "post_much"}) {
        const int largest = std::string(what) == "post_much" ? 1'000'000 : 1'000;
        const Ended ended = mpirun(2, what, 60'000, largest);
        EXPECT_EQ(ended.exit_code, 0) << what << ": " << ended.output;
    }
}

TEST(MessagePieces, CoverAMessageOnceAndInOrder) {
    using Piece = std::pair<std::int64_t, std::int64_t>;  // begin, bytes
    const auto pieces = [](std::int64_t size, std::int64_t most) {
        std::vector<Piece> all;
        for_each_piece(size, most, [&](std::int64_t begin, std::int64_t bytes) {
            all.emplace_back(begin, bytes);
        });
        return all;
    };
    const std::int64_t largest = CommunicatorOptions{}.largest_message;
    EXPECT_LE(largest, std::numeric_limits<int>::max()) << "MPI's counts are int";
    EXPECT_EQ(pieces(25, 10), (std::vector<Piece>{{0, 10}, {10, 10}, {20, 5}}));
    EXPECT_EQ(pieces(20, 10), (std::vector<Piece>{{0, 10}, {10, 10}}));
    EXPECT_EQ(pieces(10, 10), (std::vector<Piece>{{0, 10}}));
    EXPECT_EQ(pieces(0, 10), (std::vector<Piece>{{0, 0}}));
    EXPECT_EQ(pieces(3 * largest + 1, largest),
              (std::vector<Piece>{
                  {0, largest}, {largest, largest}, {2 * largest, largest}, {3 * largest, 1}}));
}

TEST_F(MpiProcesses, NoticeAStoppedOneWithinTheTimeOut) {
    const Ended ended = mpirun(3, "second_stopped", /*timeout_ms=*/1'000);
    EXPECT_EQ(ended.exit_code, 5);
    EXPECT_THAT(ended.output, HasSubstr("of 3, task 417 'all-reduce fc.grad': all-reduce: rank 1 "
                                        "did not come within 1 s"));
}

TEST_F(MpiProcesses, EndWithAKilledOne) {
    const Ended ended = mpirun(3, "second_killed");
    EXPECT_NE(ended.exit_code, 0);
    EXPECT_NE(ended.exit_code, -SIGALRM);
}

TEST_F(MpiProcesses, NoticeAnotherSize) {
    const Ended ended = mpirun(3, "another_size");
    EXPECT_EQ(ended.exit_code, 5);
    EXPECT_THAT(ended.output, HasSubstr("Give all ranks the same plan"));
}

TEST_F(MpiProcesses, NoticeAnotherPlan) {
    const Ended ended = mpirun(3, "another_plan");
    EXPECT_EQ(ended.exit_code, 6);
    EXPECT_THAT(ended.output, HasSubstr("rank 1: its plan is not that of rank 0: 'b' against 'a'"));
}

class StoreRanks : public testing::TestWithParam<int> {};

TEST_P(StoreRanks, Conform) {
    for (const Ended& ended : torchrun(GetParam(), "conform")) {
        EXPECT_EQ(ended.exit_code, 0) << ended.output;
    }
}

TEST_P(StoreRanks, ConformInGroupsSideBySide) {
    for (const Ended& ended : torchrun(GetParam(), "groups")) {
        EXPECT_EQ(ended.exit_code, 0) << ended.output;
    }
}

INSTANTIATE_TEST_SUITE_P(Of, StoreRanks, testing::Values(2, 3));

// It hangs up on who sends values of more than 8 MiB.
TEST(StoreProcesses, SendAndPostMoreThanAValueOfTheStoreHolds) {
    for (const char* const what : {"send_10mb", "post_much"}) {
        for (const Ended& ended : torchrun(2, what)) {
            EXPECT_EQ(ended.exit_code, 0) << what << ": " << ended.output;
        }
    }
}

TEST(StoreProcesses, NoticeAStoppedOneWithinTheTimeOut) {
    const auto ended = torchrun(3, "second_stopped", /*timeout_ms=*/1'000, /*except=*/1);
    for (const int rank : {0, 2}) {
        EXPECT_EQ(ended[rank].exit_code, 5);
        EXPECT_THAT(ended[rank].output,
                    AllOf(HasSubstr("task 417 'all-reduce fc.grad': all-reduce: "),
                          HasSubstr("rank 1 did not come within 1 s")));
    }
}

TEST(StoreProcesses, NoticeAKilledOneWithinTheTimeOut) {
    const auto ended = torchrun(3, "second_killed", /*timeout_ms=*/1'000);
    EXPECT_EQ(ended[0].exit_code, 5);
    EXPECT_EQ(ended[1].exit_code, -SIGKILL);
    EXPECT_THAT(ended[0].output, HasSubstr("rank 1 did not come within 1 s"));
}

// Rank 1 or 2 may still be at the barrier.
TEST(StoreProcesses, NoticeThatTheServerWasKilled) {
    const auto ended = torchrun(3, "first_killed");
    for (const int rank : {1, 2}) {
        EXPECT_EQ(ended[rank].exit_code, 5);
        EXPECT_THAT(ended[rank].output,
                    AllOf(HasSubstr("task 417 'all-reduce fc.grad': "),
                          HasSubstr("where all messages meet, that of rank 0, is gone")));
    }
}

TEST(StoreProcesses, NoticeThatTheServerHangs) {
    const auto ended = torchrun(2, "first_stopped", /*timeout_ms=*/1'000, /*except=*/0);
    EXPECT_EQ(ended[1].exit_code, 5);
    EXPECT_THAT(ended[1].output,
                AllOf(HasSubstr("task 417 'all-reduce fc.grad': "),
                      HasSubstr("where all messages meet, that of rank 0, hangs")));
}

TEST(StoreProcesses, NoticeAnotherPlan) {
    for (const Ended& ended : torchrun(3, "another_plan")) {
        EXPECT_EQ(ended.exit_code, 6);
        EXPECT_THAT(ended.output,
                    HasSubstr("rank 1: its plan is not that of rank 0: 'b' against 'a'"));
    }
}

TEST(StoreProcesses, NeedAPlaceToMeet) {
    EXPECT_THROW((void)store_processes({.launcher = Launcher::torchrun, .size = 2}, {}),
                 UsageError);
}

TEST(Share, GivesEveryRankWhatTheOthersHave) {
    const auto errors = run(thread_communicators(3), [](Communicator& communicator) {
        const std::vector<std::string> expected = {"", "a", "aa"};
        EXPECT_EQ(share(communicator, expected[communicator.rank()]), expected);
    });
    EXPECT_THAT(errors, testing::Each(""));
}

}  // namespace
}  // namespace partita::runtime
