// SPDX-License-Identifier: Apache-2.0
//
// The collectives of a plan that NCCL does, and a communicator for each group of devices among them
// and each device here. NCCL takes all-reduces of equal tensors (meetings.h) where every device of
// the plan has a GPU of its own, in one process or several. Everything else is copies between GPUs
// of a process, and messages between processes (messages.h).
//
// All processes make the groups alike: every group has an id, made by the process of its first
// device. A group connects at its first operation. Workers do what they do in restrictions of one
// order, so they come to their groups in one order, too, and NCCL's kernels cannot wait for one
// another in a circle.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plan/tasks/task_graph.h"
#include "runtime/communicate/communicator.h"
#include "runtime/execute/exchange.h"
#include "runtime/execute/meetings.h"
#include "runtime/execute/program.h"

namespace partita::runtime {

/// NCCL, or what stands for it in tests.
struct NcclLibrary {
    /// Empty: there is none.
    std::function<std::string()> new_id;
    std::function<std::unique_ptr<Communicator>(const std::string& id, int rank, int size,
                                                at::Device device, const CommunicatorOptions&)>
        connect;
};
/// This program's (nccl_communicator.h).
const NcclLibrary& nccl_library();

class NcclGroups {
public:
    /// No groups where NCCL or GPUs for it are missing. `names`: of the plan's devices. `peers`: or
    /// null; all of its processes construct alike. Throws DeviceError.
    NcclGroups(const NcclLibrary& nccl, const plan::TaskGraph& tasks, const Placement& placement,
               const std::vector<std::string>& names, const Peers* peers);

    /// Null: NCCL does not do it.
    [[nodiscard]] const Meeting* meeting_of(plan::TaskId task) const;
    /// Of a device here, in the group of a task that NCCL does.
    [[nodiscard]] const std::shared_ptr<Communicator>& communicator(plan::TaskId task,
                                                                    int device) const;
    /// Ends all waiting in the groups.
    void stop(const std::string& reason) { abort_->raise(reason); }

private:
    using Group = std::vector<int>;  ///< devices, in order of ranks
    [[nodiscard]] Group group_of(plan::TaskId task) const;
    void connect(const Group& group, const std::string& id, const Placement& placement,
                 const std::vector<std::string>& names, const CommunicatorOptions& options);

    const NcclLibrary& nccl_;
    const plan::TaskGraph& tasks_;
    std::shared_ptr<Abort> abort_;
    std::vector<Meeting> meetings_;  ///< rising by task
    std::map<std::pair<Group, int>, std::shared_ptr<Communicator>> communicators_;
};

}  // namespace partita::runtime
