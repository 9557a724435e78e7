// SPDX-License-Identifier: Apache-2.0
//
// Learning by reinforcement: weights move so that what was better than expected gets more probable.
//
//     loss = mean over episodes of   - advantage * log p(choices) / steps        REINFORCE
//            + elite_weight * mean over elites of  - log p(choices) / steps      imitation of the best so far
//            - entropy * mean entropy of the heads
//
// Advantage: reward less the mean of the batch, which is of one graph, over the spread of the
// batch.
//
// A step whose loss, gradient or weights are not finite is undone: weights go back to the last that
// were, the optimizer starts anew with half the rate.
//
// Deterministic for a seed on one kind of CPU: one thread, no atomics.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <torch/optim/adam.h>

#include "rl/learner_options.h"
#include "rl/policy_net.h"
#include "rl/sampler.h"

namespace partita::rl {

/// What a step did, for curves.
struct LearnerStep {
    double expected = 0;  ///< a reward: the exponential mean of the policy's own samples so far
    double entropy = 0;   ///< per decision, in nats
    bool undone = false;
};

class Learner {
public:
    /// Space and prices must outlive it.
    /// `net`: to start from, of which it learns a copy; null: first weights, drawn with `seed`.
    Learner(ActionSpace& space, OptionPrices& prices, LearnerOptions options,
            std::shared_ptr<PolicyNet> net, std::uint64_t seed);
    ~Learner();

    /// A batch to learn from: own samples, then whims.
    Batch sample(std::int64_t count, search::Random& random);
    /// Samples of the policy alone, the first ones greedy.
    Batch sample_policy(std::int64_t count, std::int64_t greedy, search::Random& random);
    /// `rewards`: per episode of the batch, finite; larger is better. `spent`: share of the budget.
    LearnerStep learn(const Batch& batch, std::span<const double> rewards, double spent);
    /// Imitated from now on, in place of the worst of the elites. Known choices are not taken
    /// twice.
    void add_elite(const Batch& batch, std::size_t episode, double reward);
    /// The same of choices that the policy did not draw. Not with groups.
    void add_elite(const Choices& choices, double reward);

    [[nodiscard]] const std::shared_ptr<PolicyNet>& net() const { return net_; }
    [[nodiscard]] int restarts() const { return restarts_; }

private:
    struct Elite {
        Choices choices;
        double reward = 0;
        Episodes episodes;  ///< one
    };

    [[nodiscard]] bool is_elite(const Choices& choices, double reward) const;
    void put_elite(Elite elite);

    std::vector<double> advantages(std::span<const double> rewards);
    Episodes with_elites(const Batch& batch) const;
    bool update(Episodes& episodes, std::span<const double> advantages, double spent,
                LearnerStep& step);
    void keep();
    void go_back();

    ActionSpace& space_;
    Sampler sampler_;
    LearnerOptions options_;
    GraphTensors graph_;
    std::shared_ptr<PolicyNet> net_;
    std::unique_ptr<torch::optim::Adam> optimizer_;
    std::vector<Elite> elites_;
    std::vector<torch::Tensor> good_;  ///< the last weights that were finite
    std::optional<double> expected_;
    double rate_;
    int steps_ = 0;
    int restarts_ = 0;
};

}  // namespace partita::rl
