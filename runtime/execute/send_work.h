// SPDX-License-Identifier: Apache-2.0
//
// The share of a task on a device from which something goes to other processes: it gives the
// messages away and ends at once. A piece that lies in holes is put together, anything else goes
// from where it lies: sums in place leave memory alone that somebody else holds (combine_work.cpp),
// and what updates change is guarded (exchange.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/execute/exchange.h"
#include "runtime/execute/patch.h"
#include "runtime/execute/store.h"

namespace partita::runtime {

class SendWork final : public Work {
public:
    /// `messages`: places in Messages::out, all of one task and device. The exchange must outlive
    /// it.
    SendWork(Exchange& exchange, const plan::TaskGraph& tasks,
             std::span<const std::int32_t> messages);
    void run(Store& store) override;

private:
    struct Piece {
        std::int32_t message = -1;
        plan::BufferId buffer;
        bool whole = false;  ///< all of the buffer
        graph::Shape extents;
        Patch patch;  ///< from the buffer
    };
    Exchange& exchange_;
    std::vector<Piece> pieces_;
};

}  // namespace partita::runtime
