// SPDX-License-Identifier: Apache-2.0
//
// When parameters are fetched that lie in shards and are dropped after each use
// (UpdateConfig::refetch, as in ZeRO-3 and FSDP).
//
// A unit is fetched at once: the parameters of a bucket for a forward or a backward, or what the parts
// of one op read. Limits follow the order in which devices run what reads, so no cycle can arise: what
// fetches a unit can be put right before the first that reads any of it.
#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "plan/lowering/whole_lowering.h"

namespace partita::plan {

using graph::OpId;
using graph::TensorId;

void Lowering::note_fetch(TensorId t, TaskRange tasks) {
    fetches_.push_back({.tensor = t, .tasks = tasks, .block = {}, .gradient = {}});
}

/// The parts of the op that made the latest fetches.
void Lowering::note_readers(const PartBlock& block) {
    while (fetches_read_ < fetches_.size()) fetches_[fetches_read_++].block = block;
}

/// Of a parameter with one reader, whose backward was lowered before.
void Lowering::note_gradient(TensorId t, TaskRange tasks) {
    if (graph_.uses(t).size() != 1) return;
    // It may come long after the backward.
    if (problem_.facts().splits_backward(graph_.uses(t)[0].op)) return;
    const auto latest = std::find_if(fetches_.rbegin(), fetches_.rend(),
                                     [&](const Fetch& fetch) { return fetch.tensor == t; });
    if (latest == fetches_.rend()) return;
    // Not every backward needs the parameter again.
    // What was fetched to recompute a block has the block's other fetches before its gradient,
    // unless all of these are one.
    const bool together = unit_of(t, latest->block).bucket >= 0;
    const Pass pass = latest->block.pass;
    if (pass == Pass::backward || (pass == Pass::recompute && together)) latest->gradient = tasks;
}

Lowering::FetchUnit Lowering::unit_of(TensorId t, const PartBlock& readers) const {
    const std::int32_t bucket = problem_.facts().buckets().of_fetches(graph_.tensor(t).producer);
    if (bucket < 0) return {.block = readers};
    return {.bucket = bucket,
            .device = strategy_.device_of(readers.op),
            .backward = readers.pass != Pass::forward,
            .micro_batch = readers.micro_batch,
            .block = {}};
}

Lowering::Moment Lowering::moment_of(const PartBlock& block) const {
    return {block_order_.of(block.op, block.micro_batch, block.pass),
            first_parts_[rows_.row(block)].index()};
}

/// By when they begin.
std::vector<Lowering::UnitFetches> Lowering::fetch_units() const {
    const bool scheduled = strategy_.policy.schedule.kind != ScheduleKind::none;
    std::map<FetchUnit, UnitFetches> units;
    for (std::size_t i = 0; i < fetches_.size(); ++i) {
        const PartBlock& block = fetches_[i].block;
        const Moment moment = moment_of(block);
        if (scheduled && moment.first < 0) continue;
        const FetchUnit key = unit_of(fetches_[i].tensor, block);
        const auto [found, is_new] = units.try_emplace(key);
        UnitFetches& unit = found->second;
        if (is_new) unit.gradients = gradients_of(key);
        unit.begin = is_new ? moment : std::min(unit.begin, moment);
        unit.fetches.push_back(i);
        add_readers(block, unit);
        // The backward of what runs again finds what was fetched for that.
        if (key.bucket >= 0 && block.pass == Pass::recompute)
            add_readers({block.op, block.micro_batch, Pass::backward}, unit);
    }
    std::vector<UnitFetches> found;
    for (auto& [key, unit] : units) {
        std::ranges::sort(unit.readers);
        found.push_back(std::move(unit));
    }
    std::ranges::sort(found, {}, &UnitFetches::begin);
    return found;
}

void Lowering::add_readers(const PartBlock& block, UnitFetches& unit) const {
    if (block.pass == Pass::backward && !problem_.facts().has_backward(block.op)) return;
    const Moment moment = moment_of(block);
    for (int part = 0; part < layouts_.of(block.op, block.micro_batch).parts; ++part) {
        const TaskId task = task_of(block, part);
        unit.readers.push_back({build_.task(task).device, moment, task});
    }
}

/// The last backward that contributes to any of a bucket, of which some may begin on other devices,
/// maybe in another stage: they cannot be compared. An op's own gradients are there in time.
std::optional<Lowering::Moment> Lowering::gradients_of(const FetchUnit& unit) const {
    Moment last{-1, 0};  // before all others
    if (unit.bucket < 0) return last;
    const GraphFacts& facts = problem_.facts();
    for (const OpId parameter : facts.buckets().members(static_cast<std::size_t>(unit.bucket))) {
        for (const graph::Use& use : graph_.uses(graph_.op(parameter).outputs[0])) {
            if (!facts.has_backward(use.op)) continue;
            if (facts.splits_backward(use.op)) return std::nullopt;
            if (strategy_.device_of(use.op) != unit.device) return std::nullopt;
            const int micro_batch = rows_.own(use.op, unit.micro_batch);
            last = std::max(last, moment_of({use.op, micro_batch, Pass::backward}));
        }
    }
    return last;
}

/// Each task of a range under every device that takes part in it.
Lowering::ByDevice Lowering::by_device(TaskRange range) const {
    ByDevice found;
    for (std::size_t i = range.begin; i < range.end; ++i) {
        const TaskId id(i);
        const Task& task = build_.task(id);
        const auto add = [&](int device) {
            if (device >= 0) found.emplace_back(device, id);
        };
        add(task.device);
        add(task.to);
        if (task.kind != TaskKind::collective) continue;
        for (const std::int32_t device : build_.ranks(id)) add(device);
    }
    std::ranges::sort(found);
    const auto rest = std::ranges::unique(found);
    found.erase(rest.begin(), rest.end());
    return found;
}

namespace {

auto of_device(const std::vector<std::pair<int, TaskId>>& entries, int device) {
    return std::ranges::equal_range(entries, device, {}, &std::pair<int, TaskId>::first);
}

}  // namespace

/// The last parts on the device that use any of the unit and run before that moment.
std::vector<TaskId> Lowering::last_before(const UnitFetches& unit, int device, Moment moment) {
    const auto here = std::ranges::equal_range(unit.readers, device, {}, &UnitReader::device);
    const auto end = std::ranges::lower_bound(here, moment, {}, &UnitReader::moment);
    std::vector<TaskId> last;
    for (auto it = end; it != here.begin();) {
        --it;
        if (it->moment != std::prev(end)->moment) break;
        last.push_back(it->task);
    }
    return last;
}

/// Nothing that is fetched depends on anything: without a limit all parameters would be fetched at
/// once, and their gradients wait for the fetches. A device fetches a unit while it uses the one
/// before it, no earlier, and when the gradients of the one before these two are gone (as FSDP does).
void Lowering::limit_fetches() {
    std::vector<ByDevice> fetching;
    std::vector<ByDevice> gradients;
    for (const Fetch& fetch : fetches_) {
        fetching.push_back(by_device(fetch.tasks));
        gradients.push_back(by_device(fetch.gradient));
    }
    const std::vector<UnitFetches> units = fetch_units();
    std::map<int, std::vector<const UnitFetches*>> of_devices;
    for (const UnitFetches& unit : units) {
        for (const UnitReader& reader : unit.readers) {
            std::vector<const UnitFetches*>& known = of_devices[reader.device];
            if (known.empty() || known.back() != &unit) known.push_back(&unit);
        }
    }
    for (const auto& [device, own] : of_devices) {
        for (std::size_t i = 2; i < own.size(); ++i) {
            const Moment begin = own[i]->begin;
            std::vector<TaskId> before = last_before(*own[i - 2], device, begin);
            if (i >= 3 && own[i - 3]->gradients && *own[i - 3]->gradients < begin) {
                for (const std::size_t gone : own[i - 3]->fetches) {
                    for (const auto& entry : of_device(gradients[gone], device)) {
                        before.push_back(entry.second);
                    }
                }
            }
            for (const std::size_t fetch : own[i]->fetches) {
                for (const auto& entry : of_device(fetching[fetch], device)) {
                    for (const TaskId earlier : before) build_.add_edge(earlier, entry.second);
                }
            }
        }
    }
}

}  // namespace partita::plan
