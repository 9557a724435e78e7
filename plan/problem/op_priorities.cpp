// SPDX-License-Identifier: Apache-2.0
#include "plan/problem/op_priorities.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "base/units.h"
#include "plan/strategy/pass.h"

namespace partita::plan {

using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::TensorId;

namespace {

/// What it takes to send a parameter's gradient, as must be before the update.
Time sending_time(const Prices& prices, const TransferPrices& transfers, TensorId parameter) {
    if (prices.machine().device_count() == 1) return Time{0};
    return transfers.copy_time(parameter, 0, 1);
}

/// By GraphFacts::passes().
std::vector<Time> paths_to_end(const GraphFacts& facts, const OpConstraints& constraints,
                               const Prices& prices, const TransferPrices& transfers) {
    const graph::OpGraph& graph = facts.graph();
    const std::size_t ops = graph.op_count();
    const PassRows rows = facts.passes(ops);
    std::vector<Time> path(rows.size());
    const auto row = [&](OpId op, Pass pass) { return rows.row(op.index(), pass); };
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        const Op& op = graph.op(OpId(i));
        const int device = constraints.allowed_devices(OpId(i))[0];
        if (op.kind == OpKind::parameter) {
            path[row(OpId(i), Pass::backward)] = prices.update_time(OpId(i), device) +
                                                 sending_time(prices, transfers, op.outputs[0]);
            continue;
        }
        if (!facts.has_backward(OpId(i))) continue;
        const bool split = facts.splits_backward(OpId(i));
        Time longest;
        Time of_weights;
        for (const TensorId t : op.inputs) {
            if (!t.valid() || !facts.has_gradient(t)) continue;
            Time& after = split && !facts.is_batched(t) ? of_weights : longest;
            after = std::max(after, path[row(graph.tensor(t).producer, Pass::backward)]);
        }
        if (split) {
            const Time weights = prices.weights_time(OpId(i), device) + of_weights;
            path[row(OpId(i), Pass::weights)] = weights;
            longest = std::max(longest, weights);
        }
        path[row(OpId(i), Pass::backward)] =
            prices.backward_time(OpId(i), device) - prices.weights_time(OpId(i), device) + longest;
    }
    for (std::size_t i = graph.op_count(); i-- > 0;) {
        Time longest = path[row(OpId(i), Pass::backward)];
        for (const TensorId t : graph.op(OpId(i)).outputs) {
            for (const graph::Use use : graph.uses(t)) {
                longest = std::max(longest, path[row(use.op, Pass::forward)]);
            }
        }
        const int device = constraints.allowed_devices(OpId(i))[0];
        path[row(OpId(i), Pass::forward)] = prices.forward_time(OpId(i), device) + longest;
    }
    const RecomputeRegions& regions = facts.recompute();
    for (std::size_t i = ops; i-- > 0 && regions.any();) {
        // Before the backward of the op and of its readers.
        Time longest = path[row(OpId(i), Pass::backward)];
        for (const TensorId t : graph.op(OpId(i)).outputs) {
            for (const graph::Use use : graph.uses(t)) {
                if (regions.block_of(use.op) != regions.block_of(OpId(i))) continue;
                longest = std::max({longest, path[row(use.op, Pass::backward)],
                                    path[row(use.op, Pass::recompute)]});
            }
        }
        const int device = constraints.allowed_devices(OpId(i))[0];
        path[row(OpId(i), Pass::recompute)] = prices.forward_time(OpId(i), device) + longest;
    }
    return path;
}

}  // namespace

std::vector<std::int32_t> op_priorities(const GraphFacts& facts, const OpConstraints& constraints,
                                        const Prices& prices, const TransferPrices& transfers) {
    const std::vector<Time> path = paths_to_end(facts, constraints, prices, transfers);
    std::vector<std::size_t> order(path.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto key = [&](std::size_t i) {
        const auto [op, pass] = facts.passes(facts.graph().op_count()).at(i);
        const auto place = static_cast<std::int64_t>(op);
        // Run in the opposite order.
        const bool backward = is_backward(pass);
        return std::tuple(-path[i].raw(), backward, pass, backward ? -place : place);
    };
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
    std::vector<std::int32_t> priorities(path.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
        priorities[order[i]] = static_cast<std::int32_t>(i);
    }
    return priorities;
}

}  // namespace partita::plan
