// SPDX-License-Identifier: Apache-2.0
//
// One of several processes: what it does is its argument. processes_test.cpp starts it with mpirun,
// or several times with torchrun's variables. Exit codes are those of the partita program;
// TIMEOUT_MS is the time-out once all have met: how far apart processes start is up to the machine.
// LARGEST_MESSAGE: bytes that MPI sends at once.
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <thread>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "runtime/communicate/all_reduce.h"
#include "runtime/communicate/mailbox_communicator.h"
#include "runtime/communicate/processes.h"
#include "tests/runtime/communicate/conformance.h"

namespace partita::runtime {
namespace {

constexpr const char* kTask = "task 417 'all-reduce fc.grad'";

void conform(Processes& processes) {
    for (const Conformance& row : conformance_checks()) {
        check_conformance(processes.world(), row);
    }
    for (const AllReduceRow& row : all_reduce_algorithms()) {
        Communicator& world = processes.world();
        check_all_reduce(world, [&](const at::Tensor& tensor, graph::Combine how) {
            all_reduce(world, tensor, how, row.algorithm);
        });
    }
}

// Groups that overlap, the second with two ranks per process, and the same ranks in the mailbox,
// all used at once.
void groups(Processes& processes) {
    ProcessGroup backwards{.number = 0};
    ProcessGroup twice{.number = 1};
    MailboxGroup in_mailbox{.process_of_rank = {}, .names = {}, .first_number = 1'000};
    for (int process = 0; process < processes.size(); ++process) {
        backwards.process_of_rank.push_back(processes.size() - 1 - process);
        twice.process_of_rank.insert(twice.process_of_rank.end(), 2, process);
    }
    in_mailbox.process_of_rank = twice.process_of_rank;
    in_mailbox.names.resize(in_mailbox.process_of_rank.size());
    const int rank = processes.rank();
    std::vector<std::unique_ptr<Communicator>> communicators;
    communicators.push_back(processes.communicator(backwards, processes.size() - 1 - rank));
    communicators.push_back(processes.communicator(twice, 2 * rank));
    communicators.push_back(processes.communicator(twice, 2 * rank + 1));
    for (const int own : {2 * rank, 2 * rank + 1}) {
        communicators.push_back(std::make_unique<MailboxCommunicator>(
            processes.mailbox(), in_mailbox, own, CommunicatorOptions{}));
    }
    std::vector<std::thread> threads;
    for (const auto& communicator : communicators) {
        threads.emplace_back([&] {
            for (const Conformance& row : conformance_checks()) row.check(*communicator, at::kHalf);
        });
    }
    for (std::thread& thread : threads) thread.join();
}

// More than one MPI message or one of the store's values holds.
void send(std::int64_t bytes, Processes& processes) {
    Communicator& world = processes.world();
    const at::Tensor tensor = at::full({bytes}, 7 - world.rank(), at::kByte);
    if (world.rank() == 0) world.send(tensor, 1);
    if (world.rank() == 1) {
        world.receive(tensor, 0);
        EXPECT_TRUE(tensor.eq(7).all().item<bool>());
    }
}

// Rank 0 sends what goes in several pieces, and something after it under the same number.
void post_much(Processes& processes) {
    const at::Tensor tensor = at::arange(2'501'003, at::kInt);
    if (processes.rank() == 0) {
        Mailbox& mailbox = processes.mailbox();
        (void)mailbox.send({.process = 1, .number = 3}, tensor, 70);
        (void)mailbox.send({.process = 1, .number = 3}, tensor + 1, 71);
    }
    if (processes.rank() == 1) {
        const auto until = Mailbox::Clock::now() + std::chrono::minutes(1);
        for (const int at : {0, 1}) {
            const at::Tensor into = at::zeros_like(tensor);
            EXPECT_EQ(processes.mailbox().receive({.process = 0, .number = 3}, into, until),
                      70 + at);
            EXPECT_TRUE(into.equal(tensor + at));
        }
    }
    processes.world().barrier();
}

void with_a_rank_that_gets(int signal, int rank, Processes& processes) {
    Communicator& world = processes.world();
    world.set_label(kTask);
    world.barrier();
    const char* const timeout = std::getenv("TIMEOUT_MS");  // NOLINT(concurrency-mt-unsafe)
    if (timeout != nullptr) world.set_timeout(std::chrono::milliseconds(std::stoi(timeout)));
    if (world.rank() == rank) {
        // The others are still on their way out of the barrier, where they would wait for long.
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        std::raise(signal);
    }
    world.all_reduce(at::ones({1'000}), graph::Combine::sum);
}

void with_another_size(Processes& processes) {
    Communicator& world = processes.world();
    world.set_label(kTask);
    world.all_reduce(at::ones({world.rank() == 1 ? 500 : 1'000}), graph::Combine::sum);
}

void with_another_plan(Processes& processes) {
    check_same(processes.world(), "plan", "common");
    check_same(processes.world(), "plan", processes.rank() == 1 ? "b" : "a");
}

void act(const std::string& what, Processes& processes) {
    if (what == "conform") return conform(processes);
    if (what == "groups") return groups(processes);
    if (what == "send_much") return send((std::int64_t{1} << 30) + 5, processes);
    if (what == "send_10mb") return send(10'000'003, processes);
    if (what == "post_much") return post_much(processes);
    if (what == "first_killed") return with_a_rank_that_gets(SIGKILL, 0, processes);
    if (what == "first_stopped") return with_a_rank_that_gets(SIGSTOP, 0, processes);
    if (what == "second_killed") return with_a_rank_that_gets(SIGKILL, 1, processes);
    if (what == "second_stopped") return with_a_rank_that_gets(SIGSTOP, 1, processes);
    if (what == "another_size") return with_another_size(processes);
    if (what == "another_plan") return with_another_plan(processes);
    throw UsageError("unknown: " + what);
}

int run(const std::string& what) {
    at::set_num_threads(1);  // as workers have it; OpenMP's threads are not instrumented (tsan)
    CommunicatorOptions options;
    const char* const largest = std::getenv("LARGEST_MESSAGE");  // NOLINT(concurrency-mt-unsafe)
    if (largest != nullptr) options.largest_message = std::stoll(largest);
    const std::unique_ptr<Processes> processes = join_processes(read_launch(), options);
    if (!processes) throw UsageError("started alone");
    const auto fail = [&](const std::exception& error, int code) {
        std::cerr << "partita: " << error.what() << '\n' << std::flush;
        processes->end_all(code);
    };
    try {
        act(what, *processes);
    } catch (const DeviceError& error) {
        fail(error, 5);
    } catch (const MismatchError& error) {
        fail(error, 6);
    }
    return testing::UnitTest::GetInstance()->Passed() ? 0 : 1;
}

}  // namespace
}  // namespace partita::runtime

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    try {
        return partita::runtime::run(argv[1]);
    } catch (const std::exception& error) {
        std::cerr << "partita: " << error.what() << '\n' << std::flush;
        return 2;
    }
}
