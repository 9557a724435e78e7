// SPDX-License-Identifier: Apache-2.0
//
// A search as commands run it: its progress shown ten times a second at most, and Ctrl-C ends it.
#pragma once

#include <optional>
#include <string>

#include "cli/console.h"
#include "cli/interrupt.h"
#include "cli/progress_line.h"
#include "plan/problem/problem.h"
#include "search/core/engine.h"
#include "search/portfolio/search_run.h"
#include "search/support/clock.h"

namespace partita::cli {

class ProgressBar {
public:
    /// Shows the share of the larger of time and evaluations that is spent, where they are limited,
    /// and else how far the searcher is.
    /// `label` stands before what the searcher says.
    ProgressBar(Console& console, const search::EngineOptions& budget, std::string label = "");

    void show(const search::Progress& progress);

private:
    [[nodiscard]] double spent(const search::Progress& progress) const;

    ProgressLine line_;
    std::string label_;
    std::optional<search::Duration> time_limit_;
    std::optional<std::int64_t> evaluations_;
    std::optional<search::Duration> last_;
};

/// search::search(), and its errors; interrupted, it ends with the best plan so far.
search::SearchResult run_search(const plan::Problem& problem, search::EngineOptions options,
                                const Interrupt& interrupt, Console& console,
                                const std::string& label = "");

}  // namespace partita::cli
