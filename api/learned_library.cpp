// SPDX-License-Identifier: Apache-2.0
#include "api/learned_library.h"

#include <fmt/format.h>

#include "api/option_table.h"
#include "api/shared_library.h"
#include "base/error.h"
#include "search/portfolio/searcher_table.h"

namespace partita::api {
namespace {

/// The first option of learning that was given; "": none.
std::string given(const PlanOptions& options) {
    for (const OptionRow& row : option_table()) {
        if (row.set == OptionSet::learning && row.write(options)) return std::string(row.option);
    }
    return "";
}

}  // namespace

void check_learning(const PlanOptions& options, std::span<const std::string> searchers) {
    const std::string option = given(options);
    if (option.empty()) return;
    if (!search::any_learned(searchers)) {
        throw UsageError(fmt::format(
            "{}: none of the searchers learns. Add --searcher rl or rl-hierarchical.", option));
    }
    if (options.reward == Reward::measured && !search::any_learned(searchers.last(1))) {
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
    if (!options.learning_curve.empty() && options.learning_curve.extension() != ".csv") {
        throw UsageError(
            fmt::format("--learning-curve {}: expected a name that ends in .csv; a picture is "
                        "written beside it, with .svg in its place.",
                        options.learning_curve.string()));
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
