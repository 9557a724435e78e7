// SPDX-License-Identifier: Apache-2.0
#include "runtime/execute/messages.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/csr.h"
#include "runtime/execute/fetch.h"

namespace partita::runtime {

using plan::Buffer;
using plan::BufferId;
using plan::TaskGraph;
using plan::TaskId;
using plan::TaskKind;

namespace {

/// Fewer than the tags of any MPI that is in use.
constexpr std::int64_t kMostNumbers = std::int64_t{1} << 28;

bool is_combination(TaskKind kind) {
    return is_communication(kind) || is_local_move(kind);
}

/// Those of `device` first, then those of this process, then messages, larger ones first: what
/// earlier ones hold need not come from elsewhere. Nor should it: others may be writing there.
void drop_copies(const TaskGraph& tasks, int device, std::vector<Ingredient>& all) {
    const auto rank = [&](const Ingredient& each) {
        const bool is_far = buffer_of(tasks, each.buffer).device != device;
        return std::tuple(each.is_message, is_far, each.is_message ? -each.region.volume() : 0);
    };
    std::ranges::stable_sort(all, {}, rank);
    std::vector<Ingredient> kept;
    for (Ingredient& each : all) {
        const bool is_there = std::ranges::any_of(kept, [&](const Ingredient& other) {
            return graph::contains(other.region, each.region);
        });
        if (!is_there) kept.push_back(std::move(each));
    }
    all = std::move(kept);
}

/// Messages rise by task.
Messages::Range range_of(std::span<const TaskMessage> messages, TaskId task) {
    const auto of_task = std::ranges::equal_range(messages, task, {}, &TaskMessage::task);
    return {static_cast<std::int32_t>(of_task.begin() - messages.begin()),
            static_cast<std::int32_t>(of_task.end() - messages.begin())};
}

class MessagePlanner {
public:
    MessagePlanner(const TaskGraph& tasks, const Ownership& ownership)
        : tasks_(tasks), own_(ownership), shares_(tasks.size()) {}

    Messages run() {
        for (std::size_t t = 0; t < tasks_.size(); ++t) add_task(TaskId(t));
        messages_.messages_out = messages_.out.size();
        messages_.messages_in = messages_.in.size();
        add_tokens();
        return std::move(messages_);
    }

private:
    void add_share(TaskId task, int process) {
        auto& processes = shares_[task.index()];
        if (std::ranges::find(processes, process) == processes.end()) processes.push_back(process);
    }
    [[nodiscard]] bool has_share(TaskId task, int process) const {
        const auto& processes = shares_[task.index()];
        return std::ranges::find(processes, process) != processes.end();
    }

    void add_task(TaskId id) {
        const plan::Task& task = tasks_.tasks[id.index()];
        if (is_combination(task.kind)) {
            if (!add_meeting(id)) add_messages(id);
        }
        if (task.kind == TaskKind::clip) add_norm(id);
        if (shares_[id.index()].empty()) {
            add_share(id, own_.process_of(task.device));
        }
    }

    void add_messages(TaskId id) {
        std::set<std::pair<BufferId, int>> wanted;  // buffer and process, for most tasks enough
        std::vector<std::pair<int, Ingredient>> sent;
        for (const BufferId r : tasks_.writes[id.index()]) {
            const Buffer& made = buffer_of(tasks_, r);
            if (made.region < 0) continue;
            const int to = own_.process_of(made.device);
            add_share(id, to);
            for (Ingredient& each : ingredients_of(tasks_, id, made, own_)) {
                if (!each.is_message) continue;
                const bool is_new = wanted.emplace(each.buffer, to).second ||
                                    std::ranges::none_of(sent, [&](const auto& other) {
                                        return other.first == to &&
                                               other.second.buffer == each.buffer &&
                                               other.second.region == each.region;
                                    });
                if (is_new) sent.emplace_back(to, std::move(each));
            }
        }
        for (auto& [to, each] : sent) add_message(id, to, std::move(each));
    }

    void add_message(TaskId id, int to, Ingredient each) {
        const int device = buffer_of(tasks_, each.buffer).device;
        const int from = own_.process_of(device);
        add_share(id, from);
        TaskMessage message{.task = id,
                            .buffer = each.buffer,
                            .region = std::move(each.region),
                            .device = device,
                            .peer = from,
                            .number = static_cast<std::int32_t>(messages_.numbers++)};
        if (to == own_.self) {
            messages_.in.push_back(std::move(message));
        } else if (from == own_.self) {
            message.peer = to;
            messages_.out.push_back(std::move(message));
        }
    }

    // Meetings.

    bool add_meeting(TaskId id) {
        if (!own_.workers_of_their_own) return false;
        std::optional<Meeting> meeting = find_meeting(tasks_, id);
        if (!meeting) return false;
        const auto devices = devices_of(tasks_, id);
        const auto ranks = std::ssize(devices);
        const bool is_one_process = std::ranges::all_of(devices, [&](int device) {
            return own_.process_of(device) == own_.process_of(devices[0]);
        });
        if (is_one_process || messages_.numbers + ranks * ranks > kMostNumbers) return false;
        meeting->first_number = static_cast<std::int32_t>(messages_.numbers);
        messages_.numbers += ranks * ranks;
        for (const int device : devices) add_share(id, own_.process_of(device));
        if (has_share(id, own_.self)) messages_.meetings.push_back(*std::move(meeting));
        return true;
    }

