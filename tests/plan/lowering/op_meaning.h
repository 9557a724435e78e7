// SPDX-License-Identifier: Apache-2.0
//
// What an op computes, for tests that run lowered programs. It follows from the op's rule alone,
// over the integers modulo a prime, so that every sum is exact and no wrong slice goes unnoticed:
//
//     result[free] = reduction over the others of  product over operands of  g(operand)
//     additive op:   sum over linear operands, times the product over those that only select
//     g(x) = x       where the op is linear in the operand; x^2 elsewhere, so that a partial sum that
//                    passes through gives another number; summed over a window where a dim has one
//
// Operands that are applied once are added at the first point of the reduction, as x. Reductions
// are what the rule says: sum, product, max or min, the numbers 0 ... prime - 1 in their order.
// Results of sums are weighted by their position, so that elements differ even where the rule says
// nothing of their dims. The backward is the derivative; of a max or min it goes to every element
// that equals the combined result.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/op_graph.h"
#include "graph/operators/op_rule.h"
#include "graph/operators/part.h"
#include "tests/plan/layout/sparse_value.h"

namespace partita::plan {

inline constexpr std::int64_t kPrime = 1'000'003;

/// 0 ... kPrime - 1.
std::int64_t modulo(std::int64_t value);

class OpMeaning {
public:
    /// `plain`: no squares and no weights, which is what MatMul, Gemm, Add, Mul and the reductions
    /// mean. All must outlive it.
    OpMeaning(const graph::OpGraph& graph, const graph::Op& op, const graph::OpRule& rule,
              bool plain)
        : graph_(graph), op_(op), rule_(rule), plain_(plain) {}

    /// Of a part; an operand of which nothing is known is left out. Throws std::logic_error when an
    /// element is not there.
    [[nodiscard]] std::vector<SparseValue> forward(const graph::Box& box,
                                                   const std::vector<SparseValue>& operands) const;

    /// Gradients of the operands, from those of the results. `results`: needed by reductions that
    /// are no sums.
    [[nodiscard]] std::vector<SparseValue> backward(const graph::Box& box,
                                                    const std::vector<SparseValue>& operands,
                                                    const std::vector<SparseValue>& results,
                                                    const std::vector<SparseValue>& upstream) const;

    /// How the reduction combines; sum when there is none.
    [[nodiscard]] graph::Combine reduction() const;

private:
    struct Operand {
        std::vector<std::size_t> elements;
        std::int64_t sum = 0;  ///< of g over them
        bool present = false;
    };
    using Point = std::vector<std::int64_t>;

    [[nodiscard]] std::vector<Operand> operands_at(const Point& point,
                                                   const std::vector<SparseValue>& values) const;
    [[nodiscard]] bool is_square(std::size_t operand) const {
        const graph::TensorRule& rule = rule_.operands[operand];
        return !plain_ && !rule.linear && !rule.apply_once;
    }
    /// The value at a point, and in `slope` how it changes with each operand's sum.
    std::int64_t value_at(const std::vector<Operand>& operands, const Point& point,
                          std::vector<std::int64_t>& slope) const;
    [[nodiscard]] std::int64_t product_of_others(const std::vector<Operand>& operands,
                                                 std::size_t operand) const;
    [[nodiscard]] std::int64_t weight(std::size_t element) const;
    [[nodiscard]] std::vector<std::size_t> result_elements(std::size_t r, const Point& point) const;

    const graph::OpGraph& graph_;
    const graph::Op& op_;
    const graph::OpRule& rule_;
    bool plain_;
};

}  // namespace partita::plan
