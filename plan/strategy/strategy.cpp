// SPDX-License-Identifier: Apache-2.0
#include "plan/strategy/strategy.h"

#include <cassert>
#include <charconv>
#include <utility>

#include <fmt/format.h>

namespace partita::plan {

DeviceSet DeviceSet::progression(int first, int count, int stride) {
    assert(first >= 0 && count >= 0 && (count <= 1 || stride >= 1));
    DeviceSet set;
    if (count == 0) return set;
    set.first_ = first;
    set.count_ = count;
    set.stride_ = count == 1 ? 1 : stride;  // one device: equal whatever the stride was
    return set;
}

DeviceSet DeviceSet::list(std::vector<int> devices) {
    const int count = static_cast<int>(devices.size());
    if (count == 0) return {};
    if (count == 1) return single(devices[0]);
    const int stride = devices[1] - devices[0];
    bool even = stride >= 1;
    for (std::size_t i = 2; i < devices.size() && even; ++i) {
        even = devices[i] - devices[i - 1] == stride;
    }
    if (even) return progression(devices[0], count, stride);
    DeviceSet set;
    set.first_ = devices[0];
    set.count_ = count;
    set.list_ = std::move(devices);
    return set;
}

std::string_view name_of(Optimizer optimizer) {
    switch (optimizer) {
    case Optimizer::sgd: return "sgd";
    case Optimizer::momentum: return "momentum";
    case Optimizer::adam: return "adam";
    }
    return {};
}

std::string_view name_of(LossKind loss) {
    switch (loss) {
    case LossKind::sum: return "sum";
    case LossKind::mse: return "mse";
    case LossKind::cross_entropy: return "cross-entropy";
    }
    return {};
}

std::string_view name_of(GradientSync sync) {
    switch (sync) {
    case GradientSync::all_reduce: return "all-reduce";
    case GradientSync::parameter_server: return "parameter-server";
    }
    return {};
}

std::string_view name_of(Recompute recompute) {
    switch (recompute) {
    case Recompute::none: return "none";
    case Recompute::selective: return "selective";
    case Recompute::full: return "full";
    case Recompute::automatic: return "auto";
    }
    return {};
}

std::string bucket_text(Bytes size) {
    if (size == kOneBucket) return "all";
    return size == kLayerBuckets ? "layer" : std::to_string(size.raw());
}

std::string clip_norm_text(double norm) {
    return norm > 0 ? fmt::format("{}", norm) : "none";
}

std::optional<double> clip_norm_from_text(std::string_view text) {
    if (text == "none") return 0.0;
    double norm = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), norm);
    if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    if (!(norm > 0) || norm > kMostClipNorm) return std::nullopt;
    return norm;
}

std::optional<Bytes> named_bucket(std::string_view text) {
    for (const Bytes named : {kOneBucket, kLayerBuckets}) {
        if (text == bucket_text(named)) return named;
    }
    return std::nullopt;
}

Strategy whole_ops(const std::vector<int>& devices, Policy policy) {
    Strategy strategy;
    strategy.policy = std::move(policy);
    strategy.ops.resize(devices.size());
    for (std::size_t i = 0; i < devices.size(); ++i) {
        strategy.ops[i].config.devices = DeviceSet::single(devices[i]);
    }
    return strategy;
}

}  // namespace partita::plan
