// SPDX-License-Identifier: Apache-2.0
#include "search/variable_elimination/elimination_space.h"

#include <algorithm>
#include <array>

#include "plan/legality/config_legality.h"
#include "search/coarsening/op_traits.h"
#include "search/configs/layout_propagation.h"
#include "search/configs/standard_configs.h"

namespace partita::search {

using graph::OpId;
using graph::OpKind;
using graph::TensorId;
using plan::DeviceSet;
using plan::OpConfig;
using plan::OpDecision;
using plan::OpLayouts;
using plan::Problem;

namespace {

constexpr std::array kWays = {ParameterSharding::as_read, ParameterSharding::updates_in_shards,
                              ParameterSharding::in_shards};

std::int64_t penalty(std::int64_t bytes, const CostWeights& weights) {
    return static_cast<std::int64_t>(Int128{bytes} * weights.per_mebibyte >> 20U);
}

std::int64_t scaled(std::int64_t time, const CostWeights& weights) {
    return time * weights.parameter_halves / 2;
}

/// The cheapest way; ties by the first.
template <class Ways>
const auto& best_way(const Ways& ways, const CostWeights& weights) {
    return *std::ranges::min_element(ways, {}, [&](const auto& way) {
        return scaled(way.time, weights) + penalty(way.bytes, weights);
    });
}

}  // namespace

EliminationSpace::EliminationSpace(const Problem& problem, const std::vector<int>& devices,
                                   Detail detail)
    : problem_(problem),
      policy_(problem.policy()),
      configs_(problem, devices, detail),
      variables_(problem),
      cache_(problem),
      prices_(problem, policy_, cache_),
      list_of_(problem.graph().op_count(), 0) {
    find_lists();
    find_edges();
}

EliminationSpace::~EliminationSpace() = default;

const OpLayouts& EliminationSpace::layouts(OpId op, const OpConfig& config) {
    return cache_.of(op, config, policy_.micro_batches, 0);
}

/// All that the configs of an op and their costs depend on.
std::vector<std::int64_t> EliminationSpace::traits_of(OpId id) const {
    const graph::Op& op = problem_.graph().op(id);
    std::vector<std::int64_t> traits = op_traits(problem_, id);
    const bool source = op.kind != OpKind::compute && op.kind != OpKind::output;
    traits.push_back(source ? std::int64_t{id.value} : -1);  // a list of its own
    traits.push_back(variables_.group(id));
    for (const TensorId t : op.inputs) {
        if (!t.valid()) continue;
        traits.push_back(prices_.alike(t));
        traits.push_back(variables_.is_folded(t) ? 1 : 0);
    }
    for (const TensorId t : op.outputs) {
        traits.push_back(prices_.alike(t));
        traits.push_back(prices_.gradient_count(t));
    }
    return traits;
}

void EliminationSpace::find_lists() {
    for (const auto& members : variables_.members()) {
        for (const OpId op : members) list_of_[op.index()] = list_of_op(op);
    }
}

std::size_t EliminationSpace::list_of_op(OpId op) {
    const auto [known, is_new] = known_lists_.try_emplace(traits_of(op), lists_.size());
    if (!is_new) return known->second;
    ChoiceList& list = lists_.emplace_back();
    const graph::Op& of = problem_.graph().op(op);
    for (std::size_t i = 0; i < of.inputs.size(); ++i) {
        if (of.inputs[i].valid() && variables_.is_folded(of.inputs[i])) {
            list.folded.push_back(static_cast<std::uint32_t>(i));
        }
    }
    const int group = variables_.group(op);
    const bool source = of.kind != OpKind::compute && of.kind != OpKind::output;
    list.parameter = source && prices_.is_trained(of.outputs[0]);
    if (group >= 0) {
        for (const int device : variables_.devices(group)) {
            add_choice(op, {.axes = {}, .devices = DeviceSet::single(device)}, list);
        }
    } else if (source) {
        list_source(op, list);
    } else {
        for (OpConfig& config : configs_.of(op)) add_choice(op, std::move(config), list);
    }
    return known->second;
}

void EliminationSpace::add_choice(OpId op, OpConfig config, ChoiceList& list) {
    const OpLayouts& own = layouts(op, config);
    Choice choice{.decision = {.config = std::move(config)},
                  .layouts = &own,
                  .updated = nullptr,
                  .time = prices_.op_time(op, own).raw(),
                  .bytes = bytes_of(op, own),
                  .sources = {}};
    if (list.parameter) {
        const TensorId t = problem_.graph().op(op).outputs[0];
        choice.updated = &own;
        choice.decision.update.accumulate_locally = policy_.micro_batches > 1;
        choice.time = prices_.update_time(t, own, own).raw();
        choice.bytes = source_bytes(t, own, &own);
    }
    for (const std::uint32_t operand : list.folded) {
        choice.sources.push_back(ways_of(op, operand, choice));
    }
    list.choices.push_back(std::move(choice));
}

/// A source that several ops read: all the ways in which one of them could want it.
void EliminationSpace::list_source(OpId source, ChoiceList& list) {
    const TensorId t = problem_.graph().op(source).outputs[0];
    std::vector<OpDecision> ways;
    std::vector<std::pair<std::size_t, std::uint32_t>> seen;  // lists and operands
    for (const graph::Use& use : problem_.graph().uses(t)) {
        if (variables_.of(use.op) < 0) continue;
        const std::pair alike(list_of_op(use.op), use.operand);
        if (std::ranges::find(seen, alike) != seen.end()) continue;
        seen.push_back(alike);
        for (const Choice& reader : lists_[alike.first].choices) {
            const Link link{source, 0, use.op, use.operand};
            const OpConfig read =
                propagate(problem_, link, use.op, reader.decision.config, policy_.micro_batches);
            for (OpDecision& way : shardings_of(source, read)) {
                const bool known = std::ranges::find(ways, way) != ways.end();
                if (!known) ways.push_back(std::move(way));
            }
        }
    }
    if (ways.empty()) ways.push_back({on_one_device(problem_, source, configs_.all_devices()), {}});
    for (OpDecision& kept : ways) {
        const OpLayouts& own = layouts(source, kept.config);
        const OpLayouts* updated = nullptr;
        Choice choice{.decision = kept, .layouts = &own};
        if (list.parameter) {
            updated =
                kept.update.update.devices.empty() ? &own : &layouts(source, kept.update.update);
            choice.time = prices_.update_time(t, own, *updated).raw();
        }
        choice.updated = updated;
        choice.bytes = source_bytes(t, own, updated);
        list.choices.push_back(std::move(choice));
    }
}

std::vector<OpDecision> EliminationSpace::shardings_of(OpId source, const OpConfig& read) const {
    std::vector<OpDecision> ways;
    for (const ParameterSharding sharding : kWays) {
        auto kept = sharded(problem_, source, read, sharding, policy_.micro_batches);
        if (kept) ways.push_back(std::move(*kept));
    }
    return ways;
}

std::vector<EliminationSpace::Way> EliminationSpace::ways_of(OpId op, std::uint32_t operand,
                                                             const Choice& reader) {
    const TensorId t = problem_.graph().op(op).inputs[operand];
    const OpId source = problem_.graph().tensor(t).producer;
    const graph::Use use{op, operand};
    const OpConfig read = as_read(problem_, source, reader.decision.config, policy_.micro_batches);
    std::vector<Way> ways;
    for (const ParameterSharding sharding : kWays) {
        const auto kept = sharded(problem_, source, read, sharding, policy_.micro_batches);
        if (!kept) continue;
        const OpLayouts& own = layouts(source, kept->config);
        Way way{.sharding = sharding};
        if (prices_.is_trained(t)) {
            const OpLayouts& updated =
                kept->update.update.devices.empty() ? own : layouts(source, kept->update.update);
            way.time = (prices_.update_time(t, own, updated) +
                        prices_.parameter_use_time(t, use, own, updated, kept->update.refetch,
                                                   *reader.layouts))
                           .raw();
            way.bytes = source_bytes(t, own, &updated);
        } else {
            way.time = prices_.use_time(t, use, own, *reader.layouts).raw();
            way.bytes = source_bytes(t, own, nullptr);
        }
        ways.push_back(way);
    }
    return ways;
}

std::int64_t EliminationSpace::largest_piece(std::int32_t layout) {
    std::int64_t most = 0;
    for (const plan::Piece& piece : cache_.layouts()[layout].pieces) {
        if (piece.region >= 0) most = std::max(most, cache_.regions()->volume(piece.region));
    }
    return most;
}

std::int64_t EliminationSpace::piece_bytes(TensorId t, std::int32_t layout) {
    return plan::bytes_of(problem_.graph().tensor(t), largest_piece(layout)).raw();
}

/// What a part of the op keeps: results until the backward, and what is loaded wherever it is used.
std::int64_t EliminationSpace::bytes_of(OpId id, const OpLayouts& own) {
    const graph::Op& op = problem_.graph().op(id);
    std::int64_t bytes = op.given ? op.given->memory.raw() : 0;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        if (op.inputs[i].valid() && problem_.facts().is_resident(op.inputs[i])) {
            bytes += piece_bytes(op.inputs[i], own.operands[i]);
        }
    }
    if (problem_.mode() == plan::Mode::inference || op.given) return bytes;
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
        bytes += piece_bytes(op.outputs[i], own.results[i]);
    }
    return bytes;
}

