// SPDX-License-Identifier: Apache-2.0
//
// A schedule in a task graph that changes a little at a time: the schedule keys and control edges
// that plan/lowering/block_order.h gives a whole graph, by slot.
//
//     changed slots  ─▶  keys of their blocks    of parts as the caller says; of sums and packs in a block
//                                                the latest of what they wait for
//                    ─▶  ends of blocks          of these slots, of those before and after them, and of
//                                                those that only a task of no block lies between
//                    ─▶  control edges           to where a block begins whose previous one ends elsewhere
//                    ─▶  keys of all others      passed on forward, and backward where nothing before has
//                                                one, for as long as they differ
//
// A slot whose schedule key or control edges differ is a changed slot too.
//
// Cost: proportional to the slots that differ and those around them.
// Threads: one object per thread.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "plan/incremental/block_ends.h"
#include "plan/incremental/slot_graph.h"
#include "plan/incremental/slot_keys.h"
#include "plan/incremental/slot_list.h"

namespace partita::plan {

class IncrementalBlockOrder {
public:
    /// What callers say of a slot's schedule key, if they do not know it.
    static constexpr std::int32_t kNone = -1;            ///< in no block
    static constexpr std::int32_t kOfPredecessors = -2;  ///< of theirs, if these all have one

    IncrementalBlockOrder(int devices, const SlotKeys& keys);

    /// Slots that may hold something else now, each once, with keys of schedule key 0 and without
    /// control edges; `schedule_keys`: of each of them, from 0 to SlotKeys::schedule_keys() - 1, or
    /// one of the above. The resource sets of tasks that have schedule keys are those of their
    /// devices. Returns all that differs, as it is to be. The change is pending until accept() or
    /// reject(); what is returned holds as long.
    std::span<const SlotTask> change(std::span<const SlotTask> tasks,
                                     std::span<const std::int32_t> schedule_keys);
    void accept();
    void reject();  ///< nothing, if nothing is pending

private:
    struct State {
        std::int32_t given = kNone;  ///< by the caller
        std::int32_t own = -1;       ///< of its block; -1: of none
        std::int32_t device = -1;    ///< the same
        std::int32_t before =
            -1;  ///< of no block: the latest schedule key before it; -1: there is none
        std::int32_t schedule_key = 0;
        bool is_first = false;  ///< of its block
        bool is_last = false;   ///< the same
    };
    /// Slots, each once. What is taken from the front may come again.
    struct Slots {
        std::vector<Slot> list;
        std::vector<char> has;
        void add(Slot slot) {
            char& known = has[static_cast<std::size_t>(slot)];
            if (known == 0) list.push_back(slot);
            known = 1;
        }
        Slot take(std::size_t i) {
            has[static_cast<std::size_t>(list[i])] = 0;
            return list[i];
        }
        void clear() {
            for (const Slot slot : list) has[static_cast<std::size_t>(slot)] = 0;
            list.clear();
        }
    };

    void put(std::span<const SlotTask> tasks, std::span<const std::int32_t> schedule_keys);
    void find_own();
    [[nodiscard]] std::int32_t own_of(Slot slot) const;
    void find_ends();
    void note_around(Slot slot);
    void note_first(Slot slot);
    void note_last(Slot slot);
    [[nodiscard]] bool are_in_one_block(Slot a, Slot b) const;
    [[nodiscard]] bool has_before(Slot slot) const;
    [[nodiscard]] bool has_after(Slot slot) const;
    void move_in_blocks();
    void find_keys_before();
    void find_schedule_keys();
    [[nodiscard]] std::int32_t schedule_key_of(Slot slot) const;
    void emit(Slot slot);

    [[nodiscard]] const State& state(Slot slot) const {
        return states_[static_cast<std::size_t>(slot)];
    }
    State& change(Slot slot);
    [[nodiscard]] bool is_free(Slot slot) const { return state(slot).own < 0; }
    /// Of no block, and nothing before it is of one.
    [[nodiscard]] bool is_early(Slot slot) const { return is_free(slot) && state(slot).before < 0; }
    [[nodiscard]] BlockEnds::Number block_of(const State& state) const {
        return blocks_.number(state.device, state.own);
    }

    SlotKeys keys_;
    SlotGraph graph_;  ///< as callers give it; its resource sets have no resources
    std::vector<State> states_;
    BlockEnds blocks_;

    // The pending change.
    bool pending_ = false;
    Slots touched_;  ///< whose state may differ
    std::vector<State> states_before_;
    Slots moved_;   ///< whose own schedule key or device differs
    Slots firsts_;  ///< that may begin a block now, or not any more
    Slots lasts_;   ///< the same of its end
    Slots queue_;
    Slots schedule_key_queue_;
    Slots given_back_;  ///< that may be others than before
    SlotList list_;     ///< what change() gives
};

}  // namespace partita::plan
