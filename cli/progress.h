// SPDX-License-Identifier: Apache-2.0
//
// The progress bar on stderr: one line that is written over, ten times a second at most, and wiped
// at the end. Only on a terminal, and not with --quiet.
#pragma once

#include <iosfwd>
#include <optional>

#include "cli/console.h"
#include "search/clock.h"
#include "search/engine.h"

namespace partita::cli {

class ProgressBar {
public:
    /// Shows the share of the larger of time and evaluations that is spent, where they are limited.
    ProgressBar(Console& console, const search::EngineOptions& budget);
    ~ProgressBar();
    ProgressBar(const ProgressBar&) = delete;
    ProgressBar& operator=(const ProgressBar&) = delete;

    void show(const search::Progress& progress);

private:
    [[nodiscard]] double spent(const search::Progress& progress) const;

    std::ostream& err_;
    Terminal terminal_;
    bool enabled_;
    bool shown_ = false;
    std::optional<search::Duration> time_limit_;
    std::optional<std::int64_t> evaluations_;
    std::optional<search::Duration> last_;
};

}  // namespace partita::cli