/// The value where it lies; its gradient and the optimizer's state where it is updated.
std::int64_t EliminationSpace::source_bytes(TensorId t, const OpLayouts& home,
                                            const OpLayouts* updated) {
    const std::int64_t value = piece_bytes(t, home.results[0]);
    if (updated == nullptr) return value;
    const std::int32_t layout = updated->results[0];
    const Bytes state = plan::optimizer_state_bytes(problem_.graph().tensor(t),
                                                    largest_piece(layout), policy_.optimizer);
    return value + piece_bytes(t, layout) + state.raw();
}

void EliminationSpace::find_edges() {
    const graph::OpGraph& graph = problem_.graph();
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        if (variables_.of(OpId(i)) < 0) continue;
        for (const TensorId t : graph.op(OpId(i)).outputs) {
            if (problem_.facts().is_resident(t)) continue;
            for (const graph::Use& use : graph.uses(t)) {
                if (variables_.of(use.op) >= 0) add_edge(t, use);
            }
        }
    }
}

void EliminationSpace::add_edge(TensorId t, graph::Use use) {
    const OpId producer = problem_.graph().tensor(t).producer;
    const std::size_t from = list_of_[producer.index()];
    const std::size_t to = list_of_[use.op.index()];
    const auto& results = problem_.graph().op(producer).outputs;
    const bool gradient = problem_.facts().has_gradient(t) && problem_.facts().has_backward(use.op);
    std::vector<std::int64_t> key{
        static_cast<std::int64_t>(from), std::ranges::find(results, t) - results.begin(),
        static_cast<std::int64_t>(to), std::int64_t{use.operand}, gradient ? 1 : 0};
    const auto [known, is_new] = known_tables_.try_emplace(std::move(key), tables_.size());
    if (is_new) fill(tables_.emplace_back(), t, use, lists_[from], lists_[to]);
    edges_.push_back({variables_.of(producer), variables_.of(use.op), known->second});
}

