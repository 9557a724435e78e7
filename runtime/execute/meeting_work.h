// SPDX-License-Identifier: Apache-2.0
//
// A device's share of an all-reduce in which every device is a rank (meetings.h), on its worker's
// thread:
//
//     by messages     over several processes, with the plan's algorithm (all_reduce.h)
//     by NCCL         between GPUs, with NCCL's own (nccl_groups.h)
//
// Several tensors go as one.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "cost/collectives/collective.h"
#include "plan/tasks/task_graph.h"
#include "runtime/communicate/communicator.h"
#include "runtime/communicate/mailbox_communicator.h"
#include "runtime/execute/exchange.h"
#include "runtime/execute/meetings.h"
#include "runtime/execute/store.h"

namespace partita::runtime {

/// Among `devices`, in order of rank; the square of so many messages from that number on are its own.
MailboxCommunicator communicator_among(const Peers& peers, std::span<const int> devices, int rank,
                                       std::int32_t first_number);

class MeetingWork : public Work {
public:
    void run(Store& store) override;

protected:
    MeetingWork(const plan::TaskGraph& tasks, const Meeting& meeting, int device);
    [[nodiscard]] graph::Combine combine() const { return combine_; }
    [[nodiscard]] int rank() const { return rank_; }

private:
    /// Before a run.
    virtual void meet() {}
    /// The combination of all ranks' tensors of that shape. `is_scratch`: it may be in its memory.
    [[nodiscard]] virtual at::Tensor reduced(const at::Tensor& tensor, bool is_scratch) = 0;

    graph::Combine combine_ = graph::Combine::none;
    int rank_ = 0;
    std::vector<std::pair<plan::BufferId, plan::BufferId>> buffers_;  ///< given, made
};

class MessageMeeting final : public MeetingWork {
public:
    /// The exchange must outlive it.
    MessageMeeting(Exchange& exchange, const plan::TaskGraph& tasks, const Meeting& meeting,
                   int device);
    [[nodiscard]] Time met() const override { return nanoseconds(communicator_.latest()); }

private:
    void meet() override { communicator_.set_note(exchange_.now()); }
    [[nodiscard]] at::Tensor reduced(const at::Tensor& tensor, bool is_scratch) override;

    Exchange& exchange_;
    cost::Algorithm algorithm_ = cost::Algorithm::direct;
    MailboxCommunicator communicator_;
};

class NcclMeeting final : public MeetingWork {
public:
    /// `communicator`: of the device, in the group of the task's devices.
    NcclMeeting(std::shared_ptr<Communicator> communicator, const plan::TaskGraph& tasks,
                const Meeting& meeting, int device);

private:
    [[nodiscard]] at::Tensor reduced(const at::Tensor& tensor, bool is_scratch) override;

    std::shared_ptr<Communicator> communicator_;
};

}  // namespace partita::runtime
