// SPDX-License-Identifier: Apache-2.0
//
// What the shared library shows to who loads it.
#include <memory>
#include <string_view>

#include "rl/learner.h"
#include "rl/learning_curve.h"
#include "rl/rl.h"
#include "rl/rl_search.h"

namespace partita::rl {
namespace {

class Learners final : public search::LearnedSearchers {
public:
    explicit Learners(const LearnOptions& options) : options_(options) {}

    std::unique_ptr<search::Searcher> make(std::string_view /*name*/,
                                           search::Engine& /*engine*/) override {
        return std::make_unique<RlSearch>(LearnerOptions{}, &curve_);
    }

    void finish() override {}

private:
    LearnOptions options_;
    LearningCurve curve_;
};

}  // namespace
}  // namespace partita::rl

extern "C" partita::search::LearnedSearchers* partita_make_learned(
    const partita::rl::LearnOptions& options) {
    return new partita::rl::Learners(options);
}
