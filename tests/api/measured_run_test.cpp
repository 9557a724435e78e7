// SPDX-License-Identifier: Apache-2.0
//
// Measured rewards of the real runtime.
#include <memory>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/loaded_model.h"
#include "api/measured_reward.h"
#include "api/request.h"
#include "api/runtime_library.h"
#include "cost/machine/machine_file.h"
#include "search/portfolio/learned.h"
#include "search/portfolio/search_run.h"
#include "tests/support/paths.h"

namespace partita::api {
namespace {

/// Measures what the searchers before it found, and nothing else.
class Idle final : public search::LearnedSearchers, public search::Searcher {
public:
    std::unique_ptr<search::Searcher> make(std::string_view /*name*/,
                                           search::Engine& /*engine*/) override {
        return std::make_unique<Idle>();
    }
    void finish() override {}
    search::Status step(search::Engine& engine) override {
        static_cast<void>(engine.measure({engine.best(), 1}));
        return search::Status::found;
    }
};

TEST(MeasuredRun, SaysWhatAPlanTakesOnThisHost) {
    const LoadedModel model =
        load_model(tests::repository() / "examples/runnable/mlp/model.onnx", {.batch = 8});
    const cost::Machine machine = cost::load_machine("cpu:2");
    for (const plan::Mode mode : {plan::Mode::inference, plan::Mode::training}) {
        plan::ProblemOptions options{.mode = mode, .objective = default_objective(mode, model)};
        const plan::Problem problem = make_problem(model, machine, options);
        MeasuredReward reward(load_runtime(), problem, model.source.get(), plan::Scheduler::pct);
        EXPECT_EQ(reward.hardware().substr(0, 5), "cpu:2");
        Idle idle;
        const search::SearchResult result = search::search(
            problem,
            {.searchers = {"data-parallel", "rl"},
             .measure = [&](const plan::Strategy& strategy) { return reward.time(strategy); },
             .learned = &idle});
        EXPECT_EQ(reward.failures(), 0) << reward.last_failure();
        EXPECT_EQ(result.measurements, 1);
        ASSERT_TRUE(result.measured);
        EXPECT_GT(*result.measured, Time{0});
        EXPECT_EQ(result.searcher, "data-parallel");
    }
}

}  // namespace
}  // namespace partita::api
