// SPDX-License-Identifier: Apache-2.0
#include "plan/lowering/fetch_limits.h"

#include <algorithm>
#include <iterator>
#include <map>

namespace partita::plan {

using graph::OpId;
using graph::TensorId;

FetchLimits::FetchLimits(const Problem& problem, const StrategyTensors& layouts)
    : problem_(problem), layouts_(layouts), places_(layouts.rows().blocks(), 0) {
    if (problem.facts().recompute().any()) selective_places_ = places_;
    const MicroBatchRows& rows = layouts.rows();
    std::uint32_t place = 0;
    for (const ScriptStep& step : layouts.script().steps) {
        ++place;
        if (!step.has_parts) continue;
        const bool selective = step.choice == Recompute::selective;
        const PartBlock block{step.op, rows.own(step.op, step.micro_batch), step.pass};
        (selective ? selective_places_ : places_)[rows.row(block)] = place;
    }
}

FetchLimits::Moment FetchLimits::moment_of(const BlockOrder& order, const PartBlock& block) const {
    const bool selective =
        block.pass == Pass::recompute && layouts_.recompute(block.op) == Recompute::selective;
    const std::vector<std::uint32_t>& places = selective ? selective_places_ : places_;
    return {order.of(block.op, block.micro_batch, block.pass), places[layouts_.rows().row(block)]};
}

FetchUnit FetchLimits::unit_of(TensorId t, const PartBlock& readers) const {
    const OpId parameter = problem_.graph().tensor(t).producer;
    const std::int32_t bucket = problem_.facts().buckets().of_fetches(parameter);
    if (bucket < 0) return {.block = readers};
    return {.bucket = bucket,
            .device = layouts_.of(readers.op, readers.micro_batch).devices[0],
            .backward = readers.pass != Pass::forward,
            .micro_batch = readers.micro_batch,
            .block = {}};
}

void FetchLimits::add_fetches(const FetchedTensor& tensor, std::vector<Fetch>& fetches) const {
    const TensorEvents& of = events(tensor);
    const std::size_t first = fetches.size();
    Range tasks;
    for (std::size_t e = 0; e < of.events.size(); ++e) {
        const TensorEvent& event = of.events[e];
        const TensorStep& step = tensor.tasks->steps[e];
        tasks = {tasks.end, step.tasks};
        if (step.fetched && event.block >= 0) {
            const PartBlock& block = of.blocks[static_cast<std::size_t>(event.block)];
            fetches.push_back({.unit = unit_of(of.tensor, block),
                               .tensor = tensor,
                               .block = event.block,
                               .tasks = tasks,
                               .gradient = {}});
        }
        const bool gives = event.kind == TensorEvent::Kind::contribute ||
                           event.kind == TensorEvent::Kind::parameter;
        if (!gives || tasks.begin == tasks.end || fetches.size() == first) continue;
        if (has_gradient_in_time(fetches.back())) fetches.back().gradient = tasks;
    }
}

/// Not every backward needs the parameter again, and of one with several readers, or with gradients
/// of weights in a pass of their own, the gradient may come long after the backward.
bool FetchLimits::has_gradient_in_time(const Fetch& fetch) const {
    const auto uses = problem_.graph().uses(events(fetch.tensor).tensor);
    if (uses.size() != 1 || problem_.facts().splits_backward(uses[0].op)) return false;
    // What was fetched to recompute a block has the block's other fetches before its gradient,
    // unless all of these are one.
    const Pass pass = block_of(fetch).pass;
    return pass == Pass::backward || (pass == Pass::recompute && fetch.unit.bucket >= 0);
}

/// Of fetches by unit; in the order in which they begin.
std::vector<FetchLimits::Unit> FetchLimits::units_of(const BlockOrder& order,
                                                     std::span<const Fetch> fetches) const {
    std::vector<Unit> units;
    for (std::size_t begin = 0; begin < fetches.size();) {
        std::size_t end = begin + 1;
        while (end < fetches.size() && fetches[end].unit == fetches[begin].unit) ++end;
        const FetchUnit& key = fetches[begin].unit;
        Unit unit{.fetches = fetches.subspan(begin, end - begin),
                  .readers = {},
                  .begin = moment_of(order, block_of(fetches[begin])),
                  .gradients = gradients_of(order, key)};
        for (const Fetch& fetch : unit.fetches) {
            const PartBlock& block = block_of(fetch);
            unit.begin = std::min(unit.begin, moment_of(order, block));
            add_readers(order, fetch, fetch.block, unit);
            if (key.bucket < 0 || block.pass != Pass::recompute) continue;
            // The backward of what runs again finds what was fetched for that.
            const auto& blocks = events(fetch.tensor).blocks;
            const auto backward =
                std::ranges::find(blocks, PartBlock{block.op, block.micro_batch, Pass::backward});
            if (backward == blocks.end()) continue;
            add_readers(order, fetch, static_cast<std::int32_t>(backward - blocks.begin()), unit);
        }
        std::ranges::sort(unit.readers);
        units.push_back(std::move(unit));
        begin = end;
    }
    std::ranges::sort(units, {}, &Unit::begin);
    return units;
}

void FetchLimits::add_readers(const BlockOrder& order, const Fetch& fetch, std::int32_t block,
                              Unit& unit) const {
    const PartBlock& of = events(fetch.tensor).blocks[static_cast<std::size_t>(block)];
    const Moment moment = moment_of(order, of);
    const OpLayouts& layouts = layouts_.of(of.op, of.micro_batch);
    for (int part = 0; part < layouts.parts; ++part) {
        unit.readers.push_back({.device = layouts.devices[static_cast<std::size_t>(part)],
                                .moment = moment,
                                .row = fetch.tensor.row,
                                .part = part_ref(block, part)});
    }
}

/// The last backward that contributes to any of a bucket, of which some may begin on other devices,
/// maybe in another stage: they cannot be compared. An op's own gradients are there in time.
std::optional<FetchLimits::Moment> FetchLimits::gradients_of(const BlockOrder& order,
                                                             const FetchUnit& unit) const {
    Moment last{-1, 0};  // before all others
    if (unit.bucket < 0) return last;
    const GraphFacts& facts = problem_.facts();
    const graph::OpGraph& graph = problem_.graph();
    for (const OpId parameter : facts.buckets().members(static_cast<std::size_t>(unit.bucket))) {
        for (const graph::Use& use : graph.uses(graph.op(parameter).outputs[0])) {
            if (!facts.has_backward(use.op)) continue;
            if (facts.splits_backward(use.op)) return std::nullopt;
            const int micro_batch = layouts_.rows().own(use.op, unit.micro_batch);
            if (layouts_.of(use.op, micro_batch).devices[0] != unit.device) return std::nullopt;
            last = std::max(last, moment_of(order, {use.op, micro_batch, Pass::backward}));
        }
    }
    return last;
}

namespace {

bool is_on(const TensorTasks& tasks, const Task& task, std::int32_t device) {
    if (task.device == device || task.to == device) return true;
    if (task.kind != TaskKind::collective) return false;
    return std::ranges::find(tasks.groups[static_cast<std::size_t>(task.ranks)], device) !=
           tasks.groups[static_cast<std::size_t>(task.ranks)].end();
}

/// Calls `then` with those of the row's tasks that the device takes part in.
template <class Range, class Then>
void for_each_on(std::int32_t device, const FetchedTensor& tensor, const Range& range, Then then) {
    for (std::size_t i = range.begin; i < range.end; ++i) {
        if (is_on(*tensor.tasks, tensor.tasks->tasks[i], device)) then(i);
    }
}

}  // namespace

/// `units`: what the device reads, in its order.
void FetchLimits::add_limits(std::int32_t device, std::span<const Unit* const> units,
                             std::vector<FetchLimit>& limits) const {
    std::vector<std::pair<std::size_t, TaskRef>> before;
    for (std::size_t i = 2; i < units.size(); ++i) {
        before.clear();
        const Moment begin = units[i]->begin;
        // The last parts here that use any of that unit, of those before all of this one.
        const auto here =
            std::ranges::equal_range(units[i - 2]->readers, device, {}, &Reader::device);
        const auto end = std::ranges::lower_bound(here, begin, {}, &Reader::moment);
        for (auto it = end; it != here.begin();) {
            --it;
            if (it->moment != std::prev(end)->moment) break;
            before.emplace_back(it->row, it->part);
        }
        const Unit* const gone = i >= 3 ? units[i - 3] : nullptr;
        if (gone != nullptr && gone->gradients && *gone->gradients < begin) {
            for (const Fetch& fetch : gone->fetches) {
                for_each_on(device, fetch.tensor, fetch.gradient, [&](std::size_t task) {
                    before.emplace_back(fetch.tensor.row, static_cast<TaskRef>(task));
                });
            }
        }
        for (const Fetch& fetch : units[i]->fetches) {
            for_each_on(device, fetch.tensor, fetch.tasks, [&](std::size_t task) {
                for (const auto& [row, ref] : before) {
                    limits.push_back({fetch.tensor.row, task, row, ref});
                }
            });
        }
    }
}

std::vector<FetchLimit> FetchLimits::find(const BlockOrder& order,
                                          std::span<const FetchedTensor> tensors) const {
    std::vector<Fetch> fetches;
    for (const FetchedTensor& tensor : tensors) add_fetches(tensor, fetches);
    const bool scheduled = order.pipeline().stages > 0;
    std::erase_if(fetches, [&](const Fetch& fetch) {
        return scheduled && moment_of(order, block_of(fetch)).first < 0;
    });
    std::ranges::stable_sort(fetches, std::less<>());
    const std::vector<Unit> units = units_of(order, fetches);
    std::map<std::int32_t, std::vector<const Unit*>> of_devices;
    for (const Unit& unit : units) {
        for (const Reader& reader : unit.readers) {
            std::vector<const Unit*>& known = of_devices[reader.device];
            if (known.empty() || known.back() != &unit) known.push_back(&unit);
        }
    }
    std::vector<FetchLimit> limits;
    for (const auto& [device, own] : of_devices) add_limits(device, own, limits);
    return limits;
}

}  // namespace partita::plan