void EliminationSpace::fill(Table& table, TensorId t, graph::Use use, const ChoiceList& from,
                            const ChoiceList& to) {
    table.parameter = from.parameter;
    table.costs.reserve(from.choices.size() * to.choices.size());
    for (const Choice& home : from.choices) {
        for (const Choice& reader : to.choices) {
            const Time time =
                from.parameter
                    ? prices_.parameter_use_time(t, use, *home.layouts, *home.updated,
                                                 home.decision.update.refetch, *reader.layouts)
                    : prices_.use_time(t, use, *home.layouts, *reader.layouts);
            table.costs.push_back(time.raw());
        }
    }
}

CostGraph EliminationSpace::costs(const CostWeights& weights) {
    CostGraph costs;
    for (const auto& members : variables_.members()) {
        const std::size_t size = lists_[list_of_[members.front().index()]].choices.size();
        std::vector<std::int64_t>& node = costs.nodes.emplace_back(size, 0);
        for (const OpId op : members) {
            const ChoiceList& list = lists_[list_of_[op.index()]];
            for (std::size_t k = 0; k < size; ++k) {
                const Choice& choice = list.choices[k];
                node[k] += list.parameter ? scaled(choice.time, weights) : choice.time;
                node[k] += penalty(choice.bytes, weights);
                for (const std::vector<Way>& ways : choice.sources) {
                    const Way& way = best_way(ways, weights);
                    node[k] += scaled(way.time, weights) + penalty(way.bytes, weights);
                }
            }
        }
    }
    scaled_.clear();
    std::vector<const std::vector<std::int64_t>*> tables;
    for (const Table& table : tables_) {
        if (!table.parameter || weights.parameter_halves == 2) {
            tables.push_back(&table.costs);
            continue;
        }
        std::vector<std::int64_t>& own = scaled_.emplace_back();
        for (const std::int64_t time : table.costs) own.push_back(scaled(time, weights));
        tables.push_back(&own);
    }
    for (const Edge& edge : edges_) {
        if (edge.a != edge.b) {
            costs.edges.push_back({edge.a, edge.b, tables[edge.table]});
            continue;
        }
        std::vector<std::int64_t>& node = costs.nodes[static_cast<std::size_t>(edge.a)];
        for (std::size_t k = 0; k < node.size(); ++k) {
            node[k] += (*tables[edge.table])[k * node.size() + k];
        }
    }
    return costs;
}

