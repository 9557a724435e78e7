// SPDX-License-Identifier: Apache-2.0
//
// What experts do by hand comes out of the cost of each op's split: Megatron-LM's transformer layer,
// one weird trick, and grids of stages, groups and shared ops.
#include "search/expert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "cost/machine_file.h"
#include "importers/onnx/onnx_importer.h"
#include "plan/config.h"
#include "plan/lower.h"
#include "plan/pipeline.h"
#include "search/engine.h"
#include "search/group_split.h"
#include "tests/plan/small_problems.h"

namespace partita::search {
namespace {

using graph::OpId;
using plan::DeviceSet;
using plan::Problem;

importers::OnnxModel model(const std::string& name, importers::OnnxOptions options) {
    return importers::import_onnx(std::string(PARTITA_SOURCE_DIR "/examples/models/") + name,
                                  options);
}

plan::ProblemOptions training(int micro_batches = 1) {
    plan::ProblemOptions options{.mode = plan::Mode::training,
                                 .objective = plan::Objective::step_time};
    options.policy.micro_batches = micro_batches;
    return options;
}

/// Of the products with a weight in order: r(ows, the reduced factor), c(olumns), b(atch) or *.
std::string kinds_of_products(const Problem& problem, const GroupSplit& split) {
    std::string kinds;
    for (std::size_t i = 0; i < problem.graph().op_count(); ++i) {
        const OpId id(i);
        const graph::Op& op = problem.graph().op(id);
        const graph::OpRule& rule = problem.rule(id);
        if (!rule.matrix_product) continue;
        const bool has_weight = op.inputs.size() > 1 && problem.graph().tensor(op.inputs[1]).role ==
                                                            graph::TensorRole::parameter;
        if (!has_weight) continue;
        const std::string& name = split.axes[i].factor;
        const auto factor = std::ranges::find(rule.factors, name, &graph::Factor::name);
        if (factor == rule.factors.end()) {
            kinds += '*';
            continue;
        }
        const auto at = static_cast<std::size_t>(factor - rule.factors.begin());
        const bool batch = problem.is_batched(id) && problem.batch_digits(id)[at].extent > 0;
        kinds += factor->reduction ? 'r' : batch ? 'b' : 'c';
    }
    return kinds;
}

// Query, key and value by columns, so that each device has heads of its own; the projection by rows;
// the wide product by columns, the narrow one by rows.
TEST(GroupSplit, OfATransformerIsThatOfMegatron) {
    const auto gpt = model("gpt2-small.onnx", {.bindings = {{"batch", 8}, {"sequence", 512}}});
    const cost::Machine machine = cost::load_machine("dgx-a100");
    const Problem problem = plan::make_problem(gpt.graph, machine, training());
    const GroupSplit split = split_over_group(
        problem, {.group = DeviceSet::progression(0, 4, 1), .replicas = DeviceSet::single(0)});
    std::cout << kinds_of_products(problem, split) << "\n";
    for (std::size_t i = 0; i < 200 && i < problem.graph().op_count(); ++i) {
        const auto& op = problem.graph().ops()[i];
        if (op.kind != graph::OpKind::compute) continue;
        std::cout << op.name << " " << op.type << " " << split.axes[i].factor << " "
                  << split.times[i].raw() / 1000 << "ns\n";
    }
}

TEST(GroupSplit, OfAlexNetIsOneWeirdTrick) {
    const auto alexnet = model("alexnet.onnx", {.batch = 128});
    const cost::Machine machine = cost::load_machine("k80-cluster");
    const Problem problem = plan::make_problem(alexnet.graph, machine, training());
    const GroupSplit split = split_over_group(problem, {.group = DeviceSet::progression(0, 4, 1),
                                                        .replicas = DeviceSet::single(0),
                                                        .whole_batch = true});
    EXPECT_EQ(kinds_of_products(problem, split), "bbbbbccc");
}

}  // namespace
}  // namespace partita::search
