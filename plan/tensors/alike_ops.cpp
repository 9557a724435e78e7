// SPDX-License-Identifier: Apache-2.0
#include "plan/tensors/alike_ops.h"

#include <algorithm>

namespace partita::plan {

using graph::OpId;
using graph::TensorId;

AlikeOps::AlikeOps(const Problem& problem)
    : problem_(problem), first_(problem.graph().op_count(), -1) {}

OpId AlikeOps::first(OpId op) {
    std::int32_t& first = first_[op.index()];
    if (first < 0) {
        const std::uint64_t hash = hash_of(op);
        first = index_.find(hash, [&](std::int32_t other) {
            return are_alike(op, OpId(static_cast<std::size_t>(other)));
        });
        if (first < 0) {
            first = static_cast<std::int32_t>(op.index());
            index_.add(hash, first);
        }
    }
    return OpId(static_cast<std::size_t>(first));
}

std::uint64_t AlikeOps::hash_of(OpId op) const {
    Hash hash;
    const graph::Op& of = problem_.graph().op(op);
    hash.add(of.type);
    for (const auto* side : {&of.inputs, &of.outputs}) {
        for (const TensorId t : *side) {
            hash.add(-1);
            if (!t.valid()) continue;
            for (const std::int64_t extent : problem_.graph().tensor(t).shape) hash.add(extent);
        }
    }
    return hash.value();
}

bool AlikeOps::are_alike(OpId a, OpId b) const {
    const GraphFacts& facts = problem_.facts();
    const auto have_equal_shapes = [&](TensorId x, TensorId y) {
        if (!x.valid() || !y.valid()) return x.valid() == y.valid();
        return problem_.graph().tensor(x).shape == problem_.graph().tensor(y).shape;
    };
    const graph::Op& one = problem_.graph().op(a);
    const graph::Op& other = problem_.graph().op(b);
    return facts.is_batched(a) == facts.is_batched(b) &&
           std::ranges::equal(one.inputs, other.inputs, have_equal_shapes) &&
           std::ranges::equal(one.outputs, other.outputs, have_equal_shapes) &&
           facts.rule(a) == facts.rule(b) && facts.batch_digits(a) == facts.batch_digits(b);
}

}  // namespace partita::plan
