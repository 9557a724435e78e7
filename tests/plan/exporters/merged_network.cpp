// SPDX-License-Identifier: Apache-2.0
#include "tests/plan/exporters/merged_network.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <utility>

#include "base/files.h"
#include "base/json.h"
#include "plan/legality/config_legality.h"
#include "tests/plan/layout/random_layouts.h"
#include "tests/plan/network_builder.h"
#include "tests/plan/random_programs.h"
#include "tests/plan/small_problems.h"
#include "tests/support/paths.h"

namespace partita::plan {
namespace {

using graph::TensorId;
using graph::TensorRole;

graph::OpGraph network() {
    graph::OpGraph graph;
    graph.name = "merged";
    const TensorId x = add_source(graph, "x", TensorRole::input, {3, 4, 6});
    const TensorId shape =
        add_source(graph, "shape", TensorRole::constant, {2}, graph::DType::int64);
    graph.tensor(shape).known_integers = {12, 6};
    const TensorId w = add_source(graph, "w", TensorRole::parameter, {6, 8});
    const TensorId v = add_source(graph, "v", TensorRole::parameter, {6, 8});
    const TensorId u = add_source(graph, "u", TensorRole::parameter, {8, 5});
    const TensorId c = add_source(graph, "c", TensorRole::parameter, {5});
    const TensorId flat = add_compute(graph, "flat", "Reshape", {x, shape}, {12, 6});
    const TensorId mul = add_compute(graph, "mul", "MatMul", {flat, w}, {12, 8});
    const TensorId other = add_compute(graph, "other", "MatMul", {flat, v}, {12, 8});
    const TensorId sum = add_compute(graph, "sum", "Add", {mul, other}, {12, 8});
    const TensorId fc = add_compute(graph, "fc", "Gemm", {sum, u, c}, {12, 5});
    graph::Attributes rows;
    rows.set("axes", std::vector<std::int64_t>{1});
    rows.set("keepdims", std::int64_t{0});
    const TensorId most = add_compute(graph, "most", "ReduceMax", {sum}, {12}, rows);
    graph.add_output("y", fc);
    graph.add_output("z", most);
    return graph;
}

}  // namespace

void expect_faithful_to_random_splits(ExpectFaithful expect) {
    ExportCounts counts;
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        search::Random random(seed);
        const graph::OpGraph graph =
            random_network(random, 1 + draw(random, 6), Layers::samples_apart);
        const cost::Machine machine = switched_machine(12);
        const Problem problem = make_problem(
            graph, machine, {.mode = Mode::training, .objective = Objective::step_time});
        expect(problem, random_strategy(random, problem, 1 + draw(random, 3)), counts);
        if (testing::Test::HasFailure()) FAIL() << "seed " << seed;
    }
    // Random splits must not all be of one sort for this to mean something.
    EXPECT_GT(counts.said, 5'000);
    EXPECT_GT(counts.partial, 100);
    EXPECT_GT(counts.unsaid, 50);
}

void MergedNetwork::expect_faithful(ExpectFaithful expect) const {
    ExportCounts counts;
    for (const Strategy& strategy : strategies()) expect(problem_, strategy, counts);
    EXPECT_GT(counts.unsaid, 0);
}

MergedNetwork::MergedNetwork()
    : graph_(network()),
      machine_(switched_machine(8)),
      problem_(make_problem(graph_, machine_,
                            {.mode = Mode::training, .objective = Objective::step_time})) {}

std::string MergedNetwork::factor(const std::string& op, std::size_t dim, std::size_t place) const {
    const graph::OpRule& rule = problem_.facts().rule(*graph_.find_op(op));
    return rule.factors[static_cast<std::size_t>(rule.results[0].dims.at(dim).factors.at(place))]
        .name;
}

void MergedNetwork::split(Strategy& strategy, const std::string& op, const AxisNames& axes,
                          std::vector<int> devices) const {
    int parts = 1;
    for (const PlannedAxis& axis : axes) parts *= axis.degree;
    if (devices.empty()) {
        devices.resize(static_cast<std::size_t>(parts));
        std::iota(devices.begin(), devices.end(), 0);
    }
    const graph::OpId id = *graph_.find_op(op);
    strategy.ops[id.index()].config = {axes_named(problem_.facts().rule(id), axes),
                                       DeviceSet::list(std::move(devices))};
    EXPECT_EQ(find_fault(problem_, id, strategy.config(id), 1), std::nullopt) << op;
}

Strategy MergedNetwork::reviewed() const {
    Strategy strategy = on_devices(std::vector<int>(graph_.op_count(), 0));
    split(strategy, "x", {{"d0", 3}});
    split(strategy, "flat", {{factor("flat", 0), 3}});
    split(strategy, "mul", {{"m", 2}, {"k", 2}});
    split(strategy, "other", {{"m", 2}, {"k", 2}});
    split(strategy, "w", {{"d0", 2}}, {2, 3});
    split(strategy, "sum", {{factor("sum", 0), 2}, {"+", 2}});
    split(strategy, "fc", {{"k", 2}, {"n", 3}}, {5, 4, 3, 2, 1, 0});
    split(strategy, "c", {{"*", 4}}, {4, 5, 6, 7});
    const graph::OpId bias = *graph_.find_op("c");
    strategy.ops[bias.index()].update.update = {
        axes_named(problem_.facts().rule(bias), {{"d0", 2}}), DeviceSet::list({6, 7})};
    const graph::OpRule& most = problem_.facts().rule(*graph_.find_op("most"));
    for (const graph::Factor& axis : most.factors) {
        if (axis.reduction) split(strategy, "most", {{axis.name, 2}}, {7, 0});
    }
    return strategy;
}

std::vector<Strategy> MergedNetwork::strategies() const {
    std::vector<Strategy> all{reviewed()};
    EXPECT_EQ(find_fault(problem_, all[0]), std::nullopt);
    const std::string b = factor("flat", 0, 0);
    const std::string s = factor("flat", 0, 1);
    const auto add = [&](const std::string& op, const AxisNames& axes) {
        all.push_back(on_devices(std::vector<int>(graph_.op_count(), 0)));
        split(all.back(), op, axes);
    };
    add("flat", {{s, 2}});            // strided
    add("flat", {{b, 2}});            // 8 and 4 rows
    add("flat", {{b, 3}, {s, 2}});    // even, in order
    add("flat", {{s, 2}, {b, 3}});    // even, in another order than the mesh
    add("flat", {{b, 3}, {"*", 2}});  // copies
    add("fc", {{"n", 2}, {"n", 2}});  // 5: 2 1 | 1 1, and at once 2 2 | 1 0
    add("fc", {{"n", 2}, {"m", 2}, {"n", 2}});
    add("mul", {{"m", 2}, {"m", 3}});
    add("mul", {{"m", 3}, {"k", 2}});
    return all;
}

void MergedNetwork::expect_golden(const std::string& file, const std::string& text) {
    const auto path = tests::repository() / "tests/data/exports" / file;
    if (std::getenv("PARTITA_REWRITE_GOLDEN") != nullptr) {
        std::ofstream(path, std::ios::binary) << text;
    }
    EXPECT_EQ(text, read_text_file(path));
}

}  // namespace partita::plan
