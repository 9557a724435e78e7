// SPDX-License-Identifier: Apache-2.0
//
// How a policy is built and learns, as options of a program: for ablations.
#pragma once

#include <CLI/CLI.hpp>

#include "rl/learner_options.h"

namespace partita::bench {

inline void add_learner_flags(CLI::App& app, rl::LearnerOptions& learner) {
    app.add_option("--batch", learner.batch);
    app.add_option("--groups", learner.net.groups);
    app.add_option("--rate", learner.rate);
    app.add_option("--entropy", learner.entropy);
    app.add_option("--elites", learner.elites);
    app.add_option("--elite-weight", learner.elite_weight);
    app.add_option("--hidden", learner.net.hidden);
    app.add_option("--explore", learner.explore);
    app.add_option("--whim", learner.whim);
    app.add_option("--prior", learner.net.prior);
}

}  // namespace partita::bench
