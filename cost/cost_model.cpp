// SPDX-License-Identifier: Apache-2.0
#include "cost/cost_model.h"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cost/kernels/kernel_table.h"

namespace partita::cost {

namespace {

/// What kernels reach of a peak; at least 1, so that no time is infinite.
std::int64_t reached(std::int64_t peak, double efficiency) {
    if (efficiency == 1.0) return peak;  // all digits of the integer
    return std::max<std::int64_t>(
        1, static_cast<std::int64_t>(static_cast<double>(peak) * efficiency));
}

}  // namespace

std::string_view name_of(Phase phase) {
    switch (phase) {
    case Phase::forward: return "forward";
    case Phase::backward: return "backward";
    case Phase::accumulate: return "accumulate";
    case Phase::pack: return "pack";
    case Phase::update: return "update";
    }
    std::abort();
}

Time Share::of(Time time) const {
    return Time(static_cast<std::int64_t>((static_cast<Int128>(time.raw()) * raw) >> 32U));
}

namespace {

const KernelCurve* curve_of(const Work& work, const Device& device) {
    if (work.alias || !device.kernels) return nullptr;
    const auto family = kernel_family_of(work.type, work.batched);
    if (!family) return nullptr;
    return device.kernels->find(*family, work.phase == Phase::backward, work.dtype,
                                work.product_type, work.row_bytes);
}

/// Of the kernel beside the op's that deals with its bias: backward a sum; forward an addition behind
/// a convolution, as cuDNN has it, where products add it as they store the result.
Time bias_time(const Work& work, const Device& device) {
    const bool sums = work.phase == Phase::backward;
    const bool adds = kernel_family_of(work.type, work.batched) == KernelFamily::convolution;
    if (work.biased == Bytes{0} || (!sums && !adds)) return {};
    const KernelCurve* const curve = device.kernels->find(
        sums ? KernelFamily::reduction : KernelFamily::pointwise, /*backward=*/false, work.dtype,
        graph::ProductType::as_stored, graph::kWideRow);
    if (curve == nullptr) return {};
    const Bytes moved = sums ? work.biased : 2 * work.biased;
    return curve->time({}, transfer_time(moved, device.memory_bandwidth));
}

}  // namespace

std::optional<double> curve_error(const Work& work, const Device& device) {
    const KernelCurve* const curve = curve_of(work, device);
    return curve != nullptr ? std::optional(curve->error) : std::nullopt;
}

std::optional<Price> Roofline::price(const Work& work, const Device& device) const {
    if (work.alias) return Price{.time = Time{0}};
    const std::int64_t peak = work.matrix_product
                                  ? device.matrix_flops_of(work.dtype, work.product_type)
                                  : device.vector_flops;
    if (const KernelCurve* const curve = curve_of(work, device)) {
        const Time time = curve->time(compute_time(work.flops, peak),
                                      transfer_time(work.bytes, device.memory_bandwidth));
        return Price{.time = std::max(time, device.launch_interval) + bias_time(work, device),
                     .source = CostSource::fitted};
    }
    const Time compute = compute_time(work.flops, reached(peak, device.compute_efficiency));
    const Time memory =
        transfer_time(work.bytes, reached(device.memory_bandwidth, device.memory_efficiency));
    return Price{.time = std::max({compute, memory, device.launch_interval})};
}

std::optional<Price> GivenCostModel::price(const Work& work, const Device& device) const {
    if (work.given == nullptr) return std::nullopt;
    const Time time =
        device.kind == DeviceKind::cpu ? work.given->cpu_time : work.given->accelerator_time;
    return Price{.time = time, .source = CostSource::given};
}

FirstMatch::FirstMatch(std::vector<std::shared_ptr<const CostModel>> models)
    : models_(std::move(models)) {
    if (models_.empty()) throw std::invalid_argument("FirstMatch: expected at least one model");
}

std::optional<Price> FirstMatch::price(const Work& work, const Device& device) const {
    for (const auto& model : models_) {
        if (auto price = model->price(work, device)) return price;
    }
    return std::nullopt;
}

bool FirstMatch::uses_signatures() const {
    return std::ranges::any_of(models_, [](const auto& model) { return model->uses_signatures(); });
}

Share FirstMatch::least_share(const Work& work, const Device& device) const {
    Share least;
    for (const auto& model : models_) least = std::min(least, model->least_share(work, device));
    return least;
}

std::string FirstMatch::name() const {
    std::vector<std::string> names;
    for (const auto& model : models_) names.push_back(model->name());
    return fmt::format("{}", fmt::join(names, ", "));
}

std::shared_ptr<const CostModel> default_cost_model() {
    return std::make_shared<FirstMatch>(std::vector<std::shared_ptr<const CostModel>>{
        std::make_shared<GivenCostModel>(), std::make_shared<Roofline>()});
}

}  // namespace partita::cost
