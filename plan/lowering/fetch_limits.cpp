// SPDX-License-Identifier: Apache-2.0
#include "plan/lowering/fetch_limits.h"

#include <algorithm>
#include <iterator>
#include <map>

namespace partita::plan {

using graph::OpId;
using Kind = TensorEvent::Kind;

FetchLimits::FetchLimits(const Problem& problem, const StrategyTensors& layouts)
    : problem_(problem), layouts_(layouts) {
    for (const graph::Op& op : problem.graph().ops()) {
        if (op.kind != graph::OpKind::parameter) continue;
        rows_.push_back(layouts.rows().row(op.outputs[0], 0));
    }
}

FetchLimits::Moment FetchLimits::moment_of(const BlockOrder& order, std::size_t row,
                                           const TensorEvent& event) const {
    const PartBlock& block = block_of(row, event);
    return {order.of(block.op, block.micro_batch, block.pass), event.step};
}

void FetchLimits::add_fetches(std::size_t row, const TensorTasks& tasks,
                              std::vector<Fetch>& fetches) const {
    const TensorEvents& of = layouts_.events()[row];
    const std::size_t first = fetches.size();
    Range added;
    for (std::size_t e = 0; e < of.events.size(); ++e) {
        const TensorEvent& event = of.events[e];
        const TensorStep& step = tasks.steps[e];
        added = {added.end, step.tasks};
        if (step.fetched && event.block >= 0) {
            fetches.push_back({.unit = fetch_unit(problem_, layouts_, row, event),
                               .row = row,
                               .of_row = &tasks,
                               .event = &event,
                               .tasks = added,
                               .gradient = {}});
        }
        const bool gives = event.kind == Kind::contribute || event.kind == Kind::parameter;
        if (!gives || added.begin == added.end || fetches.size() == first) continue;
        if (has_gradient_in_time(fetches.back())) fetches.back().gradient = added;
    }
}

/// Not every backward needs the parameter again, and of one with several readers, or with gradients
/// of weights in a pass of their own, the gradient may come long after the backward.
bool FetchLimits::has_gradient_in_time(const Fetch& fetch) const {
    const auto uses = problem_.graph().uses(layouts_.events()[fetch.row].tensor);
    if (uses.size() != 1 || problem_.facts().splits_backward(uses[0].op)) return false;
    // What was fetched to recompute a block has the block's other fetches before its gradient,
    // unless all of these are one.
    const Pass pass = block_of(fetch.row, *fetch.event).pass;
    return pass == Pass::backward || (pass == Pass::recompute && fetch.unit.bucket >= 0);
}

/// Of fetches by unit; in the order in which they begin.
std::vector<FetchLimits::Unit> FetchLimits::units_of(const BlockOrder& order,
                                                     std::span<const Fetch> fetches) const {
    std::vector<Unit> units;
    for (std::size_t begin = 0; begin < fetches.size();) {
        std::size_t end = begin + 1;
        while (end < fetches.size() && fetches[end].unit == fetches[begin].unit) ++end;
        Unit unit{.fetches = fetches.subspan(begin, end - begin),
                  .readers = {},
                  .begin = moment_of(order, fetches[begin].row, *fetches[begin].event),
                  .gradients = gradients_of(order, fetches[begin].unit)};
        for (const Fetch& fetch : unit.fetches) {
            unit.begin = std::min(unit.begin, moment_of(order, fetch.row, *fetch.event));
            add_readers(order, fetch.row, *fetch.event, unit);
            const TensorEvent* const backward = backward_after(fetch);
            if (backward != nullptr) add_readers(order, fetch.row, *backward, unit);
        }
        std::ranges::sort(unit.readers);
        units.push_back(std::move(unit));
        begin = end;
    }
    std::ranges::sort(units, {}, &Unit::begin);
    return units;
}

/// The backward of what runs again finds what was fetched for that. Null: there is none.
const TensorEvent* FetchLimits::backward_after(const Fetch& fetch) const {
    const PartBlock& again = block_of(fetch.row, *fetch.event);
    if (fetch.unit.bucket < 0 || again.pass != Pass::recompute) return nullptr;
    const auto& events = layouts_.events()[fetch.row].events;
    const auto found = std::ranges::find_if(events, [&](const TensorEvent& event) {
        return event.kind == Kind::backward_use && event.op == again.op && event.block >= 0 &&
               event.micro_batch == fetch.event->micro_batch;
    });
    return found == events.end() ? nullptr : &*found;
}

void FetchLimits::add_readers(const BlockOrder& order, std::size_t row, const TensorEvent& event,
                              Unit& unit) const {
    const PartBlock& of = block_of(row, event);
    const Moment moment = moment_of(order, row, event);
    const OpLayouts& layouts = layouts_.of(of.op, of.micro_batch);
    for (int part = 0; part < layouts.parts; ++part) {
        unit.readers.push_back({.device = layouts.devices[static_cast<std::size_t>(part)],
                                .moment = moment,
                                .row = row,
                                .part = part_ref(event.block, part)});
    }
}

/// The last backward that contributes to any of a bucket. Those that begin on other devices, maybe in
/// another stage, or are in no block of the schedule, cannot be compared. An op's own gradients are
/// there in time.
std::optional<FetchLimits::Moment> FetchLimits::gradients_of(const BlockOrder& order,
                                                             const FusionUnit& unit) const {
    Moment last{-1, 0};  // before all others
    if (unit.bucket < 0) return last;
    if (!unit.backward) return std::nullopt;
    const GraphFacts& facts = problem_.facts();
    for (const OpId parameter : facts.buckets().members(static_cast<std::size_t>(unit.bucket))) {
        const graph::TensorId t = problem_.graph().op(parameter).outputs[0];
        const std::size_t row = layouts_.rows().row(t, 0);
        for (const TensorEvent& event : layouts_.events()[row].events) {
            if (event.kind != Kind::contribute || event.micro_batch != unit.micro_batch) continue;
            if (facts.splits_backward(event.op)) return std::nullopt;
            const PartBlock& block = block_of(row, event);
            if (layouts_.of(block.op, block.micro_batch).devices[0] != unit.device)
                return std::nullopt;
            const Moment moment = moment_of(order, row, event);
            if (order.is_scheduled() && moment.first < 0) return std::nullopt;
            last = std::max(last, moment);
        }
    }
    return last;
}

namespace {

bool is_on(const TensorTasks& tasks, const Task& task, std::int32_t device) {
    if (task.device == device || task.to == device) return true;
    if (task.kind != TaskKind::collective) return false;
    const std::vector<int>& ranks = tasks.groups[static_cast<std::size_t>(task.ranks)];
    return std::ranges::find(ranks, device) != ranks.end();
}

/// Calls `then` with those tasks from `begin` to `end` that the device takes part in.
template <class Then>
void for_each_on(std::int32_t device, const TensorTasks& tasks, std::size_t begin, std::size_t end,
                 Then then) {
    for (std::size_t i = begin; i < end; ++i) {
        if (is_on(tasks, tasks.tasks[i], device)) then(i);
    }
}

}  // namespace

/// `units`: what the device reads, in its order.
void FetchLimits::add_limits(std::int32_t device, std::span<const Unit* const> units,
                             std::vector<RowEdge>& limits) const {
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
                for_each_on(device, *fetch.of_row, fetch.gradient.begin, fetch.gradient.end,
                            [&](std::size_t task) {
                                before.emplace_back(fetch.row, static_cast<TaskRef>(task));
                            });
            }
        }
        for (const Fetch& fetch : units[i]->fetches) {
            for_each_on(device, *fetch.of_row, fetch.tasks.begin, fetch.tasks.end,
                        [&](std::size_t task) {
                            for (const auto& [row, ref] : before)
                                limits.push_back({fetch.row, task, row, ref});
                        });
        }
    }
}

std::vector<RowEdge> FetchLimits::find(const BlockOrder& order, const TasksOfRow& tasks_of) const {
    std::vector<Fetch> fetches;
    for (const std::size_t row : rows_) {
        const TensorTasks* const tasks = tasks_of(row);
        if (tasks != nullptr && tasks->fetches) add_fetches(row, *tasks, fetches);
    }
    std::erase_if(fetches, [&](const Fetch& fetch) {
        return order.is_scheduled() && moment_of(order, fetch.row, *fetch.event).first < 0;
    });
    std::ranges::stable_sort(fetches, {}, &Fetch::unit);
    const std::vector<Unit> units = units_of(order, fetches);
    std::map<std::int32_t, std::vector<const Unit*>> of_devices;
    for (const Unit& unit : units) {
        for (const Reader& reader : unit.readers) {
            std::vector<const Unit*>& known = of_devices[reader.device];
            if (known.empty() || known.back() != &unit) known.push_back(&unit);
        }
    }
    std::vector<RowEdge> limits;
    for (const auto& [device, own] : of_devices) add_limits(device, own, limits);
    return limits;
}

}  // namespace partita::plan
