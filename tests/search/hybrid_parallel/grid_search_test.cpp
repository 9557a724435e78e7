// SPDX-License-Identifier: Apache-2.0
#include "search/hybrid_parallel/grid_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string>

#include <fmt/format.h>

#include "base/error.h"
#include "cost/machine/machine_file.h"
#include "importers/onnx/onnx_importer.h"
#include "plan/description/communication.h"
#include "plan/description/parallelism.h"
#include "plan/legality/stages.h"
#include "plan/lowering/lower.h"
#include "plan/problem/recompute_regions.h"
#include "search/hybrid_parallel/zero.h"
#include "search/portfolio/search_run.h"
#include "search/support/random.h"
#include "tests/plan/layout/random_layouts.h"
#include "tests/plan/network_builder.h"
#include "tests/plan/small_problems.h"
#include "tests/support/paths.h"

namespace partita::search {
namespace {

using plan::Problem;
using testing::HasSubstr;

int devices_of(const Grid& grid) {
    return grid.stages * grid.groups * grid.context * grid.group_size;
}

TEST(GridsOf, AreWhatIsLeftOpen) {
    const auto grids = [](const char* text, int devices, int node) {
        return grids_of(parse_parallel_config(text), devices, node);
    };
    EXPECT_EQ(grids("dp=2,tp=2,pp=2", 8, 8), (std::vector<Grid>{{2, 2, 2}}));
    EXPECT_EQ(grids("tp=4,pp=2", 16, 8), (std::vector<Grid>{{2, 1, 4}, {2, 2, 4}}));
    EXPECT_EQ(grids("dp=3,tp=2", 8, 8), (std::vector<Grid>{{1, 3, 2}}));
    EXPECT_EQ(grids("tp=3", 8, 8), (std::vector<Grid>{{1, 2, 3}, {2, 1, 3}}));
    EXPECT_EQ(grids("dp=1,tp=1,pp=1", 8, 8), (std::vector<Grid>{{1, 1, 1}}));
    EXPECT_EQ(grids("tp=2,cp=2", 8, 8), (std::vector<Grid>{{1, 2, 2, 2}, {2, 1, 2, 2}}));
    EXPECT_EQ(grids("pp=1,cp=2,ep=2", 8, 8), (std::vector<Grid>{{1, 2, 2, 2, 2}, {1, 4, 1, 2, 2}}));
    EXPECT_TRUE(grids("tp=16", 8, 8).empty());
    EXPECT_TRUE(grids("cp=16", 8, 8).empty());
    EXPECT_TRUE(grids("dp=4,pp=3", 8, 8).empty());
}

// All keep to what was said, none uses fewer devices than another without being of one node, and
// each is there once.
TEST(GridsOf, UseMostDevicesOfAllAndOfANode) {
    Random random(7);
    for (int i = 0; i < 300; ++i) {
        ParallelConfig config;
        const auto maybe = [&](std::optional<int>& field) {
            if (plan::draw(random, 2) == 0) field = 1 + plan::draw(random, 5);
        };
        maybe(config.data);
        maybe(config.tensor);
        maybe(config.pipeline);
        maybe(config.context);
        const int node = 1 << plan::draw(random, 4);
        const int devices = node * (1 + plan::draw(random, 4));
        int most = 0;
        std::set<std::array<int, 3>> seen;
        const std::vector<Grid> grids = grids_of(config, devices, node);
        for (const Grid& grid : grids) most = std::max(most, devices_of(grid));
        for (const Grid& grid : grids) {
            EXPECT_EQ(config.data.value_or(grid.groups), grid.groups);
            EXPECT_EQ(config.tensor.value_or(grid.group_size), grid.group_size);
            EXPECT_EQ(config.pipeline.value_or(grid.stages), grid.stages);
            EXPECT_EQ(config.context.value_or(1), grid.context);
            EXPECT_TRUE(devices_of(grid) == most || devices_of(grid) <= node);
            EXPECT_TRUE(seen.insert({grid.stages, grid.groups, grid.group_size}).second);
        }
        const int said = config.data.value_or(1) * config.tensor.value_or(1) *
                         config.pipeline.value_or(1) * config.context.value_or(1);
        EXPECT_EQ(grids.empty(), said > devices);
        EXPECT_LE(most, devices);
        if (!config.pipeline && !config.tensor && devices % said == 0) {
            EXPECT_EQ(most, devices);
        }
    }
}

plan::ProblemOptions grid_options() {
    return {.mode = plan::Mode::training, .objective = plan::Objective::step_time};
}

/// One layer with four heads, between an embedding and nothing else.
class OfAnEncoderLayer : public testing::Test {
protected:
    OfAnEncoderLayer()
        : model_(importers::import_onnx(
              tests::repository() / "examples/runnable/encoder-layer/model.onnx",
              {.bindings = {{"batch", 4}, {"sequence", 32}}})),
          machine_(cost::load_machine("dgx-a100")),
          options_(grid_options()) {
        options_.constraints.free_schedule = true;
    }

