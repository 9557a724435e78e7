// SPDX-License-Identifier: Apache-2.0
//
// Values of source ops, region by region: inputs, parameters and constants.
//
//     inputs        as given, else made up
//     parameters    from the model (TensorSource), else, with a seed, made up; else an error that names the
//                   tensor
//     constants     from the model; with a seed, made up where the model lacks them
//
// What is made up depends on the seed, the tensor's name and the position of the element alone, so
// parts of a tensor agree wherever they lie, and so does the whole of it. It is made such that
// models compute something: indices below the rows they select, masks of ones, variances and scales
// around 1, weights whose products neither grow nor vanish.
//
// A part reads its own rows of a file only, a block at a time. Threads: const functions from any
// number.
#pragma once

#include <cstdint>
#include <map>

#include <ATen/core/Tensor.h>

#include "graph/op_graph.h"
#include "graph/operators/part.h"
#include "runtime/interface/source_options.h"

namespace partita::runtime {

class Sources {
public:
    /// `graph` must outlive it. Throws UsageError when a given input names no tensor or has another
    /// shape or dtype.
    Sources(const graph::OpGraph& graph, SourceOptions options);

    /// The region of a source's tensor, on the CPU. Throws InputError naming the tensor when its
    /// value cannot be had.
    [[nodiscard]] at::Tensor read(graph::TensorId id, const graph::Region& region) const;

    /// A parameter or constant of a body (If, Loop, Scan), whole, on the CPU: always from the
    /// model.
    [[nodiscard]] at::Tensor read_inner(const graph::Tensor& tensor) const;

private:
    /// How made-up values of a tensor are spread: integers in [low, high), or reals.
    struct Spread {
        double low = 0.0;
        double high = 0.0;
    };
    [[nodiscard]] Spread spread_of(graph::TensorId id) const;
    [[nodiscard]] at::Tensor made_up(graph::TensorId id, const graph::Region& region,
                                     std::uint64_t seed) const;
    [[nodiscard]] at::Tensor from_model(graph::TensorId id, const graph::Region& region) const;

    const graph::OpGraph& graph_;
    SourceOptions options_;
    std::map<std::uint32_t, at::Tensor> inputs_;  ///< by TensorId
};

}  // namespace partita::runtime
