// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "cli/table.h"

namespace partita::cli {

using namespace std::chrono_literals;

ProgressBar::ProgressBar(Console& console, const search::EngineOptions& budget, std::string label)
    : line_(console),
      label_(std::move(label)),
      time_limit_(budget.time_limit),
      evaluations_(budget.evaluations) {}

double ProgressBar::spent(const search::Progress& progress) const {
    double share = time_limit_ || evaluations_ ? 0 : progress.done;
    if (time_limit_ && time_limit_->count() > 0) {
        share = static_cast<double>(progress.elapsed.count()) /
                static_cast<double>(time_limit_->count());
    }
    if (evaluations_ && *evaluations_ > 0) {
        share = std::max(
            share, static_cast<double>(progress.evaluations) / static_cast<double>(*evaluations_));
    }
    return share;
}

void ProgressBar::show(const search::Progress& progress) {
    if (!line_.enabled() || (last_ && progress.elapsed - *last_ < 100ms)) return;
    last_ = progress.elapsed;
    std::string text = fmt::format("{}{}  {}", label_, progress.searcher,
                                   count_of(progress.evaluations, "evaluation"));
    if (!progress.detail.empty()) text += fmt::format("  {}", progress.detail);
    if (progress.measured) {
        text += fmt::format("  best measured {}", to_text(*progress.measured));
    } else if (progress.best) {
        text += fmt::format("  best {}", to_text(*progress.best));
        if (progress.lower_bound > Time{0}) {
            text += fmt::format("  gap {}", percent(*progress.best / progress.lower_bound - 1));
        }
    } else {
        text += fmt::format("  {} short of memory", to_text(progress.overflow));
    }
    line_.show(spent(progress), text);
}

search::SearchResult run_search(const plan::Problem& problem, search::EngineOptions options,
                                const Interrupt& interrupt, Console& console,
                                const std::string& label) {
    ProgressBar bar(console, options, label);
    options.progress = [&bar](const search::Progress& progress) { bar.show(progress); };
    options.cancelled = &interrupt.flag();
    return search::search(problem, std::move(options));
}

}  // namespace partita::cli
