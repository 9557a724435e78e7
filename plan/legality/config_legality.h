// SPDX-License-Identifier: Apache-2.0
//
// Legal configs: what a strategy may say of an op. One place, so that searchers, verify() and the
// reader of plans agree.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"

namespace partita::plan {

/// Why the op cannot be split in any way; nothing when it can.
std::optional<std::string> find_split_fault(const Problem& problem, graph::OpId op);

/// Why there is no such axis, of a name of which axis_of() finds none: "factor 'q': ...".
std::string unknown_axis(std::string_view name);

/// Why the op cannot be split that way, as "factor 'k': ..."; nothing when it can. Checked: factors
/// exist and may be split, no part is empty in any micro-batch, one distinct device per part.
std::optional<std::string> find_fault(const Problem& problem, graph::OpId op,
                                      const OpConfig& config, int micro_batches);

/// Why the strategy is illegal, naming the op: the above for every op and update, allowed devices,
/// groups that must stay together, what is recomputed (recompute_regions.h), partial tensors that
/// meet an op which needs them whole, micro-batches (micro_batches.h), and what the schedule asks
/// for (stages.h).
std::optional<std::string> find_fault(const Problem& problem, const Strategy& strategy);

}  // namespace partita::plan
