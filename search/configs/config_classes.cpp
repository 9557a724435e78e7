// SPDX-License-Identifier: Apache-2.0
#include "search/configs/config_classes.h"

#include <map>

namespace partita::search {

using graph::OpId;
using plan::Problem;

namespace {

/// Written out, not hashed, so that equal means equal.
std::vector<std::int64_t> legality_of(const Problem& problem, OpId op,
                                      const std::vector<FactorBlocks>& blocks) {
    std::vector<std::int64_t> all{problem.graph().op(op).given ? 1 : 0,
                                  problem.facts().is_batched(op) ? 1 : 0};
    const auto add = [&](std::int64_t value) { all.push_back(value); };
    const graph::OpRule& rule = problem.facts().rule(op);
    add(static_cast<std::int64_t>(rule.factors.size()));
    for (std::size_t f = 0; f < rule.factors.size(); ++f) {
        const graph::Factor& factor = rule.factors[f];
        add(static_cast<std::int64_t>(factor.name.size()));
        all.insert(all.end(), factor.name.begin(), factor.name.end());
        add(factor.extent);
        // Whether it may be split in blocks depends on where it lies in operands and results.
        const bool in_blocks = has_axis(rule, plan::Axis::along(f, 2, factor.extent));
        add((factor.splittable ? 1 : 0) + (factor.reduction ? 2 : 0) +
            (problem.constraints().may_split(op, f) ? 4 : 0) + (in_blocks ? 8 : 0));
        add(static_cast<std::int64_t>(factor.combine));
    }
    add(static_cast<std::int64_t>(rule.operands.size()));
    for (const graph::TensorRule& operand : rule.operands) add(operand.linear ? 1 : 0);
    const auto& digits = problem.facts().batch_digits(op);
    add(static_cast<std::int64_t>(digits.size()));
    for (const graph::BatchDigit& digit : digits) {
        add(digit.stride);
        add(digit.extent);
    }
    add(static_cast<std::int64_t>(blocks.size()));
    for (const FactorBlocks& of : blocks) {
        add(of.factor);
        add(of.blocks);
    }
    const std::vector<int>& allowed = problem.constraints().allowed_devices(op);
    const bool all_devices = allowed.size() == static_cast<std::size_t>(problem.device_count());
    if (!all_devices) all.insert(all.end(), allowed.begin(), allowed.end());
    return all;
}

}  // namespace

ConfigClasses::ConfigClasses(const Problem& problem,
                             const std::vector<std::vector<FactorBlocks>>& blocks) {
    std::map<std::vector<std::int64_t>, std::uint32_t> known;
    for (std::size_t i = 0; i < problem.graph().op_count(); ++i) {
        const OpId op(i);
        const auto next = static_cast<std::uint32_t>(examples_.size());
        const auto [found, is_new] = known.emplace(legality_of(problem, op, blocks[i]), next);
        if (is_new) examples_.push_back(op);
        of_.push_back(found->second);
    }
}

}  // namespace partita::search
