// SPDX-License-Identifier: Apache-2.0
#include "tests/plan/random_programs.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plan/layout/layout.h"
#include "plan/legality/config_legality.h"
#include "plan/problem/micro_batches.h"
#include "tests/plan/layout/random_layouts.h"
#include "tests/plan/network_builder.h"
#include "tests/plan/small_problems.h"

namespace partita::plan {

using graph::Attributes;
using graph::OpGraph;
using graph::OpId;
using graph::Shape;
using graph::TensorId;
using graph::TensorRole;
using search::Random;

namespace {

using Ints = std::vector<std::int64_t>;

/// What layers are built from: two tensors [5 6] and a builder.
struct Site {
    NetworkBuilder& build;
    Random& random;
    TensorId a;
    TensorId b;

    TensorId one(const std::string& type, std::vector<TensorId> operands, const Shape& shape,
                 Attributes attributes = {}) const {
        return build.add(type, std::move(operands), {shape}, std::move(attributes))[0];
    }
    TensorId product(TensorId x, const Shape& weight, const Shape& shape) const {
        return one("MatMul", {x, build.weight(weight)}, shape);
    }
    TensorId reshaped(TensorId x, const Shape& shape) const { return one("Reshape", {x}, shape); }
};

TensorId fully_connected(const Site& s) {
    return s.product(s.a, {6, 6}, {5, 6});
}

TensorId two_fully_connected(const Site& s) {
    return s.product(s.product(s.a, {6, 7}, {5, 7}), {7, 6}, {5, 6});
}

/// As one op of ONNX's, or as a fused one; one part of a reduction adds the bias.
TensorId with_bias(const Site& s) {
    const std::vector<TensorId> operands = {s.a, s.build.weight({6, 6}), s.build.weight({6})};
    if (s.build.graph.op_count() % 2 == 0) return s.one("Gemm", operands, {5, 6});
    return s.build.add("Linear", operands, {{5, 6}}, {}, "partita")[0];
}

TensorId residual(const Site& s) {
    return s.one("Add", {s.a, s.b}, {5, 6});
}

/// A weight that is made from a parameter, once for all micro-batches.
TensorId made_weight(const Site& s) {
    const TensorId w =
        s.one("Transpose", {s.build.weight({6, 6})}, {6, 6}, attribute("perm", Ints{1, 0}));
    return s.one("MatMul", {s.a, w}, {5, 6});
}

TensorId position_embedding(const Site& s) {
    return s.one("Add", {s.a, s.build.weight({5, 6})}, {5, 6});
}

TensorId concatenated(const Site& s) {
    const TensorId both = s.one("Concat", {s.a, s.b}, {5, 12}, attribute("axis", std::int64_t{1}));
    return s.product(both, {12, 6}, {5, 6});
}

TensorId halves_swapped(const Site& s) {
    const auto axis = attribute("axis", std::int64_t{1});
    const auto halves = s.build.add("Split", {s.a}, {{5, 3}, {5, 3}}, axis);
    return s.one("Concat", {halves[1], halves[0]}, {5, 6}, axis);
}

/// A window that overlaps; pads and strides differ: with stride 2 columns 3 and 5 stay unread.
TensorId convolved(const Site& s) {
    Attributes window = attribute("kernel_shape", Ints{3});
    const TensorId w = s.build.weight({2, 1, 3});
    const TensorId image = s.one("Unsqueeze", {s.a}, {5, 1, 6}, attribute("axes", Ints{1}));
    if (draw(s.random, 2) == 0) {
        window.set("strides", Ints{2 + draw(s.random, 2)});
        return s.product(s.reshaped(s.one("Conv", {image, w}, {5, 2, 2}, window), {5, 4}), {4, 6},
                         {5, 6});
    }
    window.set("pads", Ints{1, 1});
    Attributes mean = attribute("axes", Ints{1});
    mean.set("keepdims", std::int64_t{0});
    return s.one("ReduceMean", {s.one("Conv", {image, w}, {5, 2, 6}, window)}, {5, 6}, mean);
}

/// Gradients of the columns that nobody reads are 0.
TensorId sliced(const Site& s) {
    Attributes window = attribute("starts", Ints{1});
    window.set("ends", Ints{5});
    window.set("axes", Ints{1});
    return s.product(s.one("Slice", {s.a}, {5, 4}, window), {4, 6}, {5, 6});
}

TensorId transposed(const Site& s) {
    const auto swap = attribute("perm", Ints{1, 0});
    const TensorId columns = s.one("Transpose", {s.a}, {6, 5}, swap);
    const TensorId mixed = s.one("MatMul", {s.build.weight({6, 6}), columns}, {6, 5});
    return s.one("Transpose", {mixed}, {5, 6}, swap);
}

/// Splits of the merged dim (5 2) are strided shards.
TensorId reshaped(const Site& s) {
    return s.reshaped(s.product(s.reshaped(s.a, {10, 3}), {3, 3}, {10, 3}), {5, 6});
}

TensorId scaled(const Site& s) {
    return s.one("Mul", {s.a, s.b}, {5, 6});
}

TensorId activated(const Site& s) {
    return s.one("Relu", {s.a}, {5, 6});
}

TensorId chosen(const Site& s) {
    return s.one("Where", {s.one("Greater", {s.a, s.b}, {5, 6}), s.a, s.b}, {5, 6});
}

TensorId looked_up(const Site& s) {
    const std::string name = "ids" + std::to_string(s.build.graph.op_count());
    const TensorId ids = s.build.source(name, TensorRole::input, {5}, graph::DType::int64);
    return s.one("Add", {s.one("Gather", {s.build.weight({7, 6}), ids}, {5, 6}), s.a}, {5, 6});
}

/// Each sample's six positions attend one another, in blocks that go round a ring. The largest scores
/// are read, too, by an op whose gradient is 0: BlockAttention gives them none.
TensorId attended(const Site& s) {
    const std::int64_t blocks = 2 + draw(s.random, 2);
    const Shape rows = {5, 6, 1};
    const TensorId x = s.reshaped(s.a, rows);
    std::vector<TensorId> operands = {x, x, x, TensorId{}};
    for (std::int64_t step = 0; step < blocks; ++step) {
        Attributes attributes = attribute("step", step);
        attributes.set("blocks", blocks);
        attributes.set("q_num_heads", std::int64_t{1});
        attributes.set("kv_num_heads", std::int64_t{1});
        const auto sums = s.build.add("BlockAttention", operands, {rows, rows, rows},
                                      std::move(attributes), "partita");
        operands.resize(4);
        operands.insert(operands.end(), sums.begin(), sums.end());
    }
    const auto y =
        s.build.add("BlockAttentionResult", {operands[4], operands[5]}, {rows}, {}, "partita");
    const TensorId signs = s.one("Sign", {operands[6]}, rows);
    const TensorId sum = s.one("Add", {y[0], signs}, rows);
    return s.product(s.reshaped(sum, {5, 6}), {6, 6}, {5, 6});
}

/// The largest, smallest, ... of each row, added to all of it.
TensorId reduced_columns(const Site& s) {
    constexpr std::array kTypes{"ReduceMax", "ReduceMin", "ReduceProd", "ReduceSumSquare"};
    const auto* const type = kTypes[static_cast<std::size_t>(draw(s.random, 4))];
    const TensorId row = s.one(type, {s.a}, {5, 1}, attribute("axes", Ints{1}));
    return s.one("Add", {s.a, row}, {5, 6});
}

TensorId reduced_rows(const Site& s) {
    constexpr std::array kTypes{"ReduceMax", "ReduceMin", "ReduceProd", "ReduceMean"};
    const auto* const type = kTypes[static_cast<std::size_t>(draw(s.random, 4))];
    const TensorId column = s.one(type, {s.a}, {1, 6}, attribute("axes", Ints{0}));
    return s.one("Mul", {s.b, column}, {5, 6});
}

constexpr std::array kLayers{fully_connected, two_fully_connected, with_bias, made_weight, residual,
                             position_embedding, concatenated, halves_swapped, convolved, sliced,
                             transposed, reshaped, looked_up,
                             // not linear
                             scaled, activated, chosen, reduced_columns, attended,
                             // mixes samples
                             reduced_rows};
constexpr int kLinear = 13;
constexpr int kSamplesApart = 18;

int count_of(Layers kind) {
    switch (kind) {
    case Layers::any: return static_cast<int>(kLayers.size());
    case Layers::samples_apart: return kSamplesApart;
    case Layers::linear: return kLinear;
    }
    return 0;
}

OpConfig random_config(Random& random, const Problem& problem, OpId op, int micro_batches) {
    const auto& factors = problem.facts().rule(op).factors;
    OpConfig config;
    int parts = 1;
    for (int axes = draw(random, 4); axes > 0; --axes) {
        const int pick = draw(random, static_cast<int>(factors.size()) + 1);
        const bool replica = pick == static_cast<int>(factors.size());
        Axis axis = replica ? Axis::replicas(1) : Axis::along(pick, 1);
        // In blocks, where they divide the factor.
        if (!replica && draw(random, 4) == 0) axis.blocks = 2 + draw(random, 2);
        OpConfig longer = config;
        longer.axes.push_back(axis.with_degree(2 + draw(random, 3)));
        const int more = parts * longer.axes.back().degree;
        if (more > problem.device_count()) continue;
        longer.devices = DeviceSet::progression(0, more, 1);
        if (find_fault(problem, op, longer, micro_batches)) continue;
        config = longer;
        parts = more;
    }
    config.devices = draw_devices(random, parts, problem.device_count());
    return config;
}

/// In how many summands the producer of a tensor leaves it.
int summands_of(const Problem& problem, const Strategy& strategy, TensorId t) {
    const OpId by = problem.graph().tensor(t).producer;
    const auto& results = problem.graph().op(by).outputs;
    const auto result = std::find(results.begin(), results.end(), t) - results.begin();
    RegionTable regions;
    const Parts parts(problem.facts().rule(by), strategy.config(by),
                      micro_batch_box(problem.facts(), by, strategy.policy.micro_batches, 0));
    return layout_of(problem.facts().rule(by), parts, strategy.config(by).devices, Side::result,
                     static_cast<std::size_t>(result), problem.graph().tensor(t).shape, regions)
        .summands;
}

/// Lets a partial operand pass through the op, where that is legal: all linear operands or one.
void draw_summand_axis(Random& random, const Problem& problem, OpId op, Strategy& strategy) {
    const graph::Op& reader = problem.graph().op(op);
    for (std::size_t i = 0; i < reader.inputs.size(); ++i) {
        if (!reader.inputs[i].valid()) continue;
        const int summands = summands_of(problem, strategy, reader.inputs[i]);
        if (summands == 1 || draw(random, 4) == 0) continue;
        OpConfig& config = strategy.ops[op.index()].config;
        const OpConfig before = config;
        const int operand = draw(random, 2) == 0 ? -1 : static_cast<int>(i);
        config = {.axes = {Axis::summands(summands, operand)},
                  .devices = draw_devices(random, summands, problem.device_count())};
        if (!find_fault(problem, strategy)) return;
        config = before;
    }
}

}  // namespace

namespace {

std::string text_of(const graph::OpRule& rule, const OpConfig& config) {
    std::string text;
    for (const Axis& axis : config.axes) {
        text += " " + name_of(rule, axis) + ":" + std::to_string(axis.degree);
    }
    text += " on";
    for (int i = 0; i < config.devices.size(); ++i) text += " " + std::to_string(config.devices[i]);
    return text;
}

}  // namespace

std::string text_of(const Problem& problem, const Strategy& strategy) {
    std::string text = std::to_string(strategy.policy.micro_batches) + " micro-batches";
    for (std::size_t i = 0; i < problem.graph().op_count(); ++i) {
        const graph::Op& op = problem.graph().ops()[i];
        text += "\n" + op.name + "(";
        for (const TensorId t : op.inputs) {
            text += text.back() == '(' ? "" : ", ";
            text += t.valid() ? problem.graph().tensor(t).name : "-";
        }
        text += ")" + text_of(problem.facts().rule(OpId(i)), strategy.ops[i].config);
        const UpdateConfig& update = strategy.update(OpId(i));
        if (!update.update.devices.empty()) {
            text += ", updated" + text_of(problem.facts().rule(OpId(i)), update.update);
        }
        if (update.accumulate_locally) text += ", accumulated locally";
        if (update.refetch) text += ", fetched again";
        const Recompute recompute = strategy.ops[i].recompute;
        if (recompute != Recompute::none)
            text += ", recomputed: " + std::string(name_of(recompute));
    }
    return text;
}

OpGraph random_network(Random& random, int layers, Layers kind) {
    NetworkBuilder build;
    std::vector<TensorId> tensors{build.source("x", TensorRole::input, {5, 6})};
    tensors.push_back(build.add("MatMul", {tensors[0], build.weight({6, 6})}, {{5, 6}})[0]);
    for (int i = 0; i < layers; ++i) {
        const TensorId a = tensors.back();
        const TensorId b =
            tensors[static_cast<std::size_t>(draw(random, static_cast<int>(tensors.size())))];
        const auto layer = kLayers[static_cast<std::size_t>(draw(random, count_of(kind)))];
        tensors.push_back(layer({build, random, a, b}));
    }
    build.add_outputs();
    return std::move(build.graph);
}

std::optional<Bytes> random_buckets(Random& random) {
    const int draws = draw(random, 8);
    if (draws < 2) return std::nullopt;
    if (draws < 5) return Bytes(std::int64_t{1} << (8 + draw(random, 13)));
    return draws < 7 ? kLayerBuckets : kOneBucket;
}

HostTime random_host_time(Random& random) {
    if (draw(random, 4) != 0) return {};
    const auto time = [&] { return Time(draw(random, 3) * (1 << draw(random, 24))); };
    return {.kernel = time(), .communication = time(), .update = time()};
}

bool is_fused_fetch(const Problem& problem, const Task& task) {
    if (task.fused == 0 || task.gradient || task.updated) return false;
    const graph::OpId producer = problem.graph().tensor(task.tensor).producer;
    return problem.graph().op(producer).kind == graph::OpKind::parameter;
}

OpGraph in_layer_blocks(Random& random, OpGraph graph) {
    constexpr int kBlocks = 3;
    int block = 0;
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        if (draw(random, 4) == 0) block = draw(random, kBlocks);
        graph.op(OpId(i)).block = "layers." + std::to_string(block);
    }
    return graph;
}

