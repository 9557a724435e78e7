// SPDX-License-Identifier: Apache-2.0
//
// How a tensor takes part in one axis of its op's config. Everything about layouts follows from it.
// Source: RULES.md 4, 7, 8, 10, 11.
#pragma once

#include <cstddef>
#include <cstdint>

#include "graph/operators/op_rule.h"
#include "plan/layout/layout.h"

namespace partita::plan {

enum class Role : std::uint8_t {
    shared,      ///< the axis cuts its region, or leaves every part the same
    addend,      ///< every part holds one summand
    first_only,  ///< only the first part along the axis has it
};

Role role_of(const graph::OpRule& rule, const Axis& axis, Side side, std::size_t index);

/// How the summands of an axis that makes `Role::addend` combine.
graph::Combine combine_of(const graph::OpRule& rule, const Axis& axis, Side side);

}  // namespace partita::plan
