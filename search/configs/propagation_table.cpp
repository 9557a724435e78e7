// SPDX-License-Identifier: Apache-2.0
#include "search/configs/propagation_table.h"

#include <algorithm>
#include <utility>

#include "search/configs/parameter_sharding.h"

namespace partita::search {

using graph::OpId;
using graph::OpKind;

namespace {

bool is_source(const graph::Op& op) {
    return op.kind != OpKind::compute && op.kind != OpKind::output;
}

}  // namespace

PropagationTable::PropagationTable(const plan::Problem& problem, const OpGroups& groups,
                                   ConfigTable& table)
    : problem_(problem), groups_(groups), table_(table), ways_(problem.graph().op_count()) {
    find_ends();
    find_sources();
    find_predecessors();
}

void PropagationTable::find_ends() {
    const graph::OpGraph& graph = problem_.graph();
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        const OpId op(i);
        first_.push_back(static_cast<std::uint32_t>(ends_.size()));
        for (const Link& link : links_of(problem_, op)) {
            const bool forward = link.producer == op;
            const OpId to = forward ? link.reader : link.producer;
            // What a loss reads beside it (loss_graph.h) does not say how the output lies.
            const bool is_output = graph.op(to).kind == OpKind::output && link.operand == 0;
            if (forward && is_output) {
                outputs_.items.push_back(static_cast<EndId>(ends_.size()));
            }
            ends_.push_back({op, to, forward, problem_.facts().has_forward(to)});
            links_.push_back(link);
        }
        outputs_.end_row();
    }
    first_.push_back(static_cast<std::uint32_t>(ends_.size()));
}

void PropagationTable::find_sources() {
    const graph::OpGraph& graph = problem_.graph();
    leading_ends_.assign(graph.op_count(), kNoEnd);
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        const OpId reader(i);
        const std::span<const End> ends = this->ends(reader);
        for (std::size_t e = 0; e < ends.size(); ++e) {
            const OpId source = ends[e].to;
            if (ends[e].forward || !is_source(graph.op(source))) continue;
            const bool known = leading_ends_[source.index()] != kNoEnd;
            if (known || leading_reader(problem_, source) != reader) continue;
            const auto first_use = graph.uses(graph.op(source).outputs[0]).front();
            const EndId end = first_end(reader) + static_cast<EndId>(e);
            if (links_[end].operand != first_use.operand) continue;
            leading_ends_[source.index()] = end;
            if (problem_.facts().has_forward(reader)) sources_.items.push_back(end);
        }
        sources_.end_row();
    }
}

void PropagationTable::find_predecessors() {
    for (std::size_t i = 0; i < problem_.graph().op_count(); ++i) {
        for (const OpId op : problem_.graph().predecessors(OpId(i))) {
            if (problem_.facts().has_forward(op)) predecessors_.items.push_back(op);
        }
        predecessors_.end_row();
    }
}

std::span<const EndId> PropagationTable::way_through_group(OpId op) {
    std::optional<std::vector<EndId>>& way = ways_[op.index()];
    if (!way) way = find_way(op);
    return *way;
}

std::vector<EndId> PropagationTable::find_way(OpId op) const {
    std::vector<EndId> way;
    std::vector<OpId> reached{op};
    for (std::size_t i = 0; i < reached.size(); ++i) {
        const OpId from = reached[i];
        for (std::size_t e = 0; e < ends(from).size(); ++e) {
            const End& end = ends(from)[e];
            const bool same_group = groups_.of[op.index()] == groups_.of[end.to.index()];
            if (!end.computes || !same_group) continue;
            if (std::find(reached.begin(), reached.end(), end.to) != reached.end()) continue;
            way.push_back(first_end(from) + static_cast<EndId>(e));
            reached.push_back(end.to);
        }
    }
    return way;
}

std::optional<DegreesId> PropagationTable::find_propagated(EndId end, DegreesId degrees,
                                                           MicroBatchesId micro_batches_id) {
    const auto& [from, to, forward, computes] = ends_[end];
    DegreeLists& lists = table_.degree_lists();
    const DegreesId found =
        lists.id(to, propagated_axes(problem_, links_[end], from, lists.degrees(from, degrees)));
    if (table_.is_legal_split(to, found, micro_batches_id)) return found;
    const DegreesId repeated = lists.id(to, {plan::Axis::replicas(lists.size(from, degrees))});
    if (table_.is_legal_split(to, repeated, micro_batches_id)) return repeated;
    return std::nullopt;
}

}  // namespace partita::search
