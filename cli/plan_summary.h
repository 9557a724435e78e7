// SPDX-License-Identifier: Apache-2.0
//
// What `plan` tells of a search: to people, to programs (--json), and as a page (--report).
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "api/pricing.h"
#include "cli/console.h"
#include "cli/exit_code.h"
#include "cli/load.h"
#include "cli/model_facts.h"
#include "plan/description/throughput.h"
#include "search/portfolio/search_run.h"

namespace partita::cli {

class PlanSummary {
public:
    /// Keeps references to both.
    PlanSummary(const Loaded& loaded, const search::SearchResult& result);

    [[nodiscard]] std::string text(const plan::Priced& priced, const Console& console) const;
    /// The keys that `--json` promises. `plan_file` is "" when none was written, `priced` null when
    /// there is no plan.
    [[nodiscard]] nlohmann::ordered_json json(const std::string& plan_file,
                                              const plan::Priced* priced) const;
    [[nodiscard]] std::string page(const plan::Priced& priced) const;

private:
    [[nodiscard]] std::string result_line() const;
    [[nodiscard]] std::string search_line(const plan::TaskGraph& graph) const;
    [[nodiscard]] std::string numerical_line() const;
    [[nodiscard]] std::string measured_line() const;
    [[nodiscard]] std::string notes_lines() const;
    [[nodiscard]] std::string baselines_line() const;
    [[nodiscard]] std::string strategy_text() const;
    [[nodiscard]] plan::Throughput throughput() const;
    [[nodiscard]] plan::CostCounts counts_of(const plan::Priced& priced) const;

    const Loaded& loaded_;
    const search::SearchResult& result_;
    ModelFacts facts_;
};

/// Says of a search without a plan why there is none, and by what is short.
ExitCode report_no_plan(const search::SearchResult& result, bool interrupted, Console& console);

}  // namespace partita::cli
