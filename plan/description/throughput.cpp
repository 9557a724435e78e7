// SPDX-License-Identifier: Apache-2.0
#include "plan/description/throughput.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "cost/cost_model.h"
#include "graph/dtype.h"
#include "plan/description/used_devices.h"
#include "plan/problem/micro_batches.h"

namespace partita::plan {

using graph::OpId;
using graph::OpKind;
using graph::TensorId;

namespace {

constexpr double kPicoseconds = 1e12;

/// Also behind ops that rename or convert what they are given.
bool looks_up_rows(const graph::OpGraph& graph, graph::Use use) {
    constexpr std::uint32_t kIndices = 1;
    const graph::Op& op = graph.op(use.op);
    const bool hands_on = op.type == "Reshape" || op.type == "Cast" || op.type == "Identity";
    if (op.kind == OpKind::compute && hands_on && use.operand == 0) {
        return std::ranges::any_of(graph.uses(op.outputs[0]),
                                   [&](graph::Use next) { return looks_up_rows(graph, next); });
    }
    return op.kind == OpKind::compute && op.type == "Gather" && use.operand == kIndices &&
           op.attributes.get_int("axis", 0) == 0 &&
           graph.op(graph.tensor(op.inputs[0]).producer).kind == OpKind::parameter;
}

/// Per class of devices with equal figures, how many of it run ops.
std::vector<int> devices_by_class(const Problem& problem, const Strategy& strategy) {
    const std::vector<char> used = used_devices(problem, strategy);
    std::vector<int> counts(static_cast<std::size_t>(problem.prices().device_class_count()), 0);
    for (std::size_t d = 0; d < used.size(); ++d) {
        if (used[d] == 0) continue;
        ++counts[static_cast<std::size_t>(problem.prices().device_class(static_cast<int>(d)))];
    }
    return counts;
}

/// Matrix products of an iteration.
struct Products {
    double flops = 0;
    double seconds_at_peak = 0;  ///< with all devices at work
};

Products products_of(const Problem& problem, std::span<const int> devices) {
    Products products;
    const auto add = [&](const cost::Work& work) {
        if (!work.matrix_product) return;
        double peak = 0;
        for (std::size_t i = 0; i < devices.size(); ++i) {
            const cost::Device& device =
                problem.machine().device(problem.prices().class_devices()[i]);
            peak += devices[i] *
                    static_cast<double>(device.matrix_flops_of(work.dtype, work.product_type));
        }
        const auto flops = static_cast<double>(work.flops.raw());
        products.flops += flops;
        if (peak > 0) products.seconds_at_peak += flops / peak;
    };
    const GraphFacts& facts = problem.facts();
    for (std::size_t i = 0; i < problem.graph().op_count(); ++i) {
        const OpId op(i);
        if (problem.graph().op(op).given) continue;
        if (facts.has_forward(op)) add(facts.works().forward(op));
        if (facts.has_backward(op)) add(facts.works().backward(op));
    }
    return products;
}

}  // namespace

std::int64_t token_count(const graph::OpGraph& graph) {
    std::int64_t most = 0;
    for (const graph::Op& op : graph.ops()) {
        if (op.kind != OpKind::input) continue;
        const TensorId ids = op.outputs[0];
        const graph::Tensor& tensor = graph.tensor(ids);
        const bool is_integer =
            tensor.dtype == graph::DType::int32 || tensor.dtype == graph::DType::int64;
        const bool is_sequence = tensor.shape.size() == 2 && is_integer;
        if (!is_sequence) continue;
        const bool looks_up = std::ranges::any_of(
            graph.uses(ids), [&](graph::Use use) { return looks_up_rows(graph, use); });
        if (looks_up) most = std::max(most, tensor.elements());
    }
    return most;
}

Throughput throughput_of(const Problem& problem, const Strategy& strategy, Time iteration) {
    const std::vector<int> devices = devices_by_class(problem, strategy);
    Throughput throughput;
    for (const int count : devices) throughput.devices += count;
    const double seconds = static_cast<double>(iteration.raw()) / kPicoseconds;
    if (seconds <= 0 || throughput.devices == 0) return throughput;
    const Products products = products_of(problem, devices);
    throughput.samples = static_cast<double>(batch_extent(problem.facts())) / seconds;
    throughput.tokens = static_cast<double>(token_count(problem.graph())) / seconds;
    throughput.flops_per_device = products.flops / seconds / throughput.devices;
    throughput.mfu = products.seconds_at_peak / seconds;
    return throughput;
}

}  // namespace partita::plan
