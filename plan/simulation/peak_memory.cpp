// SPDX-License-Identifier: Apache-2.0
#include "plan/simulation/peak_memory.h"

#include <algorithm>

#include "plan/tasks/distinct_resources.h"

namespace partita::plan {

namespace {

class MemoryWalk {
public:
    explicit MemoryWalk(const TaskGraph& graph)
        : graph_(graph),
          distinct_(graph),
          users_left_(graph.buffers.size(), 1),  // the writer counts as a user
          last_on_(static_cast<std::size_t>(graph.resource_count)),
          ended_(graph.size(), 0),
          bytes_(persistent_bytes(graph)) {
        for (const BufferId buffer : graph.reads.items) {
            ++users_left_[buffer.index()];
        }
    }

    /// Calls `visit(task, buffer, sign)` after each buffer that a commit allocates (1) or gives
    /// back (-1).
    template <class Visit>
    void run(std::span<const TaskId> order, Visit visit) {
        for (const TaskId id : order) {
            const std::size_t i = id.index();
            const auto resource_set =
                distinct_.resources[static_cast<std::size_t>(graph_.tasks[i].resource_set)];
            for (const std::int32_t r : resource_set) {
                TaskId& last = last_on_[static_cast<std::size_t>(r)];
                if (last.valid()) end(last, id, visit);
                last = id;
            }
            for (const BufferId buffer : graph_.writes[i]) {
                const Buffer& b = graph_.buffers[buffer.index()];
                bytes_[static_cast<std::size_t>(b.device)] += b.bytes;
                visit(id, b, 1);
            }
        }
    }

    /// That the device holds now.
    [[nodiscard]] Bytes bytes(std::size_t device) const { return bytes_[device]; }

private:
    /// `task` has certainly ended when `now` starts: what it alone still used is given back.
    template <class Visit>
    void end(TaskId task, TaskId now, Visit visit) {
        const std::size_t i = task.index();
        if (ended_[i] != 0) return;
        ended_[i] = 1;
        const auto release = [&](BufferId buffer) {
            if (--users_left_[buffer.index()] != 0) return;
            const Buffer& b = graph_.buffers[buffer.index()];
            bytes_[static_cast<std::size_t>(b.device)] -= b.bytes;
            visit(now, b, -1);
        };
        for (const BufferId buffer : graph_.reads[i]) release(buffer);
        for (const BufferId buffer : graph_.writes[i]) release(buffer);
    }

    const TaskGraph& graph_;
    DistinctResources distinct_;
    std::vector<std::int32_t> users_left_;
    std::vector<TaskId> last_on_;  ///< per resource
    std::vector<char> ended_;
    std::vector<Bytes> bytes_;
};

}  // namespace

std::vector<Bytes> persistent_bytes(const TaskGraph& graph) {
    std::vector<Bytes> bytes;
    for (const MemoryByKind& kept : graph.persistent) bytes.push_back(kept.total());
    return bytes;
}

std::vector<Bytes> peak_memory(const TaskGraph& graph, std::span<const TaskId> order) {
    std::vector<Bytes> peak = persistent_bytes(graph);
    MemoryWalk walk(graph);
    walk.run(order, [&](TaskId, const Buffer& buffer, int) {
        const auto d = static_cast<std::size_t>(buffer.device);
        peak[d] = std::max(peak[d], walk.bytes(d));
    });
    unfold(graph, peak);
    return peak;
}

std::vector<MemoryByKind> peak_memory_by_kind(const TaskGraph& graph,
                                              std::span<const TaskId> order) {
    std::vector<MemoryByKind> now = graph.persistent;
    std::vector<MemoryByKind> at_peak = now;
    std::vector<Bytes> peak = persistent_bytes(graph);
    MemoryWalk walk(graph);
    walk.run(order, [&](TaskId, const Buffer& buffer, int sign) {
        const auto d = static_cast<std::size_t>(buffer.device);
        now[d][buffer.kind] += sign * buffer.bytes;
        if (walk.bytes(d) <= peak[d]) return;
        peak[d] = walk.bytes(d);
        at_peak[d] = now[d];
    });
    unfold(graph, at_peak);
    return at_peak;
}

std::vector<MemoryStep> memory_course(const TaskGraph& graph, std::span<const TaskId> order) {
    std::vector<MemoryStep> course;
    MemoryWalk walk(graph);
    walk.run(order, [&](TaskId task, const Buffer& buffer, int) {
        const Bytes bytes = walk.bytes(static_cast<std::size_t>(buffer.device));
        course.push_back({task, buffer.device, bytes});
    });
    return course;
}

}  // namespace partita::plan
