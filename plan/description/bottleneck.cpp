// SPDX-License-Identifier: Apache-2.0
#include "plan/description/bottleneck.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "plan/description/communication.h"

namespace partita::plan {

namespace {

constexpr std::string_view kLaunching = "launching kernels";
constexpr std::string_view kOtherDevices = "work of other devices";
constexpr std::string_view kDone = "after its last work";

/// Sums by name, of all devices.
class Sums {
public:
    void add(std::string what, Time time, std::int32_t times = 1) {
        if (time > Time{0}) sums_[std::move(what)] += Int128{times} * time.raw();
    }
    /// Divided by `devices`, most first, but `first` before all.
    [[nodiscard]] std::vector<TimeOf> list(std::int64_t devices,
                                           std::string_view first = {}) const {
        std::vector<TimeOf> list;
        for (const auto& [what, sum] : sums_) {
            list.push_back({what, Time(static_cast<std::int64_t>(sum / devices))});
        }
        std::ranges::stable_sort(list, [&](const TimeOf& a, const TimeOf& b) {
            return std::pair(a.what == first, a.time) > std::pair(b.what == first, b.time);
        });
        return list;
    }

private:
    std::map<std::string, Int128> sums_;
};

class Bounds {
public:
    Bounds(const TaskGraph& tasks, const Timeline& timeline)
        : tasks_(tasks), timeline_(timeline), of_(tasks.size()) {
        std::vector<TaskId> last(static_cast<std::size_t>(tasks.resource_count));
        for (const TaskId id : timeline.commit_order) {
            for (const std::int32_t resource : resources_of(id)) {
                TaskId& before = last[static_cast<std::size_t>(resource)];
                if (before.valid()) put(id, before);
                before = id;
            }
            for (const TaskId next : tasks.successors[id.index()]) put(next, id);
        }
    }

    [[nodiscard]] TaskId of(TaskId task) const { return of_[task.index()]; }
    [[nodiscard]] Time start(TaskId task) const { return timeline_.start[task.index()]; }
    [[nodiscard]] Time end(TaskId task) const {
        return start(task) + tasks_.tasks[task.index()].duration;
    }
    [[nodiscard]] std::span<const std::int32_t> resources_of(TaskId task) const {
        return tasks_
            .resource_sets[static_cast<std::size_t>(tasks_.tasks[task.index()].resource_set)];
    }

private:
    /// Of those that ended at one time the first.
    void put(TaskId task, TaskId before) {
        TaskId& bound = of_[task.index()];
        if (!bound.valid() || end(before) > end(bound)) bound = before;
    }

    const TaskGraph& tasks_;
    const Timeline& timeline_;
    std::vector<TaskId> of_;
};

class Reader {
public:
    Reader(const Problem& problem, const TaskGraph& tasks, const Timeline& timeline)
        : problem_(problem), tasks_(tasks), timeline_(timeline), bounds_(tasks, timeline) {}

    Bottleneck read() {
        Bottleneck bottleneck{.critical_path = {},
                              .on_path = std::vector<Time>(problem_.graph().op_count(), Time{0}),
                              .devices = {}};
        follow_path(bottleneck);
        read_devices(bottleneck);
        return bottleneck;
    }

private:
    [[nodiscard]] const Task& task(TaskId id) const { return tasks_.tasks[id.index()]; }

    [[nodiscard]] std::string what(TaskId id) const {
        const Task& of = task(id);
        if (is_communication(of)) return moved_text(problem_, of);
        if (is_local_move(of.kind) || of.kind == TaskKind::update) {
            return std::string(name_of(of.kind));
        }
        return fmt::format("{} {}", name_of(of.kind), problem_.graph().op(of.op).type);
    }

    void follow_path(Bottleneck& bottleneck) const {
        if (tasks_.size() == 0) return;
        const auto ends_last = std::ranges::max_element(timeline_.commit_order, {},
                                                        [&](TaskId id) { return bounds_.end(id); });
        Sums sums;
        Time now = timeline_.makespan;
        for (TaskId id = *ends_last; id.valid(); id = bounds_.of(id)) {
            sums.add(std::string(kLaunching), now - bounds_.end(id));
            now = bounds_.start(id);
            sums.add(what(id), task(id).duration);
            if (!is_communication(task(id))) {
                bottleneck.on_path[task(id).op.index()] += task(id).duration;
            }
        }
        sums.add(std::string(kLaunching), now);
        bottleneck.critical_path = sums.list(1);
    }

    /// What a device that is idle from `from` to `to` waits for, where `next` ended, or it was
    /// launched, at the end.
    void read_gap(Time from, Time to, TaskId next, std::int32_t copies, Sums& sums) const {
        while (to > from) {
            if (!next.valid()) {
                sums.add(std::string(kLaunching), to - from, copies);
                return;
            }
            const Time end = std::max(from, std::min(to, bounds_.end(next)));
            sums.add(std::string(kLaunching), to - end, copies);
            to = end;
            const Time start = std::max(from, std::min(to, bounds_.start(next)));
            if (!is_communication(task(next))) {
                sums.add(std::string(kOtherDevices), to - from, copies);
                return;
            }
            sums.add(what(next), to - start, copies);
            to = start;
            next = bounds_.of(next);
        }
    }

    void read_devices(Bottleneck& bottleneck) const {
        struct Device {
            Time now;     ///< all before is accounted for
            TaskId last;  ///< communication that it takes part in, which ended last
        };
        const std::vector<std::int32_t> copies = stands_for(tasks_);
        std::vector<Device> devices(copies.size());
        std::vector<char> works(copies.size(), 0);
        Sums sums;
        for (const TaskId id : timeline_.commit_order) {
            for (const std::int32_t resource : bounds_.resources_of(id)) {
                if (resource >= 3 * tasks_.device_count) break;  // channels of links
                const auto d = static_cast<std::size_t>(resource / 3);
                Device& device = devices[d];
                if (is_communication(task(id)) &&
                    (!device.last.valid() || bounds_.end(id) > bounds_.end(device.last))) {
                    device.last = id;
                }
                if (resource != compute_row(static_cast<int>(d))) continue;
                works[d] = 1;
                read_gap(device.now, bounds_.start(id), bounds_.of(id), copies[d], sums);
                sums.add(is_communication(task(id)) ? what(id) : "computing", task(id).duration,
                         copies[d]);
                device.now = bounds_.end(id);
            }
        }
        std::int64_t count = 0;
        for (std::size_t d = 0; d < devices.size(); ++d) {
            if (works[d] == 0 || copies[d] == 0) continue;
            count += copies[d];
            const Device& device = devices[d];
            Time last = device.now;
            if (device.last.valid()) last = std::max(last, bounds_.end(device.last));
            read_gap(device.now, last, device.last, copies[d], sums);
            sums.add(std::string(kDone), timeline_.makespan - last, copies[d]);
        }
        if (count > 0) bottleneck.devices = sums.list(count, "computing");
    }

    const Problem& problem_;
    const TaskGraph& tasks_;
    const Timeline& timeline_;
    Bounds bounds_;
};

}  // namespace

Bottleneck bottleneck_of(const Problem& problem, const TaskGraph& tasks, const Timeline& timeline) {
    return Reader(problem, tasks, timeline).read();
}

}  // namespace partita::plan