    SearchResult plan(const std::string& strategy) {
        problem_.emplace(plan::make_problem(model_.graph, machine_, options_));
        EngineOptions options{.searchers = {"grids"}};
        options.parallel = parse_parallel_config(strategy);
        return search(*problem_, std::move(options));
    }

    importers::OnnxModel model_;
    cost::Machine machine_;
    plan::ProblemOptions options_;
    std::optional<Problem> problem_;
};

TEST_F(OfAnEncoderLayer, WhatTheModelCannotBeIsRefused) {
    const auto is_refused = [&](const char* strategy, const char* why) {
        EXPECT_THAT([&] { static_cast<void>(plan(strategy)); },
                    testing::ThrowsMessage<UsageError>(HasSubstr(why)));
    };
    is_refused("tp=8",
               "--strategy tp=8: 8 devices cannot share op 'node_matmul' (MatMul): what "
               "they would share has d1 (4). Use a degree");
    is_refused("dp=8", "dp=8: a micro-batch has 4 samples (a batch of 4 in 1)");
    is_refused("tp=1,pp=1,cp=8,dp=16", "needs more than the 8 devices");
    is_refused("dp=3",
               "a micro-batch has 4 samples (a batch of 4 in 1); in parts of 2 the last one");
    is_refused("dp=2,ep=2", "ep=2: the model has no product with the weights of several experts");
    is_refused("pp=1,vpp=2", "chunks need stages");
    is_refused("dp=16", "needs more than the 8 devices");
    machine_ = cost::load_machine("dgx-h100:2049");
    is_refused("dp=16392", "a stage has 16392 devices, and no op is split into more than 16384");
}

TEST_F(OfAnEncoderLayer, StagesAndLevelsAreThoseThatWereSaid) {
    options_.policy.micro_batches = 2;
    const SearchResult result = plan("pp=2,tp=2,dp=2,vpp=1,zero=1");
    EXPECT_EQ(plan::pipeline_of(*problem_, result.strategy).stages, 2);
    EXPECT_EQ(zero_level(*problem_, result.strategy), ZeroLevel::optimizer);
    EXPECT_EQ(result.configuration, "dp=2,tp=2,pp=2,zero=1, 2 micro-batches in 1f1b");
}

TEST_F(OfAnEncoderLayer, GradientsAreReducedAsOftenAsIsSaid) {
    options_.policy.micro_batches = 2;
    const auto reduces_each = [&](const char* strategy) {
        const SearchResult result = plan(strategy);
        for (std::size_t i = 0; i < result.strategy.ops.size(); ++i) {
            if (problem_->graph().ops()[i].kind != graph::OpKind::parameter) continue;
            if (!result.strategy.ops[i].update.accumulate_locally) return true;
        }
        return false;
    };
    EXPECT_FALSE(reduces_each("dp=2,tp=1,pp=1,zero=0"));
    EXPECT_TRUE(reduces_each("dp=2,tp=1,pp=1,zero=0,reduce=each"));
    EXPECT_TRUE(reduces_each("dp=2,tp=1,pp=1,zero=3"));
    EXPECT_FALSE(reduces_each("dp=2,tp=1,pp=1,zero=3,reduce=last"));
    const SearchResult last = plan("dp=2,tp=1,pp=1,zero=0");
    const SearchResult each = plan("dp=2,tp=1,pp=1,zero=0,reduce=each");
    EXPECT_EQ(each.configuration, "dp=2,tp=1,pp=1,reduce=each, 2 micro-batches in 1f1b");
    const auto reductions = [&](const SearchResult& result) {
        const plan::TaskGraph tasks = plan::lower(*problem_, result.strategy);
        return std::ranges::count_if(tasks.tasks, [&](const plan::Task& task) {
            return task.kind == plan::TaskKind::collective &&
                   plan::moved_text(*problem_, task) == "all-reduce of gradients";
        });
    };
    EXPECT_GT(reductions(last), 0);
    // Weights that are turned before the batch meets them have one gradient, behind the last micro-batch.
    EXPECT_GT(2 * reductions(each), 3 * reductions(last));
    EXPECT_LE(reductions(each), 2 * reductions(last));
    EXPECT_EQ(zero_level(*problem_, plan("dp=2,tp=1,pp=1,reduce=last").strategy), ZeroLevel::none);
}

// What was said is what plan/description reads from the strategy.
TEST_F(OfAnEncoderLayer, DegreesAreReadBackFromTheStrategy) {
    options_.policy.micro_batches = 2;
    for (const int data : {1, 2}) {
        for (const int tensor : {1, 2, 4}) {
            for (const int stages : {1, 2}) {
                if (data * tensor * stages > machine_.device_count()) continue;
                const int zero = data > 1 ? 1 : 0;
                const SearchResult result = plan(
                    fmt::format("dp={},tp={},pp={},vpp=1,zero={}", data, tensor, stages, zero));
                SCOPED_TRACE(result.configuration);
                const plan::Parallelism read = plan::parallelism_of(*problem_, result.strategy);
                EXPECT_EQ(read.data, data);
                EXPECT_EQ(read.tensor, tensor);
                EXPECT_EQ(read.stages.size(), static_cast<std::size_t>(stages));
                EXPECT_EQ(read.devices, data * tensor * stages);
                EXPECT_EQ(read.chunks, 1);
                EXPECT_EQ(static_cast<int>(read.zero), zero);
                EXPECT_TRUE(read.regular(result.strategy.policy));
            }
        }
    }
}

class OfAnEncoderLayerInLittleMemory : public OfAnEncoderLayer {
protected:
    OfAnEncoderLayerInLittleMemory() {
        options_.policy.optimizer = plan::Optimizer::adam;
        const Problem problem = plan::make_problem(model_.graph, machine_, options_);
        for (std::size_t i = 0; i < problem.graph().op_count(); ++i) {
            state_ += problem.facts().persistent_bytes(graph::OpId(i));
        }
    }

