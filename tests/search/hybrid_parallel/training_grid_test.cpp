// SPDX-License-Identifier: Apache-2.0
//
// What was said of a grid is what frameworks are told of the plan.
#include "plan/exporters/training_grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "cost/machine/machine_file.h"
#include "importers/onnx/onnx_importer.h"
#include "plan/exporters/training_frameworks.h"
#include "search/portfolio/search_run.h"
#include "tests/plan/small_problems.h"
#include "tests/support/paths.h"

namespace partita::search {
namespace {

using plan::Recompute;
using plan::TrainingGrid;
using plan::ZeroLevel;
using testing::ElementsAre;
using testing::HasSubstr;

/// GPT-2 small, 12 layers, 16 samples of 64 tokens.
class GridsOfGpt2 : public testing::Test {
protected:
    GridsOfGpt2()
        : model_(importers::import_onnx(tests::repository() / "examples/models/gpt2-small.onnx",
                                        {.bindings = {{"batch", 16}, {"sequence", 64}}})),
          machine_(cost::load_machine("dgx-a100")) {
        options_.mode = plan::Mode::training;
        options_.objective = plan::Objective::step_time;
        options_.policy.optimizer = plan::Optimizer::adam;
        options_.policy.clip_norm = 1;
        options_.policy.micro_batches = 4;
        options_.policy.schedule = {plan::ScheduleKind::one_f_one_b};
    }

    void plan(const std::string& strategy) {
        problem_.emplace(plan::make_problem(model_.graph, machine_, options_));
        EngineOptions options{.searchers = {"grids"}};
        options.evaluations = 1;
        options.parallel = parse_parallel_config(strategy);
        strategy_ = search(*problem_, std::move(options)).strategy;
    }
    [[nodiscard]] TrainingGrid read() const {
        return plan::training_grid_of(*problem_, strategy_, "megatron");
    }
    [[nodiscard]] plan::ExportInput input() const {
        return {.problem = *problem_, .strategy = strategy_};
    }
    /// What megatron(), ... refuse the plan for.
    template <class Write>
    [[nodiscard]] std::string refusal(const Write& write) const {
        try {
            write(input());
        } catch (const UsageError& error) {
            return error.what();
        }
        return "";
    }

