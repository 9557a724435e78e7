// SPDX-License-Identifier: Apache-2.0
//
// Mailboxes of threads, and communicators over them. Those of processes are used by
// processes_program.cpp.
#include "runtime/communicate/mailbox.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "runtime/communicate/all_reduce.h"
#include "runtime/communicate/mailbox_communicator.h"
#include "tests/runtime/communicate/conformance.h"
#include "tests/runtime/communicate/ranks.h"
#include "tests/runtime/communicate/thread_mailbox.h"

namespace partita::runtime {
namespace {

using graph::Combine;
using std::chrono::milliseconds;
using testing::Each;
using testing::HasSubstr;
using Mailboxes = std::vector<std::unique_ptr<Mailbox>>;

Mailboxes two(const std::shared_ptr<Abort>& abort = std::make_shared<Abort>()) {
    return thread_mailboxes(2, abort);
}

Mailbox::Clock::time_point now() {
    return Mailbox::Clock::now();
}

TEST(Mailbox, FindsMessagesByTheirNumber) {
    const Mailboxes boxes = two();
    boxes[0]->send({.process = 1, .number = 7}, at::full({2}, 7.0), 70);
    boxes[0]->send({.process = 1, .number = 5}, at::full({3}, 5.0), 50);
    const at::Tensor five = at::zeros({3});
    const at::Tensor seven = at::zeros({2});
    EXPECT_EQ(boxes[1]->receive({.process = 0, .number = 5}, five, now()), 50);
    EXPECT_EQ(boxes[1]->receive({.process = 0, .number = 7}, seven, now()), 70);
    EXPECT_TRUE(five.eq(5.0).all().item<bool>());
    EXPECT_TRUE(seven.eq(7.0).all().item<bool>());
}

TEST(Mailbox, KeepsTheOrderOfOneNumber) {
    const Mailboxes boxes = two();
    for (const int value : {1, 2, 3}) {
        boxes[0]->send({.process = 0, .number = 9}, at::full({1}, value), value);
    }
    for (const int value : {1, 2, 3}) {
        const at::Tensor into = at::zeros({1}, at::kLong);
        EXPECT_EQ(boxes[0]->receive({.process = 0, .number = 9}, into, now()), value);
        EXPECT_EQ(into.item<int>(), value);
    }
}

TEST(Mailbox, SaysWhenAMessageIsSent) {
    const Mailboxes boxes = two();
    const auto ticket = boxes[0]->send({.process = 1, .number = 0}, at::zeros({1}), 0);
    EXPECT_FALSE(boxes[0]->is_sent(ticket));
    EXPECT_TRUE(boxes[1]->receive({.process = 0, .number = 0}, at::zeros({1}), now()).has_value());
    EXPECT_TRUE(boxes[0]->is_sent(ticket));
}

TEST(Mailbox, ReturnsNothingWhenTheTimeIsOver) {
    const Mailboxes boxes = two();
    EXPECT_EQ(boxes[1]->receive({.process = 0, .number = 3}, at::zeros({1}), now()), std::nullopt);
}

TEST(Mailbox, RefusesAnotherSize) {
    const Mailboxes boxes = two();
    boxes[0]->send({.process = 1, .number = 3}, at::zeros({5}), 0);
    try {
        (void)boxes[1]->receive({.process = 0, .number = 3}, at::zeros({4}), now());
        FAIL();
    } catch (const DeviceError& error) {
        EXPECT_THAT(error.what(), HasSubstr("rank 0 sent 20 bytes where 16 were expected"));
    }
}

TEST(Mailbox, StopsWaitingWhenSomebodyFails) {
    const auto abort = std::make_shared<Abort>();
    const Mailboxes boxes = two(abort);
    abort->raise("gpu0 is on fire");
    try {
        (void)boxes[1]->receive({.process = 0, .number = 3}, at::zeros({4}),
                                now() + milliseconds(60'000));
        FAIL();
    } catch (const DeviceError& error) {
        EXPECT_THAT(error.what(), HasSubstr("stopped, because of: gpu0 is on fire"));
    }
}

/// So many ranks, two per process.
struct Group {
    explicit Group(int size, milliseconds timeout = milliseconds(60'000))
        : mailboxes(thread_mailboxes((size + 1) / 2, abort)) {
        MailboxGroup group{.process_of_rank = {}, .names = {}, .first_number = 100};
        for (int rank = 0; rank < size; ++rank) {
            group.process_of_rank.push_back(rank / 2);
            group.names.push_back("rank " + std::to_string(rank / 2));
        }
        for (int rank = 0; rank < size; ++rank) {
            ranks.push_back(std::make_unique<MailboxCommunicator>(
                *mailboxes[rank / 2], group, rank,
                CommunicatorOptions{.timeout = timeout, .abort = abort}));
        }
    }
    std::shared_ptr<Abort> abort = std::make_shared<Abort>();
    Mailboxes mailboxes;
    Ranks ranks;
};

TEST(MailboxCommunicator, Conforms) {
    for (const int size : {1, 2, 3, 5}) {
        const Group group(size);
        const auto errors = run(group.ranks, [](Communicator& communicator) {
            for (const Conformance& row : conformance_checks()) row.check(communicator, at::kHalf);
        });
        EXPECT_THAT(errors, Each(""));
    }
}

/// Whoever has what all gave has heard of all.
TEST(MailboxCommunicator, KnowsWhenTheLastOneCame) {
    for (const int size : {2, 3, 4, 7}) {
        for (const AllReduceRow& row : all_reduce_algorithms()) {
            const Group group(size);
            const auto errors = run(group.ranks, [&](Communicator& communicator) {
                auto& rank = dynamic_cast<MailboxCommunicator&>(communicator);
                rank.set_note(10 + (rank.rank() * 5) % size);
                all_reduce(rank, at::ones({100}), Combine::sum, row.algorithm);
                EXPECT_EQ(rank.latest(), 10 + size - 1);
            });
            EXPECT_THAT(errors, Each("")) << name_of(row.algorithm) << " of " << size;
        }
    }
}

TEST(MailboxCommunicator, NamesTheOneThatNeverComes) {
    const Group group(3, milliseconds(100));
    const auto errors = run(group.ranks, [](Communicator& communicator) {
        if (communicator.rank() < 2) communicator.all_reduce(at::ones({5}), Combine::sum);
    });
    for (const int rank : {0, 1}) {
        EXPECT_THAT(errors[rank], HasSubstr("rank 1 did not come within 0.1 s"));
    }
}

}  // namespace
}  // namespace partita::runtime
