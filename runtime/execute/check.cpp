// SPDX-License-Identifier: Apache-2.0
#include "runtime/execute/check.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "graph/dtype.h"
#include "runtime/execute/differences.h"
#include "runtime/execute/patch.h"
#include "runtime/execute/pieces.h"
#include "runtime/kernels/tensors.h"

namespace partita::runtime {

using graph::DType;
using graph::OpGraph;
using graph::TensorId;

namespace {

constexpr int kIterations = 3;  // enough that an update shows in the next one
constexpr double kSmallStep = 1e-3;
constexpr double kLastRate = 4096;

/// Between 1 and the next larger number.
double epsilon_of(DType dtype) {
    switch (dtype) {
    case DType::float64: return DBL_EPSILON;
    case DType::float32: return FLT_EPSILON;
    case DType::float16: return 0x1p-10;
    case DType::bfloat16: return 0x1p-7;
    default: return 0x1p-2;  // of 8 bits, with two of them behind the point
    }
}

double largest(const at::Tensor& tensor) {
    return tensor.numel() == 0 ? 0.0 : at::max(at::abs(tensor)).item<double>();
}

/// Whatever happens to their memory.
std::vector<Piece> copies_of(std::vector<Piece> pieces) {
    for (Piece& piece : pieces) piece.value = piece.value.detach().to(at::kCPU).clone();
    return pieces;
}

PartUpdate update_of(const OpGraph& graph, const plan::RegionTable& regions, const Piece& before,
                     const Piece& after, double rate) {
    const at::Tensor from = before.value.to(at::kDouble);
    const at::Tensor to = after.value.detach().to(at::kCPU).to(at::kDouble);
    const double epsilon = epsilon_of(graph.tensor(before.tensor).dtype);
    return {.tensor = before.tensor,
            .region = regions[before.region],
            .step = (from - to) / rate,
            .rounding = epsilon * (largest(from) + largest(to)) / rate};
}

// --- comparison ----------------------------------------------------------------------------------

/// Whole tensors by id, of float64: 0 where no piece is.
using Wholes = std::map<std::uint32_t, at::Tensor>;

Wholes wholes_of(const OpGraph& graph, const std::vector<PartUpdate>& updates) {
    Wholes wholes;
    for (const PartUpdate& update : updates) {
        const graph::Shape& shape = graph.tensor(update.tensor).shape;
        at::Tensor& whole = wholes[update.tensor.value];
        if (!whole.defined()) whole = at::zeros(shape, at::kDouble);
        Patch(update.region, graph::whole_region(shape)).copy(whole, update.step);
    }
    return wholes;
}

/// Of all copies that of each element which is farthest from the expected one: not a number where
/// there is none.
Wholes farthest(const OpGraph& graph, const std::vector<PartUpdate>& updates,
                const Wholes& expected) {
    Wholes wholes;
    for (const auto& [id, should] : expected) {
        wholes[id] = at::full_like(should, std::nan(""));
    }
    for (const PartUpdate& update : updates) {
        const auto should = expected.find(update.tensor.value);
        if (should == expected.end()) continue;
        const graph::Region all = graph::whole_region(graph.tensor(update.tensor).shape);
        const auto cut = [&](const at::Tensor& whole) {
            const at::Tensor piece = at::empty_like(update.step);
            Patch(all, update.region).copy(piece, whole);
            return piece;
        };
        const at::Tensor right = cut(should->second);
        const at::Tensor known = cut(wholes[update.tensor.value]);
        // What rounding the parameter hides is no difference.
        const at::Tensor gap = at::abs(update.step - right);
        const at::Tensor step = at::where(at::le(gap, update.rounding), right, update.step);
        const at::Tensor is_worse = at::isnan(known).logical_or(
            at::le(at::abs(step - right), at::abs(known - right)).logical_not());
        Patch(update.region, all)
            .copy(wholes[update.tensor.value], at::where(is_worse, step, known));
    }
    return wholes;
}

/// Magnitudes of the gradients of one device, by the names of their tensors; Adam's steps count by
/// them.
void weigh(const OpGraph& graph, const std::vector<graph::HostTensor>& gradients, Wholes& steps) {
    for (auto& [id, step] : steps) {
        const auto gradient =
            std::ranges::find(gradients, graph.tensor(TensorId{id}).name, &graph::HostTensor::name);
        if (gradient != gradients.end()) step.mul_(at::abs(to_aten(*gradient).to(at::kDouble)));
    }
}

std::vector<graph::HostTensor> named(const OpGraph& graph, const Wholes& wholes) {
    std::vector<graph::HostTensor> tensors;
    for (const auto& [id, whole] : wholes) {
        tensors.push_back(to_host(whole, DType::float64));
        tensors.back().name = graph.tensor(TensorId{id}).name;
    }
    return tensors;
}

std::vector<Difference> update_differences(const OpGraph& graph, plan::Optimizer optimizer,
                                           const Outcome& actual, const Outcome& expected) {
    Wholes should = wholes_of(graph, expected.updates);
    Wholes is = farthest(graph, actual.updates, should);
    if (optimizer == plan::Optimizer::adam) {
        weigh(graph, expected.gradients, should);
        weigh(graph, expected.gradients, is);
    }
    std::vector<Difference> all = differences("update of", named(graph, is), named(graph, should));
    auto each = all.begin();
    for (const auto& [id, step] : should) {
        (each++)->tolerance = update_tolerance_of(graph.tensor(TensorId{id}).dtype);
    }
    return all;
}

}  // namespace

std::int64_t summed_elements(const plan::Problem& problem) {
    if (problem.policy().loss != plan::LossKind::sum) return 1;
    const OpGraph& graph = problem.graph();
    std::int64_t elements = 0;
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        const graph::Op& op = graph.ops()[i];
        const bool is_loss =
            op.kind == graph::OpKind::output && problem.facts().has_backward(graph::OpId(i));
        if (is_loss) elements += graph.tensor(op.inputs[0]).elements();
    }
    return std::max<std::int64_t>(1, elements);
}

