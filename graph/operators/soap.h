// SPDX-License-Identifier: Apache-2.0
//
// SOAP classes, derived and never hand-written (Jia, Zaharia, Aiken, MLSys 2019, section 4):
//
//     sample      the factor carries the batch, propagated from the graph's inputs through the rules
//     reduction   the factor is in no result: its parts are partial
//     parameter   splitting the factor splits a trained weight
//     attribute   any other factor
//
// (O, operator parallelism, is no factor: different ops on different devices.)
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/op_graph.h"
#include "graph/operators/op_rule.h"

namespace partita::graph {

enum class SoapClass : std::uint8_t { sample, parameter, attribute, reduction };
std::string_view name_of(SoapClass soap);

/// Where a tensor comes from, as far as the classes need it.
struct TensorOrigin {
    /// The dim that carries the batch, or -1. In a merged dim the batch is the digit with
    /// `sample_stride` positions per step and `sample_extent` steps: (s b) has stride 1, (b s) has
    /// s.
    int sample_dim = -1;
    std::int64_t sample_stride = 1;
    std::int64_t sample_extent = 1;
    bool weight = false;  ///< made from trained parameters only, e.g. a transposed weight
};

/// Origins of all tensors, indexed by TensorId: the batch flows from the inputs through the rules,
/// then back to what no input reaches but is read per sample (initial states, masks). Seeds: dim 0
/// of every input, unless `input_sample_dims` (one entry per Input op, in order of id; -1 = none)
/// says otherwise.
std::vector<TensorOrigin> tensor_origins(const OpGraph& graph, const std::vector<OpRule>& rules,
                                         const std::vector<int>& input_sample_dims = {});

/// The batch as a digit of a dim or of a factor: `extent` steps of `stride` positions.
struct BatchDigit {
    std::int64_t stride = 1;
    std::int64_t extent = 1;  ///< 0: nothing of the batch
    friend bool operator==(const BatchDigit&, const BatchDigit&) = default;
};

/// Per factor of an op the part of the batch in it.
std::vector<BatchDigit> batch_digits(const OpGraph& graph, OpId op, const OpRule& rule,
                                     const std::vector<TensorOrigin>& origins);

/// Class of each factor of one op. A factor of several classes takes the first in the order above.
std::vector<SoapClass> soap_classes(const OpGraph& graph, OpId op, const OpRule& rule,
                                    const std::vector<TensorOrigin>& origins);

}  // namespace partita::graph
