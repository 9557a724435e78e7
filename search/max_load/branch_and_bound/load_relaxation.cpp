// SPDX-License-Identifier: Apache-2.0
#include "search/max_load/branch_and_bound/load_relaxation.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "search/max_load/model/piece_graph.h"

namespace partita::search {

namespace {

constexpr double kFirstShare = 0.5;   ///< of the newest choice in the average, at the beginning
constexpr double kLastShare = 0.2;    ///< and later
constexpr double kFirstPace = 0.5;    ///< of what it would take to reach the target in one step
constexpr double kMostChange = 0.25;  ///< of a weight, in one step
constexpr double kOtherRows = 0.1;    ///< what rows but the first weigh in the beginning

bool has(DeviceMask mask, std::size_t d) {
    return ((mask >> d) & 1U) != 0;
}

/// To an integer that leaves room for sums of products, as in work_bound.cpp. Less than the price
/// is sound.
std::int64_t whole_price(double price, double scale) {
    return static_cast<std::int64_t>(std::clamp(price * scale, 0.0, 0x1.0p60));
}

/// Bits of the fraction that leave room for sums of what is at most `largest`.
int fraction_bits(std::int64_t largest) {
    return std::clamp(58 - static_cast<int>(std::bit_width(static_cast<std::uint64_t>(largest))), 0,
                      30);
}

}  // namespace

LoadRelaxation::LoadRelaxation(const LoadProblem& problem)
    : problem_(problem),
      graph_(problem.graph),
      devices_(problem.devices.size()),
      rows_(problem),
      reduced_(graph_.size * devices_),
      best_(graph_.size),
      mean_(graph_.size * devices_),
      used_(devices_),
      slope_(graph_.pins.items.size() * devices_),
      exact_(graph_.size * devices_),
      least_(graph_.size),
      byte_price_(devices_),
      less_(LoadRows::kCount * devices_),
      load_(LoadRows::kCount * devices_),
      factor_(load_.size()),
      weight_(load_.size()) {
    std::int64_t largest = 1;
    for (const std::int64_t cost : graph_.costs) largest = std::max(largest, cost);
    bits_ = fraction_bits(largest);
    Int128 bytes = 0;
    for (const std::int64_t of_vertex : graph_.bytes) bytes += of_vertex;
    tight_ = std::any_of(problem.devices.begin(), problem.devices.end(),
                         [&](const LoadDevice& device) { return bytes > device.capacity; });
}

void LoadRelaxation::set_target(std::int64_t target) {
    target_ = static_cast<double>(target);
    limit_ = target - 1;
}

LoadPrices LoadRelaxation::start() const {
    LoadPrices prices;
    prices.weight.resize(LoadRows::kCount * devices_);
    const auto others = static_cast<double>(LoadRows::kCount - 1);
    double sum = 0;
    for (std::size_t d = 0; d < devices_; ++d) {
        double whole = 1;
        for (std::size_t v = 0; v < graph_.size; ++v) whole += rows_.values(0)[v * devices_ + d];
        for (std::size_t row = 0; row < LoadRows::kCount; ++row) {
            const double share = row > 0 ? kOtherRows / others : 1 - (others > 0 ? kOtherRows : 0);
            prices.weight[row * devices_ + d] = share / whole;
            sum += share / whole;
        }
    }
    for (double& weight : prices.weight) weight /= sum;
    prices.bytes.assign(devices_, 0);
    prices.flow.assign(graph_.pins.items.size() * devices_, 0);
    return prices;
}

void LoadRelaxation::set_rows(const LoadNode& node) {
    rows_.set(node.masks, node.loads, limit_);
    for (std::size_t row = 0; row < LoadRows::kCount; ++row) {
        for (std::size_t d = 0; d < devices_; ++d) {
            less_[row * devices_ + d] = static_cast<double>(rows_.less(row, d));
        }
    }
}

void LoadRelaxation::price_vertices(const LoadPrices& prices) {
    std::fill(reduced_.begin(), reduced_.end(), 0);
    for (std::size_t row = 0; row < LoadRows::kCount; ++row) {
        const double* value = rows_.values(row).data();
        const double* weight = prices.weight.data() + row * devices_;
        for (double* reduced = reduced_.data(); reduced != reduced_.data() + reduced_.size();
             reduced += devices_, value += devices_) {
            for (std::size_t d = 0; d < devices_; ++d) reduced[d] += weight[d] * value[d];
        }
    }
    if (tight_) {
        for (std::size_t v = 0; v < graph_.size; ++v) {
            const auto bytes = static_cast<double>(graph_.bytes[v]);
            for (std::size_t d = 0; d < devices_; ++d) {
                reduced_[v * devices_ + d] += prices.bytes[d] * bytes;
            }
        }
    }
    const double* flow = prices.flow.data();
    for (const std::int32_t v : graph_.pins.items) {
        double* reduced = reduced_.data() + static_cast<std::size_t>(v) * devices_;
        for (std::size_t d = 0; d < devices_; ++d) reduced[d] += flow[d];
        flow += devices_;
    }
}

/// Every vertex to where it is cheapest; returns the bound.
double LoadRelaxation::choose(const LoadNode& node, const LoadPrices& prices) {
    double sum = 0;
    for (std::size_t v = 0; v < graph_.size; ++v) {
        const double* reduced = reduced_.data() + v * devices_;
        double least = std::numeric_limits<double>::infinity();
        for (std::size_t d = 0; d < devices_; ++d) {
            if (!has(node.masks[v], d) || reduced[d] >= least) continue;
            least = reduced[d];
            best_[v] = static_cast<std::int32_t>(d);
        }
        sum += least;
    }
    for (std::size_t i = 0; i < less_.size(); ++i) sum += prices.weight[i] * less_[i];
    for (std::size_t d = 0; d < devices_; ++d) {
        const bool counts = prices.bytes[d] > 0;
        if (counts) sum -= prices.bytes[d] * static_cast<double>(problem_.devices[d].capacity);
    }
    return sum;
}

void LoadRelaxation::average(double share) {
    for (double& mean : mean_) mean *= 1 - share;
    for (std::size_t v = 0; v < graph_.size; ++v) {
        mean_[v * devices_ + static_cast<std::size_t>(best_[v])] += share;
    }
}

/// Loads, bytes and slopes of the flows at the averaged choice.
void LoadRelaxation::measure(const LoadPrices& prices) {
    std::copy(less_.begin(), less_.end(), load_.begin());
    std::fill(used_.begin(), used_.end(), 0);
    for (std::size_t row = 0; row < LoadRows::kCount; ++row) {
        const double* value = rows_.values(row).data();
        double* load = load_.data() + row * devices_;
        for (std::size_t i = 0; i < mean_.size(); i += devices_, value += devices_) {
            for (std::size_t d = 0; d < devices_; ++d) load[d] += mean_[i + d] * value[d];
        }
    }
    if (tight_) {
        for (std::size_t v = 0; v < graph_.size; ++v) {
            const auto bytes = static_cast<double>(graph_.bytes[v]);
            for (std::size_t d = 0; d < devices_; ++d) used_[d] += mean_[v * devices_ + d] * bytes;
        }
    }
    measure_nets(prices);
}

void LoadRelaxation::measure_nets(const LoadPrices& prices) {
    std::size_t first = 0;
    for (std::size_t net = 0; net < graph_.net_count(); ++net) {
        const auto pins = graph_.pins[net];
        for (std::size_t d = 0; d < devices_; ++d) {
            if (!problem_.devices[d].communicates) continue;
            double middle = 0;
            double moved = 0;
            for (std::size_t i = 0; i < pins.size(); ++i) {
                const double share = mean_[static_cast<std::size_t>(pins[i]) * devices_ + d];
                middle += share;
                moved += share * prices.flow[(first + i) * devices_ + d];
            }
            middle /= static_cast<double>(pins.size());
            if (prices.weight[d] > 0) load_[d] += moved / prices.weight[d];
            for (std::size_t i = 0; i < pins.size(); ++i) {
                const double share = mean_[static_cast<std::size_t>(pins[i]) * devices_ + d];
                slope_[(first + i) * devices_ + d] = share - middle;
            }
        }
        first += pins.size();
    }
}

void LoadRelaxation::shift_flows(double lack, LoadPrices& prices) {
    double square = 0;
    for (const double slope : slope_) square += slope * slope;
    if (square < 1e-12) return;
    const double length = lack / square;
    std::size_t first = 0;
    for (std::size_t net = 0; net < graph_.net_count(); ++net) {
        const std::size_t size = graph_.pins[net].size();
        const auto cost = static_cast<double>(graph_.costs[net]);
        for (std::size_t d = 0; d < devices_; ++d) {
            if (!problem_.devices[d].communicates) continue;
            double* flow = prices.flow.data() + first * devices_ + d;
            const double* slope = slope_.data() + first * devices_ + d;
            double positive = 0;
            for (std::size_t i = 0; i < size; ++i) {
                flow[i * devices_] += length * slope[i * devices_];
                positive += std::max(0.0, flow[i * devices_]);
            }
            const double room = cost * prices.weight[d];
            if (positive <= room) continue;
            for (std::size_t i = 0; i < size; ++i) flow[i * devices_] *= room / positive;
        }
        first += size;
    }
}

/// Towards rows and devices with more load; flows keep their proportion.
void LoadRelaxation::shift_weights(double lack, LoadPrices& prices) {
    std::vector<double>& weight = prices.weight;
    double mean = 0;
    for (std::size_t i = 0; i < weight.size(); ++i) mean += weight[i] * load_[i];
    double gain = 0;
    double most = 0;
    for (std::size_t i = 0; i < weight.size(); ++i) {
        const double above = load_[i] - mean;
        gain += weight[i] * above * above;
        most = std::max(most, std::abs(above));
    }
    if (gain <= 0 || most <= 0) return;
    const double length = std::min(lack / gain, kMostChange / most);
    double sum = 0;
    for (std::size_t i = 0; i < weight.size(); ++i) {
        factor_[i] = std::exp(length * (load_[i] - mean));
        sum += weight[i] * factor_[i];
    }
    for (std::size_t i = 0; i < weight.size(); ++i) {
        factor_[i] /= sum;
        weight[i] *= factor_[i];
    }
    for (std::size_t i = 0; i < prices.flow.size(); i += devices_) {
        for (std::size_t d = 0; d < devices_; ++d) prices.flow[i + d] *= factor_[d];
    }
}

void LoadRelaxation::shift_bytes(double lack, LoadPrices& prices) {
    double square = 0;
    for (std::size_t d = 0; d < devices_; ++d) {
        const auto capacity = static_cast<double>(problem_.devices[d].capacity);
        const double above = used_[d] / capacity - 1;
        if (above > 0 || prices.bytes[d] > 0) square += above * above;
    }
    if (square < 1e-12) return;
    for (std::size_t d = 0; d < devices_; ++d) {
        const auto capacity = static_cast<double>(problem_.devices[d].capacity);
        const double above = used_[d] / capacity - 1;
        prices.bytes[d] = std::max(0.0, prices.bytes[d] + lack / square * above / capacity);
    }
}

double LoadRelaxation::ascend(const LoadNode& node, int steps, LoadPrices& prices) {
    set_rows(node);
    tried_ = prices;
    double best = -std::numeric_limits<double>::infinity();
    for (int i = 0; i <= steps; ++i) {
        price_vertices(tried_);
        const double bound = choose(node, tried_);
        if (bound > best) {
            best = bound;
            prices = tried_;
        }
        if (best >= target_ || i == steps) break;
        average(i == 0 ? 1.0 : std::max(kLastShare, kFirstShare / (1 + i)));
        const double left = 1 - static_cast<double>(i) / steps;
        const double lack = kFirstPace * left * left * (target_ - bound);
        measure(tried_);
        shift_weights(lack, tried_);
        shift_flows(lack, tried_);
        if (tight_) shift_bytes(lack, tried_);
    }
    return best;
}

/// Down to multiples of 2^-bits, so that flows still add up to nothing and stay within what their
/// net costs.
void LoadRelaxation::set_integers(const LoadPrices& prices) {
    const double scale = std::ldexp(1.0, bits_);
    for (std::size_t i = 0; i < weight_.size(); ++i) {
        weight_[i] = whole_price(prices.weight[i], scale);
    }
    for (std::size_t d = 0; d < devices_; ++d) {
        byte_price_[d] = whole_price(prices.bytes[d], scale);
    }
    for (std::size_t v = 0; v < graph_.size; ++v) {
        for (std::size_t d = 0; d < devices_; ++d) {
            Int128 price = static_cast<Int128>(byte_price_[d]) * graph_.bytes[v];
            for (std::size_t row = 0; row < LoadRows::kCount; ++row) {
                price += static_cast<Int128>(weight_[row * devices_ + d]) *
                         rows_.exact(row)[v * devices_ + d];
            }
            exact_[v * devices_ + d] = price;
        }
    }
    std::size_t first = 0;
    for (std::size_t net = 0; net < graph_.net_count(); ++net) {
        const auto pins = graph_.pins[net];
        for (std::size_t d = 0; d < devices_; ++d) {
            if (!problem_.devices[d].communicates) continue;
            const Int128 room = static_cast<Int128>(graph_.costs[net]) * weight_[d];
            add_flow(pins, prices.flow.data() + first * devices_ + d, scale, room, d);
        }
        first += pins.size();
    }
}

void LoadRelaxation::add_flow(std::span<const std::int32_t> pins, const double* flow, double scale,
                              Int128 room, std::size_t d) {
    Int128 sum = 0;
    Int128 positive = 0;
    whole_flow_.clear();
    for (std::size_t i = 0; i < pins.size(); ++i) {
        whole_flow_.push_back(static_cast<std::int64_t>(std::floor(flow[i * devices_] * scale)));
        sum += whole_flow_.back();
        positive += std::max<std::int64_t>(0, whole_flow_.back());
    }
    // What is too much is taken from those that give.
    Int128 excess = std::max({Int128{0}, sum, positive - room});
    for (std::size_t i = 0; i < pins.size(); ++i) {
        const Int128 less = std::min(std::max<Int128>(whole_flow_[i], 0), excess);
        excess -= less;
        exact_[static_cast<std::size_t>(pins[i]) * devices_ + d] += whole_flow_[i] - less;
    }
}

bool LoadRelaxation::prunes(const LoadNode& node, const LoadPrices& prices) {
    set_rows(node);
    set_integers(prices);
    price_ = 0;
    weights_ = 0;
    for (std::size_t row = 0; row < LoadRows::kCount; ++row) {
        for (std::size_t d = 0; d < devices_; ++d) {
            const std::int64_t weight = weight_[row * devices_ + d];
            weights_ += weight;
            price_ += static_cast<Int128>(weight) * rows_.less(row, d);
        }
    }
    for (std::size_t d = 0; d < devices_; ++d) {
        if (byte_price_[d] == 0) continue;
        price_ -= static_cast<Int128>(byte_price_[d]) * problem_.devices[d].capacity;
    }
    for (std::size_t v = 0; v < graph_.size; ++v) {
        bool any = false;
        for (std::size_t d = 0; d < devices_; ++d) {
            if (!has(node.masks[v], d)) continue;
            const Int128 price = exact_[v * devices_ + d];
            if (!any || price < least_[v]) least_[v] = price;
            any = true;
        }
        price_ += least_[v];
    }
    return price_ > static_cast<Int128>(limit_) * weights_;
}

bool LoadRelaxation::excludes(std::size_t v, std::size_t d) const {
    const Int128 price = price_ + exact_[v * devices_ + d] - least_[v];
    return price > static_cast<Int128>(limit_) * weights_;
}

}  // namespace partita::search