namespace {

Recompute random_choice(Random& random, const LayerBlock& block) {
    const int pick = draw(random, static_cast<int>(block.regions.size()) + 1);
    return pick == 0 ? Recompute::none : block.regions[static_cast<std::size_t>(pick - 1)].choice;
}

}  // namespace

void draw_recompute(Random& random, const Problem& problem, const Strategy& base,
                    std::vector<OpChange>& changes) {
    const auto& blocks = problem.facts().recompute().blocks();
    for (OpChange& change : changes) {
        change.decision.recompute = base.ops[change.op.index()].recompute;
    }
    if (blocks.empty() || draw(random, 2) == 0) return;
    const int pick = draw(random, static_cast<int>(blocks.size()));
    const LayerBlock& block = blocks[static_cast<std::size_t>(pick)];
    Strategy next = base;
    set_recompute(block, random_choice(random, block), next);
    for (const OpId op : block.ops) {
        const auto known = std::ranges::find(changes, op, &OpChange::op);
        const Recompute drawn = next.ops[op.index()].recompute;
        if (known != changes.end()) {
            known->decision.recompute = drawn;
        } else if (drawn != base.ops[op.index()].recompute) {
            changes.push_back({op, next.ops[op.index()]});
        }
    }
}

Strategy random_strategy(Random& random, const Problem& problem, int micro_batches) {
    const std::size_t ops = problem.graph().op_count();
    Strategy strategy = whole_ops(std::vector<int>(ops, 0), problem.policy());
    strategy.policy.micro_batches = micro_batches;
    for (std::size_t i = 0; i < ops; ++i) {
        const OpId op(i);
        strategy.ops[i].config = random_config(random, problem, op, micro_batches);
        if (draw(random, 2) == 0) draw_summand_axis(random, problem, op, strategy);
        if (problem.graph().ops()[i].kind != graph::OpKind::parameter) continue;
        UpdateConfig& update = strategy.ops[i].update;
        if (draw(random, 2) == 0) update.update = random_config(random, problem, op, micro_batches);
        update.accumulate_locally = draw(random, 2) == 0;
        update.refetch = draw(random, 2) == 0;
    }
    for (const LayerBlock& block : problem.facts().recompute().blocks()) {
        set_recompute(block, random_choice(random, block), strategy);
    }
    return strategy;
}

