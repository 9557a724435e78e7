// SPDX-License-Identifier: Apache-2.0
//
// The progress of a search, shown ten times a second at most.
#pragma once

#include <optional>

#include "cli/console.h"
#include "cli/progress_line.h"
#include "search/core/engine.h"
#include "search/support/clock.h"

namespace partita::cli {

class ProgressBar {
public:
    /// Shows the share of the larger of time and evaluations that is spent, where they are limited,
    /// and else how far the searcher is.
    ProgressBar(Console& console, const search::EngineOptions& budget);

    void show(const search::Progress& progress);

private:
    [[nodiscard]] double spent(const search::Progress& progress) const;

    ProgressLine line_;
    std::optional<search::Duration> time_limit_;
    std::optional<std::int64_t> evaluations_;
    std::optional<search::Duration> last_;
};

}  // namespace partita::cli
