// SPDX-License-Identifier: Apache-2.0
//
// TaskGraph: what runs. The simulator prices it and the runtime executes it, row for row.
//
//     task      one piece of work: forward, backward, loss, accumulate, update or copy
//     resource  per device a compute row, a send row and a receive row; per link its channels
//     lane      a distinct set of resources; all tasks of a lane can start at the same moment, so
//               ready tasks queue per lane (one per device, one per pair of devices that copy)
//     buffer    bytes on a device from the commit of the task that writes it to the end of its
//               last user; persistent bytes are there all along
//
// Structure of arrays in CSR form, ids dense from 0, immutable once lowered. Ids rise along no
// particular order; edges go from predecessor to successor. The sum of all durations is checked to
// stay below 2^62 when the graph is built, so that inner loops may add raw times unchecked.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ids.h"
#include "graph/units.h"

namespace partita::plan {

class Problem;

enum class TaskKind : std::uint8_t { forward, loss, backward, accumulate, update, copy };
std::string_view name_of(TaskKind kind);

using TaskId = std::int32_t;

struct Task {
    TaskKind kind = TaskKind::forward;
    bool gradient = false;   ///< copies and accumulations: of the tensor's gradient
    graph::OpId op;          ///< whose work it is; for copies the producer of the tensor
    graph::TensorId tensor;  ///< copied, accumulated or updated; invalid otherwise
    std::int32_t device = 0;
    std::int32_t to = -1;  ///< destination of a copy, else -1
    std::int32_t lane = 0;
    Time duration;
};

struct Buffer {
    std::int32_t device = 0;
    TaskId writer = -1;  ///< task whose commit allocates it; -1: there from the start
    Bytes bytes;
};

/// Lists of T for each of n rows, in one array.
template <class T>
struct Csr {
    std::vector<std::uint32_t> offsets{0};
    std::vector<T> items;

    [[nodiscard]] std::size_t rows() const { return offsets.size() - 1; }
    [[nodiscard]] std::span<const T> operator[](std::size_t row) const {
        return {items.data() + offsets[row], items.data() + offsets[row + 1]};
    }
};

struct TaskGraph {
    std::vector<Task> tasks;
    Csr<TaskId> successors;
    std::vector<std::int32_t> predecessor_counts;

    std::int32_t device_count = 0;
    std::int32_t resource_count = 0;  ///< 3 per device, then channels
    Csr<std::int32_t> lanes;          ///< resources of each lane, rising

    std::vector<Buffer> buffers;
    Csr<std::int32_t> reads;        ///< buffers each task reads
    Csr<std::int32_t> writes;       ///< buffers each task allocates
    std::vector<Bytes> persistent;  ///< per device

    [[nodiscard]] std::size_t size() const { return tasks.size(); }
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
std::string task_name(const Problem& problem, const Task& task);
std::string resource_name(const Problem& problem, std::int32_t resource);

/// SHA-256 of tasks, edges and lanes, durations included.
std::string digest(const TaskGraph& graph);

}  // namespace partita::plan