    Bytes state_;  ///< of all parameters, once
};

// Somebody is told by how much it does not fit.
TEST_F(OfAnEncoderLayerInLittleMemory, WhatKeepsLeastIsEvaluatedWhereEverythingKeepsTooMuch) {
    machine_ = plan::switched_machine_of(4, Bytes(state_.raw() / 3));
    const SearchResult result = plan("dp=4,tp=1,pp=1,zero=0");
    EXPECT_FALSE(result.evaluation.feasible());
    EXPECT_EQ(result.configuration, "dp=4,tp=1,pp=1");
    EXPECT_EQ(result.evaluations, 1);
}

TEST_F(OfAnEncoderLayerInLittleMemory, WhatKeepsTooMuchIsNotEvaluated) {
    machine_ = plan::switched_machine_of(4, Bytes(state_.raw() / 2));
    const SearchResult result = plan("dp=4,tp=1,pp=1");
    EXPECT_NE(zero_level(*problem_, result.strategy), ZeroLevel::none);
    EXPECT_EQ(result.evaluations, 2);  // level 3, and 1, which is 2 with one micro-batch
}

// Groups of a convolution are no experts.
TEST(OfAConvnet, ThereAreNoExperts) {
    const auto model = importers::import_onnx(
        tests::repository() / "examples/runnable/convnet/model.onnx", {.bindings = {{"batch", 8}}});
    const cost::Machine machine = cost::load_machine("dgx-a100");
    const Problem problem = plan::make_problem(model.graph, machine, grid_options());
    EngineOptions options{.searchers = {"grids"}};
    options.parallel = parse_parallel_config("dp=4,tp=1,ep=4");
    EXPECT_THAT(
        [&] { static_cast<void>(search(problem, options)); },
        testing::ThrowsMessage<UsageError>(HasSubstr("no product with the weights of several")));
}

// Whatever was planned before for the same problem, and whatever that says itself.
TEST_F(OfAnEncoderLayer, WhatIsGatheredAgainFollowsFromTheConfiguration) {
    const Problem problem = plan::make_problem(model_.graph, machine_, options_);
    const auto gathers_again = [&](const std::string& strategy) {
        EngineOptions options{.searchers = {"grids"}};
        if (!strategy.empty()) options.parallel = parse_parallel_config(strategy);
        return search(problem, std::move(options)).strategy.policy.gather_again;
    };
    EXPECT_TRUE(gathers_again("dp=2,tp=2"));
    EXPECT_FALSE(gathers_again("dp=2,tp=2,sp=0"));
    EXPECT_TRUE(gathers_again("dp=2,tp=2,sp"));
    EXPECT_FALSE(gathers_again("dp=4,tp=1"));
    EXPECT_FALSE(gathers_again(""));
}

// Without a pipeline gradients accumulate too: what one micro-batch keeps is gone before the next.
TEST_F(OfAnEncoderLayer, MicroBatchesGoOneAfterTheOther) {
    const SearchResult one = plan("dp=1,tp=1,pp=1");
    options_.policy.micro_batches = 4;
    const SearchResult four = plan("dp=1,tp=1,pp=1");
    EXPECT_EQ(four.configuration, "dp=1,tp=1,pp=1, 4 micro-batches in 1f1b");
    EXPECT_LT(four.evaluation.devices[0].memory, one.evaluation.devices[0].memory);
}

// More memory than there is: levels go up until it fits.
TEST_F(OfAnEncoderLayer, ShardsWhereItMust) {
    options_.policy.optimizer = plan::Optimizer::adam;
    const SearchResult roomy = plan("dp=4,tp=1,pp=1,zero=0");
    const SearchResult tight = plan("dp=4,tp=1,pp=1,zero=3");
    ASSERT_TRUE(roomy.has_plan());
    ASSERT_TRUE(tight.has_plan());
    options_.constraints.memory_limit = roomy.evaluation.devices[0].memory - Bytes{1};
    const SearchResult found = plan("dp=4,tp=1,pp=1");
    ASSERT_TRUE(found.has_plan()) << found.shortage;
    EXPECT_NE(zero_level(*problem_, found.strategy), ZeroLevel::none);
    EXPECT_FALSE(plan("dp=4,tp=1,pp=1,zero=0").has_plan());
}

/// Equal layers on four devices.
class OfLayers : public testing::Test {
protected:
    static constexpr int kLayers = 12;

