// SPDX-License-Identifier: Apache-2.0
//
// A fixture for what splits of a few fully connected layers communicate.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plan/legality/config_legality.h"
#include "plan/lowering/lower.h"
#include "tests/plan/named_axes.h"
#include "tests/plan/network_builder.h"
#include "tests/plan/small_problems.h"

namespace partita::plan {

/// Name without devices and its bytes in float32 elements, for every communication.
inline std::vector<std::pair<std::string, std::int64_t>> communication(const Problem& problem,
                                                                       const TaskGraph& tasks) {
    std::vector<std::pair<std::string, std::int64_t>> found;
    for (const Task& task : tasks.tasks) {
        if (!is_communication(task.kind)) continue;
        const std::string kind(task.kind == TaskKind::copy ? name_of(task.kind)
                                                           : cost::name_of(task.collective));
        const std::string suffix = task.gradient ? ".grad" : task.updated ? ".new" : "";
        found.emplace_back(kind + " " + problem.graph().tensor(task.tensor).name + suffix,
                           task.bytes.raw() / 4);
    }
    return found;
}

/// A chain of fully connected layers x [8 k] w [k n], configs to be set by name.
class LayersTest : public testing::Test {
protected:
    static constexpr int kDevices = 4;
    static constexpr std::int64_t kBatch = 8;
    static constexpr std::int64_t kIn = 12;
    static constexpr std::int64_t kOut = 20;

    LayersTest() : machine_(switched_machine(kDevices)) {}

    void build(const std::vector<std::int64_t>& widths, std::int64_t batch = kBatch) {
        graph::TensorId last = source("x", graph::TensorRole::input, {batch, widths[0]});
        for (std::size_t i = 1; i < widths.size(); ++i) {
            const std::string n = std::to_string(i);
            const graph::TensorId w =
                source("w" + n, graph::TensorRole::parameter, {widths[i - 1], widths[i]});
            last = compute("mul" + n, "MatMul", {last, w}, {batch, widths[i]});
        }
        graph_.add_output("y", last);
    }

    /// y = table[ids] w
    void build_embedding() {
        const graph::TensorId ids = source("ids", graph::TensorRole::input, {kBatch});
        graph_.tensor(ids).dtype = graph::DType::int64;
        const graph::TensorId table = source("table", graph::TensorRole::parameter, {100, kIn});
        const graph::TensorId rows = compute("look", "Gather", {table, ids}, {kBatch, kIn});
        const graph::TensorId w = source("w", graph::TensorRole::parameter, {kIn, kOut});
        graph_.add_output("y", compute("mul", "MatMul", {rows, w}, {kBatch, kOut}));
    }

    graph::TensorId source(const std::string& name, graph::TensorRole role, graph::Shape shape) {
        return add_source(graph_, name, role, std::move(shape));
    }

    graph::TensorId compute(const std::string& name, const std::string& type,
                            std::vector<graph::TensorId> operands, graph::Shape shape,
                            graph::Attributes attributes = {}) {
        return add_compute(graph_, name, type, std::move(operands), std::move(shape),
                           std::move(attributes));
    }

    /// Everything replicated, but for the ops that are named.
    Strategy strategy(const std::map<std::string, AxisNames>& splits) const {
        Strategy strategy;
        for (std::size_t i = 0; i < graph_.op_count(); ++i) {
            OpConfig config{.axes = {Axis::replicas(kDevices)},
                            .devices = DeviceSet::progression(0, kDevices, 1)};
            if (const auto split = splits.find(graph_.ops()[i].name); split != splits.end()) {
                config.axes = axes_named(graph_, graph::OpId(i), split->second);
                int parts = 1;
                for (const Axis& axis : config.axes) parts *= axis.degree;
                config.devices = DeviceSet::progression(0, parts, 1);
            }
            strategy.ops.push_back({.config = config});
        }
        return strategy;
    }

    std::vector<std::pair<std::string, std::int64_t>> volumes(const Strategy& strategy) {
        const Problem problem = make_problem(
            graph_, machine_, {.mode = Mode::training, .objective = Objective::step_time});
        EXPECT_EQ(find_fault(problem, strategy), std::nullopt);
        return communication(problem, lower(problem, strategy));
    }

    graph::OpGraph graph_;
    cost::Machine machine_;
};

}  // namespace partita::plan
