// SPDX-License-Identifier: Apache-2.0
//
// Learned placers as the rest of Partita sees them: a library that is loaded only when a search
// names `rl` or `rl-hierarchical` (api/learned_library.h). Nothing in this header needs LibTorch.
//
// Errors: InputError for a policy file that cannot be read, is corrupt or of another version,
// naming the file; UsageError for options that do not fit together.
#pragma once

#include <cstdint>
#include <filesystem>

#include "search/portfolio/learned.h"

namespace partita::rl {

struct LearnOptions {
    std::filesystem::path load_policy;  ///< start from it; empty: from random weights
    std::filesystem::path save_policy;  ///< after the search; empty: nowhere
    bool zero_shot = false;       ///< sample only, weights stay as they are; needs load_policy
    std::filesystem::path curve;  ///< learning curve, FILE.csv; empty: none
    /// Of the curve, beside it.
    [[nodiscard]] std::filesystem::path picture() const {
        return curve.empty() ? curve : std::filesystem::path(curve).replace_extension(".svg");
    }
};

/// What the shared library shows to who loads it, `extern "C"`. The caller owns the result. Throws
/// as above.
inline constexpr const char* kMakeLearned = "partita_make_learned";
using MakeLearned = search::LearnedSearchers* (*)(const LearnOptions& options);

}  // namespace partita::rl
