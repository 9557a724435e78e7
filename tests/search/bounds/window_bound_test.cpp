// SPDX-License-Identifier: Apache-2.0
//
// Ops that read a window of an operand: parts read less than the operand together, or leave out
// what lies between their windows. What bounds count on must not be more than that.
#include <gtest/gtest.h>

#include "search/bounds/lower_bound.h"
#include "search/coarsening/op_groups.h"
#include "search/configs/search_space.h"
#include "tests/plan/network_builder.h"
#include "tests/plan/small_problems.h"
#include "tests/search/enumeration.h"

namespace partita::search {
namespace {

using graph::TensorId;
using graph::TensorRole;
using plan::NetworkBuilder;
using plan::Problem;
using plan::ProblemOptions;
using Ints = std::vector<std::int64_t>;

/// Copies and launches take next to nothing, so that values come close to the bound.
cost::Machine with_fast_links(int count) {
    const cost::Machine slow = plan::switched_machine(count);
    std::vector<cost::Link> links(slow.links().begin(), slow.links().end());
    for (cost::Link& link : links) {
        link.bandwidth = std::int64_t{1} << 50U;
        link.latency = Time{1};
    }
    std::vector<cost::Device> devices(slow.devices().begin(), slow.devices().end());
    for (cost::Device& device : devices) device.launch_interval = Time{1};
    return {"fast links", devices, {"switch"}, links};
}

/// 64 of 512 columns.
graph::OpGraph sliced() {
    NetworkBuilder build;
    const TensorId x = build.source("x", TensorRole::input, {64, 512});
    const TensorId scale = build.weight({512});
    graph::Attributes window = plan::attribute("starts", Ints{128});
    window.set("ends", Ints{192});
    window.set("axes", Ints{1});
    const auto scaled = build.add("Mul", {x, scale}, {{64, 512}});
    build.add("Slice", scaled, {{64, 64}}, window);
    build.add_outputs();
    return std::move(build.graph);
}

/// Every third of 46 elements; four parts read 4 x 10 of them.
graph::OpGraph subsampled() {
    NetworkBuilder build;
    const TensorId x = build.source("x", TensorRole::input, {1, 1, 46});
    build.add("Conv", {x, build.weight({1, 1, 1})}, {{1, 1, 16}},
              plan::attribute("strides", Ints{3}));
    build.add_outputs();
    return std::move(build.graph);
}

/// Windows that overlap: parts read more than the whole.
graph::OpGraph convolved() {
    NetworkBuilder build;
    const TensorId x = build.source("x", TensorRole::input, {1, 1, 31, 31});
    build.add("Conv", {x, build.weight({1, 1, 3, 3})}, {{1, 1, 15, 15}},
              plan::attribute("strides", Ints{2, 2}));
    build.add_outputs();
    return std::move(build.graph);
}

/// Over all configs of all ops, sources and updates as these need them.
void expect_bound_below_the_optimum(const graph::OpGraph& graph) {
    constexpr int kDevices = 4;
    const cost::Machine machine = with_fast_links(kDevices);
    ProblemOptions training;
    training.mode = plan::Mode::training;
    training.objective = plan::Objective::step_time;
    for (const ProblemOptions& options : {ProblemOptions{}, training}) {
        const Problem problem = plan::make_problem(graph, machine, options);
        const GroupGraph groups(problem, make_groups(problem, Grouping::all));
        SearchSpace space(groups);
        const Enumerated all = enumerate(space);
        EXPECT_GT(all.strategies, 10);
        const Time bound = lower_bound(problem).value;
        EXPECT_LE(bound, all.best.value) << name_of(options.mode);
        EXPECT_LE(all.best.value, 2 * bound) << "a bound far below all tells nothing";
    }
}

TEST(WindowBound, IsBelowPartsThatReadWhatTheyGive) {
    expect_bound_below_the_optimum(sliced());
}

TEST(WindowBound, IsBelowPartsThatLeaveGapsUnread) {
    expect_bound_below_the_optimum(subsampled());
}

TEST(WindowBound, IsBelowPartsThatOverlap) {
    expect_bound_below_the_optimum(convolved());
}

}  // namespace
}  // namespace partita::search