    OfLayers()
        : graph_(plan::equal_layers(kLayers)),
          machine_(plan::switched_machine(4)),
          options_(grid_options()) {
        options_.policy.micro_batches = 8;
        options_.policy.schedule = {.kind = plan::ScheduleKind::one_f_one_b};
    }

    SearchResult plan(const char* strategy) {
        problem_.emplace(plan::make_problem(graph_, machine_, options_));
        EngineOptions options{.searchers = {"grids"}};
        options.parallel = parse_parallel_config(strategy);
        return search(*problem_, std::move(options));
    }

    /// By device, of how many layers it is the first of those that share it.
    std::vector<std::size_t> layers_of_devices(const char* strategy) {
        const SearchResult result = plan(strategy);
        std::vector<std::set<std::string>> layers(machine_.device_count());
        for (std::size_t i = 0; i < graph_.op_count(); ++i) {
            const graph::Op& op = graph_.ops()[i];
            if (op.kind != graph::OpKind::compute) continue;
            const int device = result.strategy.config(graph::OpId(i)).devices[0];
            layers[static_cast<std::size_t>(device)].insert(op.block);
        }
        std::vector<std::size_t> counts;
        for (const auto& of : layers) counts.push_back(of.size());
        return counts;
    }

    /// Blocks that are recomputed.
    [[nodiscard]] int recomputed(const SearchResult& result) const {
        const auto& blocks = problem_->facts().recompute().blocks();
        return static_cast<int>(std::ranges::count_if(blocks, [&](const plan::LayerBlock& block) {
            return recompute_of(block, result.strategy) != plan::Recompute::none;
        }));
    }

