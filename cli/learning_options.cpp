// SPDX-License-Identifier: Apache-2.0
#include "cli/learning_options.h"

#include <string>

#include <fmt/format.h>

#include "base/error.h"

namespace partita::cli {
namespace {

Reward parse_reward(const std::string& text) {
    if (text == "simulated") return Reward::simulated;
    if (text == "measured") return Reward::measured;
    throw UsageError(fmt::format("--reward {}: unknown. There is: simulated, measured.", text));
}

}  // namespace

void add_learning_options(CLI::App& app, api::LearningOptions& options) {
    constexpr const char* kGroup = "Searchers that learn (rl, rl-hierarchical)";
    app.add_option_function<std::string>(
           "--reward", [&options](const std::string& text) { options.reward = parse_reward(text); },
           "what they are told of a plan: its predicted time (simulated, default), or what it "
           "takes "
           "on this host (measured)")
        ->type_name("TIME")
        ->group(kGroup);
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
