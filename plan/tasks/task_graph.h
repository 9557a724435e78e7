// SPDX-License-Identifier: Apache-2.0
//
// TaskGraph: what runs. The simulator prices it and the runtime executes it, row for row.
//
//     task          one piece of work: a part's forward, backward, loss or update, an accumulation,
//                   a pack (a strided slice brought into the order of a message, or a message into
//                   that of a tensor), a copy or a collective
//     resource      per device a compute, a send and a receive row; per link its channels. Copies
//                   between CPUs and collectives occupy compute rows of CPUs too (resource_sets.h)
//     resource set  a distinct set of resources: one per device, one per pair of devices that copy,
//                   one per group of devices that communicate. All tasks of one can start at the
//                   same moment, so ready tasks queue per set
//     clip          the norm of all gradients: their devices read what they hold, and add it up
//     host          launches the tasks of a device in the order of their commits, each for
//                   Task::launch, however far the device is behind. None starts before all that
//                   were committed before it are launched
//     buffer        a value on a device, from the commit of the task that writes it to the end of
//                   its last user; persistent bytes are there all along
//
// What a task means can be read off its buffers, which say what region of which tensor they hold:
//
//     forward, backward,
//     recompute           the part of the op that its config, part and micro-batch name, on the
//                         operands found in what it reads
//     everything else     every element of a result is the combination (Task::combine) of the
//                         elements at its position in what the task reads of the same tensor
//
// What of a gradient nobody gives (the positions between windows) is 0.
//
// A graph may be folded: of devices that do the same at the same time one has tasks, for all.
//
// Structure of arrays in CSR form, ids dense from 0, immutable once lowered. Ids rise along no
// particular order; edges go from predecessor to successor. The sum of all durations is checked to
// stay below 2^62 when the graph is built, so that inner loops may add raw times unchecked.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/csr.h"
#include "base/id.h"
#include "base/units.h"
#include "cost/collectives/collective.h"
#include "graph/ids.h"
#include "plan/layout/layout.h"
#include "plan/tasks/memory_kind.h"

namespace partita::plan {

class Problem;

enum class TaskKind : std::uint8_t {
    forward,
    loss,
    backward,
    accumulate,
    pack,
    update,
    copy,
    collective,
    recompute,  ///< a forward once more, for the backward
    weights,    ///< gradients of weights, where the backward does not find them
    clip        ///< the norm of all gradients, for all updates; at most one
};
std::string_view name_of(TaskKind kind);
constexpr bool is_communication(TaskKind kind) {
    return kind == TaskKind::copy || kind == TaskKind::collective;
}

/// Work on a tensor where it lies that belongs to no op.
constexpr bool is_local_move(TaskKind kind) {
    return kind == TaskKind::accumulate || kind == TaskKind::pack;
}

using TaskId = Id<struct TaskTag>;
using BufferId = Id<struct BufferTag>;

/// Picoseconds (53 days). The durations of all tasks of an iteration are less together, so that
/// inner loops may add them unchecked.
inline constexpr std::int64_t kMostWork = std::int64_t{1} << 62;

struct Task {
    TaskKind kind = TaskKind::forward;
    bool gradient = false;  ///< but for forward and backward: of the tensor's gradient
    bool updated = false;   ///< packs and communication: of the new value of a parameter
    cost::CostSource source = cost::CostSource::analytic;  ///< of the duration
    graph::OpId op;  ///< whose work it is; for communication the producer of the tensor, for
                     ///< clip that of the first parameter that is updated
    graph::TensorId tensor;   ///< sent, accumulated or updated; invalid otherwise
    std::int32_t device = 0;  ///< of a collective the first rank
    std::int32_t to = -1;     ///< destination of a copy, else -1
    std::int32_t resource_set = 0;
    std::int32_t part = -1;         ///< of an op that is split
    std::int32_t micro_batch = -1;  ///< when there are several
    std::int32_t ordinal = 0;       ///< of equally named communication and accumulations
    std::int32_t schedule_key =
        -1;                     ///< key of the schedule (pipeline_schedule.h); lower goes first
    std::int32_t priority = 0;  ///< frozen priority of the op that wants it; lower goes first
    Time duration;
    Time launch;  ///< what the host of each of its devices takes to launch it
    // communication
    Bytes bytes;              ///< as cost::CollectiveCall counts; of a copy the message
    std::int32_t ranks = -1;  ///< of what several devices do together: row of TaskGraph::ranks
    std::int32_t fused = 0;   ///< more tensors that move with the collective (fused_collectives.h)
    cost::Collective collective = cost::Collective::all_reduce;
    cost::Algorithm algorithm = cost::Algorithm::direct;
    cost::Protocol protocol = cost::Protocol::none;
    /// Of communication and accumulations: how values combine that lie at one position; none: they
    /// are copies of one value, any of which will do.
    graph::Combine combine = graph::Combine::none;
};

/// Or devices that agree on the norm of their gradients.
inline bool is_communication(const Task& task) {
    return is_communication(task.kind) || task.ranks >= 0;
}

inline void set_price(Task& task, cost::Price price) {
    task.duration = price.time;
    task.source = price.source;
}

/// Tasks by the source of their durations; indexed by CostSource.
using CostCounts = std::array<std::int64_t, cost::kCostSourceCount>;

/// What a buffer holds, and where.
struct BufferValue {
    std::int32_t device = 0;
    Bytes bytes;  ///< 0: they are those of another buffer, or persistent ones
    graph::TensorId tensor;
    bool gradient = false;
    bool recomputed = false;  ///< made once more, for the backward
    bool message = false;  ///< in the order in which it is sent or arrives, not that of the tensor
    std::int32_t micro_batch = -1;
    std::int32_t region = -1;  ///< of TaskGraph::regions
    std::int32_t summand = 0;
    std::int32_t operand = -1;  ///< a gradient as a backward task gives it: of which operand
};

struct Buffer : BufferValue {
    TaskId writer;  ///< task whose commit allocates it; invalid: there from the start
    BufferId root;  ///< buffer whose memory this value uses: views, sums in place
    MemoryKind kind = MemoryKind::activations;
};

struct TaskGraph {
    std::vector<Task> tasks;
    Csr<TaskId> successors;
    std::vector<std::int32_t> predecessor_counts;

