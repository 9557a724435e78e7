// SPDX-License-Identifier: Apache-2.0
//
// Where a model is cut: by work, as far as memory allows.
#include "search/hybrid_parallel/layer_cut.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/plan/network_builder.h"
#include "tests/plan/small_problems.h"

namespace partita::search {
namespace {

using graph::TensorId;
using testing::ElementsAre;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

/// Four layers of equal work and a head of as much as all of them; a layer has 8 MiB of weights and
/// their gradients, the input has 16 MiB, and each product but the first saves as much.
class LayersAndHead : public testing::Test {
protected:
    LayersAndHead() {
        TensorId last = build_.source("x", graph::TensorRole::input, {4096, 1024});
        for (int i = 0; i < 4; ++i) {
            last = build_.add("MatMul", {last, build_.weight({1024, 1024})}, {{4096, 1024}})[0];
        }
        build_.add("MatMul", {last, build_.weight({1024, 4096})}, {{4096, 4096}});
        build_.add_outputs();
    }

    /// The slots of the products, the first with so much memory.
    [[nodiscard]] std::vector<int> cut(std::int64_t mebibytes, std::int64_t saved_parts) const {
        const plan::Problem problem = plan::make_problem(
            build_.graph, machine_,
            {.mode = plan::Mode::training, .objective = plan::Objective::step_time});
        const GroupGraph groups(problem, make_groups(problem, Grouping::all));
        const std::vector<int> slots = cut_layers(
            groups, {{.device = 0, .memory = Bytes(mebibytes * kMiB), .saved_parts = saved_parts},
                     {.device = 1, .memory = Bytes(500 * kMiB), .saved_parts = saved_parts}});
        std::vector<int> of_products;
        for (std::size_t i = 0; i < build_.graph.op_count(); ++i) {
            if (build_.graph.ops()[i].type != "MatMul") continue;
            of_products.push_back(slots[static_cast<std::size_t>(groups.groups().of[i])]);
        }
        return of_products;
    }

    plan::NetworkBuilder build_;
    cost::Machine machine_ = plan::switched_machine(2);
};

TEST_F(LayersAndHead, AreCutByWorkAsFarAsMemoryAllows) {
    EXPECT_THAT(cut(100, 1), ElementsAre(0, 0, 0, 0, 1));
    EXPECT_THAT(cut(80, 1), ElementsAre(0, 0, 0, 1, 1));
}

// Of a micro-batch, or of the share of a group, less lies there than of the whole batch.
TEST_F(LayersAndHead, HoldAShareOfWhatIsSaved) {
    EXPECT_THAT(cut(80, 2), ElementsAre(0, 0, 0, 0, 1));
    EXPECT_THAT(cut(55, 16), ElementsAre(0, 0, 0, 0, 1));
    EXPECT_THAT(cut(45, 16), ElementsAre(0, 0, 0, 1, 1))
        << "with the input weights alone are too much";
}

}  // namespace
}  // namespace partita::search
