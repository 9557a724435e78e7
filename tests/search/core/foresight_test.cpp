// SPDX-License-Identifier: Apache-2.0
//
// What is priced on other threads before it is asked for is counted when it is asked for, and only
// then.
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include <gtest/gtest.h>

#include "cost/machine/machine_file.h"
#include "importers/onnx/onnx_importer.h"
#include "search/portfolio/search_run.h"
#include "search/portfolio/searcher_table.h"
#include "tests/plan/small_problems.h"
#include "tests/support/paths.h"

namespace partita::search {
namespace {

using plan::Problem;

/// Knows both of its proposals beforehand, and one that it never makes.
class Foresees final : public Searcher {
public:
    Status step(Engine& engine) override {
        const plan::Strategy together = plan::on_devices({0, 0});
        const plan::Strategy apart = plan::on_devices({0, 1});
        const plan::Strategy other = plan::on_devices({1, 1});
        const std::array next{&together, &apart, &other};
        engine.foresee(next);
        EXPECT_EQ(engine.evaluations(), 0);
        EXPECT_EQ(engine.best(), nullptr);
        for (const plan::Strategy* strategy : {&together, &apart}) {
            const auto evaluation = engine.evaluate(*strategy);
            const Time expected = microseconds(strategy == &together ? 20 : 10);
            if (!evaluation) continue;
            EXPECT_EQ(evaluation->value, expected);
        }
        return Status::found;
    }
};

// Two independent nodes of 10 us on two GPUs.
TEST(Foresight, WhatIsForeseenCountsWhenItIsAskedFor) {
    const graph::OpGraph graph = plan::WorkloadBuilder().node("a", 10).node("b", 10).build();
    const cost::Machine machine = plan::switched_machine(2);
    const Problem problem = plan::make_problem(graph, machine);
    const SearcherRow row{.name = "foresees", .summary = "", .make = [](Engine&) {
                              return std::unique_ptr<Searcher>(std::make_unique<Foresees>());
                          }};
    for (const int threads : {1, 2, 8}) {
        EXPECT_EQ(search(problem, {.threads = threads}, std::array{row}).evaluations, 2);
        const EngineOptions once{.evaluations = 1, .threads = threads};
        const SearchResult result = search(problem, once, std::array{row});
        EXPECT_EQ(result.evaluations, 1);
        EXPECT_EQ(result.evaluation.value, microseconds(20));
    }
}

TEST(Foresight, TheSameComesOutWithAnyNumberOfThreads) {
    const importers::OnnxModel model =
        importers::import_onnx(tests::repository() / "examples/runnable/encoder-layer/model.onnx",
                               {.bindings = {{"batch", 4}, {"sequence", 32}}});
    const cost::Machine machine = cost::load_machine("dgx-a100");
    plan::ProblemOptions training{.mode = plan::Mode::training,
                                  .objective = plan::Objective::step_time};
    training.constraints.free_schedule = true;
    const Problem whole = plan::make_problem(model.graph, machine, training);
    const Problem problem = whole.with_free_batch();
    for (const char* searcher : {"grids", "expert"}) {
        for (const std::optional<std::int64_t> budget : {std::optional<std::int64_t>{}, {5}}) {
            const auto with = [&](int threads) {
                EngineOptions options{.searchers = {searcher}, .evaluations = budget};
                options.threads = threads;
                return search(problem, std::move(options));
            };
            const SearchResult one = with(1);
            ASSERT_TRUE(one.has_plan());
            EXPECT_GE(one.evaluations, budget.value_or(8));
            for (const int threads : {2, 5}) {
                const SearchResult more = with(threads);
                EXPECT_EQ(more.strategy, one.strategy);
                EXPECT_EQ(more.evaluation.value, one.evaluation.value);
                EXPECT_EQ(more.evaluations, one.evaluations);
                EXPECT_EQ(more.configuration, one.configuration);
            }
        }
    }
}

}  // namespace
}  // namespace partita::search