    importers::OnnxModel model_;
    cost::Machine machine_;
    plan::ProblemOptions options_;
    std::optional<plan::Problem> problem_;
    plan::Strategy strategy_;
};

TEST_F(GridsOfGpt2, DegreesAreThoseThatWereSaid) {
    struct Case {
        int data, tensor, stages, zero;
        bool sequence;
    };
    for (const auto& [data, tensor, stages, zero, sequence] :
         {Case{1, 2, 2, 0, false}, Case{4, 2, 1, 1, true}, Case{2, 1, 4, 1, false}}) {
        const std::string said = fmt::format("dp={},tp={},pp={},vpp=1,zero={},sp={}", data, tensor,
                                             stages, zero, sequence ? 1 : 0);
        SCOPED_TRACE(said);
        plan(said);
        const TrainingGrid grid = read();
        EXPECT_EQ(grid.data, data);
        EXPECT_EQ(grid.tensor, tensor);
        EXPECT_EQ(grid.stages, stages);
        EXPECT_EQ(grid.context, 1);
        EXPECT_EQ(std::ssize(grid.devices), data * tensor * stages);
        EXPECT_EQ(static_cast<int>(grid.zero), zero);
        EXPECT_EQ(grid.sequence, sequence);
        EXPECT_EQ(grid.samples, 16);
        EXPECT_EQ(grid.micro_batch, 16 / 4 / data);
        EXPECT_EQ(grid.positions, 64);
        EXPECT_EQ(std::accumulate(grid.layers.begin(), grid.layers.end(), 0), stages > 1 ? 12 : 0);
    }
}

TEST_F(GridsOfGpt2, ArgumentsOfMegatron) {
    options_.policy.recompute = Recompute::full;
    plan("dp=2,tp=2,pp=2,vpp=1,zero=1,sp,layers=even");
    EXPECT_EQ(plan::megatron(input()),
              "# gpt2-small.onnx on 8 of the devices of dgx-a100: data 2, context 1, tensor 2, 2 "
              "stages.\n"
              "--tensor-model-parallel-size 2\n"
              "--sequence-parallel\n"
              "--context-parallel-size 1\n"
              "--pipeline-model-parallel-size 2\n"
              "--micro-batch-size 2\n"
              "--global-batch-size 16\n"
              "--seq-length 64\n"
              "--use-distributed-optimizer\n"
              "--recompute-granularity full\n"
              "--recompute-method uniform\n"
              "--recompute-num-layers 1\n"
              "--optimizer adam\n"
              "--clip-grad 1\n");
}

TEST_F(GridsOfGpt2, ChunksAndUnequalStagesAreSaid) {
    options_.policy.schedule = {plan::ScheduleKind::interleaved, 2};
    plan("dp=1,tp=1,pp=2,vpp=2,layers=even");
    EXPECT_THAT(read().layers, ElementsAre(3, 3, 3, 3));
    EXPECT_THAT(plan::megatron(input()), HasSubstr("--num-layers-per-virtual-pipeline-stage 3\n"));
    const std::string toml = plan::torchtitan(input());
    EXPECT_THAT(toml, HasSubstr("pipeline_parallel_schedule = \"Interleaved1F1B\"\n"));
    EXPECT_THAT(toml, HasSubstr("  [\"layers.6\", \"layers.7\", \"layers.8\"],\n"));
    EXPECT_THAT(refusal(plan::deepspeed), HasSubstr("no schedule interleaved:2"));

    options_.policy.schedule = {plan::ScheduleKind::one_f_one_b};
    plan("dp=1,tp=1,pp=2,vpp=1,layers=8-4");
    EXPECT_THAT(read().layers, ElementsAre(8, 4));
    EXPECT_THAT(plan::megatron(input()),
                HasSubstr("--pipeline-model-parallel-layout Etttttttt|ttttL\n"));
    EXPECT_THAT(refusal(plan::deepspeed), HasSubstr("as many layers each"));
}

TEST_F(GridsOfGpt2, ConfigurationOfDeepSpeed) {
    plan("dp=4,tp=2,pp=1,vpp=1,zero=2,sp");
    EXPECT_THAT(refusal(plan::deepspeed), HasSubstr("whole sequences"));
    plan("dp=4,tp=2,pp=1,vpp=1,zero=2,sp=0");
    const nlohmann::json file = nlohmann::json::parse(plan::deepspeed(input()));
    EXPECT_EQ(file["train_batch_size"], 16);
    EXPECT_EQ(file["train_micro_batch_size_per_gpu"], 1);
    EXPECT_EQ(file["gradient_accumulation_steps"], 4);
    EXPECT_EQ(file["gradient_clipping"], 1);
    EXPECT_EQ(file["zero_optimization"]["stage"], 2);
    EXPECT_EQ(file["tensor_parallel"]["autotp_size"], 2);
    EXPECT_EQ(file["bf16"]["enabled"], false);
    EXPECT_FALSE(file.contains("pipeline"));
    options_.policy.recompute = Recompute::selective;
    plan("dp=2,tp=1,pp=2,vpp=1,zero=1,layers=even");
    EXPECT_THAT(refusal(plan::deepspeed), HasSubstr("no selective recomputation"));
    options_.policy.recompute = Recompute::none;
    plan("dp=2,tp=1,pp=2,vpp=1,zero=2,layers=even");
    EXPECT_THAT(refusal(plan::deepspeed), HasSubstr("ZeRO up to 1"));
}

TEST_F(GridsOfGpt2, ShardsOfTorchtitan) {
    plan("dp=4,tp=2,pp=1,vpp=1,zero=3,sp");
    const std::string toml = plan::torchtitan(input());
    EXPECT_THAT(toml, HasSubstr("data_parallel_replicate_degree = 1\n"
                                "data_parallel_shard_degree = 4\n"
                                "fsdp_reshard_after_forward = \"always\"\n"
                                "tensor_parallel_degree = 2\n"));
    EXPECT_THAT(toml, HasSubstr("local_batch_size = 1\nglobal_batch_size = 16\nseq_len = 64\n"));
    plan("dp=4,tp=2,pp=1,vpp=1,zero=1,sp");
    EXPECT_THAT(refusal(plan::torchtitan), HasSubstr("no ZeRO-1"));
}

TEST_F(GridsOfGpt2, PlansThatAreNoGridAreRefusedByWhatIsOtherwise) {
    plan("dp=4,tp=2,pp=1,vpp=1,zero=0");
    const auto first_product = [&] {
        for (std::size_t i = 0; i < strategy_.ops.size(); ++i) {
            if (model_.graph.ops()[i].type == "Gemm") return i;
        }
        return std::size_t{0};
    };
    plan::OpConfig& config = strategy_.ops[first_product()].config;
    const plan::OpConfig before = config;
    config = {.axes = {}, .devices = plan::DeviceSet::single(0)};
    EXPECT_THAT(refusal(plan::megatron), HasSubstr("no regular grid"));
    EXPECT_THAT(refusal(plan::megatron), HasSubstr("split otherwise than most"));
    // As many parts, in another order of ranks.
    config = before;
    std::vector<int> devices;
    for (int part = before.devices.size(); part-- > 0;) devices.push_back(before.devices[part]);
    config.devices = plan::DeviceSet::list(devices);
    EXPECT_THAT(refusal(plan::megatron), HasSubstr("ranks in the order of the grid"));

    options_.mode = plan::Mode::inference;
    options_.policy = {};
    plan("dp=4,tp=2,pp=1,vpp=1");
    EXPECT_THAT(refusal(plan::deepspeed), HasSubstr("one of inference"));
}

}  // namespace
}  // namespace partita::search
