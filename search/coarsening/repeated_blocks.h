// SPDX-License-Identifier: Apache-2.0
//
// Repeated blocks of a network, found by structure: stretches of computing ops, in order, that come
// again and again, each op reading from as far back as its like.
//
//     Embed  [Norm MatMul Add] [Norm MatMul Add] [Norm MatMul Add]  Head
//                  └──────── twins ┴─────────────────┘
//
// Ops are alike when their types and factors agree, and the types of the producers of their
// operands. From the left, the stretch whose run of repetitions covers most ops is taken, the
// shortest of those; the search goes on behind the run. A period is kLongestBlock ops at most.
//
// Time: O(ops * kLongestBlock).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/problem/problem.h"

namespace partita::search {

inline constexpr std::size_t kLongestBlock = 512;

class RepeatedBlocks {
public:
    explicit RepeatedBlocks(const plan::Problem& problem);

    /// The ops at the same place of each repetition, this one among them; alone where nothing
    /// repeats.
    [[nodiscard]] std::span<const graph::OpId> twins(graph::OpId op) const {
        return {twins_.data() + first_twin_[op.index()], twin_count_[op.index()]};
    }
    [[nodiscard]] bool any() const { return !runs_.empty(); }

private:
    struct Run {
        std::size_t begin = 0;  ///< of computing ops in order
        std::size_t period = 0;
        std::size_t count = 0;  ///< whole repetitions
    };

    void list_twins(std::size_t op_count);
    [[nodiscard]] Run run_at(std::size_t begin, const std::vector<std::uint64_t>& kinds) const;

    std::vector<graph::OpId> ops_;  ///< computing ones, in order
    std::vector<Run> runs_;
    std::vector<graph::OpId> twins_;         ///< each op's, one after the other
    std::vector<std::uint32_t> first_twin_;  ///< per op
    std::vector<std::uint32_t> twin_count_;
};

}  // namespace partita::search
