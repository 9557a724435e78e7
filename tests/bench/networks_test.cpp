// SPDX-License-Identifier: Apache-2.0
//
// The networks are those that are published: sizes, work and number of ops.
#include "bench/networks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>

#include "base/error.h"
#include "cost/cost_model.h"
#include "cost/machine/machine_file.h"
#include "graph/operators/op_rule.h"
#include "plan/evaluation/evaluator.h"
#include "plan/legality/config_legality.h"
#include "plan/problem/problem.h"
#include "search/hybrid_parallel/data_parallel.h"

namespace partita::bench {
namespace {

using graph::OpGraph;
using graph::OpId;

/// In millions.
double parameters(const OpGraph& graph) {
    double count = 0;
    for (const graph::Tensor& tensor : graph.tensors()) {
        if (tensor.role != graph::TensorRole::parameter) continue;
        count += static_cast<double>(tensor.elements());
    }
    return count / 1e6;
}

/// Forward, of one sample, in units of 10^9, in matrix products and convolutions.
double giga_flops(const OpGraph& graph, std::int64_t batch) {
    double sum = 0;
    for (const graph::OpRule& rule : graph::rules_of(graph)) {
        if (rule.matrix_product) sum += static_cast<double>(rule.flops.raw());
    }
    return sum / 1e9 / static_cast<double>(batch);
}

struct Published {
    const char* name;
    int ops;            ///< of REFERENCES.md 6.9 where it has them, else of the papers' layers
    double parameters;  ///< millions
    double giga_flops;  ///< of one sample, two per multiply-add
};

class Networks : public testing::TestWithParam<Published> {};

TEST_P(Networks, HaveThePublishedSize) {
    constexpr std::int64_t kBatch = 32;
    const OpGraph graph = make_network(GetParam().name, kBatch);
    graph::check(graph);
    EXPECT_EQ(computing_ops(graph), GetParam().ops);
    EXPECT_NEAR(parameters(graph), GetParam().parameters, 0.015 * GetParam().parameters);
    EXPECT_NEAR(giga_flops(graph, kBatch), GetParam().giga_flops, 0.02 * GetParam().giga_flops);
}

/// Units u, vocabularies v: embeddings and last layer, LSTM layers with two biases each.
double lstm_parameters(double layers, double units) {
    return layers * (8 * units * units + 8 * units) / 1e6;
}

const double kTranslatorParameters =
    3 * 32'320 * 1'024 / 1e6 + lstm_parameters(4, 1'024) + 2 * 1'024 * 1'024 / 1e6;
/// 40 steps: four layers, attention over 40 states, its combination, the last layer.
const double kTranslatorFlops =
    40 * 2 * (4 * 8 * 1'024. * 1'024 + 2 * 40 * 1'024. + 2 * 1'024. * 1'024 + 32'320 * 1'024.) /
    1e9;

// Torchvision's tables give parameters and multiply-adds of the convolutional ones; the chain lacks
// ResNet's 2.8 M of projections and their 0.5 GFLOP.
INSTANTIATE_TEST_SUITE_P(
    Published, Networks,
    testing::Values(
        Published{"lenet-5", 8, 0.0617, 0.00085}, Published{"vgg-16", 22, 138.36, 30.96},
        Published{"alexnet", 12, 61.1, 1.43}, Published{"resnet-50", 53 + 16 + 4, 25.56, 8.18},
        Published{"resnet-101", 104 + 33 + 4, 44.55, 15.60},
        Published{"resnet-101-chain", 104, 44.55 - 2.77, 15.60 - 0.73},
        Published{"inception-v3", 121, 23.83, 11.43}, Published{"densenet-121", 185, 7.98, 5.67},
        Published{"nmt", 41, kTranslatorParameters, kTranslatorFlops},
        Published{"translator", 40 * 3 + 1 + 40 * 7, kTranslatorParameters, kTranslatorFlops},
        Published{"language-model", 160, 2 * 10'000 * 2'048 / 1e6 + lstm_parameters(2, 2'048),
                  40 * 2 * (2 * 8 * 2'048. * 2'048 + 10'000 * 2'048.) / 1e9}),
    [](const auto& row) {
        std::string name = row.param.name;
        std::replace(name.begin(), name.end(), '-', '_');
        return name;
    });

TEST(NetworkTable, NamesEveryNetworkOnceAndRefusesOthers) {
    std::set<std::string_view> names;
    for (const NetworkRow& row : network_table()) names.insert(row.name);
    EXPECT_EQ(names.size(), network_table().size());
    try {
        make_network("vgg", 1);
        FAIL();
    } catch (const UsageError& error) {
        EXPECT_THAT(error.what(),
                    testing::HasSubstr("'vgg'. Known are lenet-5, alexnet, vgg-16, resnet-50"));
    }
}

// Otherwise there would be nothing to search for.
TEST(NetworkTable, EveryOpThatComputesCanBeSplitAlongTheBatch) {
    const cost::Machine machine = cost::load_machine("p100-cluster:1x4");
    for (const NetworkRow& row : network_table()) {
        const OpGraph graph = row.make(4 * row.samples_per_gpu);
        const plan::Problem problem(
            graph, machine, cost::default_cost_model(),
            {.mode = plan::Mode::training, .objective = plan::Objective::step_time});
        for (std::size_t i = 0; i < graph.op_count(); ++i) {
            const OpId op(i);
            if (graph.op(op).kind != graph::OpKind::compute) continue;
            EXPECT_FALSE(problem.facts().rule(op).conservative)
                << row.name << ' ' << graph.op(op).name;
            EXPECT_TRUE(problem.facts().is_batched(op)) << row.name << ' ' << graph.op(op).name;
            EXPECT_GE(problem.constraints().split_limit(op), 4)
                << row.name << ' ' << graph.op(op).name;
        }
    }
}

// Memory is no part of this: one parameter read by 40 steps has 40 gradients before they are added.
TEST(NetworkTable, EveryNetworkTrainsDataParallelFasterThanOnOneDevice) {
    const cost::Machine machine = cost::load_machine("p100-cluster:1x4");
    for (const NetworkRow& row : network_table()) {
        if (row.name == "lenet-5") continue;  // its tasks are shorter than messages
        const OpGraph graph = row.make(4 * row.samples_per_gpu);
        const plan::Problem problem(
            graph, machine, cost::default_cost_model(),
            {.mode = plan::Mode::training, .objective = plan::Objective::step_time});
        const auto evaluator = plan::make_evaluator(problem, plan::Scheduler::pct);
        const auto value = [&](int devices) {
            const plan::Strategy strategy = search::data_parallel_strategy(
                problem, plan::DeviceSet::progression(0, devices, 1));
            EXPECT_EQ(plan::find_fault(problem, strategy), std::nullopt) << row.name;
            return evaluator->evaluate(strategy).value;
        };
        EXPECT_LT(2 * value(4), value(1)) << row.name;
    }
}

}  // namespace
}  // namespace partita::bench
