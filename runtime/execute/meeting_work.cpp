// SPDX-License-Identifier: Apache-2.0
#include "runtime/execute/meeting_work.h"

#include <algorithm>
#include <span>
#include <string>

#include <ATen/Functions.h>

#include "runtime/communicate/all_reduce.h"

namespace partita::runtime {

MailboxCommunicator communicator_among(const Peers& peers, std::span<const int> devices, int rank,
                                       std::int32_t first_number) {
    MailboxGroup group{.process_of_rank = {}, .names = {}, .first_number = 2 * first_number};
    for (const int each : devices) {
        const int process = peers.ownership.process_of(each);
        group.process_of_rank.push_back(process);
        group.names.push_back("rank " + std::to_string(process) + " (" +
                              peers.devices[static_cast<std::size_t>(each)] + ")");
    }
    return {*peers.mailbox, std::move(group), rank,
            CommunicatorOptions{.timeout = peers.timeout, .abort = peers.abort}};
}

namespace {

/// Tensors as one flat one.
at::Tensor joined(const std::vector<at::Tensor>& tensors) {
    std::vector<at::Tensor> flat;
    for (const at::Tensor& tensor : tensors) flat.push_back(tensor.contiguous().view(-1));
    return at::cat(flat);
}

}  // namespace

MeetingWork::MeetingWork(const plan::TaskGraph& tasks, const Meeting& meeting, int device)
    : combine_(tasks.tasks[meeting.task.index()].combine) {
    const auto devices = devices_of(tasks, meeting.task);
    rank_ = static_cast<int>(std::ranges::find(devices, device) - devices.begin());
    buffers_ = meeting.buffers[static_cast<std::size_t>(rank_)];
}

void MeetingWork::run(Store& store) {
    meet();
    std::vector<at::Tensor> given;
    for (const auto& [from, to] : buffers_) given.push_back(store[from]);
    const bool as_one = std::ranges::all_of(given, [&](const at::Tensor& tensor) {
        return tensor.scalar_type() == given[0].scalar_type();
    });
    if (given.size() == 1 || !as_one) {
        for (std::size_t i = 0; i < given.size(); ++i) {
            store[buffers_[i].second] = reduced(given[i], false);
        }
        return;
    }
    const at::Tensor all = reduced(joined(given), true);
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < given.size(); ++i) {
        store[buffers_[i].second] = all.narrow(0, begin, given[i].numel()).view(given[i].sizes());
        begin += given[i].numel();
    }
}

MessageMeeting::MessageMeeting(Exchange& exchange, const plan::TaskGraph& tasks,
                               const Meeting& meeting, int device)
    : MeetingWork(tasks, meeting, device),
      exchange_(exchange),
      algorithm_(tasks.tasks[meeting.task.index()].algorithm),
      communicator_(communicator_among(exchange.peers(), devices_of(tasks, meeting.task), rank(),
                                       meeting.first_number)) {}

at::Tensor MessageMeeting::reduced(const at::Tensor& tensor, bool is_scratch) {
    if (!is_scratch) return all_reduced(communicator_, tensor, combine(), algorithm_);
    all_reduce(communicator_, tensor, combine(), algorithm_);
    return tensor;
}

NcclMeeting::NcclMeeting(std::shared_ptr<Communicator> communicator, const plan::TaskGraph& tasks,
                         const Meeting& meeting, int device)
    : MeetingWork(tasks, meeting, device), communicator_(std::move(communicator)) {}

at::Tensor NcclMeeting::reduced(const at::Tensor& tensor, bool is_scratch) {
    at::Tensor all = is_scratch ? tensor : tensor.clone(at::MemoryFormat::Contiguous);
    communicator_->all_reduce(all, combine());
    return all;
}

}  // namespace partita::runtime
