// SPDX-License-Identifier: Apache-2.0
#include "rl/walk.h"

#include <algorithm>
#include <cmath>

namespace partita::rl {

namespace {

constexpr double kFar = 4;  ///< features of lengths end there

float clipped(double value) {
    return static_cast<float>(std::clamp(value, -kFar, kFar));
}

/// Of a length of time in units; grows slowly.
float slow(double value) {
    return clipped(std::log1p(std::max(0.0, value)));
}

bool overlap(const Block& a, const Block& b) {
    return std::ranges::any_of(
        a.devices, [&](int device) { return std::ranges::count(b.devices, device) > 0; });
}

}  // namespace

Walk::Walk(ActionSpace& space, OptionPrices& prices) : space_(space), prices_(prices) {
    const auto devices = static_cast<std::size_t>(space.problem().device_count());
    for (std::size_t d = 0; d < devices; ++d) {
        const Bytes capacity = space.problem().constraints().memory_capacity(static_cast<int>(d));
        capacity_.push_back(static_cast<double>(std::max<std::int64_t>(1, capacity.raw())));
    }
    for (const Block& a : space.blocks()) {
        for (const Block& b : space.blocks()) overlaps_.push_back(overlap(a, b) ? 1 : 0);
    }
}

void Walk::start(std::size_t iteration) {
    iteration_ = iteration;
    free_.assign(capacity_.size(), 0);
    load_.assign(capacity_.size(), 0);
    bytes_.assign(capacity_.size(), 0);
    end_.assign(space_.size(), 0);
    chosen_.assign(space_.size(), -1);
}

double Walk::unit() const {
    constexpr double kSmall = 1e-4;
    return std::max(prices_.least_compute(decision_), kSmall * prices_.even_share());
}

void Walk::look(std::size_t decision) {
    decision_ = decision;
    const std::span<const Option> options = space_.options(decision);
    const std::span<const Place> places = space_.places(decision);
    views_.assign(options.size(), {});
    incoming_ = 0;
    for (const DecisionEdge& edge : prices_.incoming(decision)) incoming_ += edge.bytes;
    least_end_ = least_load_ = least_compute_ = -1;
    bool any = false;
    for (std::size_t o = 0; o < options.size(); ++o) {
        view(o);
        const View& of = views_[o];
        if (!of.legal) continue;
        any = any || of.open;
        least_end_ = least_end_ < 0 ? of.end : std::min(least_end_, of.end);
        least_load_ = least_load_ < 0 ? of.load : std::min(least_load_, of.load);
        least_compute_ = least_compute_ < 0 ? of.compute : std::min(least_compute_, of.compute);
    }
    if (!any) {
        for (View& of : views_) of.open = of.legal;
    }
    open_.assign(places.size(), 0);
    for (std::size_t p = 0; p < places.size(); ++p) {
        for (std::int32_t o = places[p].begin; o < places[p].end; ++o) {
            if (views_[static_cast<std::size_t>(o)].open) open_[p] = 1;
        }
    }
}

void Walk::view(std::size_t option) {
    View& of = views_[option];
    const Option& own = space_.options(decision_)[option];
    of.legal = space_.is_legal(decision_, option, iteration_);
    if (!of.legal) return;
    const OptionPrice& price = prices_.price(decision_, option);
    of.compute = price.compute;
    of.sync = price.sync;
    double ready = 0;
    for (const DecisionEdge& edge : prices_.incoming(decision_)) {
        if (chosen_[edge.producer] < 0) continue;
        const auto from = static_cast<std::size_t>(chosen_[edge.producer]);
        const double time = prices_.transfer(edge, decision_, from, option);
        of.transfer += time;
        ready = std::max(ready, end_[edge.producer] + time);
        if (space_.options(edge.producer)[from].kind == own.kind)
            of.alike += edge.bytes / incoming_;
    }
    double start = ready;
    for (const int device : space_.block_of(decision_, option).devices) {
        const auto d = static_cast<std::size_t>(device);
        start = std::max(start, free_[d]);
        of.load = std::max(of.load, load_[d]);
        of.fill = std::max(of.fill, (bytes_[d] + price.bytes) / capacity_[d]);
    }
    of.wait = start - ready;
    of.end = start + price.compute;
    of.load += price.compute + price.sync;
    of.open = of.fill <= 1;
}

/// The option on the place that would end first, of those that may be chosen.
std::size_t Walk::best_on(std::size_t place) const {
    const Place& at = space_.places(decision_)[place];
    auto best = static_cast<std::size_t>(at.begin);
    for (auto o = static_cast<std::size_t>(at.begin); o < static_cast<std::size_t>(at.end); ++o) {
        const View& a = views_[o];
        const View& b = views_[best];
        if (a.open != b.open ? a.open : a.end + a.sync < b.end + b.sync) best = o;
    }
    return best;
}

void Walk::write_block_features(float* rows) const {
    const double share = prices_.even_share();
    const double unit = this->unit();
    const double devices = std::max(2.0, static_cast<double>(load_.size()));
    const std::span<const Place> places = space_.places(decision_);
    for (std::size_t p = 0; p < places.size(); ++p, rows += kBlockFeatures) {
        std::fill_n(rows, kBlockFeatures, 0.0F);
        if (open_[p] == 0) continue;
        const Block& block = space_.blocks()[static_cast<std::size_t>(places[p].block)];
        const View& of = views_[best_on(p)];
        double same = 0;
        double touching = 0;
        for (const DecisionEdge& edge : prices_.incoming(decision_)) {
            if (chosen_[edge.producer] < 0) continue;
            const auto from = static_cast<std::size_t>(chosen_[edge.producer]);
            const std::int32_t there = space_.options(edge.producer)[from].block;
            if (there == places[p].block) same += edge.bytes / incoming_;
            if (overlaps(there, places[p].block)) touching += edge.bytes / incoming_;
        }
        bool again = false;
        if (decision_ > 0 && chosen_[decision_ - 1] >= 0) {
            const auto before = static_cast<std::size_t>(chosen_[decision_ - 1]);
            again = space_.options(decision_ - 1)[before].block == places[p].block;
        }
        const int stride = block.size() > 1 ? block.devices[1] - block.devices[0] : 1;
        rows[0] = static_cast<float>(std::log2(block.size()) / std::log2(devices));
        rows[1] = static_cast<float>(block.devices.front() / (devices - 1));
        rows[2] = static_cast<float>(std::log2(std::max(1, stride)) / std::log2(devices));
        rows[3] = again ? 1.0F : 0.0F;
        rows[4] = static_cast<float>(same);
        rows[5] = static_cast<float>(touching);
        rows[6] = clipped(std::log((of.compute + 1e-3 * unit) / (least_compute_ + 1e-3 * unit)));
        rows[7] = slow(of.transfer / unit);
        rows[8] = clipped((of.end - least_end_) / share);
        rows[9] = slow((of.end - least_end_) / unit);
        rows[10] = clipped(of.load / share);
        rows[11] = clipped(of.fill);
        rows[12] = clipped(of.wait / share);
        rows[13] = slow(of.sync / unit);
        rows[14] = slow((of.load - least_load_) / unit);
        rows[15] = clipped(of.transfer / share);
    }
}

void Walk::write_kind_features(std::size_t place, float* rows) const {
    const double share = prices_.even_share();
    const double unit = this->unit();
    const Place& at = space_.places(decision_)[place];
    const View& best = views_[best_on(place)];
    for (auto o = static_cast<std::size_t>(at.begin); o < static_cast<std::size_t>(at.end);
         ++o, rows += kKindFeatures) {
        std::fill_n(rows, kKindFeatures, 0.0F);
        const View& of = views_[o];
        if (!of.open) continue;
        const Kind& kind = space_.options(decision_)[o].kind;
        rows[static_cast<std::size_t>(kind.axes[0])] = 1;
        rows[kAxisClasses + static_cast<std::size_t>(kind.axes[1])] = 1;
        float* const rest = rows + 2 * kAxisClasses;
        rest[0] = static_cast<float>(kind.ordinal) / 4;
        rest[1] = clipped(std::log((of.compute + 1e-3 * unit) / (best.compute + 1e-3 * unit)));
        rest[2] = slow(of.transfer / unit);
        rest[3] = clipped((of.end - best.end) / unit);
        rest[4] = slow(of.sync / unit);
        rest[5] = clipped(of.sync / share);
        rest[6] = static_cast<float>(of.alike);
        rest[7] = clipped(of.fill);
        rest[8] = clipped((of.end + of.sync - best.end - best.sync) / unit);
        rest[9] = clipped(of.transfer / share);
    }
}

void Walk::take(std::size_t option) {
    const View& of = views_[option];
    const OptionPrice& price = prices_.price(decision_, option);
    chosen_[decision_] = static_cast<std::int32_t>(option);
    end_[decision_] = of.end;
    for (const int device : space_.block_of(decision_, option).devices) {
        const auto d = static_cast<std::size_t>(device);
        free_[d] = of.end;
        load_[d] += price.compute + price.sync;
        bytes_[d] += price.bytes;
    }
}

std::array<float, kIterationFeatures> iteration_features(const Iteration& iteration) {
    constexpr float kManyMicroBatches = 4;  // 16 of them
    const auto flag = [](bool is) { return is ? 1.0F : 0.0F; };
    const plan::Policy& policy = iteration.policy;
    return {std::log2(static_cast<float>(policy.micro_batches)) / kManyMicroBatches,
            flag(policy.micro_batches == 1), flag(policy.schedule.kind != plan::ScheduleKind::none),
            flag(iteration.sharding == search::ParameterSharding::updates_in_shards),
            flag(iteration.sharding == search::ParameterSharding::in_shards)};
}

}  // namespace partita::rl
