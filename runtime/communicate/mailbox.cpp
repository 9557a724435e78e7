// SPDX-License-Identifier: Apache-2.0
#include "runtime/communicate/mailbox.h"

#include <string>
#include <thread>

#include "base/error.h"

namespace partita::runtime {

void Mailbox::stop_if_aborted() const {
    if (is_aborted()) throw DeviceError("stopped, because of: " + abort_->reason());
}

void Mailbox::pause(Clock::time_point began) const {
    if (Clock::now() - began < awake_.load(std::memory_order_relaxed)) {
        std::this_thread::yield();
    } else {
        std::this_thread::sleep_for(kNap);
    }
}

void Mailbox::refuse_size(Address from, std::size_t came, std::size_t expected) {
    throw DeviceError("rank " + std::to_string(from.process) + " sent " + std::to_string(came) +
                      " bytes where " + std::to_string(expected) +
                      " were expected. Give all ranks the same plan.");
}

}  // namespace partita::runtime
