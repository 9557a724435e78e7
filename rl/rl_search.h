// SPDX-License-Identifier: Apache-2.0
//
// `rl`: a policy that learns to place by trying. Every step draws a batch of placements, has them
// priced, and moves the policy's weights towards what was better than expected (learner.h):
//
//     policy ── batch of strategies ──▶ Engine::evaluate() ── values ──▶ rewards ──▶ policy
//        ▲                                                      └─ the best are imitated ──┘
//
//     reward = - sqrt(value / lower bound)                            of a plan that fits
//            = the worst so far - 1 - bytes too many / bytes there are    of one that does not
//
// With EngineOptions::measure the value of a plan is the time that it took, and one that failed
// counts as one that does not fit.
//
// Without learning (zero shot) the same policy draws all batches, the first placement being the one
// that it holds to be best.
//
// In a portfolio the best plan before it is imitated from the beginning.
//
// Optimal: no. Ends: with the budget; without one after kSamples; when batches bring nothing new
// any more.
// Source: Mirhoseini et al. 2017 (ColocRL) and its successors; REFERENCES.md 7. Differs: splits
// beside devices, features of the partial placement, the batch as baseline, imitation of the best.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "plan/evaluation/evaluator.h"
#include "rl/learner_options.h"
#include "rl/learning_curve.h"
#include "search/core/searcher.h"
#include "search/support/clock.h"

namespace partita::rl {

class ActionSpace;
class Learner;
class OptionPrices;
class PolicyNet;
struct Batch;
struct LearnerStep;

struct RlOptions {
    LearnerOptions learner;
    std::shared_ptr<PolicyNet> policy;  ///< to start from, stays as it is; null: first weights
    bool zero_shot = false;             ///< nothing is learned
};

/// What is left of a search when it has ended.
struct Lessons {
    std::shared_ptr<PolicyNet> policy;  ///< null: nothing was to be decided
    LearningCurve curve;
};

class RlSearch final : public search::Searcher {
public:
    static constexpr std::int64_t kSamples = 20'000;
    static constexpr std::int64_t kZeroShots = 256;

    /// `lessons` must outlive it.
    RlSearch(RlOptions options, Lessons& lessons);
    ~RlSearch() override;

    [[nodiscard]] search::Status step(search::Engine& engine) override;

private:
    void open(search::Engine& engine);
    void imitate_best(search::Engine& engine);
    /// Of the first episodes of the batch, as many as the budget grants.
    std::vector<plan::Evaluation> price(search::Engine& engine, const Batch& batch);
    [[nodiscard]] std::vector<double> rewards(const std::vector<plan::Evaluation>& evaluations);
    void fit(search::Engine& engine, const Batch& batch);
    void note(search::Engine& engine, const std::vector<plan::Evaluation>& evaluations,
              const LearnerStep& step);
    [[nodiscard]] std::int64_t most_samples() const {
        return options_.zero_shot ? kZeroShots : kSamples;
    }

    RlOptions options_;
    Lessons& lessons_;
    std::unique_ptr<ActionSpace> space_;
    std::unique_ptr<OptionPrices> prices_;
    std::unique_ptr<Learner> learner_;
    std::unordered_map<std::string, plan::Evaluation> known_;  ///< by choices; looked up only
    double scale_ = 0;                                         ///< value that has reward -1
    double worst_ = -1;                                        ///< reward of a plan that fits
    double capacity_ = 1;                                      ///< bytes of all devices
    std::int64_t samples_ = 0;
    std::int64_t idle_ = 0;  ///< batches in a row that were all known
    search::Duration begin_{0};
    std::optional<Time> best_;  ///< as rewarded
};

}  // namespace partita::rl
