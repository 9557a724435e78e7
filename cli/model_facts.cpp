// SPDX-License-Identifier: Apache-2.0
#include "cli/model_facts.h"

#include <algorithm>

namespace partita::cli {

using graph::OpId;
using graph::OpKind;

ModelFacts facts_of(const graph::OpGraph& graph, std::span<const graph::OpRule> rules) {
    ModelFacts facts;
    facts.tensors = static_cast<std::int64_t>(graph.tensor_count());
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        const graph::Op& op = graph.op(OpId(i));
        if (op.kind == OpKind::parameter) {
            const graph::Tensor& tensor = graph.tensor(op.outputs.front());
            facts.parameters += tensor.elements();
            facts.parameter_bytes += tensor.bytes();
        }
        if (op.kind == OpKind::constant) {
            facts.constant_bytes += graph.tensor(op.outputs.front()).bytes();
        }
        if (op.kind != OpKind::compute) continue;
        ++facts.ops;
        facts.flops += rules[i].flops;
        TypeFacts& type = facts.types[op.type];
        ++type.ops;
        type.flops += rules[i].flops;
        if (rules[i].matrix_product) {
            type.matrix_product = true;
            facts.matrix_flops += rules[i].flops;
        }
        if (rules[i].conservative && !op.given) ++facts.unsupported[op.type];
        if (!op.block.empty()) ++facts.blocks[op.block];
    }
    return facts;
}

CriticalPath critical_path(const graph::OpGraph& graph, std::span<const graph::OpRule> rules) {
    const std::size_t count = graph.op_count();
    std::vector<Flops> longest(count);  // ending at the op, inclusive
    std::vector<OpId> before(count);
    std::size_t last = 0;
    for (const OpId op : graph.topological_order()) {
        const std::size_t i = op.index();
        for (const OpId previous : graph.predecessors(op)) {
            if (longest[previous.index()] > longest[i]) {
                longest[i] = longest[previous.index()];
                before[i] = previous;
            }
        }
        longest[i] += rules[i].flops;
        if (longest[i] > longest[last]) last = i;
    }
    CriticalPath path;
    if (count == 0) return path;
    path.flops = longest[last];
    for (OpId op(last); op.valid(); op = before[op.index()]) path.ops.push_back(op);
    std::ranges::reverse(path.ops);
    return path;
}

std::string flops_text(Flops flops) {
    const std::string text = to_text(flops);
    const bool has_prefix = text.find(' ') != std::string::npos;
    return has_prefix ? text + "FLOP" : text + " FLOP";
}

double to_double(Flops flops) {
    return static_cast<double>(flops.raw());
}

}  // namespace partita::cli
