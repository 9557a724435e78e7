// SPDX-License-Identifier: Apache-2.0
#include "cli/learning_options.h"

namespace partita::cli {

void add_learning_options(CLI::App& app, rl::LearnOptions& options) {
    constexpr const char* kGroup = "Searchers that learn (rl, rl-hierarchical)";
    app.add_option("--load-policy", options.load_policy,
                   "start from what was learned before, of this or another model")
        ->type_name("FILE")
        ->group(kGroup);
    app.add_option("--save-policy", options.save_policy, "write what was learned")
        ->type_name("FILE")
        ->group(kGroup);
    app.add_flag("--zero-shot", options.zero_shot, "sample from the policy loaded, learn nothing")
        ->group(kGroup);
    app.add_option("--learning-curve", options.curve,
                   "write how learning went, and a picture FILE.svg beside it")
        ->type_name("FILE.csv")
        ->group(kGroup);
}

}  // namespace partita::cli
