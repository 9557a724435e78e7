// SPDX-License-Identifier: Apache-2.0
//
// Keys of an incremental lowering: how Scheduler::rank orders tasks that could start at the same
// moment, in 64 bits,
//
//     schedule key | frozen priority of the op | micro-batch | place | task
//
//     place   events before the parts │ the parts │ events after them, as in their step of the script
//
// where all behind the priority is how lower() numbers the tasks of an op in one pass. Each field is
// as wide as the problem asks for, and tasks have what is left: 16 bits or more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"
#include "plan/tensors/iteration_script.h"

namespace partita::plan {

class SlotKeys {
public:
    /// nullopt: they do not fit.
    static std::optional<SlotKeys> fitting(const Problem& problem, const Policy& policy);

    /// Of the first task of an event, which is the `event`-th of its step.
    [[nodiscard]] std::uint64_t of_event(std::int32_t priority, int micro_batch, std::size_t event,
                                         bool after_parts) const {
        const std::uint64_t place = event + (after_parts ? place_of_parts_ + 1 : 0);
        return of(priority, micro_batch) | (place << place_shift_);
    }
    [[nodiscard]] std::uint64_t of_part(std::int32_t priority, int micro_batch, int part) const {
        return of(priority, micro_batch) | (place_of_parts_ << place_shift_) |
               static_cast<std::uint64_t>(part);
    }
    /// Behind all others of that priority.
    [[nodiscard]] std::uint64_t of_last(std::int32_t priority) const {
        return of(priority, 0) | ((std::uint64_t{1} << priority_shift_) - 1);
    }
    /// The others have schedule key 0.
    [[nodiscard]] std::uint64_t with_schedule_key(std::uint64_t key,
                                                  std::int32_t schedule_key) const {
        return schedule_keys_ > 1
                   ? key | (static_cast<std::uint64_t>(schedule_key) << schedule_key_shift_)
                   : key;
    }

    /// Schedule keys of a device; 1: there is no schedule.
    [[nodiscard]] int schedule_keys() const { return schedule_keys_; }
    /// An event has fewer tasks than that.
    [[nodiscard]] std::size_t most_tasks() const { return std::size_t{1} << place_shift_; }

    [[nodiscard]] std::uint64_t schedule_key(std::uint64_t key) const {
        return schedule_keys_ > 1 ? key >> schedule_key_shift_ : 0;
    }
    [[nodiscard]] std::uint64_t priority(std::uint64_t key) const {
        return without_schedule_key(key) >> priority_shift_;
    }
    [[nodiscard]] std::uint64_t micro_batch(std::uint64_t key) const {
        return without_priority(key) >> micro_batch_shift_;
    }
    /// Nor schedule key.
    [[nodiscard]] std::uint64_t without_priority(std::uint64_t key) const {
        return key & ((std::uint64_t{1} << priority_shift_) - 1);
    }

private:
    SlotKeys() = default;
    [[nodiscard]] std::uint64_t without_schedule_key(std::uint64_t key) const {
        return schedule_keys_ > 1 ? key & ((std::uint64_t{1} << schedule_key_shift_) - 1) : key;
    }
    [[nodiscard]] std::uint64_t of(std::int32_t priority, int micro_batch) const {
        return (static_cast<std::uint64_t>(priority) << priority_shift_) |
               (static_cast<std::uint64_t>(micro_batch) << micro_batch_shift_);
    }

    int schedule_keys_ = 1;
    int schedule_key_shift_ = 0;
    int priority_shift_ = 0;
    int micro_batch_shift_ = 0;
    int place_shift_ = 0;
    std::uint64_t place_of_parts_ = 0;
};

}  // namespace partita::plan