cost::Machine random_machine(Random& random, int most) {
    const int devices = 1 + draw(random, most);
    const bool in_nodes = draw(random, 2) == 0 && devices % 2 == 0 && devices > 2;
    return in_nodes ? machine_of_nodes(2, devices / 2) : switched_machine(devices);
}

namespace {

/// Of an op, in the order of ops.
int stage_of(std::size_t op, std::size_t ops, int stages) {
    return static_cast<int>(op * static_cast<std::size_t>(stages) / ops);
}

}  // namespace

Strategy in_stages(Strategy strategy, int stages, int size) {
    const auto move = [&](OpConfig& config, int stage) {
        if (config.devices.size() > size) config = {{}, DeviceSet::single(0)};
        config.devices = DeviceSet::progression(size * stage, config.devices.size(), 1);
    };
    for (std::size_t i = 0; i < strategy.ops.size(); ++i) {
        const int stage = stage_of(i, strategy.ops.size(), stages);
        move(strategy.ops[i].config, stage);
        OpConfig& update = strategy.ops[i].update.update;
        if (!update.devices.empty()) move(update, stage);
    }
    return strategy;
}

Strategy shared_stages(Random& random, const Problem& problem, int stages, int micro_batches) {
    const int size = problem.device_count() / stages;
    const std::size_t ops = problem.graph().op_count();
    Strategy strategy;
    strategy.policy = problem.policy();
    strategy.policy.micro_batches = micro_batches;
    for (std::size_t i = 0; i < ops; ++i) {
        const auto devices = DeviceSet::progression(size * stage_of(i, ops, stages), size, 1);
        std::vector<OpConfig> legal{{{Axis::replicas(size)}, devices}};
        const std::size_t factors = problem.facts().rule(graph::OpId(i)).factors.size();
        for (std::size_t f = 0; f < factors; ++f) {
            OpConfig config{{Axis::along(f, size)}, devices};
            if (!find_fault(problem, graph::OpId(i), config, micro_batches))
                legal.push_back(std::move(config));
        }
        strategy.ops.push_back({.config = legal[random.below(legal.size())]});
    }
    return strategy;
}

