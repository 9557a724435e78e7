// SPDX-License-Identifier: Apache-2.0
//
// Mailboxes of processes that are threads of this one: what several processes do, in one test.
#pragma once

#include <memory>
#include <vector>

#include "runtime/communicate/mailbox.h"

namespace partita::runtime {

/// One per process; they share what lies in them. `abort`: of all of them.
std::vector<std::unique_ptr<Mailbox>> thread_mailboxes(int processes,
                                                       const std::shared_ptr<Abort>& abort);

}  // namespace partita::runtime
