// SPDX-License-Identifier: Apache-2.0
#include "search/configs/config_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "plan/legality/config_legality.h"
#include "search/hybrid_parallel/data_parallel.h"
#include "tests/plan/named_axes.h"
#include "tests/plan/random_programs.h"
#include "tests/plan/small_problems.h"
#include "tests/search/enumeration.h"
#include "tests/support/random_graph.h"

namespace partita::search {
namespace {

using graph::OpId;
using plan::axes_named;
using plan::DeviceSet;
using plan::Problem;
using plan::ProblemOptions;
using testing::Contains;
using testing::ElementsAre;

class TableOfLeNet : public testing::Test {
protected:
    TableOfLeNet()
        : graph_(lenet()), machine_(plan::switched_machine(8, {0, 0, 0, 0, 1, 1, 1, 1})) {}

    Problem problem(const ProblemOptions& options = {}) {
        return plan::make_problem(graph_, machine_, options);
    }
    OpId product() { return *graph_.find_op("Conv4"); }

    graph::OpGraph graph_;
    cost::Machine machine_;
};

TEST_F(TableOfLeNet, HoldsLegalConfigsOnlyEachOnce) {
    ProblemOptions options;
    options.constraints.allowed.resize(graph_.op_count());
    options.constraints.allowed[product().index()] = {0, 1, 2, 3, 6};
    const Problem problem = this->problem(options);
    ConfigTable table(problem);
    std::size_t configs = 0;
    for (std::size_t i = 0; i < graph_.op_count(); ++i) {
        for (const int size : table.sizes(OpId(i))) {
            const auto& sets = table.device_sets(OpId(i), size);
            const auto& degrees = table.degrees(OpId(i), size);
            for (std::size_t d = 0; d < degrees.size(); ++d) {
                EXPECT_EQ(std::count(degrees.begin(), degrees.end(), degrees[d]), 1);
                for (const DeviceSet& set : sets) {
                    EXPECT_EQ(find_fault(problem, OpId(i), {degrees[d], set}, 1), std::nullopt);
                    ++configs;
                }
            }
        }
    }
    EXPECT_GT(configs, 1'000U);
}

// What is found for one op of a class is given to all of it.
TEST(ConfigTable, HasForEveryOpTheDegreesThatAreLegalForIt) {
    std::size_t shared = 0;
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Random random(seed);
        const graph::OpGraph graph = support::random_network(random, 12);
        const cost::Machine machine = plan::switched_machine(4);
        ProblemOptions options;
        options.constraints.allowed.resize(graph.op_count());
        for (auto& allowed : options.constraints.allowed) {
            if (random.below(4) == 0) allowed = {0, static_cast<int>(1 + random.below(3))};
        }
        const Problem problem = plan::make_problem(graph, machine, options);
        const auto blocks = blocks_of_factors(problem);
        const ConfigClasses classes(problem, blocks);
        ConfigTable table(problem);
        DegreeLists lists(problem);
        for (std::size_t i = 0; i < graph.op_count(); ++i) {
            const OpId op(i);
            if (classes.example(classes.of(op)) != op) ++shared;
            for (const int size : {1, 2, 4}) {
                const DegreeChoices own(problem, op, size, blocks[i], lists);
                EXPECT_EQ(table.degrees(op, size), own.degrees());
            }
        }
    }
    EXPECT_GT(shared, 100U);
}

// A window or a reduction of one operand may not be cut in blocks, which other ops with factors of
// the same names and extents may.
TEST(ConfigTable, KnowsOfEveryOpWhatIsLegalForIt) {
    std::size_t legal_blocks = 0;
    std::size_t illegal_blocks = 0;
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Random random(seed);
        const graph::OpGraph graph = plan::random_network(random, 12, plan::Layers::any);
        const cost::Machine machine = plan::switched_machine(2);
        const Problem problem = plan::make_problem(graph, machine);
        ConfigTable table(problem);
        const MicroBatchesId one = table.micro_batches_id(1);
        const auto check = [&](OpId op, const plan::Axis& axis) {
            const bool legal = is_legal_split(problem, op, {axis}, 2, 1);
            const DegreesId id = table.degree_lists().id(op, {axis});
            EXPECT_EQ(table.is_legal_split(op, id, one), legal)
                << graph.op(op).name << " " << name_of(problem.facts().rule(op), axis);
            if (axis.blocks > 1) ++(legal ? legal_blocks : illegal_blocks);
        };
        for (std::size_t i = 0; i < graph.op_count(); ++i) {
            const graph::OpRule& rule = problem.facts().rule(OpId(i));
            for (std::size_t f = 0; f < rule.factors.size(); ++f) {
                for (const std::int64_t blocks : {1, 2, 3}) {
                    if (rule.factors[f].extent % blocks == 0) {
                        check(OpId(i), plan::Axis::along(f, 2, blocks));
                    }
                }
            }
            check(OpId(i), plan::Axis::summands(2));
            for (int operand = 0; operand < 2; ++operand) {
                check(OpId(i), plan::Axis::summands(2, operand));
            }
        }
    }
    EXPECT_GT(legal_blocks, 100U);
    EXPECT_GT(illegal_blocks, 20U);
}

// Three of eight devices, which no size of the machine divides.
TEST_F(TableOfLeNet, HasStretchesOfTheDevicesThatConstraintsLeave) {
    ProblemOptions options;
    options.constraints.allowed.resize(graph_.op_count());
    options.constraints.allowed[product().index()] = {1, 2, 6};
    const Problem problem = this->problem(options);
    ConfigTable table(problem);
    EXPECT_THAT(table.sizes(product()), ElementsAre(1, 2, 3));
    EXPECT_THAT(table.device_sets(product(), 3), ElementsAre(DeviceSet::list({1, 2, 6})));
}

TEST_F(TableOfLeNet, HasSplitsReplicasReductionsAndPairsOfThem) {
    const Problem problem = this->problem();
    ConfigTable table(problem);
    EXPECT_THAT(table.sizes(product()), ElementsAre(1, 2, 4, 8));
    const auto& degrees = table.degrees(product(), 4);
    const graph::OpRule& rule = problem.facts().rule(product());
    EXPECT_THAT(degrees, Contains(axes_named(rule, {{"*", 4}})));
    EXPECT_THAT(degrees, Contains(axes_named(rule, {{"n", 4}})));
    EXPECT_THAT(degrees, Contains(axes_named(rule, {{"n", 2}, {"f", 2}})));
    EXPECT_THAT(degrees, Contains(axes_named(rule, {{"f", 2}, {"n", 2}})));
    const bool reduces = std::any_of(degrees.begin(), degrees.end(), [&](const auto& axes) {
        return axes[0].is_factor() &&
               rule.factors[static_cast<std::size_t>(axes[0].factor)].reduction;
    });
    EXPECT_TRUE(reduces);
}

TEST_F(TableOfLeNet, HasStretchesAndStridesOverNodes) {
    const Problem problem = this->problem();
    ConfigTable table(problem);
    const auto& pairs = table.device_sets(product(), 2);
    EXPECT_THAT(pairs, Contains(DeviceSet::progression(6, 2, 1)));
    EXPECT_THAT(pairs, Contains(DeviceSet::progression(3, 2, 4)));  // one of each node
    EXPECT_THAT(table.device_sets(product(), 8), Contains(DeviceSet::progression(0, 8, 1)));
    EXPECT_EQ(table.device_sets(product(), 1).size(), 8U);
}

TEST_F(TableOfLeNet, LeavesOutWhatDimsLeaveOut) {
    ProblemOptions options;
    options.constraints.unsplit = {graph::SoapClass::sample};
    const Problem restricted = problem(options);
    ConfigTable table(restricted);
    for (const auto& degrees : table.degrees(product(), 4)) {
        for (const plan::Axis& axis : degrees) {
            EXPECT_NE(name_of(restricted.facts().rule(product()), axis), "n");
        }
    }
    EXPECT_EQ(find_fault(restricted, product(),
                         {.axes = axes_named(restricted.facts().rule(product()), {{"n", 2}}),
                          .devices = DeviceSet::progression(0, 2, 1)},
                         1),
              "factor 'n': stays whole here (--dims)");
    options.constraints.whole_ops = true;
    const Problem whole = problem(options);
    ConfigTable whole_table(whole);
    EXPECT_THAT(whole_table.sizes(product()), ElementsAre(1));
}

TEST_F(TableOfLeNet, DrawsWithTheProbabilitiesThatItStates) {
    const Problem problem = this->problem();
    ConfigTable table(problem);
    double sum = 0;
    for (const auto& degrees : table.degrees(product(), 8)) {
        sum += std::exp(table.log_probability(product(), 8, degrees));
    }
    EXPECT_NEAR(sum, 1, 1e-9);
    Random random(1);
    int singles = 0;
    constexpr int kDraws = 4'000;
    for (int i = 0; i < kDraws; ++i) {
        const DegreesId drawn = table.draw_degrees(product(), 8, random);
        if (table.degree_lists().degrees(product(), drawn).size() == 1) ++singles;
    }
    EXPECT_NEAR(singles, kDraws / 2.0, kDraws / 20.0);
}

TEST(ConfigTable, OfAVeryLargeMachineIsMadeAtOnce) {
    const graph::OpGraph graph = plan::two_layers();
    std::vector<int> nodes;
    for (int i = 0; i < 4'096; ++i) nodes.push_back(i / 8);
    const cost::Machine machine = plan::switched_machine(4'096, nodes);
    const Problem problem = plan::make_problem(graph, machine);
    ConfigTable table(problem);
    EXPECT_EQ(table.device_sets(OpId(2U), 1).size(), 4'096U);
    EXPECT_EQ(table.device_sets(OpId(2U), 8).size(), 4U * 512U);  // strides 1, 2, 4, 8
    EXPECT_EQ(table.sizes(OpId(2U)).back(), 4'096);
}

TEST(ConfigTable, OfAMixedMachineHasTheSetsOfTheFastKind) {
    const graph::OpGraph graph = plan::two_layers();
    const cost::Machine equal = plan::switched_machine(4);
    std::vector<cost::Device> devices(equal.devices().begin(), equal.devices().end());
    for (const std::size_t slow : {1, 3}) {
        devices[slow].model = "slow";
        devices[slow].matrix_flops.fill(1'000'000);
    }
    const cost::Machine machine("mixed", devices, {"switch"},
                                {equal.links().begin(), equal.links().end()});
    const Problem problem = plan::make_problem(graph, machine);
    ConfigTable table(problem);
    const auto& pairs = table.device_sets(OpId(2U), 2);
    EXPECT_THAT(pairs, Contains(DeviceSet::progression(0, 2, 2)));
    EXPECT_EQ(std::count(pairs.begin(), pairs.end(), DeviceSet::progression(0, 2, 2)), 1);
}

}  // namespace
}  // namespace partita::search
