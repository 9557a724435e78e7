// SPDX-License-Identifier: Apache-2.0
//
// A communicator whose ranks meet in a mailbox: several ranks may lie in one process, each on a
// thread of its own, and there may be as many groups as a plan has collectives. Collectives are
// those of Communicator, and all_reduce.h's on top.
//
// What fails is named by the names of the group alone: whoever runs the collective knows whose rank
// this is, and for what.
//
// Notes tell how late it is: every message carries the largest note that its sender knows, so
// whoever has heard from all, directly or not, knows the largest of all. Where ranks give the
// moment at which each of them came, that is the moment from which they were together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/communicate/communicator.h"
#include "runtime/communicate/mailbox.h"

namespace partita::runtime {

struct MailboxGroup {
    std::vector<int> process_of_rank;
    std::vector<std::string> names;  ///< of the ranks, in messages, e.g. "rank 1 (gpu3)"
    std::int32_t first_number =
        0;  ///< of messages; the square of so many as it has ranks are its own
};

class MailboxCommunicator final : public Communicator {
public:
    /// The mailbox must outlive it.
    MailboxCommunicator(Mailbox& mailbox, MailboxGroup group, int rank,
                        CommunicatorOptions options);

    /// For the next operations.
    void set_note(std::int64_t note) { latest_ = note; }
    /// The largest that anyone gave whom this rank has heard of since set_note().
    [[nodiscard]] std::int64_t latest() const { return latest_; }

protected:
    void do_transfer(std::span<const Message> sends, std::span<const Message> receives) override;

private:
    [[nodiscard]] std::int32_t number(int from, int to) const;
    [[noreturn]] void give_up(int peer) const;

    Mailbox& mailbox_;
    MailboxGroup group_;
    std::int64_t latest_ = 0;
};

}  // namespace partita::runtime
