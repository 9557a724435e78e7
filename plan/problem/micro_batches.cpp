// SPDX-License-Identifier: Apache-2.0
#include "plan/problem/micro_batches.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace partita::plan {

using graph::BatchDigit;
using graph::Box;
using graph::OpId;
using graph::Positions;
using graph::Range;
using graph::TensorId;

namespace {

/// Positions of a factor whose digit lies in `steps`.
Positions positions_of(const BatchDigit& digit, Range steps, std::int64_t extent) {
    Positions positions;
    const std::int64_t period = digit.stride * digit.extent;
    for (std::int64_t at = 0; at < extent; at += period) {
        const Range range{at + steps.begin * digit.stride, at + steps.end * digit.stride};
        if (!positions.empty() && positions.back().end == range.begin) {
            positions.back().end = range.end;
        } else {
            positions.push_back(range);
        }
    }
    return positions;
}

/// Does every operand and result that differs between micro-batches carry the batch?
bool keeps_samples_apart(const GraphFacts& facts, OpId id, std::int64_t extent) {
    const graph::Op& op = facts.graph().op(id);
    const graph::OpRule& rule = facts.rule(id);
    const std::vector<BatchDigit>& digits = facts.batch_digits(id);
    const auto carries = [&](const graph::TensorRule& tensor) {
        for (const graph::DimRule& dim : tensor.dims) {
            for (const int f : dim.factors) {
                const auto i = static_cast<std::size_t>(f);
                if (digits[i].extent == extent && rule.factors[i].splittable &&
                    rule.factors[i].extent % (digits[i].stride * extent) == 0) {
                    return true;
                }
            }
        }
        return false;
    };
    for (const BatchDigit& digit : digits) {
        if (digit.extent != 0 && digit.extent != extent) return false;
    }
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        if (!op.inputs[i].valid() || !facts.is_batched(op.inputs[i])) continue;
        if (!carries(rule.operands[i])) return false;
    }
    for (const graph::TensorRule& result : rule.results) {
        if (!carries(result)) return false;
    }
    return true;
}

}  // namespace

Box micro_batch_box(const GraphFacts& facts, OpId op, int micro_batches, int index) {
    Box box = graph::whole_box(facts.rule(op));
    if (micro_batches == 1 || !facts.is_batched(op)) return box;
    const std::vector<BatchDigit>& digits = facts.batch_digits(op);
    for (std::size_t f = 0; f < box.size(); ++f) {
        if (digits[f].extent == 0) continue;
        const Positions steps =
            part_of(graph::all_positions(digits[f].extent), micro_batches, index);
        const Range range = steps.empty() ? Range{} : steps.front();
        box[f] = positions_of(digits[f], range, facts.rule(op).factors[f].extent);
    }
    return box;
}

int first_alike(std::int64_t samples, int micro_batches, int index) {
    const bool is_smaller = index + 1 == micro_batches && samples % micro_batches != 0;
    return is_smaller ? index : 0;
}

bool may_share_regions(const GraphFacts& facts) {
    const graph::OpGraph& graph = facts.graph();
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        if (!facts.is_batched(OpId(i))) continue;
        const graph::Op& op = graph.ops()[i];
        const std::vector<BatchDigit>& digits = facts.batch_digits(OpId(i));
        const auto carries = [&](const graph::DimRule& dim) {
            return std::ranges::any_of(dim.factors, [&](int factor) {
                return digits[static_cast<std::size_t>(factor)].extent != 0;
            });
        };
        const graph::OpRule& rule = facts.rule(OpId(i));
        for (std::size_t o = 0; o < op.inputs.size(); ++o) {
            const bool same = op.inputs[o].valid() && !facts.is_batched(op.inputs[o]);
            if (same && std::ranges::any_of(rule.operands[o].dims, carries)) return false;
        }
    }
    return true;
}

std::int64_t batch_extent(const GraphFacts& facts) {
    for (std::size_t i = 0; i < facts.graph().op_count(); ++i) {
        if (!facts.is_batched(OpId(i))) continue;
        for (const BatchDigit& digit : facts.batch_digits(OpId(i))) {
            if (digit.extent > 0) return digit.extent;
        }
    }
    return 0;
}

namespace {

/// What lowering can number: all that ops do with a tensor, in both directions and all
/// micro-batches.
std::optional<std::string> find_use_fault(const GraphFacts& facts, int micro_batches) {
    const graph::OpGraph& graph = facts.graph();
    std::vector<std::int64_t> blocks(graph.tensor_count(), 0);
    const auto add = [&](TensorId t, OpId user) {
        const bool many = facts.is_batched(user) && !facts.is_batched(t);
        blocks[t.index()] += many ? micro_batches : 1;
    };
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        const graph::Op& op = graph.ops()[i];
        for (const TensorId t : op.inputs) {
            if (t.valid()) add(t, OpId(i));
        }
        for (const TensorId t : op.outputs) add(t, OpId(i));
    }
    const auto most = std::ranges::max_element(blocks);
    if (most == blocks.end() || 2 * *most <= kMostBlocks) return std::nullopt;
    const TensorId t(static_cast<std::size_t>(most - blocks.begin()));
    return fmt::format(
        "ops and micro-batches use tensor '{}' {} times, more than the {} that can be planned",
        graph.tensor(t).name, *most, kMostBlocks / 2);
}

}  // namespace

std::optional<std::string> find_batch_fault(const GraphFacts& facts, int micro_batches) {
    if (auto fault = find_use_fault(facts, micro_batches)) return fault;
    if (micro_batches == 1) return std::nullopt;
    const std::int64_t extent = batch_extent(facts);
    if (extent == 0) return "nothing in it depends on a batch";
    if (!graph::is_legal_degree(extent, micro_batches)) {
        return fmt::format("a batch of {} cannot be cut into {} micro-batches without an empty one",
                           extent, micro_batches);
    }
    for (std::size_t i = 0; i < facts.graph().op_count(); ++i) {
        if (!facts.is_batched(OpId(i)) || keeps_samples_apart(facts, OpId(i), extent)) continue;
        const graph::Op& op = facts.graph().ops()[i];
        return fmt::format(
            "op '{}' ({}) mixes samples of the batch, so micro-batches cannot pass "
            "it one by one",
            op.name, op.type);
    }
    return std::nullopt;
}

}  // namespace partita::plan
