// SPDX-License-Identifier: Apache-2.0
//
// How a group of devices may share each op, and how that leaves its tensors: the search space of
// group_split.h. Private to it.
//
//     form        replicated, shards of one dim, or partial sums; numbered per tensor
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"
#include "search/hybrid_parallel/intra_op/group_split.h"

namespace partita::search {

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
    /// Those before it must not be chosen.
    [[nodiscard]] std::size_t first_choice(graph::OpId op) const {
        return must_share_[op.index()] != 0 ? 1 : 0;
    }
    /// Of operand i under a choice, or of result i - operands.
    [[nodiscard]] FormNumber form(graph::OpId op, std::size_t choice, std::size_t i) const;
    [[nodiscard]] const plan::Axis& axis(graph::OpId op, std::size_t choice) const {
        return choices_[op.index()][choice];
    }

    /// The operand that is a weight of two dims or more, which the op multiplies by or looks up; -1:
    /// none. Vectors (biases, norms) are too small to care.
    [[nodiscard]] int weight_of(graph::OpId op) const;

    /// As GroupSplit::fault.
    [[nodiscard]] const std::string& fault() const { return fault_; }

private:
    struct Form {
        bool shards = false;
        int dim = -1;             ///< of this dim,
        std::int64_t chunk = 0;   ///< so many positions each,
        std::int64_t period = 0;  ///< once in so many (less than the dim's extent: strided),
        bool rotated = false;     ///< of another device in a ring
        friend bool operator==(const Form&, const Form&) = default;
    };

    [[nodiscard]] bool is_batch(graph::OpId op, const plan::Axis& axis) const;
    [[nodiscard]] bool is_choice(graph::OpId op, const plan::Axis& axis) const;
    void find_forms(graph::OpId op);
    /// Of an op, under GroupSplitOptions::must_share: what each device must have a part of, and what
    /// it must have all of. Operands, and results, which count behind them.
    struct Shares {
        std::vector<std::size_t> parts;
        std::vector<std::size_t> whole;
        bool batch_alone = false;           ///< by dims of the batch
        std::optional<bool> by_heads = {};  ///< AttentionBy
    };
    [[nodiscard]] Shares shares_of(graph::OpId op) const;
    [[nodiscard]] bool has_heads(graph::OpId op) const;
    [[nodiscard]] bool is_by_heads(const graph::OpRule& rule, const plan::Axis& choice) const;
    [[nodiscard]] bool is_of_experts(graph::OpId op) const;
    [[nodiscard]] bool has_experts() const;
    void look_up_in_parts(const graph::OpRule& rule, std::vector<plan::Axis>& choices) const;
    [[nodiscard]] std::string cannot_share(graph::OpId op, const Shares& shares) const;
    [[nodiscard]] Form form_of(const graph::TensorRule& tensor, const graph::OpRule& rule,
                               const plan::Axis& choice) const;
    FormNumber number(graph::TensorId t, const graph::OpRule& rule, const graph::TensorRule& tensor,
                      const plan::Axis& choice, bool is_result);

    const plan::Problem& problem_;
    const GroupSplitOptions& options_;
    int degree_;
    std::vector<std::vector<plan::Axis>> choices_;  ///< per op: how it is shared
    std::vector<std::vector<FormNumber>> forms_;    ///< per op: choice x (operands, results)
    std::vector<std::vector<Form>> known_forms_;    ///< per tensor, by number
    std::vector<char> must_share_;                  ///< per op
    std::string fault_;
};

}  // namespace partita::search
