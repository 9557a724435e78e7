// SPDX-License-Identifier: Apache-2.0
//
// How a product with a weight (MatMul, Gemm, Conv, LSTM, ...) is split, in the words that people have
// for it. X [b s k] W [k n] -> Y [b s n] is split along
//
//     data       b, which carries the batch
//     context    s: neither the batch nor anything of the weight (positions of an image, too)
//     columns    n: parts of the result, by parts of the weight       tensor parallelism
//     rows       k: partial sums, by parts of the weight              tensor parallelism
//     experts    matrices of one weight [e k n], each for its own rows of X [e b k]
//     replicas   which do the same work
#pragma once

#include <compare>
#include <cstddef>
#include <optional>

#include "plan/problem/problem.h"
#include "plan/strategy/axis.h"

namespace partita::plan {

struct ProductSplit {
    int data = 1;
    int context = 1;
    int experts = 1;
    int columns = 1;
    int rows = 1;
    int replicas = 1;

    [[nodiscard]] int tensor() const { return columns * rows; }
    friend auto operator<=>(const ProductSplit&, const ProductSplit&) = default;
};

/// Which operand is the weight; nullopt: the op is no product with one.
std::optional<std::size_t> weight_of(const Problem& problem, graph::OpId op);

/// The degree that an axis of such an op's config is one of.
int ProductSplit::*degree_of(const Problem& problem, graph::OpId op, const Axis& axis,
                             std::size_t weight);

}  // namespace partita::plan