    std::int32_t device_count = 0;
    std::int32_t resource_count = 0;  ///< 3 per device, then channels
    Csr<std::int32_t> resource_sets;  ///< resources of each resource set, rising
    /// Devices whose hosts launch the tasks of each resource set; no rows where launching is free.
    Csr<std::int32_t> hosts;

    std::shared_ptr<const RegionTable> regions;
    Csr<std::int32_t> ranks;  ///< devices of each group that communicates, in order of rank

    std::vector<Buffer> buffers;
    Csr<BufferId> reads;                   ///< buffers each task reads
    Csr<BufferId> writes;                  ///< buffers each task allocates
    std::vector<MemoryByKind> persistent;  ///< per device

    /// Of a folded graph (plan/folding/folding.h), which has the tasks of one device of each class:
    /// per device the one that stands for it; empty: all devices have their own.
    std::vector<std::int32_t> representatives;
    std::vector<std::int32_t> copies;  ///< of the same, per task: how many it stands for

    [[nodiscard]] std::size_t size() const { return tasks.size(); }
    [[nodiscard]] bool is_folded() const { return !representatives.empty(); }
    /// Tasks of all devices.
    [[nodiscard]] std::int64_t whole_size() const;
    [[nodiscard]] std::int32_t copies_of(std::size_t task) const {
        return is_folded() ? copies[task] : 1;
    }
    [[nodiscard]] std::span<const std::int32_t> hosts_of(std::size_t resource_set) const {
        if (resource_set >= hosts.rows()) return {};
        return hosts[resource_set];
    }
};

/// Resource ids: 3 * device + {0 compute, 1 send, 2 receive}, then 3 * devices + channel.
constexpr std::int32_t compute_row(int device) {
    return 3 * device;
}
constexpr std::int32_t send_row(int device) {
    return 3 * device + 1;
}
constexpr std::int32_t receive_row(int device) {
    return 3 * device + 2;
}

/// "forward /conv1/Conv", "copy /fc/Gemm.Y gpu0>gpu1", "update fc.weight": unique per task graph.
/// Part 2 of an op in micro-batch 1: "forward /conv1/Conv [2] #1". A collective of three tensors:
/// "all-to-all /emb0/Gather.Y +2 gpu0".
std::string task_name(const Problem& problem, const Task& task);
std::string resource_name(const Problem& problem, std::int32_t resource);

/// Tasks in an order that respects the edges; shorter when they are cyclic.
std::vector<TaskId> topological_order(const TaskGraph& graph);

/// Do they differ in their ordinal at most?
bool have_one_name(const Task& a, const Task& b);

/// Of all devices.
CostCounts count_costs(const TaskGraph& graph);

/// Of a folded graph: what is said of devices, said of those that they stand for, too.
template <class Of>
void unfold(const TaskGraph& graph, std::vector<Of>& per_device) {
    for (std::size_t d = 0; d < graph.representatives.size(); ++d) {
        per_device[d] = per_device[static_cast<std::size_t>(graph.representatives[d])];
    }
}

/// Per device how many it stands for, itself among them; 0: another one stands for it.
std::vector<std::int32_t> stands_for(const TaskGraph& graph);
/// "node0/gpu0", or of a device that stands for others "node0/gpu0 x 8".
std::string label_of(const std::string& name, std::int32_t stands_for);

/// SHA-256 of tasks, edges and resource sets, durations included.
std::string digest(const TaskGraph& graph);

}  // namespace partita::plan
