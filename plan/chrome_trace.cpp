// SPDX-License-Identifier: Apache-2.0
#include "plan/chrome_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "graph/json.h"
#include "plan/memory.h"

namespace partita::plan {
namespace {

constexpr std::int64_t kPicosecondsPerMicrosecond = 1'000'000;
constexpr int kPid = 1;  // of the predicted timeline

/// "12.000345": exact, unlike a double.
std::string to_microseconds(Time time) {
    const auto raw = time.raw();
    return fmt::format("{}.{:06}", raw / kPicosecondsPerMicrosecond,
                       raw % kPicosecondsPerMicrosecond);
}

class TraceWriter {
public:
    explicit TraceWriter(const ExportInput& input)
        : problem_(input.problem), tasks_(*input.tasks), timeline_(*input.timeline) {}

    std::string write() {
        text_ = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
        event(R"("ph":"M","name":"process_name","args":{{"name":"predicted"}}}})");
        name_rows();
        find_neighbours();
        for (const TaskId task : timeline_.commit_order) {
            add_slices(task);
            if (tasks_.tasks[static_cast<std::size_t>(task)].kind == TaskKind::copy) {
                add_arrow(task);
            }
        }
        add_memory();
        text_ += "\n]}\n";
        return std::move(text_);
    }

private:
    template <class... Args>
    void event(fmt::format_string<Args...> format, Args&&... args) {
        if (text_.back() == '}') text_ += ",\n";
        text_ += fmt::format("{{\"pid\":{},", kPid);
        fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    }

    [[nodiscard]] const Task& at(TaskId task) const {
        return tasks_.tasks[static_cast<std::size_t>(task)];
    }
    [[nodiscard]] Time start(TaskId task) const {
        return timeline_.start[static_cast<std::size_t>(task)];
    }
    [[nodiscard]] std::span<const std::int32_t> resources(TaskId task) const {
        return tasks_.lanes[static_cast<std::size_t>(at(task).lane)];
    }

    /// Only rows that something runs on: a cluster has thousands of idle channels.
    void name_rows() {
        std::vector<char> used(static_cast<std::size_t>(tasks_.resource_count), 0);
        for (const Task& task : tasks_.tasks) {
            for (const auto resource : tasks_.lanes[static_cast<std::size_t>(task.lane)]) {
                used[static_cast<std::size_t>(resource)] = 1;
            }
        }
        for (std::int32_t resource = 0; resource < tasks_.resource_count; ++resource) {
            if (used[static_cast<std::size_t>(resource)] == 0) continue;
            event(R"("tid":{},"ph":"M","name":"thread_name","args":{{"name":{}}}}})", resource,
                  graph::json_quoted(resource_name(problem_, resource)));
            event(R"("tid":{0},"ph":"M","name":"thread_sort_index","args":{{"sort_index":{0}}}}})",
                  resource);
        }
    }

    /// Per copy the predecessor that ends last and the successor that starts first; ties by id.
    void find_neighbours() {
        producer_.assign(tasks_.size(), -1);
        consumer_.assign(tasks_.size(), -1);
        for (TaskId task = 0; task < static_cast<TaskId>(tasks_.size()); ++task) {
            for (const TaskId next : tasks_.successors[static_cast<std::size_t>(task)]) {
                TaskId& last = producer_[static_cast<std::size_t>(next)];
                const auto end = start(task) + at(task).duration;
                if (last < 0 || end > start(last) + at(last).duration) last = task;
                TaskId& first = consumer_[static_cast<std::size_t>(task)];
                if (first < 0 || start(next) < start(first)) first = next;
            }
        }
    }

    void add_slices(TaskId id) {
        const Task& task = at(id);
        const auto name = graph::json_quoted(task_name(problem_, task));
        for (const auto resource : resources(id)) {
            event(R"("tid":{},"ph":"X","name":{},"cat":"{}","ts":{},"dur":{},)"
                  R"("args":{{"task":{}}}}})",
                  resource, name, name_of(task.kind), to_microseconds(start(id)),
                  to_microseconds(task.duration), id);
        }
    }

    void add_arrow(TaskId copy) {
        const TaskId from = producer_[static_cast<std::size_t>(copy)];
        const TaskId to = consumer_[static_cast<std::size_t>(copy)];
        // Inside the producer's slice: an arrow belongs to the slice around its time.
        if (from >= 0) {
            const Time last = at(from).duration > Time{0} ? at(from).duration - Time{1} : Time{0};
            add_flow("s", copy, resources(from).front(), start(from) + last);
        }
        add_flow(from >= 0 ? (to >= 0 ? "t" : "f") : "s", copy, resources(copy).front(),
                 start(copy));
        if (to >= 0) add_flow("f", copy, resources(to).front(), start(to));
    }

    void add_flow(std::string_view phase, TaskId copy, std::int32_t resource, Time time) {
        event(R"("tid":{},"ph":"{}","id":{},"name":"copy","cat":"copy",{}"ts":{}}})", resource,
              phase, copy, phase == "f" ? R"("bp":"e",)" : "", to_microseconds(time));
    }

    void add_memory() {
        for (const MemoryStep& step : memory_course(tasks_, timeline_.commit_order)) {
            const Time time = step.task < 0 ? Time{0} : start(step.task);
            event(R"("ph":"C","name":{},"ts":{},"args":{{"bytes":{}}}}})",
                  graph::json_quoted("memory " + problem_.machine().device(step.device).name),
                  to_microseconds(time), step.bytes.raw());
        }
    }

    const Problem& problem_;
    const TaskGraph& tasks_;
    const Timeline& timeline_;
    std::string text_;
    std::vector<TaskId> producer_;
    std::vector<TaskId> consumer_;
};

}  // namespace

std::string chrome_trace(const ExportInput& input) {
    return TraceWriter(input).write();
}

}  // namespace partita::plan
