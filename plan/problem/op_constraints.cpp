// SPDX-License-Identifier: Apache-2.0
#include "plan/problem/op_constraints.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace partita::plan {

using graph::OpId;

void check_constraints(const graph::OpGraph& graph, const cost::Machine& machine,
                       const Constraints& constraints) {
    const int devices = machine.device_count();
    const auto& allowed = constraints.allowed;
    if (allowed.size() > graph.op_count()) {
        throw UsageError(fmt::format("constraints name {} ops, the model has {}", allowed.size(),
                                     graph.op_count()));
    }
    for (std::size_t i = 0; i < allowed.size(); ++i) {
        for (const int device : allowed[i]) {
            if (device >= 0 && device < devices) continue;
            throw UsageError(
                fmt::format("op '{}' is fixed to device {}, but machine '{}' has devices 0 to {}",
                            graph.ops()[i].name, device, machine.name(), devices - 1));
        }
    }
    for (const auto& group : constraints.together) {
        for (const OpId op : group) {
            if (op.index() >= graph.op_count()) {
                throw UsageError(fmt::format("constraint 'together' names op number {} of {}",
                                             op.value, graph.op_count()));
            }
        }
    }
}

void keep_on_cpus(const graph::OpGraph& graph, const cost::Machine& machine,
                  Constraints& constraints) {
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        const auto& given = graph.ops()[i].given;
        if (!given || given->on_accelerator) continue;
        constraints.allowed.resize(graph.op_count());
        std::vector<int>& allowed = constraints.allowed[i];
        std::vector<int> cpus;
        for (int d = 0; d < machine.device_count(); ++d) {
            const bool free =
                allowed.empty() || std::find(allowed.begin(), allowed.end(), d) != allowed.end();
            if (free && machine.device(d).kind == cost::DeviceKind::cpu) cpus.push_back(d);
        }
        if (cpus.empty()) {
            throw InputError(fmt::format(
                "model '{}': node '{}' runs on CPUs alone (supportedOnFpga), but machine '{}' has "
                "none that it may use. Add a CPU (maxCPUs), or let accelerators support it.",
                graph.name, graph.ops()[i].name, machine.name()));
        }
        allowed = std::move(cpus);
    }
}

namespace {

/// Per op and factor whether it is of none of the classes `unsplit`; empty where these are.
std::vector<std::vector<char>> splittable_factors(const GraphFacts& facts,
                                                  const std::vector<graph::SoapClass>& unsplit) {
    std::vector<std::vector<char>> splittable;
    if (unsplit.empty()) return splittable;
    const graph::OpGraph& graph = facts.graph();
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        std::vector<char>& of_op = splittable.emplace_back();
        for (const graph::SoapClass soap :
             graph::soap_classes(graph, OpId(i), facts.rule(OpId(i)), facts.origins())) {
            of_op.push_back(std::ranges::find(unsplit, soap) == unsplit.end() ? 1 : 0);
        }
    }
    return splittable;
}

}  // namespace

OpConstraints::OpConstraints(const GraphFacts& facts, const cost::Machine& machine,
                             const Constraints& constraints)
    : facts_(facts),
      machine_(machine),
      all_devices_(static_cast<std::size_t>(machine.device_count())),
      allowed_(constraints.allowed),
      together_(constraints.together),
      memory_limit_(constraints.memory_limit),
      whole_ops_(constraints.whole_ops),
      splittable_(splittable_factors(facts, constraints.unsplit)) {
    std::iota(all_devices_.begin(), all_devices_.end(), 0);
}

Bytes OpConstraints::memory_capacity(int device) const {
    const cost::Device& of = machine_.device(device);
    const Bytes capacity = of.memory - of.reserved;
    return std::min(capacity, memory_limit_.value_or(capacity));
}

bool OpConstraints::may_split(OpId op, std::size_t factor) const {
    return splittable_.empty() || splittable_[op.index()][factor] != 0;
}

std::int64_t OpConstraints::split_limit(OpId op) const {
    if (whole_ops_) return 1;
    const auto most = static_cast<std::int64_t>(allowed_devices(op).size());
    std::int64_t limit = 1;
    const std::vector<graph::Factor>& factors = facts_.rule(op).factors;
    for (std::size_t f = 0; f < factors.size(); ++f) {
        if (!factors[f].splittable || factors[f].extent < 1 || !may_split(op, f)) continue;
        limit *= std::min(factors[f].extent, most);
        if (limit >= most) return most;
    }
    return limit;
}

}  // namespace partita::plan