    graph::OpGraph graph_;
    cost::Machine machine_;
    plan::ProblemOptions options_;
    std::optional<Problem> problem_;
};

TEST_F(OfLayers, StagesHaveAsManyLayersAsIsSaid) {
    options_.constraints.free_schedule = true;
    const auto layers_of_stages = [this](const char* s) { return layers_of_devices(s); };
    EXPECT_THAT(layers_of_stages("pp=4,vpp=1,layers=1-5-2-4"), testing::ElementsAre(1, 5, 2, 4));
    EXPECT_THAT(layers_of_stages("pp=4,layers=1-5-2-4"), testing::ElementsAre(1, 5, 2, 4));
    EXPECT_THAT(layers_of_stages("layers=1-5-2-4"), testing::ElementsAre(1, 5, 2, 4));
    EXPECT_THAT(layers_of_stages("pp=4,vpp=1,layers=even"), testing::ElementsAre(3, 3, 3, 3));
    EXPECT_THAT(layers_of_stages("pp=4,vpp=1,layers=0-12-0-0"), testing::ElementsAre(0, 12, 0, 0));
    EXPECT_THAT(layers_of_stages("dp=1,tp=1,pp=2,vpp=2,layers=1-5-2-4"),
                testing::ElementsAre(3, 9, 0, 0));
    EXPECT_THAT(layers_of_stages("dp=1,tp=1,pp=2,vpp=4,layers=even"),
                testing::ElementsAre(6, 6, 0, 0));
}

// 4 A100 and behind them 4 T4: all of them where that is said, else those that are alike.
TEST_F(OfLayers, UnequalDevicesShareWhatNeedsThemAll) {
    machine_ = cost::load_machine("a100-t4");
    EXPECT_THAT(layers_of_devices("dp=1,tp=1,pp=8,layers=2-1-2-1-2-1-2-1"),
                testing::ElementsAre(2, 1, 2, 1, 2, 1, 2, 1));
    EXPECT_THAT(layers_of_devices("dp=1,tp=4,pp=2,layers=8-4"),
                testing::ElementsAre(8, 0, 0, 0, 4, 0, 0, 0));
    EXPECT_THAT(layers_of_devices("tp=1,pp=4,layers=even"),
                testing::ElementsAre(3, 3, 3, 3, 0, 0, 0, 0));
    const std::vector<std::size_t> by_work = layers_of_devices("dp=1,tp=1,pp=8");
    EXPECT_EQ(std::ranges::min(std::span(by_work).first(4)), 2u);
    EXPECT_EQ(std::ranges::max(std::span(by_work).last(4)), 1u);
    EXPECT_THAT([&] { static_cast<void>(plan("dp=16")); },
                testing::ThrowsMessage<UsageError>(HasSubstr("more than the 8 devices")));
}

// Two branches side by side, of two layers each.
// On many devices most grids share a batch among more than it has samples: these come first by estimate,
// and must not end the search where something fits already.
TEST_F(OfLayers, GridsThatCannotBeEndNothing) {
    machine_ = plan::switched_machine(64);
    options_.policy = {};
    options_.constraints.free_schedule = true;
    options_.constraints.most_micro_batches = 256;
    problem_.emplace(plan::make_problem(graph_, machine_, options_));
    const SearchResult result = search(*problem_, {.searchers = {"single-device", "grids"}});
    EXPECT_EQ(result.searcher, "single-device");  // little work
    EXPECT_GE(result.evaluations - 1, GridSearch::kMostMisses);
}

TEST_F(OfLayers, LayersThatDoNotFollowEachOtherAreRefused) {
    plan::NetworkBuilder build;
    const graph::TensorId x = build.source("x", graph::TensorRole::input, {64, 32});
    std::vector<graph::TensorId> branch = {x, x};
    for (const int i : {0, 1}) {
        for (const std::size_t side : {1, 0}) {
            const std::size_t first = build.graph.op_count();
            branch[side] =
                build.add("MatMul", {branch[side], build.weight({32, 32})}, {{64, 32}})[0];
            if (side == 1 && i == 0) branch[0] = build.add("Add", branch, {{64, 32}})[0];
            for (std::size_t op = first; op < build.graph.op_count(); ++op) {
                build.graph.op(graph::OpId(op)).block =
                    (side == 1 ? "right." : "left.") + std::to_string(i);
            }
        }
    }
    build.add("Add", branch, {{64, 32}});
    build.add_outputs();
    graph_ = std::move(build.graph);
    // The order of first ops is right.0, left.0, right.1, left.1.
    EXPECT_THAT([&] { static_cast<void>(plan("dp=1,tp=1,pp=2,vpp=1,layers=2-2")); },
                testing::Not(testing::Throws<UsageError>()));
    // Now one of the first stage reads what the second one gives.
    for (std::size_t op = graph_.op_count(); op-- > 0;) {
        graph::Op& last = graph_.op(graph::OpId(op));
        if (last.kind != graph::OpKind::compute) continue;
        last.block = "right.0";
        break;
    }
    EXPECT_THAT([&] { static_cast<void>(plan("dp=1,tp=1,pp=2,vpp=1,layers=2-2")); },
                testing::ThrowsMessage<UsageError>(HasSubstr("do not follow each other")));
}

TEST_F(OfLayers, OtherLayersThanThereAreAreRefused) {
    const auto is_refused = [&](const char* strategy, const char* why) {
        EXPECT_THAT([&] { static_cast<void>(plan(strategy)); },
                    testing::ThrowsMessage<UsageError>(HasSubstr(why)));
    };
    is_refused("pp=4,vpp=1,layers=3-3-3-2",
               "layers=3-3-3-2: these are 11 layers, and the model has 12, from 'layers.0' to "
               "'layers.11'.");
    is_refused("pp=4,vpp=1,layers=6-6", "layers need a number for each chunk of each stage");
    options_.constraints.free_schedule = true;
    const cost::Machine many = plan::switched_machine(16);
    problem_.emplace(plan::make_problem(graph_, many, options_));
    EngineOptions sixteen{.searchers = {"grids"}};
    sixteen.parallel = parse_parallel_config("pp=16,vpp=1,layers=even");
    EXPECT_THAT([&] { static_cast<void>(search(*problem_, sixteen)); },
                testing::ThrowsMessage<UsageError>(
                    HasSubstr("the model has 12 layers, and there are 16 chunks")));
    for (std::size_t i = 0; i < graph_.op_count(); ++i) graph_.op(graph::OpId(i)).block = "";
    is_refused("pp=4,vpp=1,layers=even", "the model names no layers");
}

TEST_F(OfLayers, NothingIsRecomputedThatFits) {
    options_.policy.recompute = plan::Recompute::automatic;
    EXPECT_EQ(recomputed(plan("pp=4,vpp=1")), 0);
    options_.policy.recompute = plan::Recompute::full;
    EXPECT_EQ(recomputed(plan("pp=4,vpp=1")), kLayers);
}

// What is estimated to be saved, for all micro-batches at once, is no reason to cut stages otherwise.
TEST_F(OfLayers, StagesAreCutByWorkWhereMicroBatchesMakeThemFit) {
    const SearchResult roomy = plan("pp=4,vpp=1");
    Bytes most;
    for (const plan::DeviceUse& use : roomy.evaluation.devices) most = std::max(most, use.memory);
    options_.constraints.memory_limit = most;
    const SearchResult tight = plan("pp=4,vpp=1");
    ASSERT_TRUE(tight.has_plan()) << tight.shortage;
    EXPECT_EQ(tight.strategy, roomy.strategy);
}

// The first stage of 1F1B holds most micro-batches, so its blocks are recomputed first.
TEST_F(OfLayers, AsLittleIsRecomputedAsMakesItFit) {
    options_.policy.recompute = plan::Recompute::full;
    const SearchResult all = plan("pp=4,vpp=1");
    options_.policy.recompute = plan::Recompute::automatic;
    const SearchResult none = plan("pp=4,vpp=1");
    const Bytes most = none.evaluation.devices[0].memory;
    const Bytes least = all.evaluation.devices[0].memory;
    ASSERT_LT(least, most);
    int before = 0;
    for (int share = 1; share <= 4; ++share) {
        const Bytes limit(most.raw() - (most - least).raw() * share / 4);
        options_.constraints.memory_limit = limit;
        const SearchResult some = plan("pp=4,vpp=1");
        ASSERT_TRUE(some.has_plan()) << share << ": " << some.shortage;
        for (const plan::DeviceUse& use : some.evaluation.devices) EXPECT_LE(use.memory, limit);
        EXPECT_GE(recomputed(some), before);
        before = recomputed(some);
        EXPECT_LE(some.evaluation.value, all.evaluation.value);
    }
    EXPECT_GT(before, 0);
    EXPECT_LT(before, kLayers);
    options_.constraints.memory_limit = Bytes(least.raw() / 2);
    EXPECT_FALSE(plan("pp=4,vpp=1").has_plan());
}

// Neighbours are those that the order says.
TEST_F(OfAnEncoderLayer, OrderSaysWhoIsNext) {
    using Groups = std::set<std::vector<int>>;
    const auto groups_that_sum = [&](const char* strategy) {
        Groups groups;
        const SearchResult result = plan(strategy);
        const plan::TaskGraph tasks = plan::lower(*problem_, result.strategy);
        for (const plan::Task& task : tasks.tasks) {
            if (task.kind != plan::TaskKind::collective || task.gradient) continue;
            if (!problem_->facts().has_gradient(task.tensor)) continue;
            if (!problem_->facts().is_batched(task.tensor)) continue;
            const auto ranks = tasks.ranks[static_cast<std::size_t>(task.ranks)];
            groups.emplace(ranks.begin(), ranks.end());
        }
        return groups;
    };
    EXPECT_EQ(groups_that_sum("tp=2,dp=2,pp=1,sp=0"), (Groups{{0, 1}, {2, 3}}));
    EXPECT_EQ(groups_that_sum("tp=2,dp=2,pp=1,sp=0,order=dp-tp-pp"), (Groups{{0, 2}, {1, 3}}));
    EXPECT_EQ(groups_that_sum("tp=2,dp=1,pp=2,sp=0,order=pp-dp-tp"), (Groups{{0, 2}, {1, 3}}));
}

}  // namespace
}  // namespace partita::search
