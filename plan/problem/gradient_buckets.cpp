// SPDX-License-Identifier: Apache-2.0
#include "plan/problem/gradient_buckets.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>

#include "plan/problem/op_costs.h"
#include "plan/strategy/strategy.h"

namespace partita::plan {

using graph::OpId;
using graph::OpKind;

namespace {

constexpr Bytes kFirstBucket{1 << 20};

}  // namespace

GradientBuckets::GradientBuckets(const graph::OpGraph& graph, const std::vector<char>& has_gradient,
                                 Bytes size)
    : of_(graph.op_count(), -1) {
    std::vector<std::pair<OpId, OpId>> order;  // first reader, parameter
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        const graph::Op& op = graph.ops()[i];
        if (op.kind != OpKind::parameter || has_gradient[op.outputs[0].index()] == 0) continue;
        OpId first(graph.op_count());
        for (const graph::Use& use : graph.uses(op.outputs[0])) first = std::min(first, use.op);
        order.emplace_back(first, OpId(i));
    }
    std::ranges::sort(order, std::greater<>());
    Bytes filled;
    Bytes full;  // of the bucket at hand
    for (const auto& [reader, parameter] : order) {
        if (filled >= full) {
            const bool is_first = members_.empty() && size != kOneBucket;
            full = is_first ? std::min(size, kFirstBucket) : size;
            filled = Bytes{0};
            members_.emplace_back();
        }
        const graph::Tensor& tensor = graph.tensor(graph.op(parameter).outputs[0]);
        filled += gradient_bytes_of(tensor, tensor.elements());
        of_[parameter.index()] = static_cast<std::int32_t>(members_.size()) - 1;
        members_.back().push_back(parameter);
    }
}

}  // namespace partita::plan
