// SPDX-License-Identifier: Apache-2.0
#include "plan/exporters/chrome_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <vector>

#include "base/json.h"
#include "plan/simulation/peak_memory.h"

namespace partita::plan {
namespace {

constexpr std::int64_t kPicosecondsPerMicrosecond = 1'000'000;
constexpr int kPredicted = 1;  // pids
constexpr int kMeasured = 2;

/// "12.000345": exact, unlike a double.
std::string to_microseconds(Time time) {
    const auto raw = time.raw();
    return fmt::format("{}.{:06}", raw / kPicosecondsPerMicrosecond,
                       raw % kPicosecondsPerMicrosecond);
}

class TraceWriter {
public:
    explicit TraceWriter(const ExportInput& input)
        : problem_(input.problem),
          tasks_(*input.tasks),
          timeline_(*input.timeline),
          stands_for_(stands_for(tasks_)),
          next_flow_(static_cast<std::int64_t>(tasks_.size())) {}

    std::string write(std::span<const TaskRun> measured) {
        text_ = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
        event(R"("ph":"M","name":"process_name","args":{{"name":"predicted"}}}})");
        name_rows();
        sort_ranks();
        find_neighbours();
        for (const TaskId task : timeline_.commit_order) {
            add_slices(task);
            if (at(task).kind == TaskKind::copy) add_arrow(task);
            if (at(task).kind == TaskKind::collective) add_arrows(task);
        }
        add_memory();
        if (!measured.empty()) add_measured(measured);
        text_ += "\n]}\n";
        return std::move(text_);
    }

private:
    template <class... Args>
    void event(fmt::format_string<Args...> format, Args&&... args) {
        if (text_.back() == '}') text_ += ",\n";
        text_ += fmt::format("{{\"pid\":{},", pid_);
        fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    }

    [[nodiscard]] const Task& at(TaskId task) const { return tasks_.tasks[task.index()]; }
    [[nodiscard]] Time start(TaskId task) const { return timeline_.start[task.index()]; }
    [[nodiscard]] std::span<const std::int32_t> resources(TaskId task) const {
        return tasks_.resource_sets[static_cast<std::size_t>(at(task).resource_set)];
    }

    /// How many of its kind the resource stands for; 0: nothing is shown of it. A channel is one.
    [[nodiscard]] std::int32_t alike(std::int32_t resource) const {
        const auto device = static_cast<std::size_t>(resource) / 3;
        return device < stands_for_.size() ? stands_for_[device] : 1;
    }

    [[nodiscard]] Time end(TaskId task) const { return start(task) + at(task).duration; }
    /// The first row of the device that the task occupies.
    [[nodiscard]] std::int32_t row_on(TaskId task, int device) const {
        const auto rows = resources(task);
        const auto row = std::ranges::lower_bound(rows, compute_row(device));
        return row != rows.end() && *row <= receive_row(device) ? *row : rows.front();
    }

    /// Only rows that something runs on: a cluster has thousands of idle channels.
    void name_rows() {
        std::vector<char> used(static_cast<std::size_t>(tasks_.resource_count), 0);
        for (const Task& task : tasks_.tasks) {
            for (const auto resource :
                 tasks_.resource_sets[static_cast<std::size_t>(task.resource_set)]) {
                used[static_cast<std::size_t>(resource)] = 1;
            }
        }
        for (std::int32_t resource = 0; resource < tasks_.resource_count; ++resource) {
            if (used[static_cast<std::size_t>(resource)] == 0 || alike(resource) == 0) continue;
            event(R"("tid":{},"ph":"M","name":"thread_name","args":{{"name":{}}}}})", resource,
                  json_quoted(label_of(resource_name(problem_, resource), alike(resource))));
            event(R"("tid":{0},"ph":"M","name":"thread_sort_index","args":{{"sort_index":{0}}}}})",
                  resource);
        }
    }

