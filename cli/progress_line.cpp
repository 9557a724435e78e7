// SPDX-License-Identifier: Apache-2.0
#include "cli/progress_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ostream>

#include "cli/table.h"

namespace partita::cli {

ProgressLine::ProgressLine(Console& console)
    : err_(console.err()),
      terminal_(Console::stderr_terminal()),
      enabled_(terminal_.is_terminal && !console.options.quiet) {}

ProgressLine::~ProgressLine() {
    if (shown_) err_ << "\r\033[K" << std::flush;
}

void ProgressLine::show(double share, const std::string& text) {
    if (!enabled_) return;
    shown_ = true;
    constexpr int kBarWidth = 20;
    const int full = static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * kBarWidth));
    std::string line = "[";
    for (int i = 0; i < kBarWidth; ++i) {
        line += i < full ? (terminal_.unicode ? "█" : "#") : (terminal_.unicode ? "░" : ".");
    }
    line += fmt::format("] {}", text);
    // A line that wraps cannot be written over.
    const auto width = static_cast<std::size_t>(std::max(terminal_.width, 1)) - 1;
    err_ << '\r' << beginning(line, width) << "\033[K" << std::flush;
}

}  // namespace partita::cli
