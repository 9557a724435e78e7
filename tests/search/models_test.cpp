// SPDX-License-Identifier: Apache-2.0
//
// Every example model, split by data-parallel and by expert over 8 and 32 GPUs, lowers to a task
// graph whose tasks all run; in inference, and in training in four micro-batches, as a pipeline
// too.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cost/machine/machine_file.h"
#include "importers/onnx/onnx_importer.h"
#include "plan/evaluation/evaluator.h"
#include "plan/evaluation/priced.h"
#include "plan/files/plan_file.h"
#include "plan/legality/config_legality.h"
#include "plan/lowering/lower.h"
#include "plan/simulation/simulate.h"
#include "search/configs/standard_configs.h"
#include "search/hybrid_parallel/data_parallel.h"
#include "search/hybrid_parallel/grids.h"
#include "search/portfolio/search_run.h"
#include "tests/plan/small_problems.h"
#include "tests/support/paths.h"

namespace partita::search {
namespace {

using plan::Problem;
using plan::Strategy;

struct Example {
    std::string name;
    importers::OnnxOptions options;
};

std::vector<Example> examples() {
    const auto bound = [](std::map<std::string, std::int64_t> bindings) {
        importers::OnnxOptions options;
        options.bindings = std::move(bindings);
        return options;
    };
    std::vector<Example> all;
    for (const char* name : {"alexnet", "vgg16", "resnet50", "inception_v3", "vit_b_16", "dlrm"}) {
        all.push_back({name, bound({})});
        all.back().options.batch = 128;
    }
    for (const char* name : {"bert-base", "gpt2-small", "lstm-lm", "llama-3-8b"}) {
        all.push_back({name, bound({{"batch", 128}, {"sequence", 64}})});
    }
    all.push_back(
        {"t5-small", bound({{"batch", 128}, {"sequence", 64}, {"decoder_sequence", 64}})});
    all.push_back({"gnmt", bound({{"batch", 128}, {"sequence", 32}, {"target_sequence", 32}})});
    return all;
}

class Models : public testing::TestWithParam<Example> {
protected:
    void expect_runs(const Problem& problem, const Strategy& strategy) {
        ASSERT_EQ(find_fault(problem, strategy), std::nullopt);
        const plan::TaskGraph tasks = lower(problem, strategy);
        EXPECT_GT(tasks.size(), problem.graph().op_count() / 4);
        const plan::Timeline timeline = simulate(tasks, plan::Scheduler::pct);
        EXPECT_EQ(timeline.commit_order.size(), tasks.size());
        plan::LoweringCache cache(problem);
        const plan::TaskGraph folded = lower_folded(problem, strategy, cache);
        EXPECT_EQ(folded.whole_size(), std::ssize(tasks.tasks));
        folds_ = folded.is_folded();
        const plan::Timeline of_few = simulate(folded, plan::Scheduler::pct);
        EXPECT_EQ(of_few.makespan, timeline.makespan);
        EXPECT_EQ(of_few.busy, timeline.busy);
    }

    bool folds_ = false;  ///< the strategy that was looked at last
};

TEST_P(Models, LowerUnderDataParallelAndExpert) {
    const auto model = importers::import_onnx(
        tests::repository() / "examples/models" / (GetParam().name + std::string(".onnx")),
        GetParam().options);
    for (const char* name : {"dgx-a100", "dgx-h100:4"}) {
        const cost::Machine machine = cost::load_machine(name);
        const int devices = machine.device_count();
        for (const plan::Mode mode : {plan::Mode::inference, plan::Mode::training}) {
            SCOPED_TRACE(std::string(name) + " " + std::string(name_of(mode)));
            plan::ProblemOptions options{.mode = mode};
            const bool training = mode == plan::Mode::training;
            options.objective = training ? plan::Objective::step_time : plan::Objective::latency;
            if (training) {
                options.policy.micro_batches = 4;
                options.policy.schedule = *plan::schedule_from_text("1f1b");
            }
            const Problem problem = plan::make_problem(model.graph, machine, options);
            expect_runs(problem,
                        data_parallel_strategy(problem, data_parallel_devices(problem)[0]));
            EXPECT_TRUE(folds_ || training);
            const GroupGraph groups(problem, make_groups(problem, Grouping::all));
            expect_runs(problem, Grids(groups).strategy({.stages = training ? 2 : 1,
                                                         .groups = devices / (training ? 8 : 4),
                                                         .group_size = 4}));
        }
    }
}

// What the search lowered is what the plan would be lowered to.
TEST(FoldedTasks, AreKeptOfTheBestThatWasEvaluated) {
    const auto model = importers::import_onnx(tests::repository() / "examples/models/alexnet.onnx",
                                              {.batch = 128});
    const cost::Machine machine = cost::load_machine("dgx-h100:4");
    const Problem problem =
        plan::make_problem(model.graph, machine,
                           {.mode = plan::Mode::training, .objective = plan::Objective::step_time});
    const Strategy best = data_parallel_strategy(problem, data_parallel_devices(problem)[0]);
    const Strategy other = plan::whole_ops(std::vector<int>(problem.graph().op_count(), 0), {});
    const auto evaluator = plan::make_evaluator(problem, plan::Scheduler::pct);
    ASSERT_TRUE(evaluator->evaluate(best).better_than(evaluator->evaluate(other)));
    EXPECT_EQ(evaluator->take_folded(other), std::nullopt);
    const auto tasks = evaluator->take_folded(best);
    ASSERT_TRUE(tasks.has_value());
    EXPECT_EQ(digest(*tasks), digest(plan::lower_folded(problem, best)));
    EXPECT_EQ(evaluator->take_folded(best), std::nullopt);

    const SearchResult result = search(problem, {.searchers = {"data-parallel"}});
    ASSERT_TRUE(result.folded_tasks.has_value());
    const auto priced = [&](std::optional<plan::TaskGraph> known) {
        return plan::price(problem, result.strategy, result.scheduler, plan::Listed::folded_if_many,
                           std::move(known));
    };
    EXPECT_EQ(to_json(make_plan(problem, result, priced(result.folded_tasks))),
              to_json(make_plan(problem, result, priced(std::nullopt))));
}

INSTANTIATE_TEST_SUITE_P(Onnx, Models, testing::ValuesIn(examples()), [](const auto& example) {
    std::string name = example.param.name;
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
});

}  // namespace
}  // namespace partita::search
