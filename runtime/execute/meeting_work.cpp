// SPDX-License-Identifier: Apache-2.0
#include "runtime/execute/meeting_work.h"

#include <algorithm>
#include <span>
#include <string>

#include <ATen/Functions.h>

#include "runtime/communicate/all_reduce.h"

namespace partita::runtime {

namespace {

std::span<const std::int32_t> devices_of(const plan::TaskGraph& tasks, plan::TaskId task) {
    return tasks.ranks[static_cast<std::size_t>(tasks.tasks[static_cast<std::size_t>(task)].ranks)];
}

MailboxCommunicator communicator_of(const Peers& peers, const Meeting& meeting,
                                    std::span<const std::int32_t> devices, int device) {
    MailboxGroup group{
        .process_of_rank = {}, .names = {}, .first_number = 2 * meeting.first_number};
    for (const int each : devices) {
        const int process = peers.ownership.process_of(each);
        group.process_of_rank.push_back(process);
        group.names.push_back("rank " + std::to_string(process) + " (" +
                              peers.devices[static_cast<std::size_t>(each)] + ")");
    }
    const auto rank = static_cast<int>(std::ranges::find(devices, device) - devices.begin());
    return {*peers.mailbox, std::move(group), rank,
            CommunicatorOptions{.timeout = peers.timeout, .abort = peers.abort}};
}

/// Tensors as one flat one.
at::Tensor joined(const std::vector<at::Tensor>& tensors) {
    std::vector<at::Tensor> flat;
    for (const at::Tensor& tensor : tensors) flat.push_back(tensor.contiguous().view(-1));
    return at::cat(flat);
}

}  // namespace

MeetingWork::MeetingWork(Exchange& exchange, const plan::TaskGraph& tasks, const Meeting& meeting,
                         int device)
    : exchange_(exchange),
      combine_(tasks.tasks[static_cast<std::size_t>(meeting.task)].combine),
      algorithm_(tasks.tasks[static_cast<std::size_t>(meeting.task)].algorithm),
      communicator_(
          communicator_of(exchange.peers(), meeting, devices_of(tasks, meeting.task), device)) {
    buffers_ = meeting.buffers[static_cast<std::size_t>(communicator_.rank())];
}

void MeetingWork::run(Store& store) {
    communicator_.set_note(exchange_.now());
    std::vector<at::Tensor> given;
    for (const auto& [from, to] : buffers_) given.push_back(store[from]);
    const bool as_one = std::ranges::all_of(given, [&](const at::Tensor& tensor) {
        return tensor.scalar_type() == given[0].scalar_type();
    });
    if (given.size() == 1 || !as_one) {
        for (std::size_t i = 0; i < given.size(); ++i) {
            store[buffers_[i].second] = all_reduced(communicator_, given[i], combine_, algorithm_);
        }
        return;
    }
    const at::Tensor all = joined(given);
    all_reduce(communicator_, all, combine_, algorithm_);
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < given.size(); ++i) {
        store[buffers_[i].second] = all.narrow(0, begin, given[i].numel()).view(given[i].sizes());
        begin += given[i].numel();
    }
}

}  // namespace partita::runtime
