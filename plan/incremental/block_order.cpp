// SPDX-License-Identifier: Apache-2.0
#include "plan/incremental/block_order.h"

#include <algorithm>
#include <limits>

namespace partita::plan {

IncrementalBlockOrder::IncrementalBlockOrder(int devices, const SlotKeys& keys)
    : keys_(keys), graph_(0, {}), blocks_(devices, keys.schedule_keys()) {}

std::span<const SlotTask> IncrementalBlockOrder::change(
    std::span<const SlotTask> tasks, std::span<const std::int32_t> schedule_keys) {
    pending_ = true;
    put(tasks, schedule_keys);
    find_own();
    find_ends();
    move_in_blocks();
    find_keys_before();
    find_schedule_keys();
    list_.clear();
    for (const Slot slot : given_back_.list) emit(slot);
    return list_.tasks();
}

IncrementalBlockOrder::State& IncrementalBlockOrder::change(Slot slot) {
    State& state = states_[static_cast<std::size_t>(slot)];
    const std::size_t known = touched_.list.size();
    touched_.add(slot);
    if (touched_.list.size() > known) states_before_.push_back(state);
    return state;
}

void IncrementalBlockOrder::put(std::span<const SlotTask> tasks,
                                std::span<const std::int32_t> schedule_keys) {
    for (const SlotTask& task : tasks) {
        while (std::cmp_greater_equal(task.resource_set, graph_.resource_sets()))
            graph_.add_resource_set({});
    }
    graph_.change(tasks);
    states_.resize(graph_.slots());
    for (Slots* slots :
         {&touched_, &moved_, &firsts_, &lasts_, &queue_, &schedule_key_queue_, &given_back_}) {
        slots->has.resize(graph_.slots());
    }
    for (const Slot slot : graph_.changed()) {
        queue_.add(slot);
        given_back_.add(slot);
    }
    for (std::size_t i = 0; i < tasks.size(); ++i) {
        const std::int32_t given = tasks[i].present ? schedule_keys[i] : kNone;
        if (state(tasks[i].slot).given == given) continue;
        change(tasks[i].slot).given = given;
        queue_.add(tasks[i].slot);
    }
}

void IncrementalBlockOrder::find_own() {
    for (std::size_t i = 0; i < queue_.list.size(); ++i) {
        const Slot slot = queue_.take(i);
        const std::int32_t own = own_of(slot);
        const std::int32_t device = own >= 0 ? graph_[slot].resource_set : -1;
        if (own == state(slot).own && device == state(slot).device) continue;
        State& now = change(slot);
        now.own = own;
        now.device = device;
        if (own < 0) now.is_first = now.is_last = false;
        moved_.add(slot);
        for (const Slot next : graph_.successors(slot)) {
            if (state(next).given == kOfPredecessors) queue_.add(next);
        }
    }
    queue_.clear();
}

std::int32_t IncrementalBlockOrder::own_of(Slot slot) const {
    const std::int32_t given = state(slot).given;
    if (given != kOfPredecessors) return given;
    std::int32_t own = -1;
    for (const Slot before : graph_[slot].predecessors) {
        if (is_free(before)) return -1;
        own = std::max(own, state(before).own);
    }
    return own;
}

/// A slot concerns those before and after it, and through one of no block those beyond.
void IncrementalBlockOrder::find_ends() {
    for (const Slot slot : moved_.list) note_around(slot);
    for (std::size_t i = 0; i < graph_.changed().size(); ++i) {
        note_around(graph_.changed()[i]);
        for (const Slot before : graph_.before(i).predecessors) note_last(before);
    }
    for (const Slot slot : firsts_.list) {
        const bool is_first = !has_before(slot);
        if (is_first != state(slot).is_first) change(slot).is_first = is_first;
    }
    for (const Slot slot : lasts_.list) {
        const bool is_last = !has_after(slot);
        if (is_last != state(slot).is_last) change(slot).is_last = is_last;
    }
}

void IncrementalBlockOrder::note_around(Slot slot) {
    if (!is_free(slot)) {
        firsts_.add(slot);
        lasts_.add(slot);
    }
    for (const Slot next : graph_.successors(slot)) note_first(next);
    for (const Slot before : graph_[slot].predecessors) note_last(before);
}

/// That, or what comes after it if it is of no block.
void IncrementalBlockOrder::note_first(Slot slot) {
    if (!is_free(slot)) {
        firsts_.add(slot);
        return;
    }
    for (const Slot beyond : graph_.successors(slot)) {
        if (!is_free(beyond)) firsts_.add(beyond);
    }
}

/// That, or what comes before it if it is of no block.
void IncrementalBlockOrder::note_last(Slot slot) {
    if (!is_free(slot)) {
        lasts_.add(slot);
        return;
    }
    for (const Slot beyond : graph_[slot].predecessors) {
        if (!is_free(beyond)) lasts_.add(beyond);
    }
}

bool IncrementalBlockOrder::are_in_one_block(Slot a, Slot b) const {
    return !is_free(a) && state(a).own == state(b).own && state(a).device == state(b).device;
}

bool IncrementalBlockOrder::has_before(Slot slot) const {
    const auto is_here = [&](Slot other) { return are_in_one_block(other, slot); };
    const auto& predecessors = graph_[slot].predecessors;
    return std::any_of(predecessors.begin(), predecessors.end(), [&](Slot before) {
        if (!is_free(before)) return is_here(before);
        const auto& beyond = graph_[before].predecessors;
        return std::any_of(beyond.begin(), beyond.end(), is_here);
    });
}

bool IncrementalBlockOrder::has_after(Slot slot) const {
    const auto is_here = [&](Slot other) { return are_in_one_block(other, slot); };
    const auto& successors = graph_.successors(slot);
    return std::any_of(successors.begin(), successors.end(), [&](Slot after) {
        if (!is_free(after)) return is_here(after);
        const auto& beyond = graph_.successors(after);
        return std::any_of(beyond.begin(), beyond.end(), is_here);
    });
}

void IncrementalBlockOrder::move_in_blocks() {
    const auto is_same = [](const State& a, const State& b) {
        return a.own == b.own && a.device == b.device && a.is_first == b.is_first &&
               a.is_last == b.is_last;
    };
    for (std::size_t i = 0; i < touched_.list.size(); ++i) {
        const Slot slot = touched_.list[i];
        const State& before = states_before_[i];
        const State& now = state(slot);
        if (is_same(before, now)) continue;
        given_back_.add(slot);
        if (before.own >= 0) {
            blocks_.remove(block_of(before), slot, before.is_first, before.is_last);
        }
        if (now.own >= 0) blocks_.add(block_of(now), slot, now.is_first, now.is_last);
    }
    const auto note_next = [&](const State& state) {
        if (state.own < 0) return;
        const BlockEnds::Number next = blocks_.next(block_of(state));
        if (next == BlockEnds::kNone) return;
        for (const Slot slot : blocks_.firsts(next)) given_back_.add(slot);
    };
    for (std::size_t i = 0; i < touched_.list.size(); ++i) {
        const State& before = states_before_[i];
        const State& now = state(touched_.list[i]);
        if (is_same(before, now)) continue;
        note_next(before);
        note_next(now);
    }
}

void IncrementalBlockOrder::find_keys_before() {
    const auto pass_on = [&](Slot slot) {
        for (const Slot next : graph_.successors(slot)) {
            if (is_free(next)) queue_.add(next);
        }
    };
    for (const Slot slot : graph_.changed()) queue_.add(slot);
    for (const Slot slot : moved_.list) {
        queue_.add(slot);
        schedule_key_queue_.add(slot);
        pass_on(slot);
    }
    for (std::size_t i = 0; i < queue_.list.size(); ++i) {
        const Slot slot = queue_.take(i);
        std::int32_t latest = -1;
        if (is_free(slot)) {
            for (const Slot before : graph_[slot].predecessors) {
                const State& of = state(before);
                latest = std::max(latest, of.own >= 0 ? of.own : of.before);
            }
        }
        if (latest == state(slot).before) continue;
        change(slot).before = latest;
        schedule_key_queue_.add(slot);
        pass_on(slot);
    }
    queue_.clear();
}

void IncrementalBlockOrder::find_schedule_keys() {
    const auto pass_back = [&](const auto& predecessors) {
        for (const Slot before : predecessors) {
            if (is_early(before)) schedule_key_queue_.add(before);
        }
    };
    for (std::size_t i = 0; i < graph_.changed().size(); ++i) {
        const Slot slot = graph_.changed()[i];
        schedule_key_queue_.add(slot);
        pass_back(graph_[slot].predecessors);
        pass_back(graph_.before(i).predecessors);
    }
    for (std::size_t i = 0; i < schedule_key_queue_.list.size(); ++i) {
        const Slot slot = schedule_key_queue_.take(i);
        const std::int32_t schedule_key = schedule_key_of(slot);
        if (schedule_key == state(slot).schedule_key) continue;
        change(slot).schedule_key = schedule_key;
        given_back_.add(slot);
        pass_back(graph_[slot].predecessors);
    }
    schedule_key_queue_.clear();
}

std::int32_t IncrementalBlockOrder::schedule_key_of(Slot slot) const {
    if (!is_early(slot)) return std::max(state(slot).own, state(slot).before);
    std::int32_t earliest = std::numeric_limits<std::int32_t>::max();
    for (const Slot next : graph_.successors(slot)) {
        earliest = std::min(earliest, state(next).schedule_key);
    }
    return graph_.successors(slot).empty() ? 0 : earliest;
}

void IncrementalBlockOrder::emit(Slot slot) {
    const SlotGraph::Node& node = graph_[slot];
    const State& of = state(slot);
    const bool present = node.resource_set >= 0;
    for (const Slot before : node.predecessors) list_.add_predecessor(before);
    if (of.is_first) {
        const BlockEnds::Number previous = blocks_.previous(block_of(of));
        if (previous != BlockEnds::kNone) {
            for (const Slot last : blocks_.lasts(previous)) list_.add_predecessor(last);
        }
    }
    list_.add({.slot = slot,
               .present = present,
               .resource_set = present ? node.resource_set : 0,
               .duration = node.duration,
               .launch = node.launch,
               .key = keys_.with_schedule_key(node.key, of.schedule_key),
               .predecessors = {}});
}

void IncrementalBlockOrder::accept() {
    pending_ = false;
    touched_.clear();
    states_before_.clear();
    moved_.clear();
    firsts_.clear();
    lasts_.clear();
    given_back_.clear();
}

void IncrementalBlockOrder::reject() {
    if (!pending_) return;
    for (std::size_t i = 0; i < touched_.list.size(); ++i) {
        const Slot slot = touched_.list[i];
        State& now = states_[static_cast<std::size_t>(slot)];
        const State& before = states_before_[i];
        if (now.own >= 0) blocks_.remove(block_of(now), slot, now.is_first, now.is_last);
        if (before.own >= 0) {
            blocks_.add(block_of(before), slot, before.is_first, before.is_last);
        }
        now = before;
    }
    graph_.reject();
    accept();
}

}  // namespace partita::plan