    /// All processes meet in it, so none needs a token from another.
    void add_norm(TaskId id) {
        for (const int device : devices_of(tasks_, id)) add_share(id, own_.process_of(device));
        const auto processes = std::ssize(shares_[id.index()]);
        if (processes < 2) return;
        if (has_share(id, own_.self)) {
            messages_.meetings.push_back(
                {.task = id,
                 .first_number = static_cast<std::int32_t>(messages_.numbers),
                 .buffers = {}});
        }
        messages_.numbers += processes * processes;
    }

    // Tokens.

    /// One for each process that waits for a task elsewhere, from each that has a share of it,
    /// unless that one has a share of what waits, and so waits itself.
    void add_tokens() {
        std::vector<std::pair<TaskId, std::int32_t>> awaited;   // task, place of its token
        std::vector<std::pair<TaskId, std::int32_t>> released;  // the same
        for (std::size_t t = 0; t < tasks_.size(); ++t) {
            const TaskId before(t);
            std::map<std::pair<int, int>, std::int32_t> places;  // of its tokens, by from and to
            for_each_wait(before, [&](TaskId after, int from, int to) {
                const auto [place, is_new] = places.try_emplace({from, to}, -1);
                if (is_new) place->second = add_token(before, from, to);
                if (is_new && from == own_.self) released.emplace_back(before, place->second);
                if (to == own_.self) awaited.emplace_back(after, place->second);
            });
        }
        messages_.awaited = to_csr(awaited, tasks_.size());
        messages_.released = to_csr(released, tasks_.size());
    }

    /// Calls `wait` with a task after this one, a process that has a share of this one alone, and
    /// one that has a share of the other alone.
    template <class Wait>
    void for_each_wait(TaskId before, Wait wait) const {
        for (const TaskId after : tasks_.successors[before.index()]) {
            for (const int to : shares_[after.index()]) {
                if (has_share(before, to)) continue;
                for (const int from : shares_[before.index()]) {
                    if (!has_share(after, from)) wait(after, from, to);
                }
            }
        }
    }

    /// Its place here, where this process is one of the two; else -1.
    std::int32_t add_token(TaskId task, int from, int to) {
        TaskMessage token{.task = task,
                          .region = {},
                          .device = tasks_.tasks[task.index()].device,
                          .peer = to == own_.self ? from : to,
                          .number = static_cast<std::int32_t>(messages_.numbers++)};
        if (to != own_.self && from != own_.self) return -1;
        auto& list = to == own_.self ? messages_.in : messages_.out;
        list.push_back(std::move(token));
        return static_cast<std::int32_t>(list.size()) - 1;
    }

    const TaskGraph& tasks_;
    const Ownership& own_;
    std::vector<std::vector<int>> shares_;  ///< per task: processes
    Messages messages_;
};

}  // namespace

std::vector<Ingredient> ingredients_of(const TaskGraph& tasks, TaskId task, const Buffer& made,
                                       const Ownership& ownership) {
    const graph::Region& region = (*tasks.regions)[made.region];
    std::vector<Ingredient> all;
    for (const BufferId b : buffers_of(tasks, task, made.tensor, made.gradient)) {
        const Buffer& buffer = buffer_of(tasks, b);
        if (!tasks.regions->overlap(buffer.region, made.region)) continue;
        const graph::Region& held = (*tasks.regions)[buffer.region];
        const bool is_message =
            ownership.process_of(buffer.device) != ownership.process_of(made.device);
        all.push_back({b, is_message ? graph::intersection(held, region) : held, is_message});
    }
    const auto how = tasks.tasks[task.index()].combine;
    if (how == graph::Combine::none) drop_copies(tasks, made.device, all);
    return all;
}

const Meeting* Messages::meeting_of(TaskId task) const {
    const auto found = std::ranges::lower_bound(meetings, task, {}, &Meeting::task);
    return found != meetings.end() && found->task == task ? &*found : nullptr;
}

Messages::Range Messages::messages_for(TaskId task) const {
    return range_of(std::span(in).first(messages_in), task);
}

Messages::Range Messages::messages_from(TaskId task) const {
    return range_of(std::span(out).first(messages_out), task);
}

std::int32_t Messages::find_in(TaskId task, const Ingredient& ingredient) const {
    auto [place, last] = messages_for(task);
    const auto is_it = [&](const TaskMessage& message) {
        return message.buffer == ingredient.buffer && message.region == ingredient.region;
    };
    while (place < last && !is_it(in[static_cast<std::size_t>(place)])) ++place;
    assert(place < last);
    return place;
}

Messages plan_messages(const TaskGraph& tasks, const Ownership& ownership) {
    return MessagePlanner(tasks, ownership).run();
}

}  // namespace partita::runtime