    /// Where a task leaves what it makes, or takes what it needs.
    [[nodiscard]] std::span<const std::int32_t> devices_of(TaskId id, bool leaving) const {
        const Task& task = at(id);
        if (task.kind == TaskKind::collective) {
            return tasks_.ranks[static_cast<std::size_t>(task.ranks)];
        }
        return {task.kind == TaskKind::copy && leaving ? &task.to : &task.device, 1};
    }

    /// Per communication, and per rank of a collective, the predecessor that ends last and the
    /// successor that starts first; ties by id.
    void find_neighbours() {
        for (std::size_t t = 0; t < tasks_.size(); ++t) {
            const TaskId task(t);
            for (const TaskId next : tasks_.successors[t]) {
                // The devices of both: a collective may have thousands, each with a task after it.
                const auto leaving = devices_of(task, true);
                const auto arriving = devices_of(next, false);
                for (const int device : leaving.size() < arriving.size() ? leaving : arriving) {
                    TaskId* last = neighbour(producers_, next, device, false);
                    TaskId* first = neighbour(consumers_, task, device, true);
                    const bool both = rank_of(task, device, leaving) < leaving.size() &&
                                      rank_of(next, device, arriving) < arriving.size();
                    if (!both) continue;
                    if (last != nullptr && (!last->valid() || end(task) > end(*last))) *last = task;
                    if (first != nullptr && (!first->valid() || start(next) < start(*first))) {
                        *first = next;
                    }
                }
            }
        }
    }

    using Neighbours = std::map<TaskId, std::vector<TaskId>>;

    /// Null unless `task` communicates and does so on the device.
    TaskId* neighbour(Neighbours& of, TaskId task, int device, bool leaving) const {
        if (!is_communication(at(task).kind)) return nullptr;
        const std::span<const std::int32_t> devices = devices_of(task, leaving);
        const std::size_t rank = rank_of(task, device, devices);
        if (rank == devices.size()) return nullptr;
        std::vector<TaskId>& tasks = of[task];
        tasks.resize(devices.size());
        return &tasks[rank];
    }

    /// Its number in `devices`, or their count: ranks are in no order, and there may be thousands.
    [[nodiscard]] std::size_t rank_of(TaskId task, int device,
                                      std::span<const std::int32_t> devices) const {
        if (at(task).kind != TaskKind::collective) return devices[0] == device ? 0 : devices.size();
        const auto& sorted = sorted_ranks_[static_cast<std::size_t>(at(task).ranks)];
        const auto found = std::ranges::lower_bound(
            sorted, device, {}, [&](std::size_t rank) { return devices[rank]; });
        return found != sorted.end() && devices[*found] == device ? *found : devices.size();
    }

    void sort_ranks() {
        for (std::size_t row = 0; row < tasks_.ranks.rows(); ++row) {
            const auto devices = tasks_.ranks[row];
            std::vector<std::size_t>& sorted = sorted_ranks_.emplace_back(devices.size());
            std::iota(sorted.begin(), sorted.end(), std::size_t{0});
            std::ranges::sort(sorted, {}, [&](std::size_t rank) { return devices[rank]; });
        }
    }

    [[nodiscard]] static TaskId neighbour_of(const Neighbours& of, TaskId task, std::size_t rank) {
        const auto found = of.find(task);
        return found == of.end() ? TaskId() : found->second[rank];
    }

    void add_slices(TaskId id) {
        const Task& task = at(id);
        const auto name = json_quoted(task_name(problem_, task));
        for (const auto resource : resources(id)) {
            if (alike(resource) == 0) continue;
            event(R"("tid":{},"ph":"X","name":{},"cat":"{}","ts":{},"dur":{},)"
                  R"("args":{{"task":{}}}}})",
                  resource, name, name_of(task.kind), to_microseconds(start(id)),
                  to_microseconds(task.duration), id.value);
        }
    }

    /// From the producer through the copy to its first consumer.
    void add_arrow(TaskId copy) {
        const TaskId from = neighbour_of(producers_, copy, 0);
        const TaskId to = neighbour_of(consumers_, copy, 0);
        const Task& task = at(copy);
        const std::int64_t id = copy.value;
        if (from.valid()) add_flow("s", "copy", id, row_on(from, task.device), last_moment(from));
        add_flow(from.valid() ? (to.valid() ? "t" : "f") : "s", "copy", id,
                 row_on(copy, from.valid() ? task.device : task.to), start(copy));
        if (to.valid()) add_flow("f", "copy", id, row_on(to, task.to), start(to));
    }

