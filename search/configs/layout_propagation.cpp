// SPDX-License-Identifier: Apache-2.0
#include "search/configs/layout_propagation.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "plan/legality/config_legality.h"
#include "search/configs/standard_configs.h"

namespace partita::search {

using graph::OpId;
using graph::OpRule;
using graph::TensorRule;
using plan::Axis;
using plan::OpConfig;
using plan::Problem;

namespace {

/// A factor in a dim: the dim is made of so many equal blocks, each of which is split.
struct Place {
    std::size_t dim = 0;
    std::int64_t blocks = 1;
};

std::optional<Place> place_of(const OpRule& rule, const TensorRule& tensor, const Axis& axis) {
    if (!axis.is_factor()) return std::nullopt;
    for (std::size_t d = 0; d < tensor.dims.size(); ++d) {
        std::int64_t blocks = axis.blocks;
        for (const int f : tensor.dims[d].factors) {
            if (f == axis.factor) return Place{d, blocks};
            blocks *= rule.factors[static_cast<std::size_t>(f)].extent;
        }
    }
    return std::nullopt;
}

/// The axis that splits the dim in the same way; replicas when there is none.
Axis axis_at(const OpRule& rule, const TensorRule& tensor, const Place& place, int degree) {
    if (place.dim >= tensor.dims.size()) return Axis::replicas(degree);
    std::int64_t blocks = place.blocks;
    for (const int f : tensor.dims[place.dim].factors) {
        const graph::Factor& own = rule.factors[static_cast<std::size_t>(f)];
        if (own.extent < 2) continue;
        if (blocks % own.extent != 0) return Axis::along(f, degree, blocks);
        blocks /= own.extent;
    }
    return Axis::replicas(degree);
}

/// Neighbouring axes of replicas are one.
void append(std::vector<Axis>& axes, const Axis& axis) {
    if (axis.is_replica() && !axes.empty() && axes.back().is_replica()) {
        axes.back().degree *= axis.degree;
    } else {
        axes.push_back(axis);
    }
}

}  // namespace

std::vector<Link> links_of(const Problem& problem, OpId op) {
    const graph::OpGraph& graph = problem.graph();
    std::vector<Link> links;
    const std::vector<graph::TensorId>& operands = graph.op(op).inputs;
    for (std::size_t i = 0; i < operands.size(); ++i) {
        if (!operands[i].valid()) continue;
        const OpId producer = graph.tensor(operands[i]).producer;
        const auto& results = graph.op(producer).outputs;
        const auto result = std::find(results.begin(), results.end(), operands[i]);
        links.push_back({producer, static_cast<std::size_t>(result - results.begin()), op, i});
    }
    const std::vector<graph::TensorId>& results = graph.op(op).outputs;
    for (std::size_t r = 0; r < results.size(); ++r) {
        if (!results[r].valid()) continue;
        for (const graph::Use& use : graph.uses(results[r])) {
            links.push_back({op, r, use.op, use.operand});
        }
    }
    return links;
}

std::vector<Axis> propagated_axes(const Problem& problem, const Link& link, OpId from,
                                  const std::vector<Axis>& axes) {
    const OpId to = from == link.producer ? link.reader : link.producer;
    const TensorRule& given = problem.rule(link.producer).results[link.result];
    const TensorRule& read = problem.rule(link.reader).operands[link.operand];
    const bool forward = from == link.producer;
    std::vector<Axis> propagated;
    for (const Axis& axis : axes) {
        const auto place = place_of(problem.rule(from), forward ? given : read, axis);
        append(propagated,
               place ? axis_at(problem.rule(to), forward ? read : given, *place, axis.degree)
                     : Axis::replicas(axis.degree));
    }
    return propagated;
}

OpConfig propagate(const Problem& problem, const Link& link, OpId from, const OpConfig& config,
                   int micro_batches) {
    const OpId to = from == link.producer ? link.reader : link.producer;
    if (config.devices.size() == 1) return on_one_device(problem, to, config.devices);
    OpConfig propagated{.axes = propagated_axes(problem, link, from, config.axes),
                        .devices = config.devices};
    if (!find_fault(problem, to, propagated, micro_batches)) return propagated;
    propagated.axes = {Axis::replicas(config.devices.size())};
    if (!find_fault(problem, to, propagated, micro_batches)) return propagated;
    return on_one_device(problem, to, config.devices);
}

}  // namespace partita::search
