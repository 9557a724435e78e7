// SPDX-License-Identifier: Apache-2.0
//
// Shardings in ONNX's words, expanded as the proposal does, are the layouts of the plan.
#include "api/onnx_sharding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <onnx/onnx_pb.h>

#include "base/error.h"
#include "importers/onnx/onnx_importer.h"
#include "search/support/random.h"
#include "tests/plan/layout/laid_out.h"
#include "tests/plan/random_programs.h"
#include "tests/plan/small_problems.h"
#include "tests/support/draws.h"
#include "tests/support/paths.h"

namespace partita::api {
namespace {

using plan::Indices;
using plan::LaidOut;

/// Per device the positions of its shards, dim by dim. Row-major over the sharded dims.
std::multimap<std::int64_t, std::vector<Indices>> expanded(const onnx::ShardingSpecProto& spec,
                                                           const std::vector<Indices>& whole) {
    std::vector<std::int64_t> shards(whole.size(), 1);
    for (const onnx::ShardedDimProto& dim : spec.sharded_dim()) {
        shards[static_cast<std::size_t>(dim.axis())] = dim.simple_sharding(0).num_shards();
    }
    std::map<std::int64_t, std::vector<std::int64_t>> groups;
    for (const onnx::IntIntListEntryProto& entry : spec.index_to_device_group_map()) {
        groups[entry.key()].assign(entry.value().begin(), entry.value().end());
    }
    std::multimap<std::int64_t, std::vector<Indices>> positions;
    for (int i = 0; i < spec.device_size(); ++i) {
        std::vector<Indices> own(whole.size());
        std::int64_t left = i;
        for (std::size_t d = whole.size(); d-- > 0; left /= shards[d]) {
            own[d] = plan::chunk(whole[d], shards[d], left % shards[d]);
        }
        const auto group = groups.find(spec.device(i));
        const auto devices = group == groups.end() ? std::vector{spec.device(i)} : group->second;
        for (const std::int64_t device : devices) positions.emplace(device, own);
    }
    return positions;
}

/// The program of examples/runnable, on four GPUs.
class OnnxSharding : public testing::TestWithParam<const char*> {
protected:
    OnnxSharding()
        : file_(tests::repository() / "examples/runnable" / GetParam() / "model.onnx"),
          model_(importers::import_onnx(file_, {.batch = 4})),
          machine_(plan::switched_machine(4)),
          problem_(plan::make_problem(model_.graph, machine_, {})) {}

    [[nodiscard]] onnx::ModelProto written(const plan::Strategy& strategy) const {
        onnx::ModelProto model;
        EXPECT_TRUE(model.ParseFromString(onnx_with_sharding(file_, problem_, strategy)));
        return model;
    }

    std::filesystem::path file_;
    importers::OnnxModel model_;
    cost::Machine machine_;
    plan::Problem problem_;
};

/// Of operands and results, by op and name.
using Layouts = std::map<std::pair<std::string, std::string>, std::vector<LaidOut>>;

void expect_says(const onnx::ShardingSpecProto& spec, const std::vector<LaidOut>& micro_batches) {
    for (const LaidOut& tensor : micro_batches) {
        const auto positions = expanded(spec, tensor.whole);
        for (const plan::LaidOutPiece& piece : tensor.pieces) {
            const auto [begin, end] = positions.equal_range(piece.device);
            EXPECT_TRUE(std::any_of(begin, end, [&](const auto& own) {
                return plan::says(tensor, piece, own.second);
            })) << spec.DebugString();
        }
        std::set<int> devices;
        for (const plan::LaidOutPiece& piece : tensor.pieces) devices.insert(piece.device);
        for (const auto& [device, own] : positions) {
            EXPECT_TRUE(devices.contains(static_cast<int>(device)));
        }
    }
}

TEST_P(OnnxSharding, ExpandsToTheLayoutsOfRandomSplits) {
    int said = 0;
    int left_out = 0;
    for (const std::uint64_t seed : support::seeds(20)) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        search::Random random(seed);
        const plan::Strategy strategy = plan::random_strategy(random, problem_, 1);
        Layouts layouts;
        for (const std::vector<LaidOut>& each : plan::laid_out(problem_, strategy)) {
            const graph::Op& op = problem_.graph().op(each[0].op);
            layouts[{op.outputs.empty() ? "" : problem_.graph().tensor(op.outputs[0]).name,
                     problem_.graph().tensor(each[0].tensor).name}] = each;
        }
        const onnx::ModelProto model = written(strategy);
        for (const onnx::NodeProto& node : model.graph().node()) {
            for (const auto& own : node.device_configurations()) {
                EXPECT_EQ(own.configuration_id(), "partita");
                for (const onnx::ShardingSpecProto& spec : own.sharding_spec()) {
                    const auto known = layouts.find({node.output(0), spec.tensor_name()});
                    ASSERT_NE(known, layouts.end()) << spec.tensor_name();
                    expect_says(spec, known->second);
                    ++said;
                }
                left_out += node.input_size() + node.output_size() - own.sharding_spec_size();
            }
        }
    }
    EXPECT_GT(said, 4 * left_out);
}

TEST_P(OnnxSharding, LeavesTheNetworkAsItIs) {
    search::Random random(1);
    onnx::ModelProto model = written(plan::random_strategy(random, problem_, 1));
    EXPECT_GE(model.ir_version(), 11);
    ASSERT_EQ(model.configuration_size(), 1);
    EXPECT_EQ(model.configuration(0).num_devices(), 4);
    EXPECT_THAT(model.configuration(0).device(),
                testing::ElementsAre("gpu0", "gpu1", "gpu2", "gpu3"));
    const std::int64_t version = model.ir_version();
    model.clear_configuration();
    for (onnx::NodeProto& node : *model.mutable_graph()->mutable_node()) {
        node.clear_device_configurations();
    }
    onnx::ModelProto original;
    std::ifstream stream(file_, std::ios::binary);
    ASSERT_TRUE(original.ParseFromIstream(&stream));
    original.set_ir_version(version);
    EXPECT_EQ(model.SerializeAsString(), original.SerializeAsString());
    EXPECT_FALSE(has_external_data(file_));
}

INSTANTIATE_TEST_SUITE_P(Of, OnnxSharding, testing::Values("mlp", "convnet", "dlrm-tiny"),
                         [](const auto& param) {
                             std::string name = param.param;
                             std::erase(name, '-');
                             return name;
                         });

}  // namespace
}  // namespace partita::api
