// SPDX-License-Identifier: Apache-2.0
//
// What a transformer layer keeps for its backward, against the published formulas: Korthikanti et
// al., Reducing Activation Recomputation in Large Transformer Models, MLSys 2023, equations 1 to 6
// and table 2. With b samples of s positions, h wide, a heads, in 16 bits, on t devices:
//
//     one device                    sbh (34 + 5 as/h)
//     tensor parallel               sbh (10 + 24/t + 5 as/(ht))
//     and sequence parallel         sbh/t (34 + 5 as/h)
//     and selective recomputation   34 sbh/t
//     full recomputation            2 sbh
//
// Dropout here draws its mask again instead of keeping it, one byte an element: of the 34 these are
// 2, of the 10 they are 2, and of the 5 it is 1.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "plan/lowering/lower.h"
#include "plan/problem/recompute_regions.h"
#include "plan/simulation/peak_memory.h"
#include "plan/simulation/simulate.h"
#include "search/coarsening/op_groups.h"
#include "search/hybrid_parallel/grids.h"
#include "tests/plan/network_builder.h"
#include "tests/plan/small_problems.h"

namespace partita::search {
namespace {

using graph::Shape;
using graph::TensorId;
using graph::TensorRole;
using plan::Recompute;

constexpr std::int64_t kBatch = 2;
constexpr std::int64_t kSequence = 64;
constexpr std::int64_t kHidden = 32;
constexpr std::int64_t kHeads = 4;
constexpr std::int64_t kHeadWidth = kHidden / kHeads;
constexpr std::int64_t kSbh = kSequence * kBatch * kHidden;
constexpr std::int64_t kScores = kHeads * kSequence * kSequence * kBatch;  // a s^2 b

/// GPT's layers in bfloat16, dropout included, as exporters write them.
class Transformer {
public:
    explicit Transformer(int layers) {
        TensorId x = source("x", TensorRole::input, {kBatch, kSequence, kHidden});
        half_ = source("half", TensorRole::constant, {});
        train_ = plan::add_source(graph_, "train", TensorRole::constant, {}, graph::DType::boolean);
        for (int i = 0; i < layers; ++i) x = layer("layers." + std::to_string(i), x);
        block_ = "head";
        graph_.add_output("y", x);
    }

    [[nodiscard]] const graph::OpGraph& graph() const { return graph_; }

private:
    TensorId source(const std::string& name, TensorRole role, Shape shape) {
        return plan::add_source(graph_, name, role, std::move(shape), graph::DType::bfloat16);
    }
    TensorId op(const std::string& name, const std::string& type, std::vector<TensorId> operands,
                Shape shape, graph::Attributes attributes = {}) {
        const TensorId result =
            plan::add_compute(graph_, block_ + "/" + name, type, std::move(operands),
                              std::move(shape), std::move(attributes), block_);
        graph_.tensor(result).dtype = graph::DType::bfloat16;
        return result;
    }
    TensorId weight(const std::string& name, Shape shape) {
        return source(block_ + "/" + name, TensorRole::parameter, std::move(shape));
    }
    TensorId product(const std::string& name, TensorId x, std::int64_t in, std::int64_t out) {
        const Shape shape{kBatch, kSequence, out};
        const TensorId y = op(name, "MatMul", {x, weight(name + ".weight", {in, out})}, shape);
        return op(name + ".add", "Add", {y, weight(name + ".bias", {out})}, shape);
    }
    TensorId norm(const std::string& name, TensorId x) {
        return op(name, "LayerNormalization",
                  {x, weight(name + ".weight", {kHidden}), weight(name + ".bias", {kHidden})},
                  {kBatch, kSequence, kHidden});
    }
    TensorId dropout(const std::string& name, TensorId x) {
        return op(name, "Dropout", {x, half_, train_}, graph_.tensor(x).shape);
    }
    TensorId heads(const std::string& name, TensorId x, std::vector<std::int64_t> perm) {
        const TensorId split =
            op(name + ".split", "Reshape", {x}, {kBatch, kSequence, kHeads, kHeadWidth});
        Shape shape;
        for (const std::int64_t dim : perm) {
            shape.push_back(graph_.tensor(split).shape[static_cast<std::size_t>(dim)]);
        }
        return op(name + ".heads", "Transpose", {split}, shape,
                  plan::attribute("perm", std::move(perm)));
    }
    TensorId attention(TensorId x) {
        const TensorId q = heads("q", product("query", x, kHidden, kHidden), {0, 2, 1, 3});
        const TensorId k = heads("k", product("key", x, kHidden, kHidden), {0, 2, 3, 1});
        const TensorId v = heads("v", product("value", x, kHidden, kHidden), {0, 2, 1, 3});
        const Shape shape{kBatch, kHeads, kSequence, kSequence};
        TensorId scores = op("scores", "MatMul", {q, k}, shape);
        scores = op("scaled", "Mul", {scores, half_}, shape);
        scores =
            op("softmax", "Softmax", {scores}, shape, plan::attribute("axis", std::int64_t{-1}));
        scores = dropout("dropped", scores);
        const TensorId context =
            op("context", "MatMul", {scores, v}, {kBatch, kHeads, kSequence, kHeadWidth});
        const TensorId turned =
            op("turned", "Transpose", {context}, {kBatch, kSequence, kHeads, kHeadWidth},
               plan::attribute("perm", std::vector<std::int64_t>{0, 2, 1, 3}));
        return op("merged", "Reshape", {turned}, {kBatch, kSequence, kHidden});
    }
    TensorId layer(const std::string& block, TensorId x) {
        block_ = block;
        const Shape shape{kBatch, kSequence, kHidden};
        const TensorId mixed = product("out", attention(norm("norm1", x)), kHidden, kHidden);
        x = op("residual1", "Add", {x, dropout("dropout1", mixed)}, shape);
        TensorId wide = product("up", norm("norm2", x), kHidden, 4 * kHidden);
        wide = op("gelu", "Gelu", {wide}, {kBatch, kSequence, 4 * kHidden});
        const TensorId narrow = product("down", wide, 4 * kHidden, kHidden);
        return op("residual2", "Add", {x, dropout("dropout2", narrow)}, shape);
    }

