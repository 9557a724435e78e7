// SPDX-License-Identifier: Apache-2.0
#include "api/learned_library.h"

#include <fmt/format.h>

#include "api/shared_library.h"
#include "base/error.h"
#include "search/portfolio/searcher_table.h"

namespace partita::api {
namespace {

/// An option that was given; "": none.
const char* given(const LearningOptions& options) {
    if (options.reward) return "--reward";
    if (!options.load_policy.empty()) return "--load-policy";
    if (!options.save_policy.empty()) return "--save-policy";
    if (options.zero_shot) return "--zero-shot";
    return options.curve.empty() ? "" : "--learning-curve";
}

}  // namespace

void check_learning(const LearningOptions& options, std::span<const std::string> searchers) {
    const std::string option = given(options);
    if (option.empty()) return;
    if (!search::any_learned(searchers)) {
        throw UsageError(fmt::format(
            "{}: none of the searchers learns. Add --searcher rl or rl-hierarchical.", option));
    }
    if (options.measured() && !search::any_learned(searchers.last(1))) {
        throw UsageError(
            fmt::format("--reward measured: searcher {} goes by predicted times. Name rl or "
                        "rl-hierarchical last.",
                        searchers.back()));
    }
    if (options.zero_shot && options.load_policy.empty()) {
        throw UsageError(
            "--zero-shot: uses what was learned before. Add --load-policy with a file that "
            "--save-policy wrote.");
    }
    if (options.zero_shot && !options.save_policy.empty()) {
        throw UsageError(
            "--zero-shot: nothing is learned, so there is nothing to save. Leave --save-policy "
            "out, "
            "or --zero-shot.");
    }
    if (!options.curve.empty() && options.curve.extension() != ".csv") {
        throw UsageError(
            fmt::format("--learning-curve {}: expected a name that ends in .csv; a picture is "
                        "written beside it, with .svg in its place.",
                        options.curve.string()));
    }
}

std::vector<Output> outputs_of(const rl::LearnOptions& options) {
    return {{"--save-policy", options.save_policy, options.load_policy},
            {"--learning-curve", options.curve},
            {"--learning-curve", options.picture()}};
}

std::unique_ptr<search::LearnedSearchers> load_learned(const rl::LearnOptions& options,
                                                       std::span<const std::string> searchers) {
    if (!search::any_learned(searchers)) return nullptr;
    void* const make = function_of(PARTITA_RL_LIBRARY, rl::kMakeLearned,
                                   "this installation has no searchers that learn");
    return std::unique_ptr<search::LearnedSearchers>(
        reinterpret_cast<rl::MakeLearned>(make)(options));
}

}  // namespace partita::api
