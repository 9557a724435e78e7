// SPDX-License-Identifier: Apache-2.0
#include "runtime/communicate/mailbox_communicator.h"

#include <algorithm>
#include <utility>

#include <c10/util/SmallVector.h>

#include "base/error.h"

namespace partita::runtime {

MailboxCommunicator::MailboxCommunicator(Mailbox& mailbox, MailboxGroup group, int rank,
                                         CommunicatorOptions options)
    : Communicator(rank, static_cast<int>(group.process_of_rank.size()), std::move(options)),
      mailbox_(mailbox),
      group_(std::move(group)) {}

std::int32_t MailboxCommunicator::number(int from, int to) const {
    return group_.first_number + from * size() + to;
}

void MailboxCommunicator::give_up(int peer) const {
    throw DeviceError(group_.names[peer] + " did not come within " + text_of(timeout()) +
                      ". See what it reported, or allow more time with --timeout.");
}

void MailboxCommunicator::do_transfer(std::span<const Message> sends,
                                      std::span<const Message> receives) {
    c10::SmallVector<Mailbox::Ticket, 16> tickets;
    for (const auto& [tensor, peer] : sends) {
        const Address to{group_.process_of_rank[peer], number(rank(), peer)};
        tickets.push_back(mailbox_.send(to, tensor, latest_));
    }
    for (const auto& [tensor, peer] : receives) {
        const Address from{group_.process_of_rank[peer], number(peer, rank())};
        const auto note = mailbox_.receive(from, tensor, deadline());
        if (!note) give_up(peer);
        latest_ = std::max(latest_, *note);
    }
    // Who sent may change the tensor now.
    const auto began = Mailbox::Clock::now();
    for (std::size_t i = 0; i < tickets.size(); ++i) {
        while (!mailbox_.is_sent(tickets[i])) {
            stop_if_aborted();
            if (is_late()) give_up(sends[i].peer);
            mailbox_.pause(began);
        }
    }
}

}  // namespace partita::runtime