CheckedRates checked_rates(const plan::Problem& problem, double learning_rate) {
    // Adam's steps are as long as they are whatever its gradients are.
    const bool follows = problem.policy().optimizer != plan::Optimizer::adam;
    const auto elements = follows ? static_cast<double>(summed_elements(problem)) : 1.0;
    return {.small = kSmallStep * learning_rate, .last = kLastRate / elements};
}

Outcome outcome_of(Executor& executor, const std::optional<CheckedRates>& rates) {
    Outcome outcome;
    std::vector<Piece> before;
    if (rates) {
        executor.set_rate(rates->small);
        executor.run(kIterations - 1);
        before = copies_of(executor.parameter_pieces());
        executor.set_rate(rates->last);
    }
    executor.run(1);
    outcome.outputs = executor.outputs();
    outcome.gradients = executor.gradients();
    if (!rates) return outcome;
    const std::vector<Piece> after = executor.parameter_pieces();
    for (std::size_t i = 0; i < after.size(); ++i) {
        outcome.updates.push_back(
            update_of(executor.graph(), executor.regions(), before[i], after[i], rates->last));
        before[i].value = at::Tensor();
    }
    return outcome;
}

std::vector<Difference> differences_between(const OpGraph& graph, plan::Optimizer optimizer,
                                            const Outcome& actual, const Outcome& expected) {
    std::vector<Difference> all = differences("output", actual.outputs, expected.outputs);
    std::vector<Difference> gradients =
        differences("gradient of", actual.gradients, expected.gradients);
    // A gradient may be kept in a wider type than it was computed in.
    std::map<std::string_view, graph::DType> computed_in;
    for (const graph::Tensor& tensor : graph.tensors()) {
        computed_in.emplace(tensor.name, tensor.dtype);
    }
    for (std::size_t i = 0; i < gradients.size(); ++i) {
        gradients[i].tolerance = gradient_tolerance_of(computed_in.at(expected.gradients[i].name));
    }
    std::ranges::move(gradients, std::back_inserter(all));
    std::ranges::move(update_differences(graph, optimizer, actual, expected),
                      std::back_inserter(all));
    return all;
}

}  // namespace partita::runtime
