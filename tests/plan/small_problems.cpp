// SPDX-License-Identifier: Apache-2.0
#include "tests/plan/small_problems.h"

#include <stdexcept>
#include <utility>

namespace partita::plan {

using graph::Op;
using graph::OpGraph;
using graph::Tensor;
using graph::TensorId;
using graph::TensorRole;

cost::Machine switched_machine(int gpus, const std::vector<int>& nodes) {
    std::vector<cost::Device> devices;
    std::vector<cost::Link> links;
    for (int i = 0; i < gpus; ++i) {
        cost::Device device;
        device.name = "gpu" + std::to_string(i);
        device.model = "test";
        if (!nodes.empty()) device.node = nodes[static_cast<std::size_t>(i)];
        device.memory = Bytes{1'000'000'000};
        device.memory_bandwidth = 100'000'000'000;
        device.matrix_flops.fill(1'000'000'000'000);
        device.vector_flops = 1'000'000'000'000;
        devices.push_back(device);
        cost::Link link;
        link.name = "link" + std::to_string(i);
        link.from = i;
        link.to = gpus;
        link.bandwidth = 1'000'000'000;
        link.latency = microseconds(1);
        links.push_back(link);
    }
    return {"switched", std::move(devices), {"switch"}, std::move(links)};
}

cost::Machine switched_machine_of(int gpus, Bytes memory) {
    const cost::Machine machine = switched_machine(gpus);
    std::vector<cost::Device> devices(machine.devices().begin(), machine.devices().end());
    for (cost::Device& device : devices) device.memory = memory;
    return {"switched", devices, {"switch"}, {machine.links().begin(), machine.links().end()}};
}

cost::Machine machine_of_nodes(int nodes, int size) {
    std::vector<int> node_of;
    for (int d = 0; d < nodes * size; ++d) node_of.push_back(d / size);
    cost::Machine flat = switched_machine(nodes * size, node_of);
    std::vector<std::string> switches{"network"};
    std::vector<cost::Link> links(flat.links().begin(), flat.links().end());
    const int network = nodes * size;
    for (int n = 0; n < nodes; ++n) switches.push_back("node" + std::to_string(n));
    for (int d = 0; d < nodes * size; ++d) {
        cost::Link inside = links[static_cast<std::size_t>(d)];
        inside.name = "inside" + std::to_string(d);
        inside.to = network + 1 + d / size;
        inside.bandwidth = 100'000'000'000;
        inside.latency = Time{1};
        links.push_back(inside);
    }
    return {"nodes", {flat.devices().begin(), flat.devices().end()}, switches, std::move(links)};
}

WorkloadBuilder& WorkloadBuilder::node(const std::string& name, std::int64_t time,
                                       std::initializer_list<const char*> operands,
                                       std::int64_t copy, Bytes memory) {
    Tensor tensor;
    tensor.name = name + ".out";
    tensor.given_bytes = Bytes{0};
    Op op;
    op.name = name;
    op.type = "Node";
    op.domain = "workload";
    for (const char* operand : operands) {
        const auto producer = graph_.find_op(operand);
        if (!producer) throw std::logic_error("no node " + std::string(operand));
        op.inputs.push_back(graph_.op(*producer).outputs[0]);
    }
    op.outputs.push_back(graph_.add_tensor(tensor));
    graph::GivenCosts given;
    given.accelerator_time = microseconds(time);
    given.cpu_time = microseconds(10 * time);
    given.communication_time = microseconds(copy);
    given.memory = memory;
    op.given = given;
    graph_.add_op(std::move(op));
    return *this;
}

OpGraph two_layers() {
    OpGraph graph;
    graph.name = "two-layers";
    const auto source = [&](const char* name, graph::Shape shape, TensorRole role) {
        Tensor tensor;
        tensor.name = name;
        tensor.shape = std::move(shape);
        tensor.role = role;
        return graph.add_source(tensor);
    };
    const auto compute = [&](const char* name, const char* type, std::vector<TensorId> operands,
                             graph::Shape shape) {
        Tensor tensor;
        tensor.name = std::string(name) + ".out";
        tensor.shape = std::move(shape);
        Op op;
        op.name = name;
        op.type = type;
        op.opset = 13;
        op.inputs = std::move(operands);
        op.outputs.push_back(graph.add_tensor(tensor));
        const TensorId result = op.outputs[0];
        graph.add_op(std::move(op));
        return result;
    };
    const TensorId x = source("x", {8, 16}, TensorRole::input);
    const TensorId w1 = source("w1", {16, 16}, TensorRole::parameter);
    const TensorId hidden = compute("mul1", "MatMul", {x, w1}, {8, 16});
    const TensorId active = compute("relu", "Relu", {hidden}, {8, 16});
    const TensorId w2 = source("w2", {16, 4}, TensorRole::parameter);
    const TensorId y = compute("mul2", "MatMul", {active, w2}, {8, 4});
    graph.add_output("y", y);
    return graph;
}

Problem make_problem(const OpGraph& graph, const cost::Machine& machine, ProblemOptions options) {
    return {graph, machine, cost::default_cost_model(), std::move(options)};
}

}  // namespace partita::plan
