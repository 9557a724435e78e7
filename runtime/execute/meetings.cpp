// SPDX-License-Identifier: Apache-2.0
#include "runtime/execute/meetings.h"

#include <algorithm>

#include "runtime/execute/fetch.h"

namespace partita::runtime {

using plan::Buffer;
using plan::BufferId;
using plan::TaskGraph;

namespace {

bool in_one_order(const TaskGraph& tasks, Meeting& meeting) {
    const auto key = [&](const std::pair<BufferId, BufferId>& pair) {
        const Buffer& made = buffer_of(tasks, pair.second);
        return std::pair(made.tensor.value, made.region);
    };
    const auto same = [&](const auto& a, const auto& b) { return key(a) == key(b); };
    for (auto& pairs : meeting.buffers) {
        std::ranges::sort(pairs, {}, key);
        if (std::ranges::adjacent_find(pairs, same) != pairs.end()) return false;
        if (!std::ranges::equal(pairs, meeting.buffers[0], same)) return false;
    }
    return !meeting.buffers[0].empty();
}

/// Every rank gives one tensor of a region for each that it gets of that region.
bool find_equal_tensors(const TaskGraph& tasks, std::span<const int> devices, Meeting& meeting) {
    for (const BufferId r : tasks.writes[meeting.task.index()]) {
        const Buffer& made = buffer_of(tasks, r);
        if (made.region < 0) return false;
        const auto rank = std::ranges::find(devices, made.device) - devices.begin();
        if (rank == std::ssize(devices)) return false;
        std::vector<BufferId> given(devices.size());
        for (const BufferId b : buffers_of(tasks, meeting.task, made.tensor, made.gradient)) {
            const Buffer& buffer = buffer_of(tasks, b);
            if (!tasks.regions->overlap(buffer.region, made.region)) continue;
            const auto from = std::ranges::find(devices, buffer.device) - devices.begin();
            if (buffer.region != made.region || from == std::ssize(devices)) return false;
            if (std::exchange(given[static_cast<std::size_t>(from)], b).valid()) return false;
        }
        if (std::ranges::find(given, BufferId()) != given.end()) return false;
        meeting.buffers[static_cast<std::size_t>(rank)].emplace_back(
            given[static_cast<std::size_t>(rank)], r);
    }
    return in_one_order(tasks, meeting);
}

}  // namespace

std::span<const int> devices_of(const TaskGraph& tasks, plan::TaskId task) {
    const plan::Task& of = tasks.tasks[task.index()];
    if (of.ranks < 0) return {&of.device, 1};
    return tasks.ranks[static_cast<std::size_t>(of.ranks)];
}

std::optional<Meeting> find_meeting(const TaskGraph& tasks, plan::TaskId id) {
    const plan::Task& task = tasks.tasks[id.index()];
    if (task.kind != plan::TaskKind::collective || task.updated ||
        task.collective != cost::Collective::all_reduce || task.combine == graph::Combine::none) {
        return std::nullopt;
    }
    const auto devices = devices_of(tasks, id);
    Meeting meeting{
        .task = id,
        .buffers = std::vector<std::vector<std::pair<BufferId, BufferId>>>(devices.size())};
    if (!find_equal_tensors(tasks, devices, meeting)) return std::nullopt;
    return meeting;
}

}  // namespace partita::runtime
