// SPDX-License-Identifier: Apache-2.0
//
// A device's share of an all-reduce over several processes: the devices are the ranks, each on its worker's
// thread, and the algorithm is the plan's (all_reduce.h). Several tensors go as one.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "plan/task_graph.h"
#include "runtime/communicate/mailbox_communicator.h"
#include "runtime/execute/exchange.h"
#include "runtime/execute/store.h"

namespace partita::runtime {

class MeetingWork final : public Work {
public:
    /// The exchange must outlive it.
    MeetingWork(Exchange& exchange, const plan::TaskGraph& tasks, const Meeting& meeting,
                int device);
    void run(Store& store) override;
    [[nodiscard]] Time met() const override { return nanoseconds(communicator_.latest()); }

private:
    Exchange& exchange_;
    graph::Combine combine_ = graph::Combine::none;
    cost::Algorithm algorithm_ = cost::Algorithm::direct;
    std::vector<std::pair<std::int32_t, std::int32_t>> buffers_;  ///< given, made
    MailboxCommunicator communicator_;
};

}  // namespace partita::runtime
