// SPDX-License-Identifier: Apache-2.0
#include "search/bounds/uniform_reads.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "graph/op_graph.h"

namespace partita::search {

using graph::Op;
using graph::OpRule;
using plan::Problem;

namespace {

/// All positions of its factors, each once: distinct factors whose extents make the dims.
bool is_made_of_factors(const OpRule& rule, const graph::TensorRule& tensor,
                        const graph::Shape& shape, bool windows) {
    if (tensor.dims.size() != shape.size()) return false;
    std::vector<char> seen(rule.factors.size(), 0);
    for (std::size_t d = 0; d < shape.size(); ++d) {
        std::int64_t extent = 1;
        for (const int f : tensor.dims[d].factors) {
            const auto at = static_cast<std::size_t>(f);
            if (seen[at]++ != 0) return false;
            extent *= rule.factors[at].extent;
        }
        if (tensor.dims[d].window && windows) continue;
        if (tensor.dims[d].window) return false;
        if (!tensor.dims[d].factors.empty() && extent != shape[d]) return false;
    }
    return true;
}

/// Windows move one way: if any reads nothing, so does the first or the last.
bool reads_at_both_ends(const graph::Window& window, std::int64_t outputs, std::int64_t rows) {
    const auto reads = [&](std::int64_t i) {
        const graph::Range read = operand_range(window, {i, i + 1}, rows);
        return read.begin < read.end;
    };
    return outputs > 0 && reads(0) && reads(outputs - 1);
}

/// Output i of n reads rows i / n to (i + 1) / n of the operand.
bool moves_evenly(const graph::Window& window, std::int64_t outputs, std::int64_t rows) {
    constexpr std::int64_t kMostOutputs = std::int64_t{1} << 20;  // each is looked at
    if (outputs > kMostOutputs) return false;
    for (std::int64_t i = 0; i < outputs; ++i) {
        const graph::Range read = operand_range(window, {i, i + 1}, rows);
        if (read.begin * outputs > i * rows || read.end * outputs < (i + 1) * rows) return false;
    }
    return outputs > 0;
}

}  // namespace

bool reads_in_all_parts(const Problem& problem, graph::Use use) {
    const graph::OpGraph& graph = problem.graph();
    const graph::Tensor& tensor = graph.tensor(graph.op(use.op).inputs[use.operand]);
    if (tensor.elements() == 0) return false;
    const OpRule& rule = problem.facts().rule(use.op);
    const std::vector<graph::DimRule>& dims = rule.operands[use.operand].dims;
    for (std::size_t d = 0; d < dims.size(); ++d) {
        if (!dims[d].window) continue;
        const graph::Factor& factor = rule.factors[static_cast<std::size_t>(dims[d].factors[0])];
        if (!factor.splittable) continue;
        if (!reads_at_both_ends(*dims[d].window, factor.extent, tensor.shape[d])) return false;
    }
    return true;
}

bool is_read_evenly(const Problem& problem, graph::Use use) {
    if (!reads_in_all_parts(problem, use)) return false;
    const graph::OpGraph& graph = problem.graph();
    const Op& reader = graph.op(use.op);
    const graph::Tensor& tensor = graph.tensor(reader.inputs[use.operand]);
    const Op& producer = graph.op(tensor.producer);
    const auto result = static_cast<std::size_t>(
        std::ranges::find(producer.outputs, reader.inputs[use.operand]) - producer.outputs.begin());
    const OpRule& given = problem.facts().rule(tensor.producer);
    if (!is_made_of_factors(given, given.results[result], tensor.shape, false)) return false;
    const OpRule& rule = problem.facts().rule(use.op);
    const graph::TensorRule& operand = rule.operands[use.operand];
    if (operand.apply_once) return false;
    if (!is_made_of_factors(rule, operand, tensor.shape, true)) return false;
    for (std::size_t d = 0; d < operand.dims.size(); ++d) {
        if (operand.dims[d].rotation.value_or(0) != 0) return false;
        if (!operand.dims[d].window) continue;
        const auto f = static_cast<std::size_t>(operand.dims[d].factors[0]);
        if (problem.facts().batch_digits(use.op)[f].extent > 0) return false;
        if (!moves_evenly(*operand.dims[d].window, rule.factors[f].extent, tensor.shape[d])) {
            return false;
        }
    }
    return true;
}

}  // namespace partita::search