int gathers_in_nodes(const TaskGraph& tasks) {
    std::vector<char> follows_copy(tasks.size(), 0);
    for (std::size_t i = 0; i < tasks.size(); ++i) {
        if (tasks.tasks[i].kind != TaskKind::copy) continue;
        for (const TaskId next : tasks.successors[i]) follows_copy[next.index()] = 1;
    }
    int gathers = 0;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
        const Task& task = tasks.tasks[i];
        const bool gathers_here =
            task.kind == TaskKind::collective && task.collective == cost::Collective::all_gather;
        gathers += gathers_here && follows_copy[i] != 0 ? 1 : 0;
    }
    return gathers;
}

std::vector<OpChange> random_change(Random& random, const Problem& problem, const Strategy& base) {
    const Strategy other = random_strategy(random, problem, base.policy.micro_batches);
    std::vector<OpChange> changes;
    const int ops = static_cast<int>(problem.graph().op_count());
    const int first = draw(random, ops);
    const int count = 1 + draw(random, 3);
    for (int i = first; i < std::min(ops, first + count); ++i) {
        const OpId op(static_cast<std::size_t>(i));
        const bool parameter = problem.graph().op(op).kind == graph::OpKind::parameter;
        const bool updates = parameter && draw(random, 3) == 0;
        changes.push_back({op, updates ? OpDecision{base.config(op), other.update(op)}
                                       : OpDecision{other.config(op), base.update(op)}});
    }
    draw_recompute(random, problem, base, changes);
    return changes;
}

}  // namespace partita::plan