plan::Strategy EliminationSpace::strategy(std::span<const int> choices,
                                          const CostWeights& weights) const {
    const graph::OpGraph& graph = problem_.graph();
    plan::Strategy strategy;
    strategy.policy = policy_;
    strategy.ops.resize(graph.op_count());
    const auto chosen = [&](OpId op) -> const Choice& {
        const auto variable = static_cast<std::size_t>(variables_.of(op));
        return lists_[list_of_[op.index()]].choices[static_cast<std::size_t>(choices[variable])];
    };
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        const OpId op(i);
        if (variables_.of(OpId(i)) < 0) continue;
        const Choice& choice = chosen(op);
        strategy.ops[i] = choice.decision;
        const std::vector<std::uint32_t>& folded = lists_[list_of_[i]].folded;
        for (std::size_t f = 0; f < folded.size(); ++f) {
            const OpId source = graph.tensor(graph.op(op).inputs[folded[f]]).producer;
            const OpConfig read =
                as_read(problem_, source, choice.decision.config, policy_.micro_batches);
            const ParameterSharding sharding = best_way(choice.sources[f], weights).sharding;
            strategy.ops[source.index()] =
                *sharded(problem_, source, read, sharding, policy_.micro_batches);
        }
    }
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        if (!strategy.ops[i].config.devices.empty()) continue;
        const OpId source(i);
        const OpId reader = leading_reader(problem_, source);
        strategy.ops[i].config =
            reader.valid()
                ? as_read(problem_, source, strategy.config(reader), policy_.micro_batches)
                : on_one_device(problem_, source, configs_.all_devices());
    }
    plan::apply_recompute(problem_.facts().recompute(), strategy);
    return strategy;
}

std::size_t EliminationSpace::most_choices() const {
    std::size_t most = 0;
    for (const ChoiceList& list : lists_) most = std::max(most, list.choices.size());
    return most;
}

}  // namespace partita::search
