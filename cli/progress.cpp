// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ostream>
#include <string>

#include "cli/table.h"

namespace partita::cli {

using namespace std::chrono_literals;

ProgressBar::ProgressBar(Console& console, const search::EngineOptions& budget)
    : err_(console.err()),
      terminal_(Console::stderr_terminal()),
      enabled_(terminal_.is_terminal && !console.options.quiet),
      time_limit_(budget.time_limit),
      evaluations_(budget.evaluations) {}

ProgressBar::~ProgressBar() {
    if (shown_) err_ << "\r\033[K" << std::flush;
}

double ProgressBar::spent(const search::Progress& progress) const {
    double share = 0;
    if (time_limit_ && time_limit_->count() > 0) {
        share = static_cast<double>(progress.elapsed.count()) /
                static_cast<double>(time_limit_->count());
    }
    if (evaluations_ && *evaluations_ > 0) {
        share = std::max(
            share, static_cast<double>(progress.evaluations) / static_cast<double>(*evaluations_));
    }
    return std::clamp(share, 0.0, 1.0);
}

void ProgressBar::show(const search::Progress& progress) {
    if (!enabled_ || (last_ && progress.elapsed - *last_ < 100ms)) return;
    last_ = progress.elapsed;
    shown_ = true;
    constexpr int kBarWidth = 20;
    const int full = static_cast<int>(std::lround(spent(progress) * kBarWidth));
    std::string line = "[";
    for (int i = 0; i < kBarWidth; ++i) {
        line += i < full ? (terminal_.unicode ? "█" : "#") : (terminal_.unicode ? "░" : ".");
    }
    line +=
        fmt::format("] {}  {}", progress.searcher, count_of(progress.evaluations, "evaluation"));
    if (progress.best) {
        line += fmt::format("  best {}", to_text(*progress.best));
        if (progress.lower_bound > Time{0}) {
            line += fmt::format("  gap {}", percent(*progress.best / progress.lower_bound - 1));
        }
    } else {
        line += fmt::format("  {} short of memory", to_text(progress.overflow));
    }
    // A line that wraps cannot be written over.
    if (display_width(line) < static_cast<std::size_t>(terminal_.width)) {
        err_ << '\r' << line << "\033[K" << std::flush;
    }
}

}  // namespace partita::cli
