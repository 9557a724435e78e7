// SPDX-License-Identifier: Apache-2.0
//
// Proposals for CallState. A region is a group with others around it in the same slot, found along
// edges in both directions, along paths that leave it or along paths that lead to it:
//
//     shift      a region goes to a slot next to it, to the CPUs, or anywhere
//     exchange   the same into a slot without room; a region of that slot makes room for it, and goes where
//                the first one came from, to the CPUs or anywhere, where a third one may make room for it
//     merge      all of a slot goes to another one, as far as that has room
//     cut        a group and all that lies behind it in its slot go to an empty accelerator
//
// Regions are of one group in three of eight proposals, else of any size, larger ones less often.
// Proposals never need more memory above capacity than there was before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "search/call_latency/call_state.h"
#include "search/support/random.h"

namespace partita::search {

class CallMoves {
public:
    explicit CallMoves(const CallSpace& space);

    /// Changes the state. False: nothing was changed, or only in part; it must be taken back.
    [[nodiscard]] bool propose(CallState& state, Random& random);

private:
    enum class Way : std::uint8_t { around, behind, before };
    /// A region grows until it has one of these.
    struct Size {
        std::size_t groups;
        std::int64_t bytes;
    };

    [[nodiscard]] const Csr<std::int32_t>& lists(Way way) const;
    [[nodiscard]] std::int32_t draw_slot(const CallState& state, std::int32_t group,
                                         Random& random) const;
    [[nodiscard]] std::size_t draw_size(Random& random) const;
    void grow(const CallState& state, std::int32_t seed, Size size, Way way);
    [[nodiscard]] bool put_region(CallState& state, std::int32_t slot) const;
    [[nodiscard]] bool make_room(CallState& state, std::int32_t slot, std::int32_t other, int depth,
                                 Random& random);
    [[nodiscard]] bool shift(CallState& state, std::int32_t group, Random& random);
    [[nodiscard]] bool merge(CallState& state, std::int32_t group, Random& random) const;
    [[nodiscard]] bool cut(CallState& state, std::int32_t group);

    const CallSpace& space_;
    std::vector<std::int32_t> region_;
    std::int64_t region_bytes_ = 0;
    std::vector<char> in_region_;
};

}  // namespace partita::search
