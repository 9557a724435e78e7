// SPDX-License-Identifier: Apache-2.0
#include "runtime/execute/nccl_groups.h"

#include <algorithm>
#include <cassert>
#include <optional>
#include <set>

#include "runtime/communicate/nccl_communicator.h"
#include "runtime/communicate/processes.h"

namespace partita::runtime {

using plan::TaskId;

namespace {

/// Per group; what other processes make is heard from them.
std::vector<std::string> made_ids(const NcclLibrary& nccl,
                                  const std::vector<std::vector<int>>& groups, const Peers* peers) {
    std::vector<std::string> ids;
    std::string own;
    for (const auto& group : groups) {
        const bool is_mine = peers == nullptr || peers->ownership.is_mine(group[0]);
        ids.push_back(is_mine ? nccl.new_id() : "");
        own += ids.back();
    }
    if (peers == nullptr) return ids;
    const std::vector<std::string> all = share(*peers->world, own);
    std::vector<std::size_t> heard(all.size(), 0);  // bytes, per process
    for (std::size_t g = 0; g < groups.size(); ++g) {
        const auto process = static_cast<std::size_t>(peers->ownership.process_of(groups[g][0]));
        ids[g] = all[process].substr(heard[process], kNcclIdBytes);
        heard[process] += kNcclIdBytes;
    }
    return ids;
}

}  // namespace

const NcclLibrary& nccl_library() {
    static const NcclLibrary kLibrary =
        has_nccl() ? NcclLibrary{nccl_unique_id, nccl_communicator} : NcclLibrary{};
    return kLibrary;
}

NcclGroups::NcclGroups(const NcclLibrary& nccl, const plan::TaskGraph& tasks,
                       const Placement& placement, const std::vector<std::string>& names,
                       const Peers* peers)
    : nccl_(nccl),
      tasks_(tasks),
      abort_(peers == nullptr ? std::make_shared<Abort>() : peers->abort) {
    if (!placement.own_gpus || !nccl.new_id) return;
    std::vector<Group> groups;
    std::set<Group> known;
    for (std::size_t t = 0; t < tasks.size(); ++t) {
        std::optional<Meeting> meeting = find_meeting(tasks, TaskId(t));
        if (!meeting) continue;
        Group group = group_of(meeting->task);
        meetings_.push_back(*std::move(meeting));
        if (known.insert(group).second) groups.push_back(std::move(group));
    }
    CommunicatorOptions options{.abort = abort_};
    if (peers != nullptr) options.timeout = peers->patience;  // groups meet first after loading
    const std::vector<std::string> ids = made_ids(nccl, groups, peers);
    for (std::size_t g = 0; g < groups.size(); ++g) {
        connect(groups[g], ids[g], placement, names, options);
    }
}

void NcclGroups::connect(const Group& group, const std::string& id, const Placement& placement,
                         const std::vector<std::string>& names,
                         const CommunicatorOptions& options) {
    CommunicatorOptions named = options;
    for (const int device : group) named.names.push_back(names[static_cast<std::size_t>(device)]);
    const auto size = static_cast<int>(group.size());
    for (int rank = 0; rank < size; ++rank) {
        const auto device = static_cast<std::size_t>(group[static_cast<std::size_t>(rank)]);
        if (placement.worker[device] < 0) continue;
        communicators_[{group, group[static_cast<std::size_t>(rank)]}] =
            nccl_.connect(id, rank, size, placement.device[device], named);
    }
}

NcclGroups::Group NcclGroups::group_of(TaskId task) const {
    const auto devices = devices_of(tasks_, task);
    return {devices.begin(), devices.end()};
}

const Meeting* NcclGroups::meeting_of(TaskId task) const {
    const auto found = std::ranges::lower_bound(meetings_, task, {}, &Meeting::task);
    return found != meetings_.end() && found->task == task ? &*found : nullptr;
}

const std::shared_ptr<Communicator>& NcclGroups::communicator(TaskId task, int device) const {
    const auto found = communicators_.find({group_of(task), device});
    assert(found != communicators_.end());
    return found->second;
}

}  // namespace partita::runtime
