// SPDX-License-Identifier: Apache-2.0
#include "api/transfer_probes.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "graph/op_graph.h"
#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"
#include "search/configs/parameter_sharding.h"

namespace partita::api {
namespace {

using graph::OpId;
using graph::TensorId;
using plan::DeviceSet;
using plan::OpConfig;

/// How the two ops of a chain lie.
enum class Form { whole, rows, columns, everywhere };

struct Pattern {
    bool sums;  ///< a adds up what its parts have
    Form a;
    Form b;
};
constexpr std::array kPatterns = {
    Pattern{false, Form::whole, Form::everywhere}, Pattern{false, Form::whole, Form::rows},
    Pattern{false, Form::rows, Form::whole},       Pattern{false, Form::rows, Form::everywhere},
    Pattern{false, Form::rows, Form::columns},     Pattern{true, Form::rows, Form::everywhere},
    Pattern{true, Form::rows, Form::rows},         Pattern{true, Form::rows, Form::whole},
};

// From a cache line to more than caches hold.
constexpr std::int64_t kLeastBytes = 64;
constexpr std::int64_t kMostBytes = std::int64_t{64} << 20;
constexpr std::int64_t kGrowth = 4;
constexpr std::int64_t kElement = 4;

struct Chains {
    graph::OpGraph graph;
    std::vector<OpId> first;   ///< a of each chain
    std::vector<OpId> second;  ///< b
};

OpId add_op(graph::OpGraph& graph, const std::string& name, const std::string& type,
            TensorId operand, const graph::Shape& shape) {
    graph::Tensor result;
    result.name = name + ".y";
    result.shape = shape;
    graph::Op op;
    op.name = name;
    op.type = type;
    op.opset = 11;  // axes are an attribute
    op.inputs = {operand};
    op.outputs = {graph.add_tensor(std::move(result))};
    if (type == "ReduceSum") {
        op.attributes.set("axes", std::vector<std::int64_t>{0});
        op.attributes.set("keepdims", std::int64_t{0});
    }
    return graph.add_op(std::move(op));
}

/// Chains of all sizes, whose rows and columns `ranks` can share.
Chains make_chains(bool sums, std::int64_t ranks) {
    Chains made;
    graph::OpGraph& graph = made.graph;
    graph.name = "transfers";
    for (std::int64_t bytes = kLeastBytes; bytes <= kMostBytes; bytes *= kGrowth) {
        const std::int64_t wanted = bytes / kElement / ranks;
        const graph::Shape moved = {ranks, (wanted + ranks - 1) / ranks * ranks};
        const std::string size = std::to_string(ranks * moved[1] * kElement);
        graph::Tensor input;
        input.name = "x" + size;
        input.role = graph::TensorRole::input;
        input.shape = moved;
        if (sums) input.shape.insert(input.shape.begin(), ranks);
        const TensorId x = graph.add_source(std::move(input));
        made.first.push_back(add_op(graph, "a" + size, sums ? "ReduceSum" : "Relu", x, moved));
        made.second.push_back(
            add_op(graph, "b" + size, "Relu", graph.op(made.first.back()).outputs[0], moved));
        graph.add_output("y" + size, graph.op(made.second.back()).outputs[0]);
    }
    return made;
}

OpConfig config_of(const plan::Problem& problem, OpId op, Form form, const DeviceSet& devices) {
    const graph::OpRule& rule = problem.rule(op);
    const auto factor_of = [&](std::size_t dim) { return rule.operands[0].dims[dim].factors[0]; };
    const auto split = [&](plan::Axis axis) {
        return OpConfig{.axes = {axis}, .devices = devices};
    };
    switch (form) {
    case Form::whole: break;
    case Form::everywhere: return split(plan::Axis::replicas(devices.size()));
    case Form::rows: return split(plan::Axis::along(factor_of(0), devices.size()));
    case Form::columns: return split(plan::Axis::along(factor_of(1), devices.size()));
    }
    return {.axes = {}, .devices = DeviceSet::single(devices[0])};
}

/// Sources lie where they are read, outputs where they arise.
plan::Strategy strategy_of(const plan::Problem& problem, const Chains& chains,
                           const Pattern& pattern, const DeviceSet& devices) {
    plan::Strategy strategy =
        plan::whole_ops(std::vector<int>(problem.graph().op_count(), 0), problem.policy());
    for (std::size_t i = 0; i < chains.first.size(); ++i) {
        const OpId a = chains.first[i];
        const OpId b = chains.second[i];
        const TensorId x = problem.graph().op(a).inputs[0];
        const OpId source = problem.graph().tensor(x).producer;
        const OpId output = problem.graph().uses(problem.graph().op(b).outputs[0]).front().op;
        strategy.ops[a.index()].config = config_of(problem, a, pattern.a, devices);
        strategy.ops[b.index()].config = config_of(problem, b, pattern.b, devices);
        strategy.ops[source.index()].config =
            search::as_read(problem, source, strategy.config(a), /*micro_batches=*/1);
        strategy.ops[output.index()].config = config_of(problem, output, pattern.b, devices);
    }
    return strategy;
}

void measure_among(Profiler& profiler, const cost::Machine& machine, int ranks) {
    std::vector<int> first(static_cast<std::size_t>(ranks));
    std::iota(first.begin(), first.end(), 0);
    const DeviceSet devices = DeviceSet::list(std::move(first));
    for (const bool sums : {false, true}) {
        const Chains chains = make_chains(sums, ranks);
        const plan::Problem problem(chains.graph, machine, cost::default_cost_model(), {});
        std::vector<plan::Strategy> strategies;
        for (const Pattern& pattern : kPatterns) {
            if (pattern.sums != sums) continue;
            strategies.push_back(strategy_of(problem, chains, pattern, devices));
        }
        profiler.measure(problem, strategies);
    }
}

}  // namespace

void measure_transfers(Profiler& profiler, const cost::Machine& machine) {
    const int all = machine.device_count();
    for (int ranks = 2; ranks < all; ranks *= 2) measure_among(profiler, machine, ranks);
    if (all > 1) measure_among(profiler, machine, all);
}

}  // namespace partita::api
