// SPDX-License-Identifier: Apache-2.0
#include "plan/evaluation/subgraph_latency.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <tuple>

#include "plan/evaluation/max_load.h"

namespace partita::plan {

namespace {

std::size_t index(std::int32_t i) {
    return static_cast<std::size_t>(i);
}

}  // namespace

bool is_subgraph_latency(const Problem& problem) {
    return problem.objective() == Objective::latency && has_given_costs(problem);
}

SubgraphCalls::SubgraphCalls(const CallCosts& costs)
    : costs_(costs),
      known_(costs.ops, -1),
      call_of_(costs.ops),
      level_(costs.ops),
      levels_(costs.devices, 0),
      course_(costs.ops) {}

std::int64_t SubgraphCalls::run(std::span<const std::int32_t> device_of) {
    assert(device_of.size() == costs_.ops);
    device_of_ = device_of;
    first_.assign(costs_.devices, static_cast<std::int32_t>(costs_.ops));
    last_.assign(costs_.devices, -1);
    changed_.assign(costs_.devices, 0);
    for (std::size_t op = 0; op < costs_.ops; ++op) {
        const std::size_t d = index(device_of[op]);
        first_[d] = std::min(first_[d], static_cast<std::int32_t>(op));
        last_[d] = static_cast<std::int32_t>(op);
        if (known_[op] == device_of[op]) continue;
        changed_[d] = 1;
        if (known_[op] >= 0) changed_[index(known_[op])] = 1;
        known_[op] = device_of[op];
    }
    for (std::size_t d = 0; d < costs_.devices; ++d) {
        if (changed_[d] == 0 || costs_.is_accelerator[d] == 0) continue;
        find_levels(static_cast<std::int32_t>(d));
    }
    number_calls();
    price_calls();
    cyclic_ = !order_calls();
    if (cyclic_) {
        cut_cycles();
        price_calls();
        const bool acyclic = order_calls();
        assert(acyclic);
        static_cast<void>(acyclic);
    }
    return latency_;
}

/// Ops are numbered topologically, so what lies before the first one on the device has level 0.
void SubgraphCalls::find_levels(std::int32_t device) {
    const std::int32_t first = first_[index(device)];
    const std::int32_t last = last_[index(device)];
    std::int32_t most = 0;
    for (std::int32_t op = first; op <= last; ++op) {
        const bool here = device_of_[index(op)] == device;
        std::int32_t level = here ? 1 : 0;
        for (const std::int32_t from : costs_.before[index(op)]) {
            if (from < first) continue;
            const bool enters = here && device_of_[index(from)] != device;
            level = std::max(level, course_[index(from)] + (enters ? 1 : 0));
        }
        course_[index(op)] = level;
        if (!here) continue;
        level_[index(op)] = level;
        most = std::max(most, level);
    }
    levels_[index(device)] = most;
}

/// The calls of each accelerator in the order of their levels, then those of CPUs.
void SubgraphCalls::number_calls() {
    offset_.resize(costs_.devices);
    std::exclusive_scan(levels_.begin(), levels_.end(), offset_.begin(), 0);
    std::int32_t count = std::accumulate(levels_.begin(), levels_.end(), 0);
    calls_.clear();
    for (std::size_t d = 0; d < costs_.devices; ++d) {
        calls_.insert(calls_.end(), index(levels_[d]),
                      {.device = static_cast<std::int32_t>(d), .start = 0, .length = 0});
    }
    for (std::size_t op = 0; op < costs_.ops; ++op) {
        const std::int32_t device = device_of_[op];
        if (costs_.is_accelerator[index(device)] != 0) {
            call_of_[op] = offset_[index(device)] + level_[op] - 1;
        } else {
            call_of_[op] = count++;
            calls_.push_back({.device = device, .start = 0, .length = 0});
        }
    }
}

/// Lengths of all calls, and which wait for which.
void SubgraphCalls::price_calls() {
    edges_.clear();
    edges_of_.assign(calls_.size(), -1);
    waiting_.assign(calls_.size(), 0);
    seen_.assign(calls_.size(), -1);
    for (std::size_t op = 0; op < costs_.ops; ++op) join(op);
}

void SubgraphCalls::join(std::size_t op) {
    const std::int32_t own = call_of_[op];
    const std::size_t device = index(device_of_[op]);
    bool sent = false;
    for (const std::int32_t next : costs_.after[op]) {
        const std::int32_t to = call_of_[index(next)];
        if (to == own || seen_[index(to)] == static_cast<std::int32_t>(op)) continue;
        seen_[index(to)] = static_cast<std::int32_t>(op);
        SubgraphCall& call = calls_[index(to)];
        if (costs_.is_accelerator[index(call.device)] != 0) {
            call.length += costs_.communication[op];
        }
        edges_.push_back({to, edges_of_[index(own)]});
        edges_of_[index(own)] = static_cast<std::int32_t>(edges_.size()) - 1;
        ++waiting_[index(to)];
        sent = true;
    }
    calls_[index(own)].length += costs_.time(op, device);
    if (sent && costs_.is_accelerator[device] != 0) {
        calls_[index(own)].length += costs_.communication[op];
    }
}

/// Starts of all calls, and the latency. False: some wait for each other.
bool SubgraphCalls::order_calls() {
    latency_ = 0;
    ready_.clear();
    for (std::size_t c = 0; c < calls_.size(); ++c) {
        if (waiting_[c] == 0) ready_.push_back(static_cast<std::int32_t>(c));
    }
    for (std::size_t done = 0; done < ready_.size(); ++done) {
        const std::size_t call = index(ready_[done]);
        const std::int64_t end = calls_[call].end();
        latency_ = std::max(latency_, end);
        for (std::int32_t e = edges_of_[call]; e >= 0; e = edges_[index(e)].next) {
            const std::int32_t to = edges_[index(e)].to;
            calls_[index(to)].start = std::max(calls_[index(to)].start, end);
            if (--waiting_[index(to)] == 0) ready_.push_back(to);
        }
    }
    return ready_.size() == calls_.size();
}

/// What is left when calls go that wait for none, or for which none waits: those that are on a
/// cycle, or between two.
void SubgraphCalls::keep_cycles() {
    on_cycle_.assign(calls_.size(), 1);
    for (const std::int32_t call : ready_) on_cycle_[index(call)] = 0;
    before_.clear();
    before_of_.assign(calls_.size(), -1);
    readers_.assign(calls_.size(), 0);
    for (std::size_t call = 0; call < calls_.size(); ++call) {
        if (on_cycle_[call] == 0) continue;
        for (std::int32_t e = edges_of_[call]; e >= 0; e = edges_[index(e)].next) {
            std::int32_t& last = before_of_[index(edges_[index(e)].to)];
            before_.push_back({static_cast<std::int32_t>(call), last});
            last = static_cast<std::int32_t>(before_.size()) - 1;
            ++readers_[call];
        }
    }
    ready_.clear();
    for (std::size_t call = 0; call < calls_.size(); ++call) {
        if (on_cycle_[call] != 0 && readers_[call] == 0) {
            ready_.push_back(static_cast<std::int32_t>(call));
        }
    }
    while (!ready_.empty()) {
        const std::size_t call = index(ready_.back());
        ready_.pop_back();
        on_cycle_[call] = 0;
        for (std::int32_t e = before_of_[call]; e >= 0; e = before_[index(e)].next) {
            const std::int32_t from = before_[index(e)].to;
            if (--readers_[index(from)] == 0) ready_.push_back(from);
        }
    }
}

/// Levels along paths inside the cycles; the first level of a call keeps its number.
void SubgraphCalls::cut_cycles() {
    keep_cycles();
    sorted_.clear();
    for (std::size_t op = 0; op < costs_.ops; ++op) {
        const std::int32_t own = call_of_[op];
        if (on_cycle_[index(own)] == 0) continue;
        std::int32_t level = 0;
        for (const std::int32_t from : costs_.before[op]) {
            const std::int32_t call = call_of_[index(from)];
            if (on_cycle_[index(call)] == 0) continue;
            level = std::max(level, course_[index(from)] + (call != own ? 1 : 0));
        }
        course_[op] = level;
        sorted_.push_back(static_cast<std::int32_t>(op));
    }
    std::sort(sorted_.begin(), sorted_.end(), [&](std::int32_t a, std::int32_t b) {
        const auto key = [&](std::int32_t op) {
            return std::tuple(call_of_[index(op)], course_[index(op)], op);
        };
        return key(a) < key(b);
    });
    std::int32_t whole = -1;
    std::int32_t level = -1;
    std::int32_t part = -1;
    for (const std::int32_t op : sorted_) {
        std::int32_t& call = call_of_[index(op)];
        if (call != whole) {
            whole = part = call;
        } else if (course_[index(op)] != level) {
            part = static_cast<std::int32_t>(calls_.size());
            calls_.push_back({.device = device_of_[index(op)], .start = 0, .length = 0});
        }
        level = course_[index(op)];
        call = part;
    }
    for (SubgraphCall& call : calls_) call.start = call.length = 0;
}

SubgraphLatency::SubgraphLatency(const Problem& problem)
    : problem_(problem), costs_(problem), calls_(costs_), device_of_(costs_.ops) {}

Evaluation SubgraphLatency::evaluate(const Strategy& strategy) {
    Evaluation evaluation;
    evaluation.devices.resize(costs_.devices);
    for (std::size_t op = 0; op < costs_.ops; ++op) {
        device_of_[op] = strategy.device_of(graph::OpId(op));
        const std::size_t device = index(device_of_[op]);
        if (costs_.is_accelerator[device] != 0) {
            evaluation.devices[device].memory += Bytes(costs_.bytes[op]);
        }
    }
    evaluation.value = Time(calls_.run(device_of_));
    for (const SubgraphCall& call : calls_.calls()) {
        evaluation.devices[index(call.device)].busy += Time(call.length);
    }
    evaluation.overflow = memory_overflow(problem_, evaluation.devices);
    return evaluation;
}

}  // namespace partita::plan