    graph::OpGraph graph_;
    std::string block_;
    TensorId half_;
    TensorId train_;
};

struct Layout {
    int devices = 1;
    BetweenProducts between = BetweenProducts::repeated;
    Recompute recompute = Recompute::none;
    bool gather_again = false;
};

/// Activations of the fullest device when it is fullest.
std::int64_t peak_of(int layers, const Layout& layout) {
    const Transformer model(layers);
    const cost::Machine machine = plan::switched_machine(layout.devices);
    plan::ProblemOptions options{.mode = plan::Mode::training,
                                 .objective = plan::Objective::step_time};
    options.policy.recompute = layout.recompute;
    options.policy.gather_again = layout.gather_again;
    const plan::Problem problem = plan::make_problem(model.graph(), machine, options);
    const GroupGraph groups(problem, make_groups(problem, Grouping::all));
    Grids grids(groups, options.policy, {.share_weights = true, .between = layout.between});
    const plan::TaskGraph tasks = plan::lower(
        problem, grids.strategy({.stages = 1, .groups = 1, .group_size = layout.devices}));
    const auto peaks =
        plan::peak_memory_by_kind(tasks, plan::simulate(tasks, plan::Scheduler::rank).commit_order);
    return peaks[0][plan::MemoryKind::activations].raw();
}

/// What one layer more keeps.
std::int64_t bytes_of_a_layer(const Layout& layout) {
    return peak_of(7, layout) - peak_of(6, layout);
}

TEST(ActivationBytes, OfOneDevice) {
    EXPECT_EQ(bytes_of_a_layer({}), 32 * kSbh + 4 * kScores);
    EXPECT_EQ(bytes_of_a_layer({.recompute = Recompute::selective}), 32 * kSbh);
    EXPECT_EQ(bytes_of_a_layer({.recompute = Recompute::full}), 2 * kSbh);
}

TEST(ActivationBytes, OfTensorParallelDevices) {
    constexpr int kT = 4;
    EXPECT_EQ(bytes_of_a_layer({.devices = kT}), 8 * kSbh + 24 * kSbh / kT + 4 * kScores / kT);
    EXPECT_EQ(bytes_of_a_layer({.devices = kT, .recompute = Recompute::selective}),
              8 * kSbh + 24 * kSbh / kT);
    EXPECT_EQ(bytes_of_a_layer({.devices = kT, .recompute = Recompute::full}), 2 * kSbh);
}

TEST(ActivationBytes, OfSequenceParallelDevices) {
    constexpr int kT = 4;
    const auto bytes_of = [](Recompute recompute, bool gather_again) {
        return bytes_of_a_layer({.devices = kT,
                                 .between = BetweenProducts::sharded,
                                 .recompute = recompute,
                                 .gather_again = gather_again});
    };
    EXPECT_EQ(bytes_of(Recompute::none, true), (32 * kSbh + 4 * kScores) / kT);
    EXPECT_EQ(bytes_of(Recompute::selective, true), 32 * kSbh / kT);
    EXPECT_EQ(bytes_of(Recompute::full, true), 2 * kSbh / kT);
    // The operands of two products a layer stay gathered.
    EXPECT_EQ(bytes_of(Recompute::selective, false),
              32 * kSbh / kT + 2 * (2 * kSbh - 2 * kSbh / kT));
}

}  // namespace
}  // namespace partita::search
