// SPDX-License-Identifier: Apache-2.0
//
// A mailbox over MPI, on an MPI communicator of its own. Private to MPI's files.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include <mpi.h>

#include "runtime/communicate/mailbox.h"

namespace partita::runtime {

std::string mpi_text_of(int error);

class MpiMailbox : public Mailbox {
public:
    /// Waits until everything is sent; false when the time is over.
    virtual bool drain(Clock::time_point until) = 0;

protected:
    using Mailbox::Mailbox;
};

/// `mutex`: around every call of MPI, and as long-lived as the process. The MPI communicator is the
/// mailbox's own. `largest_message`: see CommunicatorOptions.
std::unique_ptr<MpiMailbox> mpi_mailbox(std::mutex& mutex, MPI_Comm own,
                                        std::shared_ptr<Abort> abort, std::int64_t largest_message);

}  // namespace partita::runtime
