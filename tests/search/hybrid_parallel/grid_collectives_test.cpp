// SPDX-License-Identifier: Apache-2.0
//
// What devices of a grid exchange, by kind and number: as the papers have it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cost/machine/machine_file.h"
#include "graph/fusion/block_attention.h"
#include "importers/onnx/onnx_importer.h"
#include "plan/lowering/lower.h"
#include "search/hybrid_parallel/grids.h"
#include "tests/plan/small_problems.h"
#include "tests/support/paths.h"

namespace partita::search {
namespace {

using plan::Problem;

/// A float collective of what differs between micro-batches, "all-reduce" or "all-reduce grad", by
/// how often.
std::map<std::string, int> collectives(const Problem& problem, const plan::Strategy& strategy) {
    std::map<std::string, int> counts;
    for (const plan::Task& task : plan::lower(problem, strategy).tasks) {
        if (task.kind != plan::TaskKind::collective) continue;
        const bool activation =
            problem.facts().is_batched(task.tensor) && problem.facts().has_gradient(task.tensor);
        if (!activation) continue;
        ++counts[std::string(cost::name_of(task.collective)) + (task.gradient ? " grad" : "")];
    }
    return counts;
}

plan::ProblemOptions collectives_options() {
    return {.mode = plan::Mode::training, .objective = plan::Objective::step_time};
}

class OfAModel : public testing::Test {
protected:
    OfAModel(const char* file, int batch, int sequence)
        : model_(importers::import_onnx(tests::repository() / file,
                                        {.bindings = {{"batch", batch}, {"sequence", sequence}}})),
          machine_(cost::load_machine("dgx-a100")),
          problem_(plan::make_problem(model_.graph, machine_, collectives_options())),
          groups_(problem_, make_groups(problem_, Grouping::all)) {}

    plan::Strategy strategy(const Grid& grid, BetweenProducts between = BetweenProducts::free,
                            AttentionBy attention = AttentionBy::free) {
        return Grids(groups_, problem_.policy(),
                     {.share_weights = true, .between = between, .attention = attention})
            .strategy(grid);
    }
    std::map<std::string, int> collectives_with(BetweenProducts between) {
        return collectives(problem_, strategy({.group_size = 4}, between));
    }

    importers::OnnxModel model_;
    cost::Machine machine_;
    Problem problem_;
    GroupGraph groups_;
};

class OfLlama : public OfAModel {
protected:
    static constexpr int kLayers = 32;

    OfLlama() : OfAModel("examples/models/llama-3-8b.onnx", 4, 512) {}
};

class OfBert : public OfAModel {
protected:
    static constexpr int kLayers = 12;

    OfBert() : OfAModel("examples/models/bert-base.onnx", 64, 512) {}
};

class OfDeepSeek : public OfAModel {
protected:
    static constexpr int kLayers = 3;  ///< with experts

    OfDeepSeek() : OfAModel("examples/models/deepseek-v2-4-layers.onnx", 8, 4096) {}
};

class OfLongLlama : public OfAModel {
protected:
    static constexpr int kLayers = 12;

