// SPDX-License-Identifier: Apache-2.0
#include "tests/support/random_graph.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/draws.h"

namespace partita::support {

using graph::Op;
using graph::OpGraph;
using graph::Tensor;
using graph::TensorId;
using graph::TensorRole;
using search::Random;

namespace {

/// Adds real ops on tensors [8 16].
class NetworkBuilder {
public:
    TensorId source(const std::string& name, TensorRole role, graph::Shape shape) {
        Tensor tensor;
        tensor.name = name;
        tensor.shape = std::move(shape);
        tensor.role = role;
        return graph_.add_source(std::move(tensor));
    }

    TensorId compute(const char* type, std::vector<TensorId> operands) {
        const std::string name = std::string(type) + std::to_string(graph_.op_count());
        Tensor tensor;
        tensor.name = name + ".out";
        tensor.shape = {8, 16};
        Op op;
        op.name = name;
        op.type = type;
        op.opset = 13;
        op.inputs = std::move(operands);
        op.outputs.push_back(graph_.add_tensor(std::move(tensor)));
        const TensorId result = op.outputs[0];
        graph_.add_op(std::move(op));
        return result;
    }

    TensorId weight() {
        return source("w" + std::to_string(graph_.op_count()), TensorRole::parameter, {16, 16});
    }

    void add_outputs() {
        const std::size_t tensors = graph_.tensor_count();
        for (std::size_t i = 0; i < tensors; ++i) {
            const TensorId t(i);
            if (!graph_.uses(t).empty() || graph_.tensor(t).role != TensorRole::activation)
                continue;
            graph_.add_output("y" + std::to_string(i), t);
        }
    }

    OpGraph take() { return std::move(graph_); }

private:
    OpGraph graph_;
};

}  // namespace

OpGraph random_workload(Random& random, int nodes) {
    OpGraph graph;
    std::vector<TensorId> results;
    for (int i = 0; i < nodes; ++i) {
        Tensor tensor;
        tensor.name = std::to_string(i) + ".out";
        tensor.given_bytes = Bytes{draw(random, 1000)};
        Op op;
        op.name = std::to_string(i);
        op.type = "Node";
        op.domain = "workload";
        const int operands = std::min(i, draw(random, 4));
        for (int k = 0; k < operands; ++k) {
            const int span = random.below(4) == 0 ? i : std::min(i, 4);
            const TensorId operand = results[static_cast<std::size_t>(i - 1 - draw(random, span))];
            const bool known =
                std::find(op.inputs.begin(), op.inputs.end(), operand) != op.inputs.end();
            if (!known) op.inputs.push_back(operand);
        }
        graph::GivenCosts given;
        given.id = i;
        given.accelerator_time = microseconds(draw(random, 100));
        given.cpu_time = 10 * given.accelerator_time;
        given.communication_time = microseconds(draw(random, 20));
        given.memory = Bytes{draw(random, 100)};
        op.given = given;
        op.outputs.push_back(graph.add_tensor(std::move(tensor)));
        results.push_back(op.outputs[0]);
        graph.add_op(std::move(op));
    }
    return graph;
}

OpGraph random_network(Random& random, int layers) {
    NetworkBuilder build;
    std::vector<TensorId> tensors{build.source("x", TensorRole::input, {8, 16})};
    const TensorId shared = build.weight();
    for (int i = 0; i < layers; ++i) {
        const int recent = std::min(static_cast<int>(tensors.size()), 4);
        const auto operand = [&] {
            const int back = random.below(4) == 0 ? static_cast<int>(tensors.size()) : recent;
            return tensors[tensors.size() - 1 - static_cast<std::size_t>(draw(random, back))];
        };
        const TensorId first = operand();
        switch (i == 0 ? 0 : draw(random, 6)) {
        case 0: tensors.push_back(build.compute("MatMul", {first, shared})); break;
        case 1: tensors.push_back(build.compute("MatMul", {first, build.weight()})); break;
        case 2: tensors.push_back(build.compute("Add", {first, operand()})); break;
        case 3: tensors.push_back(build.compute("Sigmoid", {first})); break;
        case 4: tensors.push_back(build.compute("Softmax", {first})); break;
        default: tensors.push_back(build.compute("Relu", {first})); break;
        }
    }
    build.add_outputs();
    return build.take();
}

OpGraph chain_network(int ops) {
    NetworkBuilder build;
    TensorId last = build.source("x", TensorRole::input, {8, 16});
    for (int i = 0; i < ops; ++i) {
        last = i % 2 == 0 ? build.compute("MatMul", {last, build.weight()})
                          : build.compute("Relu", {last});
    }
    build.add_outputs();
    return build.take();
}

cost::Machine random_machine(Random& random, int devices, Bytes memory) {
    std::vector<cost::Device> list;
    std::vector<cost::Link> links;
    for (int i = 0; i < devices; ++i) {
        const int kind = draw(random, 3);
        cost::Device device;
        device.name = "device" + std::to_string(i);
        device.model = "kind " + std::to_string(kind);
        device.kind = kind == 2 ? cost::DeviceKind::cpu : cost::DeviceKind::gpu;
        device.memory = memory;
        device.memory_bandwidth = (4 - kind) * std::int64_t{1'000'000'000};
        device.matrix_flops.fill((4 - kind) * std::int64_t{10'000'000'000});
        device.vector_flops = (3 - kind) * std::int64_t{1'000'000'000};
        device.launch_interval = microseconds(1 + kind);
        list.push_back(device);
        cost::Link link;
        link.name = "link" + std::to_string(i);
        link.from = i;
        link.to = devices;
        link.bandwidth = (1 + draw(random, 4)) * std::int64_t{100'000'000};
        link.latency = microseconds(draw(random, 3));
        links.push_back(link);
    }
    return {"random", std::move(list), {"switch"}, std::move(links)};
}

}  // namespace partita::support
