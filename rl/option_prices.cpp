// SPDX-License-Identifier: Apache-2.0
#include "rl/option_prices.h"

#include <algorithm>
#include <utility>

#include "plan/evaluation/max_load.h"

namespace partita::rl {

using graph::OpId;
using graph::OpKind;
using graph::TensorId;

namespace {

/// How much an edge matters among others: its bytes, or its given cost; > 0.
double amount(const plan::Problem& problem, TensorId t) {
    const auto& given = problem.graph().op(problem.graph().tensor(t).producer).given;
    const std::int64_t amount =
        given ? given->communication_time.raw() : problem.facts().tensor_bytes(t).raw();
    return static_cast<double>(std::max<std::int64_t>(1, amount));
}

}  // namespace

OptionPrices::OptionPrices(ActionSpace& space)
    : space_(space),
      problem_(space.problem()),
      cache_(std::make_unique<plan::LoweringCache>(problem_)),
      prices_(std::make_unique<plan::AdditivePrices>(problem_, problem_.policy(), *cache_)),
      of_(space.size()) {
    constexpr double kLeast = 1e-12;
    const search::GroupGraph& groups = space.space().groups();
    double total = 0;
    for (std::size_t d = 0; d < of_.size(); ++d) {
        OfDecision& of = of_[d];
        of.prices.resize(space.options(d).size());
        of.known.resize(of.prices.size(), 0);
        for (const std::uint32_t group : space.decisions().groups[d]) {
            if (space.decisions().of_group[group] != static_cast<std::int32_t>(d)) continue;
            double saved = static_cast<double>(groups.bytes(group).raw());
            for (const OpId op : groups.groups().members[group]) {
                saved -= static_cast<double>(problem_.facts().persistent_bytes(op).raw());
            }
            of.saved += std::max(0.0, saved);
        }
        for (const OpId op : space.ops(d)) {
            of.kept += static_cast<double>(problem_.facts().persistent_bytes(op).raw());
        }
        bool first = true;
        for (std::size_t o = 0; o < of.prices.size(); ++o) {
            if (space.block_of(d, o).size() > 1) continue;
            const double compute = price(d, o).compute;
            of.least = first ? compute : std::min(of.least, compute);
            first = false;
        }
        total += of.least;
    }
    even_share_ = std::max(kLeast, total / std::max(1, problem_.device_count()));
    find_edges();
}

OptionPrices::~OptionPrices() = default;

/// A tensor counts once for each decision that reads it.
void OptionPrices::find_edges() {
    const Decisions& decisions = space_.decisions();
    std::vector<std::int32_t> seen(problem_.graph().tensor_count(), -1);
    for (std::size_t d = 0; d < space_.size(); ++d) {
        for (const OpId op : space_.ops(d)) {
            const graph::Op& node = problem_.graph().op(op);
            for (std::size_t i = 0; i < node.inputs.size(); ++i) {
                const TensorId t = node.inputs[i];
                if (!t.valid() || problem_.facts().is_resident(t)) continue;
                const OpId from = problem_.graph().tensor(t).producer;
                const std::int32_t producer = decisions.of_op[from.index()];
                if (producer < 0 || producer >= static_cast<std::int32_t>(d)) continue;
                if (std::exchange(seen[t.index()], static_cast<std::int32_t>(d)) ==
                    static_cast<std::int32_t>(d))
                    continue;
                incoming_.items.push_back(
                    {.producer = static_cast<std::uint32_t>(producer),
                     .tensor = t,
                     .from = from,
                     .use = {op, static_cast<std::uint32_t>(i)},
                     .bytes = amount(problem_, t),
                     .number = static_cast<std::uint32_t>(incoming_.items.size())});
            }
        }
        incoming_.end_row();
    }
}

void OptionPrices::find_price(std::size_t decision, std::size_t option) {
    OfDecision& of = of_[decision];
    const Block& block = space_.block_of(decision, option);
    of.known[option] = 1;
    of.prices[option] = block.size() == 1 ? price_whole(decision, block.devices.front())
                                          : price_split(decision, option);
    trim();
}

OptionPrice OptionPrices::price_whole(std::size_t decision, int device) const {
    OptionPrice price;
    Time compute;
    for (const OpId op : space_.ops(decision)) compute += problem_.prices().total_time(op, device);
    price.compute = to_seconds(compute);
    price.bytes = of_[decision].kept + of_[decision].saved;
    return price;
}

OptionPrice OptionPrices::price_split(std::size_t decision, std::size_t option) {
    const int size = space_.block_of(decision, option).size();
    OptionPrice price{.bytes = of_[decision].saved / size};
    const search::DegreeLists& lists = space_.space().table().degree_lists();
    for (const auto& [op, config] : space_.configs(decision, option, 0)) {
        const plan::OpLayouts& own = layouts(op, decision, option);
        price.compute += to_seconds(prices_->op_time(op, own));
        const OpKind kind = problem_.graph().op(op).kind;
        if (kind == OpKind::compute || kind == OpKind::output) continue;
        price.sync += sync_of(op, own, decision, option);
        // A share of it where its dims are split, all of it where it is repeated.
        double parts = 1;
        for (const plan::Axis& axis : lists.degrees(op, config.degrees)) {
            if (!axis.is_replica()) parts *= axis.degree;
        }
        price.bytes += static_cast<double>(problem_.facts().persistent_bytes(op).raw()) / parts;
    }
    return price;
}

double OptionPrices::sync_of(OpId source, const plan::OpLayouts& home, std::size_t decision,
                             std::size_t option) {
    const TensorId t = problem_.graph().op(source).outputs[0];
    if (!prices_->is_trained(t)) return 0;
    Time time = prices_->update_time(t, home, home);
    for (const graph::Use& use : problem_.graph().uses(t)) {
        if (space_.decisions().of_op[use.op.index()] != static_cast<std::int32_t>(decision))
            continue;
        time += prices_->parameter_use_time(t, use, home, home, false,
                                            layouts(use.op, decision, option));
    }
    return to_seconds(time);
}

const plan::OpLayouts& OptionPrices::layouts(OpId op, std::size_t decision, std::size_t option) {
    const auto& configs = space_.configs(decision, option, 0);
    const auto at = std::ranges::lower_bound(configs, op, {}, &OptionConfig::op);
    return cache_->of(op, space_.space().table().config(op, at->config),
                      problem_.policy().micro_batches, 0);
}

/// What is known in seconds stays known.
void OptionPrices::trim() {
    if (!cache_->is_large()) return;
    prices_.reset();
    cache_->forget_if_large();
    prices_ = std::make_unique<plan::AdditivePrices>(problem_, problem_.policy(), *cache_);
}

double OptionPrices::transfer(const DecisionEdge& edge, std::size_t reader, std::size_t from,
                              std::size_t to) {
    const Option& producer = space_.options(edge.producer)[from];
    const Option& own = space_.options(reader)[to];
    const bool local = producer.block == own.block;
    const Block& here = space_.block_of(reader, to);
    if (local && here.size() == 1) return 0;
    // On one block it depends on the options, between blocks on these alone.
    constexpr unsigned kNumberBits = 16;
    const std::uint64_t a = local ? from : static_cast<std::uint64_t>(producer.block);
    const std::uint64_t b = local ? to : static_cast<std::uint64_t>(own.block);
    const std::uint64_t key =
        ((std::uint64_t{edge.number} << 1U | (local ? 1U : 0U)) << 2U * kNumberBits) |
        a << kNumberBits | b;
    const auto [known, is_new] = transfers_.try_emplace(key, 0.0F);
    if (is_new) {
        const Block& there = space_.block_of(edge.producer, from);
        known->second =
            static_cast<float>(local ? reshard(edge, reader, from, to) : copy(edge, there, here));
    }
    return known->second;
}

double OptionPrices::reshard(const DecisionEdge& edge, std::size_t reader, std::size_t from,
                             std::size_t to) {
    if (!space_.is_legal(edge.producer, from, 0) || !space_.is_legal(reader, to, 0)) return 0;
    const plan::OpLayouts& home = layouts(edge.from, edge.producer, from);
    const plan::OpLayouts& own = layouts(edge.use.op, reader, to);
    const Time time =
        prices_->is_trained(edge.tensor)
            ? prices_->parameter_use_time(edge.tensor, edge.use, home, home, false, own)
            : prices_->use_time(edge.tensor, edge.use, home, own);
    trim();
    return to_seconds(time);
}

/// Each device of the smaller block sends or receives a share; between different devices.
double OptionPrices::copy(const DecisionEdge& edge, const Block& from, const Block& to) const {
    int source = from.devices.front();
    int target = to.devices.front();
    if (source == target) target = to.devices.back();
    if (source == target) source = from.devices.back();
    if (source == target) return 0;
    if (plan::has_given_costs(problem_)) {
        return to_seconds(problem_.transfers().copy_time(edge.tensor, source, target));
    }
    const int share = std::min(from.size(), to.size());
    const Bytes bytes{
        std::max<std::int64_t>(1, problem_.facts().tensor_bytes(edge.tensor).raw() / share)};
    const int ways = problem_.facts().has_gradient(edge.tensor) ? 2 : 1;
    // A parameter is fetched once for all that read it; an even share counts here.
    const std::size_t uses =
        prices_->is_trained(edge.tensor) ? problem_.graph().uses(edge.tensor).size() : 1;
    return ways * to_seconds(problem_.transfers().copy_time(edge.tensor, bytes, source, target)) /
           static_cast<double>(uses);
}

}  // namespace partita::rl
