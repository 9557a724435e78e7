// SPDX-License-Identifier: Apache-2.0
#include "plan/simulation/peak_memory.h"

#include <algorithm>

namespace partita::plan {

namespace {

class MemoryWalk {
public:
    explicit MemoryWalk(const TaskGraph& graph)
        : graph_(graph),
          users_left_(graph.buffers.size(), 1),  // the writer counts as a user
          last_on_(static_cast<std::size_t>(graph.resource_count)),
          ended_(graph.size(), 0),
          bytes_(graph.persistent) {
        for (const BufferId buffer : graph.reads.items) {
            ++users_left_[buffer.index()];
        }
    }

    /// Calls `visit(task, device)` after each change of a device's bytes by a commit.
    template <class Visit>
    void run(std::span<const TaskId> order, Visit visit) {
        for (const TaskId id : order) {
            const std::size_t i = id.index();
            const auto resource_set =
                graph_.resource_sets[static_cast<std::size_t>(graph_.tasks[i].resource_set)];
            for (const std::int32_t r : resource_set) {
                TaskId& last = last_on_[static_cast<std::size_t>(r)];
                if (last.valid()) end(last, id, visit);
                last = id;
            }
            for (const BufferId buffer : graph_.writes[i]) {
                const Buffer& b = graph_.buffers[buffer.index()];
                bytes_[static_cast<std::size_t>(b.device)] += b.bytes;
                visit(id, b.device);
            }
        }
    }

    [[nodiscard]] const std::vector<Bytes>& bytes() const { return bytes_; }

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
            visit(now, b.device);
        };
        for (const BufferId buffer : graph_.reads[i]) release(buffer);
        for (const BufferId buffer : graph_.writes[i]) release(buffer);
    }

    const TaskGraph& graph_;
    std::vector<std::int32_t> users_left_;
    std::vector<TaskId> last_on_;  ///< per resource
    std::vector<char> ended_;
    std::vector<Bytes> bytes_;
};

}  // namespace

std::vector<Bytes> peak_memory(const TaskGraph& graph, std::span<const TaskId> order) {
    std::vector<Bytes> peak = graph.persistent;
    MemoryWalk walk(graph);
    walk.run(order, [&](TaskId, std::int32_t device) {
        const auto d = static_cast<std::size_t>(device);
        peak[d] = std::max(peak[d], walk.bytes()[d]);
    });
    return peak;
}

std::vector<MemoryStep> memory_course(const TaskGraph& graph, std::span<const TaskId> order) {
    std::vector<MemoryStep> course;
    MemoryWalk walk(graph);
    walk.run(order, [&](TaskId task, std::int32_t device) {
        const Bytes bytes = walk.bytes()[static_cast<std::size_t>(device)];
        course.push_back({task, device, bytes});
    });
    return course;
}

}  // namespace partita::plan
