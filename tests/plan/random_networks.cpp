// SPDX-License-Identifier: Apache-2.0
#include "tests/plan/random_networks.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "plan/config.h"

namespace partita::plan {

using graph::Attributes;
using graph::OpGraph;
using graph::OpId;
using graph::Shape;
using graph::TensorId;
using graph::TensorRole;
using search::Random;

namespace {

class NetworkBuilder {
public:
    TensorId source(const std::string& name, TensorRole role, Shape shape) {
        graph::Tensor tensor;
        tensor.name = name;
        tensor.shape = std::move(shape);
        tensor.role = role;
        return graph.add_source(std::move(tensor));
    }
    TensorId weight(Shape shape) {
        return source("w" + std::to_string(count_++), TensorRole::parameter, std::move(shape));
    }
    std::vector<TensorId> add(const std::string& type, std::vector<TensorId> operands,
                              const std::vector<Shape>& shapes, Attributes attributes = {}) {
        graph::Op op;
        op.name = type + std::to_string(count_++);
        op.type = type;
        op.opset = 13;
        op.inputs = std::move(operands);
        op.attributes = std::move(attributes);
        for (std::size_t i = 0; i < shapes.size(); ++i) {
            graph::Tensor tensor;
            tensor.name = op.name + ".y" + std::to_string(i);
            tensor.shape = shapes[i];
            op.outputs.push_back(graph.add_tensor(std::move(tensor)));
        }
        std::vector<TensorId> results = op.outputs;
        graph.add_op(std::move(op));
        return results;
    }
    void add_outputs() {
        const std::size_t tensors = graph.tensor_count();
        for (std::size_t i = 0; i < tensors; ++i) {
            if (!graph.uses(TensorId(i)).empty()) continue;
            graph.add_output("out" + std::to_string(i), TensorId(i));
        }
    }
    const Shape& shape(TensorId t) const { return graph.tensor(t).shape; }

    OpGraph graph;

private:
    int count_ = 0;
};

Attributes axis(std::int64_t value) {
    Attributes attributes;
    attributes.set("axis", value);
    return attributes;
}

/// One more op on top of tensors [5 6] (rows are the batch), with weights of its own.
TensorId add_layer(NetworkBuilder& build, Random& random, TensorId a, TensorId b) {
    switch (draw(random, 9)) {
    case 0: return build.add("MatMul", {a, build.weight({6, 6})}, {{5, 6}})[0];
    case 1: return build.add("Add", {a, b}, {{5, 6}})[0];
    case 2: return build.add("Mul", {a, b}, {{5, 6}})[0];
    case 3: return build.add("Relu", {a}, {{5, 6}})[0];
    case 4: return build.add("Gemm", {a, build.weight({6, 6}), build.weight({6})}, {{5, 6}})[0];
    case 5: {
        const TensorId wide = build.add("MatMul", {a, build.weight({6, 7})}, {{5, 7}})[0];
        return build.add("MatMul", {wide, build.weight({7, 6})}, {{5, 6}})[0];
    }
    case 6: {
        const TensorId both = build.add("Concat", {a, b}, {{5, 12}}, axis(1))[0];
        return build.add("MatMul", {both, build.weight({12, 6})}, {{5, 6}})[0];
    }
    case 7: {
        const auto halves = build.add("Split", {a}, {{5, 3}, {5, 3}}, axis(1));
        return build.add("Concat", {halves[1], halves[0]}, {{5, 6}}, axis(1))[0];
    }
    default: {
        Attributes convolution;
        convolution.set("kernel_shape", std::vector<std::int64_t>{3});
        convolution.set("pads", std::vector<std::int64_t>{1, 1});
        const TensorId w = build.weight({2, 1, 3});
        // [5 6] seen as [5 1 6]: one channel.
        const TensorId image = build.add("Unsqueeze", {a}, {{5, 1, 6}}, [] {
            Attributes axes;
            axes.set("axes", std::vector<std::int64_t>{1});
            return axes;
        }())[0];
        const TensorId filtered = build.add("Conv", {image, w}, {{5, 2, 6}}, convolution)[0];
        Attributes sum;
        sum.set("axes", std::vector<std::int64_t>{1});
        sum.set("keepdims", std::int64_t{0});
        return build.add("ReduceMean", {filtered}, {{5, 6}}, sum)[0];
    }
    }
}

DeviceSet random_devices(Random& random, int count, int devices) {
    std::vector<int> all(static_cast<std::size_t>(devices));
    std::iota(all.begin(), all.end(), 0);
    for (int i = 0; i < count; ++i) {
        const int other = i + draw(random, devices - i);
        std::swap(all[static_cast<std::size_t>(i)], all[static_cast<std::size_t>(other)]);
    }
    all.resize(static_cast<std::size_t>(count));
    if (draw(random, 2) == 0) std::sort(all.begin(), all.end());
    return DeviceSet::list(std::move(all));
}

OpConfig random_config(Random& random, const Problem& problem, OpId op, int micro_batches) {
    const auto& factors = problem.rule(op).factors;
    OpConfig config;
    int parts = 1;
    for (int axes = draw(random, 4); axes > 0; --axes) {
        const int pick = draw(random, static_cast<int>(factors.size()) + 1);
        const bool replica = pick == static_cast<int>(factors.size());
        const std::string name = replica ? "*" : factors[static_cast<std::size_t>(pick)].name;
        OpConfig longer = config;
        longer.degrees.push_back({name, 2 + draw(random, 3)});
        const int more = parts * longer.degrees.back().degree;
        if (more > problem.device_count()) continue;
        longer.devices = DeviceSet::progression(0, more, 1);
        if (find_fault(problem, op, longer, micro_batches)) continue;
        config = longer;
        parts = more;
    }
    config.devices = random_devices(random, parts, problem.device_count());
    return config;
}

}  // namespace

int draw(Random& random, int below) {
    return static_cast<int>(random.below(static_cast<std::uint64_t>(below)));
}

OpGraph random_uneven_network(Random& random, int layers) {
    NetworkBuilder build;
    std::vector<TensorId> tensors{build.source("x", TensorRole::input, {5, 6})};
    tensors.push_back(build.add("MatMul", {tensors[0], build.weight({6, 6})}, {{5, 6}})[0]);
    for (int i = 0; i < layers; ++i) {
        const TensorId a = tensors.back();
        const TensorId b =
            tensors[static_cast<std::size_t>(draw(random, static_cast<int>(tensors.size())))];
        tensors.push_back(add_layer(build, random, a, b));
    }
    build.add_outputs();
    return std::move(build.graph);
}

Strategy random_strategy(Random& random, const Problem& problem, int micro_batches) {
    Strategy strategy;
    strategy.policy = problem.policy();
    strategy.policy.micro_batches = micro_batches;
    for (std::size_t i = 0; i < problem.graph().op_count(); ++i) {
        const OpId op(i);
        strategy.configs.push_back(random_config(random, problem, op, micro_batches));
        strategy.updates.emplace_back();
        if (problem.graph().ops()[i].kind != graph::OpKind::parameter) continue;
        UpdateConfig& update = strategy.updates.back();
        if (draw(random, 2) == 0) update.update = random_config(random, problem, op, micro_batches);
        update.accumulate_locally = draw(random, 2) == 0;
        update.refetch = draw(random, 2) == 0;
    }
    return strategy;
}

}  // namespace partita::plan
