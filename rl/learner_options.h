// SPDX-License-Identifier: Apache-2.0
//
// How a policy is built (policy_net.h) and how it learns (learner.h). Needs no LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>

namespace partita::rl {

struct NetOptions {
    std::int64_t hidden = 64;   ///< even
    std::int64_t groups = 0;    ///< > 0: decisions are put into so many groups first (hierarchical)
    double tanh_constant = 10;  ///< C
    double temperature = 1;
    double prior =
        4;  ///< > 0: begins as an earliest-finish list schedule, in probability; 0: as chance
};

struct LearnerOptions {
    NetOptions net;
    std::int64_t batch = 16;
    double rate = 5e-3;
    double gradient_norm = 1;  ///< gradients are clipped to it
    double entropy = 0.01;     ///< at the beginning; falls to 0 with the budget
    std::size_t elites = 4;
    double elite_weight = 0.3;
    double explore = 0.375;  ///< share of a batch that is drawn with a whim (draws.h)
    double whim = 3;         ///< its standard deviation
};

}  // namespace partita::rl
