// SPDX-License-Identifier: Apache-2.0
//
// Two plans of one model, side by side: `compare PLAN PLAN MODEL`.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/planned.h"
#include "graph/ids.h"
#include "plan/description/communication.h"
#include "plan/description/parallelism.h"
#include "plan/description/throughput.h"
#include "plan/evaluation/priced.h"
#include "plan/strategy/strategy.h"

namespace partita::cli {

/// A plan with all that is told of it.
struct ComparedPlan {
    std::string name;  ///< of its file
    Planned planned;
    plan::Strategy strategy;
    plan::Priced priced;
    plan::Parallelism parallelism;
    plan::Throughput throughput;
    std::vector<plan::Communication> communication;
};

/// Priced in the plan's order. Throws as load_planned() does.
ComparedPlan compared_plan(const PlannedOptions& options, Console& console);

class PlanComparison {
public:
    /// Throws MismatchError when the two are plans of graphs with other ops.
    PlanComparison(const ComparedPlan& a, const ComparedPlan& b);

    /// What both are, what differs, and the first ops that do.
    [[nodiscard]] std::string text(const Console& console) const;
    [[nodiscard]] nlohmann::ordered_json json() const;

private:
    [[nodiscard]] std::string figures() const;
    [[nodiscard]] std::string strategies() const;
    [[nodiscard]] std::string ops(std::size_t most) const;

    const ComparedPlan& a_;
    const ComparedPlan& b_;
    std::vector<graph::OpId> different_;  ///< ops that lie elsewhere or are split otherwise
};

}  // namespace partita::cli
