// SPDX-License-Identifier: Apache-2.0
#include "search/list_scheduling/memory_repair.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "search/portfolio/search_run.h"
#include "search/portfolio/searcher_table.h"
#include "tests/plan/small_problems.h"
#include "tests/support/random_graph.h"

namespace partita::search {
namespace {

using plan::Problem;
using plan::ProblemOptions;

/// Starts from everything on device 0.
class AllOnOne final : public Searcher {
public:
    Status step(Engine& engine) override {
        evaluate_and_repair(engine, Placement(engine.groups().size(), 0));
        return Status::found;
    }
};

SearchResult repair_all_on_one(const Problem& problem, EngineOptions options = {}) {
    const std::array rows{
        SearcherRow{.name = "all on one", .summary = "", .make = [](Engine& /*engine*/) {
                        return std::unique_ptr<Searcher>(std::make_unique<AllOnOne>());
                    }}};
    return search(problem, std::move(options), rows);
}

class Repair : public testing::Test {
protected:
    SearchResult with_limit(std::int64_t bytes, plan::Mode mode, EngineOptions options = {}) {
        ProblemOptions kind;
        kind.mode = mode;
        if (mode == plan::Mode::training) kind.objective = plan::Objective::step_time;
        kind.constraints.memory_limit = Bytes{bytes};
        return repair_all_on_one(plan::make_problem(graph_, machine_, kind), std::move(options));
    }

    // 8 weights of 1,024 bytes, tensors of 512 bytes.
    graph::OpGraph graph_ = support::chain_network(16);
    cost::Machine machine_ = plan::switched_machine(4);
};

TEST_F(Repair, LeavesWhatFits) {
    const SearchResult result = with_limit(1'000'000, plan::Mode::inference);
    EXPECT_EQ(result.evaluations, 1);
    EXPECT_EQ(result.evaluation.devices[1].memory, Bytes{0});
}

TEST_F(Repair, MovesWeightsToDevicesWithRoom) {
    // 8 kB of weights and some tensors do not fit into 5 kB, but into twice that.
    const SearchResult result = with_limit(5000, plan::Mode::inference);
    EXPECT_NE(result.status, Status::infeasible) << result.shortage;
    EXPECT_EQ(result.evaluations, 2);                             // what moved sufficed at once
    EXPECT_GT(result.evaluation.devices[0].memory, Bytes{2500});  // and no more moved than needed
}

TEST_F(Repair, MovesNoMoreThanItMust) {
    // One weight of eight is too much: one group moves, so two devices hold something.
    const SearchResult result = with_limit(9000, plan::Mode::inference);
    EXPECT_NE(result.status, Status::infeasible) << result.shortage;
    const auto& devices = result.evaluation.devices;
    EXPECT_EQ(std::count_if(devices.begin(), devices.end(),
                            [](const plan::DeviceUse& use) { return use.memory > Bytes{0}; }),
              2);
}

TEST_F(Repair, DealsOutAgainWhereMovesDoNotSuffice) {
    // Room for two or three layers each: moved groups leave gaps that take no other.
    const SearchResult result = with_limit(4000, plan::Mode::inference);
    EXPECT_NE(result.status, Status::infeasible) << result.shortage;
}

TEST_F(Repair, MovesActivationsThatTrainingKeeps) {
    const SearchResult result = with_limit(12'000, plan::Mode::training);
    EXPECT_NE(result.status, Status::infeasible) << result.shortage;
}

TEST_F(Repair, MovesOpsWhoseResultsAloneAreTooMuch) {
    // No weights. 20 Relus of x, 512 bytes each, that four Sums of five read.
    graph::OpGraph graph;
    const auto tensor = [](const std::string& name) {
        graph::Tensor result;
        result.name = name;
        result.shape = {8, 16};
        return result;
    };
    const auto compute = [&](const std::string& name, const char* type,
                             std::vector<graph::TensorId> operands) {
        graph::Op op;
        op.name = name;
        op.type = type;
        op.opset = 13;
        op.inputs = std::move(operands);
        op.outputs = {graph.add_tensor(tensor(name + ".out"))};
        graph.add_op(op);
        return op.outputs[0];
    };
    graph::Tensor input = tensor("x");
    input.role = graph::TensorRole::input;
    const graph::TensorId x = graph.add_source(input);
    std::vector<std::vector<graph::TensorId>> terms(4);
    for (std::size_t i = 0; i < 20; ++i) {
        terms[i % 4].push_back(compute("relu" + std::to_string(i), "Relu", {x}));
    }
    for (std::size_t i = 0; i < 4; ++i) {
        const std::string name = std::to_string(i);
        graph.add_output("y" + name, compute("sum" + name, "Sum", terms[i]));
    }
    ProblemOptions options;
    options.constraints.memory_limit = Bytes{8192};  // on one device all 20 and x: 10,752 bytes
    const Problem problem = plan::make_problem(graph, machine_, options);
    const SearchResult result = repair_all_on_one(problem);
    EXPECT_NE(result.status, Status::infeasible) << result.shortage;
    EXPECT_GT(result.evaluations, 1);
}

TEST_F(Repair, GivesUpAndSaysWhatIsShort) {
    // A device holds two weights of the eight, and no tensors beside them.
    const SearchResult result = with_limit(2200, plan::Mode::inference);
    EXPECT_EQ(result.status, Status::infeasible);
    EXPECT_NE(result.shortage.find("bytes short in all"), std::string::npos) << result.shortage;
    EXPECT_EQ(result.strategy.ops.size(), graph_.op_count());
}

TEST_F(Repair, StopsWithTheBudget) {
    EngineOptions options;
    options.evaluations = 1;
    const SearchResult result = with_limit(5000, plan::Mode::inference, options);
    EXPECT_EQ(result.status, Status::infeasible);
    EXPECT_EQ(result.evaluations, 1);
}

}  // namespace
}  // namespace partita::search
