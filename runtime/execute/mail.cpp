// SPDX-License-Identifier: Apache-2.0
#include "runtime/execute/mail.h"

#include <algorithm>
#include <cassert>
#include <set>
#include <tuple>
#include <utility>

#include "runtime/execute/fetch.h"

namespace partita::runtime {

using plan::Buffer;
using plan::TaskGraph;
using plan::TaskId;
using plan::TaskKind;

namespace {

/// Fewer than the tags of any MPI that is in use.
constexpr std::int64_t kMostNumbers = std::int64_t{1} << 28;

bool is_combination(TaskKind kind) {
    return is_communication(kind) || is_local_move(kind);
}

/// Those of `device` first, then those of this process, then letters, larger ones first: what earlier ones
/// hold need not come from elsewhere. Nor should it: others may be writing there.
void drop_copies(const TaskGraph& tasks, int device, std::vector<Ingredient>& all) {
    const auto rank = [&](const Ingredient& each) {
        const bool is_far = buffer_of(tasks, each.buffer).device != device;
        return std::tuple(each.is_letter, is_far, each.is_letter ? -each.region.volume() : 0);
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

/// Letters rise by task.
Mail::Places places_of(std::span<const Letter> letters, TaskId task) {
    const auto of_task = std::ranges::equal_range(letters, task, {}, &Letter::task);
    return {static_cast<std::int32_t>(of_task.begin() - letters.begin()),
            static_cast<std::int32_t>(of_task.end() - letters.begin())};
}

class Planner {
public:
    Planner(const TaskGraph& tasks, const Ownership& ownership)
        : tasks_(tasks), own_(ownership), shares_(tasks.size()) {}

    Mail run() {
        for (std::size_t t = 0; t < tasks_.size(); ++t) add_task(static_cast<TaskId>(t));
        mail_.letters_out = mail_.out.size();
        mail_.letters_in = mail_.in.size();
        add_tokens();
        return std::move(mail_);
    }

private:
    void add_share(TaskId task, int process) {
        auto& processes = shares_[static_cast<std::size_t>(task)];
        if (std::ranges::find(processes, process) == processes.end()) processes.push_back(process);
    }
    [[nodiscard]] bool has_share(TaskId task, int process) const {
        const auto& processes = shares_[static_cast<std::size_t>(task)];
        return std::ranges::find(processes, process) != processes.end();
    }

    void add_task(TaskId id) {
        const plan::Task& task = tasks_.tasks[static_cast<std::size_t>(id)];
        if (is_combination(task.kind)) {
            if (!add_meeting(id)) add_letters(id);
        }
        if (shares_[static_cast<std::size_t>(id)].empty()) {
            add_share(id, own_.process_of(task.device));
        }
    }

    void add_letters(TaskId id) {
        std::set<std::pair<std::int32_t, int>> wanted;  // buffer and process, for most tasks enough
        std::vector<std::pair<int, Ingredient>> sent;
        for (const std::int32_t r : tasks_.writes[static_cast<std::size_t>(id)]) {
            const Buffer& made = buffer_of(tasks_, r);
            if (made.region < 0) continue;
            const int to = own_.process_of(made.device);
            add_share(id, to);
            for (Ingredient& each : ingredients_of(tasks_, id, made, own_)) {
                if (!each.is_letter) continue;
                const bool is_new = wanted.emplace(each.buffer, to).second ||
                                    std::ranges::none_of(sent, [&](const auto& other) {
                                        return other.first == to &&
                                               other.second.buffer == each.buffer &&
                                               other.second.region == each.region;
                                    });
                if (is_new) sent.emplace_back(to, std::move(each));
            }
        }
        for (auto& [to, each] : sent) add_letter(id, to, std::move(each));
    }

    void add_letter(TaskId id, int to, Ingredient each) {
        const int device = buffer_of(tasks_, each.buffer).device;
        const int from = own_.process_of(device);
        add_share(id, from);
        Letter letter{.task = id,
                      .buffer = each.buffer,
                      .region = std::move(each.region),
                      .device = device,
                      .peer = from,
                      .number = static_cast<std::int32_t>(mail_.numbers++)};
        if (to == own_.self) {
            mail_.in.push_back(std::move(letter));
        } else if (from == own_.self) {
            letter.peer = to;
            mail_.out.push_back(std::move(letter));
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
        if (is_one_process || mail_.numbers + ranks * ranks > kMostNumbers) return false;
        meeting->first_number = static_cast<std::int32_t>(mail_.numbers);
        mail_.numbers += ranks * ranks;
        for (const int device : devices) add_share(id, own_.process_of(device));
        if (has_share(id, own_.self)) mail_.meetings.push_back(*std::move(meeting));
        return true;
    }

    // Tokens.

    /// One for each process that waits for a task elsewhere, from each that has a share of it, unless that
    /// one has a share of what waits, and so waits itself.
    void add_tokens() {
        std::vector<std::vector<std::int32_t>> awaited(tasks_.size());
        std::vector<std::vector<std::int32_t>> released(tasks_.size());
        for (std::size_t t = 0; t < tasks_.size(); ++t) {
            const auto before = static_cast<TaskId>(t);
            std::set<std::pair<int, int>> sent;  // from, to
            for (const TaskId after : tasks_.successors[t]) {
                for (const int to : shares_[static_cast<std::size_t>(after)]) {
                    if (has_share(before, to)) continue;
                    for (const int from : shares_[t]) {
                        if (has_share(after, from)) continue;
                        if (sent.emplace(from, to).second) add_token(before, from, to, released[t]);
                        if (to != own_.self) continue;
                        awaited[static_cast<std::size_t>(after)].push_back(
                            place_of_token(before, from));
                    }
                }
            }
        }
        for (const auto& [lists, csr] :
             {std::pair(&awaited, &mail_.awaited), std::pair(&released, &mail_.released)}) {
            for (const auto& list : *lists) {
                csr->items.insert(csr->items.end(), list.begin(), list.end());
                csr->offsets.push_back(static_cast<std::uint32_t>(csr->items.size()));
            }
        }
    }

    void add_token(TaskId task, int from, int to, std::vector<std::int32_t>& released) {
        Letter token{.task = task,
                     .region = {},
                     .device = tasks_.tasks[static_cast<std::size_t>(task)].device,
                     .peer = from,
                     .number = static_cast<std::int32_t>(mail_.numbers++)};
        if (to == own_.self) {
            mail_.in.push_back(std::move(token));
        } else if (from == own_.self) {
            token.peer = to;
            released.push_back(static_cast<std::int32_t>(mail_.out.size()));
            mail_.out.push_back(std::move(token));
        }
    }

    /// Those of a task were added last.
    [[nodiscard]] std::int32_t place_of_token(TaskId task, int from) const {
        auto at = std::ssize(mail_.in) - 1;
        const auto is_it = [&](const Letter& letter) {
            return letter.buffer < 0 && letter.task == task && letter.peer == from;
        };
        while (!is_it(mail_.in[static_cast<std::size_t>(at)])) --at;
        return static_cast<std::int32_t>(at);
    }

    const TaskGraph& tasks_;
    const Ownership& own_;
    std::vector<std::vector<int>> shares_;  ///< per task: processes
    Mail mail_;
};

}  // namespace

std::vector<Ingredient> ingredients_of(const TaskGraph& tasks, TaskId task, const Buffer& made,
                                       const Ownership& ownership) {
    const graph::Region& region = (*tasks.regions)[made.region];
    std::vector<Ingredient> all;
    for (const std::int32_t b : buffers_of(tasks, task, made.tensor, made.gradient)) {
        const Buffer& buffer = buffer_of(tasks, b);
        if (!tasks.regions->overlap(buffer.region, made.region)) continue;
        const graph::Region& held = (*tasks.regions)[buffer.region];
        const bool is_letter =
            ownership.process_of(buffer.device) != ownership.process_of(made.device);
        all.push_back({b, is_letter ? graph::intersection(held, region) : held, is_letter});
    }
    const auto how = tasks.tasks[static_cast<std::size_t>(task)].combine;
    if (how == graph::Combine::none) drop_copies(tasks, made.device, all);
    return all;
}

const Meeting* Mail::meeting_of(TaskId task) const {
    const auto found = std::ranges::lower_bound(meetings, task, {}, &Meeting::task);
    return found != meetings.end() && found->task == task ? &*found : nullptr;
}

Mail::Places Mail::letters_for(TaskId task) const {
    return places_of(std::span(in).first(letters_in), task);
}

Mail::Places Mail::letters_from(TaskId task) const {
    return places_of(std::span(out).first(letters_out), task);
}

std::int32_t Mail::find_in(TaskId task, const Ingredient& ingredient) const {
    auto [place, last] = letters_for(task);
    const auto is_it = [&](const Letter& letter) {
        return letter.buffer == ingredient.buffer && letter.region == ingredient.region;
    };
    while (place < last && !is_it(in[static_cast<std::size_t>(place)])) ++place;
    assert(place < last);
    return place;
}

Mail plan_mail(const TaskGraph& tasks, const Ownership& ownership) {
    return Planner(tasks, ownership).run();
}

}  // namespace partita::runtime
