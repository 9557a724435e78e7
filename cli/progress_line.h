// SPDX-License-Identifier: Apache-2.0
//
// The progress bar on stderr: one line that is written over and wiped at the end. Only on a
// terminal, and not with --quiet.
#pragma once

#include <iosfwd>
#include <string>

#include "cli/console.h"

namespace partita::cli {

class ProgressLine {
public:
    explicit ProgressLine(Console& console);
    ~ProgressLine();
    ProgressLine(const ProgressLine&) = delete;
    ProgressLine& operator=(const ProgressLine&) = delete;

    [[nodiscard]] bool enabled() const { return enabled_; }
    /// `share`: how much is done, 0 to 1.
    void show(double share, const std::string& text);

private:
    std::ostream& err_;
    Terminal terminal_;
    bool enabled_;
    bool shown_ = false;
};

}  // namespace partita::cli