    /// Per rank from its producer to the collective, and from there to its consumer: as many arrows
    /// as ranks each way, however many tasks there are.
    void add_arrows(TaskId collective) {
        const auto ranks = devices_of(collective, true);
        for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
            if (stands_for_[static_cast<std::size_t>(ranks[rank])] == 0) continue;
            const std::int32_t row = row_on(collective, ranks[rank]);
            if (const TaskId from = neighbour_of(producers_, collective, rank); from.valid()) {
                const std::int64_t id = next_flow_++;
                add_flow("s", "collective", id, row_on(from, ranks[rank]), last_moment(from));
                add_flow("f", "collective", id, row, start(collective));
            }
            if (const TaskId to = neighbour_of(consumers_, collective, rank); to.valid()) {
                const std::int64_t id = next_flow_++;
                add_flow("s", "collective", id, row, last_moment(collective));
                add_flow("f", "collective", id, row_on(to, ranks[rank]), start(to));
            }
        }
    }

    /// Inside the slice: an arrow belongs to the slice around its time.
    [[nodiscard]] Time last_moment(TaskId task) const {
        return at(task).duration > Time{0} ? end(task) - Time{1} : end(task);
    }

    void add_flow(std::string_view phase, std::string_view kind, std::int64_t id,
                  std::int32_t resource, Time time) {
        event(R"("tid":{},"ph":"{}","id":{},"name":"{}","cat":"{}",{}"ts":{}}})", resource, phase,
              id, kind, kind, phase == "f" ? R"("bp":"e",)" : "", to_microseconds(time));
    }

    void add_memory() {
        for (const MemoryStep& step : memory_course(tasks_, timeline_.commit_order)) {
            const Time time = step.task.valid() ? start(step.task) : Time{0};
            event(R"("ph":"C","name":{},"ts":{},"args":{{"bytes":{}}}}})",
                  json_quoted("memory " + problem_.machine().device(step.device).name),
                  to_microseconds(time), step.bytes.raw());
        }
    }

    void add_measured(std::span<const TaskRun> runs) {
        pid_ = kMeasured;
        event(R"("ph":"M","name":"process_name","args":{{"name":"measured"}}}})");
        for (int device = 0; device < problem_.device_count(); ++device) {
            event(R"("tid":{0},"ph":"M","name":"thread_name","args":{{"name":{1}}}}})", device,
                  json_quoted(problem_.machine().device(device).name));
            event(R"("tid":{0},"ph":"M","name":"thread_sort_index","args":{{"sort_index":{0}}}}})",
                  device);
        }
        for (const TaskRun& run : runs) {
            const Task& task = at(run.task);
            event(R"("tid":{},"ph":"X","name":{},"cat":"{}","ts":{},"dur":{},)"
                  R"("args":{{"task":{}}}}})",
                  run.device, json_quoted(task_name(problem_, task)), name_of(task.kind),
                  to_microseconds(run.start), to_microseconds(run.end - run.start), run.task.value);
        }
    }

    const Problem& problem_;
    const TaskGraph& tasks_;
    const Timeline& timeline_;
    std::vector<std::int32_t> stands_for_;  ///< per device
    int pid_ = kPredicted;
    std::string text_;
    std::vector<std::vector<std::size_t>> sorted_ranks_;  ///< per row of ranks, by device
    Neighbours producers_;
    Neighbours consumers_;
    std::int64_t next_flow_;  ///< of collectives: ids behind those of the tasks
};

}  // namespace

std::string chrome_trace(const ExportInput& input) {
    return chrome_trace(input, {});
}

std::string chrome_trace(const ExportInput& input, std::span<const TaskRun> measured) {
    return TraceWriter(input).write(measured);
}

}  // namespace partita::plan
