// SPDX-License-Identifier: Apache-2.0
//
// A mailbox in the TCPStore: one queue per sender, receiver and number. Private to the TCP store's
// files.
#pragma once

#include <memory>

#include "runtime/communicate/mailbox.h"
#include "runtime/communicate/store_line.h"

namespace partita::runtime {

std::unique_ptr<Mailbox> store_mailbox(const StoreLine& line, int rank,
                                       std::shared_ptr<Abort> abort);

}  // namespace partita::runtime
