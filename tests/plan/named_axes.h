// SPDX-License-Identifier: Apache-2.0
//
// Axes by name, as plan.json has them: {{"m", 2}, {"*", 2}}.
#pragma once

#include <vector>

#include "graph/op_graph.h"
#include "graph/operators/op_rule.h"
#include "plan/files/plan_file.h"
#include "plan/strategy/axis.h"

namespace partita::plan {

using AxisNames = std::vector<PlannedAxis>;

/// Throws where the rule has no axis of such a name.
inline std::vector<Axis> axes_named(const graph::OpRule& rule, const AxisNames& names) {
    std::vector<Axis> axes;
    for (const PlannedAxis& named : names) {
        axes.push_back(axis_of(rule, named.factor, named.degree).value());
    }
    return axes;
}

inline std::vector<Axis> axes_named(const graph::OpGraph& graph, graph::OpId op,
                                    const AxisNames& names) {
    return axes_named(graph::rule_of(graph, op), names);
}

inline AxisNames names_of(const graph::OpRule& rule, const std::vector<Axis>& axes) {
    AxisNames names;
    for (const Axis& axis : axes) names.push_back({name_of(rule, axis), axis.degree});
    return names;
}

}  // namespace partita::plan
