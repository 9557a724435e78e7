// SPDX-License-Identifier: Apache-2.0
#include "plan/legality/config_legality.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "plan/layout/layout.h"
#include "plan/legality/stages.h"
#include "plan/problem/micro_batches.h"

namespace partita::plan {

using graph::OpId;
using graph::TensorId;

namespace {

using Fault = std::optional<std::string>;

Fault find_axis_fault(const Problem& problem, OpId op, const Axis& axis) {
    const graph::OpRule& rule = problem.facts().rule(op);
    if (axis.degree < 2) {
        return fmt::format("factor '{}': degree {} is below 2", name_of(rule, axis), axis.degree);
    }
    if (!has_axis(rule, axis)) return unknown_axis(name_of(rule, axis));
    if (!axis.is_factor()) return std::nullopt;
    if (!rule.factors[static_cast<std::size_t>(axis.factor)].splittable) {
        return fmt::format("factor '{}': cannot be split", name_of(rule, axis));
    }
    if (!problem.constraints().may_split(op, static_cast<std::size_t>(axis.factor))) {
        return fmt::format("factor '{}': stays whole here (--dims)", name_of(rule, axis));
    }
    return std::nullopt;
}

/// Splits of a split: parts of every size that there is must be able to bear the next axis (7 in 2
/// makes 4 and 3; in 3 again the 4 would leave one empty).
Fault find_empty_part(const graph::OpRule& rule, const OpConfig& config, const graph::Box& base) {
    std::vector<std::set<std::int64_t>> sizes;
    for (const graph::Positions& positions : base) sizes.push_back({graph::count(positions)});
    for (const Axis& axis : config.axes) {
        if (!axis.is_factor()) continue;
        std::set<std::int64_t>& of_factor = sizes[static_cast<std::size_t>(axis.factor)];
        std::set<std::int64_t> next;
        const std::int64_t whole = rule.factors[static_cast<std::size_t>(axis.factor)].extent;
        if (axis.blocks > 1 && of_factor != std::set<std::int64_t>{whole}) {
            return fmt::format(
                "factor '{}': its blocks were cut before, by another axis or by "
                "micro-batches",
                name_of(rule, axis));
        }
        for (std::int64_t extent : of_factor) {
            extent /= axis.blocks;
            if (!graph::is_legal_degree(extent, axis.degree)) {
                return fmt::format("factor '{}': {} positions in {} parts leave one empty",
                                   name_of(rule, axis), extent, axis.degree);
            }
            const std::int64_t part = (extent + axis.degree - 1) / axis.degree;
            for (const std::int64_t size : {part, extent - part * (axis.degree - 1)}) {
                next.insert(axis.blocks * size);
            }
        }
        of_factor = std::move(next);
    }
    return std::nullopt;
}

/// Partial results combine in one way only.
Fault find_mixed_combination(const graph::OpRule& rule, const OpConfig& config) {
    std::optional<graph::Combine> combine;
    for (const Axis& axis : config.axes) {
        graph::Combine own = graph::Combine::sum;
        if (axis.is_replica()) continue;
        if (axis.is_factor()) {
            const graph::Factor& factor = rule.factors[static_cast<std::size_t>(axis.factor)];
            if (!factor.reduction || factor.combine == graph::Combine::none) continue;
            own = factor.combine;
        }
        if (combine && *combine != own) {
            return fmt::format(
                "factor '{}': its partial results combine in another way than "
                "those of the factor before",
                name_of(rule, axis));
        }
        combine = own;
    }
    return std::nullopt;
}

/// Of the op before that had no fault: most ops have its devices.
struct Checked {
    const DeviceSet* devices = nullptr;
    const std::vector<int>* allowed = nullptr;
};

Fault find_device_fault(const Problem& problem, OpId op, const OpConfig& config, Checked& checked) {
    std::int64_t parts = 1;
    for (const Axis& axis : config.axes) {
        parts *= axis.degree;
        if (parts > problem.device_count()) break;
    }
    if (config.devices.size() != parts) {
        return fmt::format("its degrees make {} parts, its devices are {}", parts,
                           config.devices.size());
    }
    if (parts > kMostParts) {
        return fmt::format("its degrees make {} parts, an op may have {} at most", parts,
                           kMostParts);
    }
    const std::vector<int>& allowed = problem.constraints().allowed_devices(op);
    if (checked.devices != nullptr && checked.allowed == &allowed &&
        *checked.devices == config.devices) {
        return std::nullopt;
    }
    std::vector<int> devices;
    for (int part = 0; part < config.devices.size(); ++part) {
        const int device = config.devices[part];
        if (device < 0 || device >= problem.device_count()) {
            return fmt::format("device {} of a machine with {}", device, problem.device_count());
        }
        if (!std::binary_search(allowed.begin(), allowed.end(), device)) {
            return fmt::format("device {} is not among those it may use", device);
        }
        devices.push_back(device);
    }
    std::sort(devices.begin(), devices.end());
    const auto twice = std::adjacent_find(devices.begin(), devices.end());
    if (twice != devices.end()) return fmt::format("device {} holds two of its parts", *twice);
    checked = {&config.devices, &allowed};
    return std::nullopt;
}

/// A summand axis takes a partial tensor as it is: the producer must have left it so, in as many
/// summands on the same devices.
Fault find_summand_fault(const GraphFacts& facts, const Strategy& strategy, OpId id) {
    const graph::Op& op = facts.graph().op(id);
    const OpConfig& config = strategy.config(id);
    if (std::ranges::none_of(config.axes, &Axis::is_summand)) return std::nullopt;
    RegionTable regions;
    const auto box = [&](OpId of) {
        return micro_batch_box(facts, of, strategy.policy.micro_batches, 0);
    };
    const Parts parts(facts.rule(id), config, box(id));
    const auto wanted_of = [&](std::size_t i) {
        return layout_of(facts.rule(id), parts, config.devices, Side::operand, i,
                         facts.graph().tensor(op.inputs[i]).shape, regions);
    };
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        if (!op.inputs[i].valid()) continue;
        const graph::Tensor& tensor = facts.graph().tensor(op.inputs[i]);
        const Layout wanted = wanted_of(i);
        if (!wanted.is_partial()) continue;
        // A task finds its operands by their tensor: one tensor cannot be both.
        for (std::size_t j = 0; j < op.inputs.size(); ++j) {
            if (op.inputs[j] != op.inputs[i] || wanted_of(j).is_partial()) continue;
            return fmt::format("factor '+': '{}' is operand {} too, which is not partial",
                               tensor.name, j);
        }
        const OpId by = tensor.producer;
        const graph::Op& producer = facts.graph().op(by);
        const auto result =
            std::find(producer.outputs.begin(), producer.outputs.end(), op.inputs[i]) -
            producer.outputs.begin();
        const Layout given =
            layout_of(facts.rule(by), Parts(facts.rule(by), strategy.config(by), box(by)),
                      strategy.config(by).devices, Side::result, static_cast<std::size_t>(result),
                      tensor.shape, regions);
        if (given.is_partial() && given.combine != graph::Combine::sum) {
            return fmt::format("factor '+': operand {} '{}' is partial, but not as a sum", i,
                               tensor.name);
        }
        if (given.summands != wanted.summands) {
            return fmt::format("factor '+': operand {} '{}' comes in {} summands, not in {}", i,
                               tensor.name, given.summands, wanted.summands);
        }
    }
    return std::nullopt;
}

std::string named(const Problem& problem, OpId op, const std::string& fault) {
    return fmt::format("op '{}' ({}): {}", problem.graph().op(op).name, problem.graph().op(op).type,
                       fault);
}

Fault find_group_fault(const Problem& problem, const Strategy& strategy) {
    for (const auto& group : problem.constraints().together()) {
        for (const OpId op : group) {
            if (strategy.config(op).devices == strategy.config(group.front()).devices) continue;
            return fmt::format("ops '{}' and '{}' must share their devices",
                               problem.graph().op(group.front()).name, problem.graph().op(op).name);
        }
    }
    return std::nullopt;
}

/// All of a region runs again, or nothing; what the policy says of all blocks holds for each.
Fault find_recompute_fault(const Problem& problem, const Strategy& strategy) {
    const Recompute said = problem.policy().recompute;
    std::vector<Recompute> expected(problem.graph().op_count(), Recompute::none);
    for (const LayerBlock& block : problem.facts().recompute().blocks()) {
        const bool is_free = said == Recompute::automatic;
        const RecomputeRegion* const region =
            block.region(is_free ? recompute_of(block, strategy) : said);
        if (region == nullptr) continue;
        for (const OpId op : region->ops) expected[op.index()] = region->choice;
    }
    for (std::size_t i = 0; i < expected.size(); ++i) {
        const Recompute found = strategy.ops[i].recompute;
        if (found == expected[i]) continue;
        return named(problem, OpId(i),
                     fmt::format("recompute: expected \"{}\", as its layer block and --recompute "
                                 "{} have it, got \"{}\"",
                                 name_of(expected[i]), name_of(said), name_of(found)));
    }
    return std::nullopt;
}

Fault find_op_fault(const Problem& problem, OpId op, const OpConfig& config, int micro_batches,
                    Checked& checked) {
    const graph::OpRule& rule = problem.facts().rule(op);
    if (!config.axes.empty()) {
        if (Fault fault = find_split_fault(problem, op)) return fault;
    }
    for (const Axis& axis : config.axes) {
        if (Fault fault = find_axis_fault(problem, op, axis)) return fault;
    }
    if (Fault fault = find_device_fault(problem, op, config, checked)) return fault;
    if (Fault fault = find_mixed_combination(rule, config)) return fault;
    // All micro-batches are as large as the first, but for the last.
    for (const int m : {0, micro_batches - 1}) {
        const graph::Box base = micro_batch_box(problem.facts(), op, micro_batches, m);
        if (Fault fault = find_empty_part(rule, config, base)) return fault;
    }
    return std::nullopt;
}

}  // namespace

