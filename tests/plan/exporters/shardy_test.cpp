// SPDX-License-Identifier: Apache-2.0
//
// Exported shardings, expanded as Shardy does it, are the layouts of the plan.
#include "plan/exporters/shardy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "plan/exporters/shardy_mesh.h"
#include "tests/plan/exporters/merged_network.h"
#include "tests/plan/exporters/shardy_module.h"
#include "tests/plan/layout/random_layouts.h"
#include "tests/plan/random_programs.h"
#include "tests/plan/small_problems.h"

namespace partita::plan {
namespace {

using search::Random;
using testing::HasSubstr;

/// Axes major to minor as one number, and how many of them there are.
std::pair<std::int64_t, std::int64_t> flat(const ShardyMeshText& mesh,
                                           const std::vector<ShardyAxis>& axes,
                                           std::int64_t position) {
    std::int64_t number = 0;
    std::int64_t count = 1;
    for (const ShardyAxis& axis : axes) {
        number = number * axis.size + mesh.coordinate(axis, position);
        count *= axis.size;
    }
    return {number, count};
}

/// Do the parts of the axes, cut at once, with `dims[a]` the dim that axis a cuts or -1, and axes
/// major to minor as in `order`?
bool says(const std::vector<LaidOut>& micro_batches, const std::vector<std::size_t>& order,
          const std::vector<int>& dims) {
    const std::vector<Axis>& axes = micro_batches[0].config->axes;
    for (const LaidOut& tensor : micro_batches) {
        for (std::size_t p = 0; p < tensor.pieces.size(); ++p) {
            std::vector<std::int64_t> digits(axes.size());
            auto rest = static_cast<std::int64_t>(p);
            for (std::size_t a = axes.size(); a-- > 0; rest /= axes[a].degree) {
                digits[a] = rest % axes[a].degree;
            }
            std::vector<Indices> given = tensor.whole;
            for (std::size_t d = 0; d < given.size(); ++d) {
                std::int64_t number = 0;
                std::int64_t count = 1;
                for (const std::size_t a : order) {
                    if (dims[a] != static_cast<int>(d)) continue;
                    number = number * axes[a].degree + digits[a];
                    count *= axes[a].degree;
                }
                given[d] = chunk(given[d], count, number);
            }
            if (!says(tensor, tensor.pieces[p], given)) return false;
        }
    }
    return true;
}

/// Does any use of the axes of the config say it?
bool anything_says(const std::vector<LaidOut>& micro_batches) {
    const int rank = static_cast<int>(micro_batches[0].whole.size());
    std::vector<std::size_t> order(micro_batches[0].config->axes.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    do {
        std::vector<int> dims(order.size(), -1);
        for (std::size_t a = 0; a < dims.size();) {
            if (says(micro_batches, order, dims)) return true;
            a = 0;
            while (a < dims.size() && ++dims[a] == rank) dims[a++] = -1;
        }
    } while (std::next_permutation(order.begin(), order.end()));
    return false;
}

bool is_partial_but_no_sum(const LaidOut& tensor) {
    return tensor.combine != graph::Combine::none && tensor.combine != graph::Combine::sum;
}

void expect_sharding(const ShardyModule& module, const ShardyShardingText& sharding,
                     const std::vector<LaidOut>& micro_batches, ExportCounts& counts) {
    if (sharding.open) {
        ++counts.unsaid;
        const LaidOut& first = micro_batches[0];
        EXPECT_TRUE(first.is_windowed() || is_partial_but_no_sum(first) ||
                    !anything_says(micro_batches))
            << "tensor " << first.tensor.value;
        return;
    }
    ++counts.said;
    counts.partial += sharding.unreduced.empty() ? 0 : 1;
    const ShardyMeshText& mesh = module.meshes.at(sharding.mesh);
    for (const LaidOut& tensor : micro_batches) {
        std::vector<int> devices;
        for (const LaidOutPiece& piece : tensor.pieces) devices.push_back(piece.device);
        ASSERT_EQ(devices.size(), mesh.ids.size());
        std::sort(devices.begin(), devices.end());
        const bool is_maximal = mesh.axes.empty();
        ASSERT_EQ(sharding.dims.size(), is_maximal ? 0 : tensor.whole.size());
        for (std::size_t i = 0; i < mesh.ids.size(); ++i) {
            const auto position = static_cast<std::int64_t>(i);
            const int device =
                is_maximal ? mesh.ids[i] : devices.at(static_cast<std::size_t>(mesh.ids[i]));
            const auto piece = std::find_if(tensor.pieces.begin(), tensor.pieces.end(),
                                            [&](const auto& p) { return p.device == device; });
            ASSERT_NE(piece, tensor.pieces.end());
            std::vector<Indices> given = tensor.whole;
            for (std::size_t d = 0; d < sharding.dims.size(); ++d) {
                const auto [number, count] = flat(mesh, sharding.dims[d], position);
                given[d] = chunk(given[d], count, number);
            }
            EXPECT_TRUE(says(tensor, *piece, given)) << sharding.text;
            EXPECT_EQ(flat(mesh, sharding.unreduced, position).first, piece->summand)
                << sharding.text;
        }
    }
}

void expect_faithful_module(const Problem& problem, const Strategy& strategy,
                            ExportCounts& counts) {
    const ShardyModule module = read_shardy(shardy({.problem = problem, .strategy = strategy}));
    for (const std::vector<LaidOut>& tensor : laid_out(problem, strategy)) {
        const LaidOut& first = tensor[0];
        const ShardyOp& op = module.ops.at(problem.graph().op(first.op).name);
        const bool is_update = first.config != &strategy.config(first.op);
        const auto& of_side = is_update                     ? op.update
                              : first.side == Side::operand ? op.operands
                                                            : op.results;
        if (is_update && of_side.empty()) continue;  // nothing said
        std::size_t index = first.index;
        if (first.side == Side::operand) {  // those that are left out are not named
            const std::vector<graph::TensorId>& inputs = problem.graph().op(first.op).inputs;
            index -= static_cast<std::size_t>(
                std::count(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(index),
                           graph::TensorId{}));
        }
        ASSERT_LT(index, of_side.size());
        expect_sharding(module, of_side[index], tensor, counts);
    }
}

TEST(Shardy, ShardingsExpandToTheLayoutsOfRandomSplits) {
    expect_faithful_to_random_splits(expect_faithful_module);
}

TEST(Shardy, ShardingsExpandToTheLayoutsOfMergedDims) {
    MergedNetwork().expect_faithful(expect_faithful_module);
}

// 12 devices as 2x6, 2x2x3 and 6x2: 2 suits all, 4 and 6 do not suit each other.
TEST(Shardy, OneMeshServesConfigsThatCutItsDevicesDifferently) {
    constexpr int kM = 0;
    constexpr int kN = 1;
    constexpr int kK = 2;
    const DeviceSet devices = DeviceSet::progression(0, 12, 1);
    const OpConfig six{{Axis::along(kM, 2), Axis::along(kN, 6)}, devices};
    const OpConfig three{{Axis::along(kM, 2), Axis::along(kK, 2), Axis::along(kN, 3)}, devices};
    const OpConfig two{{Axis::along(kM, 6), Axis::along(kN, 2)}, devices};
    ShardyMesh mesh("mesh_0", devices);
    for (const OpConfig& config : {six, three, two}) mesh.add(config);
    EXPECT_EQ(mesh.definition(), R"(sdy.mesh @mesh_0 = <["a"=2, "b"=6]>)");
    EXPECT_EQ(mesh.axes({spans_of(three)[0]}), R"("a")");
    EXPECT_EQ(mesh.axes({spans_of(three)[1]}), R"("b":(1)2)");
    EXPECT_EQ(mesh.axes({spans_of(three)[2]}), R"("b":(2)3)");
    EXPECT_EQ(mesh.axes({spans_of(two)[0]}), R"("a", "b":(1)3)");
    EXPECT_EQ(mesh.axes({spans_of(three)[1], spans_of(three)[2]}), R"("b")");
    EXPECT_EQ(mesh.axes({spans_of(three)[2], spans_of(three)[1]}), R"("b":(2)3, "b":(1)2)");
}

TEST(Shardy, NamesOfAModelEndNeitherStringsNorComments) {
    graph::OpGraph graph = two_layers();
    graph.name = "a\nmodule {} //";
    graph.op(*graph.find_op("relu")).name = "\"} : () -> ()";
    const cost::Machine machine = switched_machine(2);
    const Problem problem = make_problem(graph, machine);
    const std::string text =
        shardy({.problem = problem, .strategy = on_devices(std::vector<int>(graph.op_count(), 1))});
    EXPECT_THAT(text, HasSubstr(R"(of "a\0Amodule {} //" on)"));
    EXPECT_THAT(text, HasSubstr(R"re(name = "\22} : () -> ()")re"));
}

TEST(Shardy, TextIsAsReviewed) {
    const MergedNetwork network;
    network.expect_golden("shardy.mlir",
                          shardy({.problem = network.problem(), .strategy = network.reviewed()}));
}

}  // namespace
}  // namespace partita::plan
