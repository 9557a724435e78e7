// SPDX-License-Identifier: Apache-2.0
//
// How a group of devices may share each op, and how that leaves its tensors: the search space of
// group_split.h. Private to it.
//
//     form        replicated, shards of one dim, or partial sums; numbered per tensor
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"
#include "search/configs/factor_blocks.h"
#include "search/hybrid_parallel/intra_op/group_split.h"

namespace partita::search {

/// How an op is shared: along a factor, perhaps in blocks, or not at all.
struct Choice {
    int factor = -1;  ///< -1: repeated
    std::int64_t blocks = 1;
};

using FormNumber = std::uint8_t;
inline constexpr FormNumber kWholeForm = 0;
inline constexpr FormNumber kPartialForm = 1;
inline constexpr FormNumber kFirstShards = 2;  ///< from here on, of some dim each

class GroupForms {
public:
    GroupForms(const plan::Problem& problem, const GroupSplitOptions& options);

    /// The first is to repeat the op.
    [[nodiscard]] std::size_t choice_count(graph::OpId op) const {
        return choices_[op.index()].size();
    }
    /// Of operand i under a choice, or of result i - operands.
    [[nodiscard]] FormNumber form(graph::OpId op, std::size_t choice, std::size_t i) const;
    [[nodiscard]] plan::Axis axis(graph::OpId op, std::size_t choice) const;

private:
    struct Form {
        bool shards = false;
        int dim = -1;             ///< of this dim,
        std::int64_t chunk = 0;   ///< so many positions each,
        std::int64_t period = 0;  ///< once in so many (less than the dim's extent: strided)
        friend bool operator==(const Form&, const Form&) = default;
    };

    void find_choices(graph::OpId op, const std::vector<FactorBlocks>& in_blocks);
    void add_choice(graph::OpId op, Choice choice);
    void find_forms(graph::OpId op);
    [[nodiscard]] Form form_of(const graph::TensorRule& tensor, const graph::OpRule& rule,
                               Choice choice) const;
    FormNumber number(graph::TensorId t, const graph::OpRule& rule, const graph::TensorRule& tensor,
                      Choice choice, bool is_result);
    [[nodiscard]] plan::Axis axis_of(Choice choice) const;

    const plan::Problem& problem_;
    const GroupSplitOptions& options_;
    int degree_;
    std::vector<std::vector<Choice>> choices_;    ///< per op
    std::vector<std::vector<FormNumber>> forms_;  ///< per op: choice x (operands, results)
    std::vector<std::vector<Form>> known_forms_;  ///< per tensor, by number
};

}  // namespace partita::search
