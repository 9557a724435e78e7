// SPDX-License-Identifier: Apache-2.0
//
// Where the blocks of a schedule begin and end on each device, in an incremental lowering: by
// device and schedule key the slots that nothing of their block comes before, and those that
// nothing of it comes after. Control edges go from the latter to the former of the next block there
// (plan/lowering/block_order.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/incremental/slot_graph.h"

namespace partita::plan {

class BlockEnds {
public:
    /// A device and a schedule key; none where there is no such block.
    using Number = std::int32_t;
    static constexpr Number kNone = -1;

    BlockEnds(int devices, int schedule_keys);

    [[nodiscard]] Number number(std::int32_t device, std::int32_t schedule_key) const {
        return device * schedule_keys_ + schedule_key;
    }

    void add(Number block, Slot slot, bool is_first, bool is_last);
    /// As it was added.
    void remove(Number block, Slot slot, bool is_first, bool is_last);

    /// Of blocks that have slots; the order in which slots are given means nothing.
    [[nodiscard]] std::span<const Slot> firsts(Number block) const { return at(block).firsts; }
    [[nodiscard]] std::span<const Slot> lasts(Number block) const { return at(block).lasts; }
    /// On the same device, of those that have slots.
    [[nodiscard]] Number previous(Number block) const;
    [[nodiscard]] Number next(Number block) const;

private:
    struct Ends {
        std::vector<Slot> firsts;
        std::vector<Slot> lasts;
        int slots = 0;  ///< those between them, too
    };
    [[nodiscard]] const Ends& at(Number block) const {
        return blocks_[static_cast<std::size_t>(block)];
    }
    [[nodiscard]] Ends& at(Number block) { return blocks_[static_cast<std::size_t>(block)]; }

    int schedule_keys_;
    std::vector<Ends> blocks_;
};

}  // namespace partita::plan