    OfLongLlama() : OfAModel("examples/models/llama-3-70b-12-layers.onnx", 1, 32'768) {}
};

// Two sums in every layer on the way forward, and two on the way back (Shoeybi et al., Megatron-LM,
// section 3); one behind the embedding, and one of the gradient before the head.
TEST_F(OfLlama, TensorParallelismSumsTwiceALayerEachWay) {
    const auto counts = collectives_with(BetweenProducts::repeated);
    EXPECT_EQ(counts, (std::map<std::string, int>{{"all-reduce", 2 * kLayers + 1},
                                                  {"all-reduce grad", 2 * kLayers + 1}}));
}

// Each of these sums becomes a reduce-scatter, and an all-gather before the next product
// (Korthikanti et al., section 4.2.2).
TEST_F(OfLlama, SequenceParallelismScattersAndGathersInstead) {
    const auto counts = collectives_with(BetweenProducts::sharded);
    EXPECT_EQ(counts, (std::map<std::string, int>{{"reduce-scatter", 2 * kLayers + 1},
                                                  {"all-gather", 2 * kLayers + 1},
                                                  {"reduce-scatter grad", 2 * kLayers + 1},
                                                  {"all-gather grad", 2 * kLayers + 1}}));
}

// Nothing of the vocabulary's size moves, but a number for each row (Shoeybi et al., Megatron-LM,
// section 3: instead of batch x sequence x vocabulary elements).
TEST_F(OfLlama, CrossEntropySendsANumberForEachRow) {
    plan::ProblemOptions options = collectives_options();
    options.policy.loss = plan::LossKind::cross_entropy;
    const Problem problem = plan::make_problem(model_.graph, machine_, options);
    const GroupGraph groups(problem, make_groups(problem, Grouping::all));
    const graph::OpId output(problem.graph().op_count() - 1);
    const graph::TensorId logits = problem.graph().op(output).inputs[0];
    const graph::TensorId rows = problem.graph().op(output).inputs[1];
    for (const BetweenProducts between :
         {BetweenProducts::free, BetweenProducts::repeated, BetweenProducts::sharded}) {
        Grids grids(groups, problem.policy(), {.share_weights = true, .between = between});
        std::vector<const plan::Task*> of_rows;
        const plan::TaskGraph tasks = plan::lower(problem, grids.strategy({.group_size = 4}));
        for (const plan::Task& task : tasks.tasks) {
            if (task.kind != plan::TaskKind::collective && task.kind != plan::TaskKind::copy)
                continue;
            EXPECT_NE(task.tensor, logits);
            if (task.tensor == rows) of_rows.push_back(&task);
        }
        ASSERT_EQ(of_rows.size(), 1U);
        EXPECT_EQ(of_rows[0]->collective, cost::Collective::all_reduce);
        EXPECT_EQ(of_rows[0]->combine, graph::Combine::log_sum_exp);
        EXPECT_EQ(of_rows[0]->bytes, Bytes(4 * 4 * 512)) << "a float of each of 4 x 512 rows";
    }
}

// Of four query heads to one of keys and values these are gathered, for each device's own queries, and
// nothing else is exchanged (Grattafiori et al., The Llama 3 Herd of Models, section 3.3.2).
TEST_F(OfLlama, ContextParallelismGathersKeysAndValues) {
    EXPECT_EQ(collectives(problem_, strategy({.context = 8})),
              (std::map<std::string, int>{{"all-gather", 2 * kLayers},
                                          {"reduce-scatter grad", 2 * kLayers}}));
}

// Of as many heads of each queries, keys and values are exchanged for heads before attention, and its
// result for positions after it (Jacobs et al., DeepSpeed Ulysses, section 3).
TEST_F(OfBert, ContextParallelismExchangesPositionsForHeads) {
    const plan::Strategy strategy = this->strategy({.context = 4});
    EXPECT_EQ(collectives(problem_, strategy),
              (std::map<std::string, int>{{"all-to-all", 4 * kLayers},
                                          {"all-to-all grad", 4 * kLayers}}));
    for (std::size_t i = 0; i < problem_.graph().op_count(); ++i) {
        const graph::Op& op = problem_.graph().ops()[i];
        if (op.kind != graph::OpKind::parameter) continue;
        const graph::Use use = problem_.graph().uses(op.outputs[0]).front();
        if (!problem_.facts().rule(use.op).matrix_product) continue;
        EXPECT_EQ(strategy.ops[i].config.axes, std::vector{plan::Axis::replicas(4)}) << op.name;
    }
}

// The devices of one context have heads of one tensor parallel rank, so that nothing else moves than
// without one of the two. Attention's backward gives the gradients of queries, keys and values at once:
// they go together.
TEST_F(OfLongLlama, ContextsOfTensorParallelRanksAreTheirOwn) {
    const plan::Strategy strategy = this->strategy({.group_size = 2, .context = 4},
                                                   BetweenProducts::sharded, AttentionBy::heads);
    EXPECT_EQ(collectives(problem_, strategy),
              (std::map<std::string, int>{{"all-to-all", 2 * 4 * kLayers},
                                          {"all-to-all grad", 2 * 2 * kLayers},
                                          {"reduce-scatter", 4 * (2 * kLayers + 1)},
                                          {"all-gather", 4 * (2 * kLayers + 1)},
                                          {"reduce-scatter grad", 4 * (2 * kLayers + 1)},
                                          {"all-gather grad", 4 * (2 * kLayers + 1)}}));
}

// Of eight query heads to one of keys and values, for causal queries too, it is less to gather keys and
// values of a rank's heads, by themselves.
TEST_F(OfLongLlama, ContextParallelismGathersKeysAndValues) {
    for (const AttentionBy attention : {AttentionBy::free, AttentionBy::queries}) {
        const plan::Strategy strategy =
            this->strategy({.group_size = 2, .context = 4}, BetweenProducts::sharded, attention);
        EXPECT_EQ(collectives(problem_, strategy),
                  (std::map<std::string, int>{
                      {"reduce-scatter", 4 * (2 * kLayers + 1)},
                      {"all-gather", 4 * (2 * kLayers + 1) + 2 * 2 * kLayers},
                      {"reduce-scatter grad", 4 * (2 * kLayers + 1) + 2 * kLayers},
                      {"all-gather grad", 4 * (2 * kLayers + 1)}}));
    }
}

/// What devices of a ring of four send each other of a layer's attention.
TEST_F(OfLongLlama, BlocksOfKeysGoRoundARing) {
    const graph::OpGraph blocked = graph::with_block_attention(model_.graph, 4).graph;
    const Problem problem = plan::make_problem(blocked, machine_, collectives_options());
    const GroupGraph groups(problem, make_groups(problem, Grouping::all));
    const auto strategy = [&](AttentionBy attention) {
        return Grids(groups, problem.policy(), {.share_weights = true, .attention = attention})
            .strategy({.context = 4});
    };
    EXPECT_GT(collectives(problem, strategy(AttentionBy::heads))["all-to-all"], 0);
    const plan::Strategy ring = strategy(AttentionBy::queries);
    EXPECT_EQ(collectives(problem, ring), (std::map<std::string, int>{}));
    std::map<std::pair<int, int>, int> copies;  // by sender and receiver
    for (const plan::Task& task : plan::lower(problem, ring).tasks) {
        const bool of_keys = task.kind == plan::TaskKind::copy && !task.gradient &&
                             problem.facts().is_batched(task.tensor);
        if (of_keys) ++copies[{task.device, task.to}];
    }
    EXPECT_EQ(copies.size(), 4U * 3);
    for (const auto& [devices, count] : copies) {
        EXPECT_EQ(count, 2 * kLayers) << devices.first << " to " << devices.second;
    }
}

// Tokens go to the devices of their experts and come back (Lepikhin et al., GShard, section 3), with
// each its share; of the experts' weights each device has some, and their gradients are summed with
// nobody.
TEST_F(OfDeepSeek, ExpertParallelismExchangesTokens) {
    const plan::Strategy strategy = this->strategy({.groups = 8, .experts = 8});
    EXPECT_EQ(collectives(problem_, strategy),
              (std::map<std::string, int>{{"all-to-all", 3 * kLayers},
                                          {"all-to-all grad", 3 * kLayers}}));
    int of_experts = 0;
    for (std::size_t i = 0; i < problem_.graph().op_count(); ++i) {
        const graph::Op& op = problem_.graph().ops()[i];
        if (op.kind != graph::OpKind::parameter) continue;
        const bool is_whole = strategy.ops[i].config.axes == std::vector{plan::Axis::replicas(8)};
        const bool is_of_experts = op.name.find(".experts.") != std::string::npos;
        EXPECT_NE(is_whole, is_of_experts) << op.name;
        of_experts += is_of_experts ? 1 : 0;
    }
    EXPECT_EQ(of_experts, 3 * kLayers);
    for (const plan::Task& task : plan::lower(problem_, strategy).tasks) {
        if (task.kind != plan::TaskKind::collective || !task.gradient) continue;
        if (task.collective != cost::Collective::all_reduce) continue;
        EXPECT_EQ(problem_.graph().op(task.op).name.find(".experts."), std::string::npos);
    }
}

// One after the other, whatever was asked for before.
TEST_F(OfDeepSeek, GridsOfOtherDegreesAreTheirOwn) {
    Grids both(groups_, problem_.policy(), {.share_weights = true});
    for (const int experts : {8, 4, 1}) {
        const Grid grid{.groups = 8, .experts = experts};
        EXPECT_EQ(both.strategy(grid), strategy(grid)) << experts;
    }
}

// What lies between a product by columns and one by rows, here a Gelu in nine ops, is never
// gathered; but keys are, whose heads its exporter has merged with the batch.
TEST(OfGpt2, KeysAloneAreGathered) {
    constexpr int kLayers = 12;
    const auto model =
        importers::import_onnx(tests::repository() / "examples/models/gpt2-small.onnx",
                               {.bindings = {{"batch", 32}, {"sequence", 1024}}});
    const cost::Machine machine = cost::load_machine("dgx-a100");
    const Problem problem = plan::make_problem(model.graph, machine, collectives_options());
    const GroupGraph groups(problem, make_groups(problem, Grouping::all));
    Grids grids(groups, problem.policy(),
                {.share_weights = true, .between = BetweenProducts::repeated});
    const auto counts =
        collectives(problem, grids.strategy({.stages = 1, .groups = 1, .group_size = 4}));
    EXPECT_EQ(counts.at("all-reduce"), 2 * kLayers + 1);
    EXPECT_EQ(counts.at("all-gather"), kLayers);
}

}  // namespace
}  // namespace partita::search