Fault find_split_fault(const Problem& problem, OpId op) {
    if (problem.constraints().whole_ops()) return "is split, but ops stay whole here (--dims O)";
    if (problem.graph().op(op).given) return "is split, but its costs are given for the whole";
    return std::nullopt;
}

std::string unknown_axis(std::string_view name) {
    const bool blocks = name.find('/') != std::string_view::npos;
    return fmt::format("factor '{}': {}", name,
                       name.starts_with('+') ? "the op is linear in no such operand"
                       : blocks ? "the op has no factor of so many equal blocks (2 or more)"
                                : "the op has no such factor");
}

Fault find_fault(const Problem& problem, OpId op, const OpConfig& config, int micro_batches) {
    Checked checked;
    return find_op_fault(problem, op, config, micro_batches, checked);
}

Fault find_fault(const Problem& problem, const Strategy& strategy) {
    const int micro_batches = strategy.policy.micro_batches;
    if (Fault fault = find_batch_fault(problem.facts(), micro_batches)) return fault;
    Checked checked;
    for (std::size_t i = 0; i < problem.graph().op_count(); ++i) {
        const OpId op(i);
        if (Fault fault = find_op_fault(problem, op, strategy.config(op), micro_batches, checked)) {
            return named(problem, op, *fault);
        }
        const OpConfig& update = strategy.update(op).update;
        if (update.devices.empty()) continue;
        if (Fault fault = find_op_fault(problem, op, update, micro_batches, checked)) {
            return named(problem, op, "update: " + *fault);
        }
    }
    for (std::size_t i = 0; i < problem.graph().op_count(); ++i) {
        if (Fault fault = find_summand_fault(problem.facts(), strategy, OpId(i))) {
            return named(problem, OpId(i), *fault);
        }
    }
    if (Fault fault = find_recompute_fault(problem, strategy)) return fault;
    if (Fault fault = find_group_fault(problem, strategy)) return fault;
    return find_schedule_fault(problem, strategy);
}

}  // namespace partita::plan
