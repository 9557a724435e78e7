// SPDX-License-Identifier: Apache-2.0
#include "search/bounds/dual_prices.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace partita::search {

namespace {

constexpr int kMostIterations = 300;
constexpr int kLeastIterations = 8;
/// Unit-class pairs that all iterations together may look at.
constexpr double kMostLooks = 2e7;
/// Price difference, relative to the cheapest class, over which a choice fades by 1/e.
constexpr double kFirstSoftness = 0.5;
constexpr double kLastSoftness = 0.003;
constexpr double kFirstByteWeight = 0.02;

class Solver {
public:
    explicit Solver(const WorkTable& table)
        : table_(table),
          total_(table.classes, 0),
          time_weight_(table.classes, 0),
          byte_weight_(table.classes, 0),
          load_(table.classes, 0),
          used_(table.classes, 0),
          price_(table.classes, 0) {}

    DualPrices run() {
        best_.time.assign(table_.classes, 1);
        best_.bytes.assign(table_.classes, 0);
        if (!start()) return best_;
        const double looks = static_cast<double>(std::max<std::size_t>(1, table_.time.size()));
        const int iterations = table_.classes == 1
                                   ? 1
                                   : std::clamp(static_cast<int>(kMostLooks / looks),
                                                kLeastIterations, kMostIterations);
        for (int i = 0; i < iterations; ++i) {
            const double progress = static_cast<double>(i) / iterations;
            choose(kLastSoftness + kFirstSoftness * (1 - progress));
            raise_weights(1 / std::sqrt(1 + 0.1 * i));
        }
        return best_;
    }

private:
    /// Weights in proportion to speed: already optimal where the speeds of two classes relate alike
    /// for all units. False when there is no work.
    bool start() {
        std::vector<double> bytes(table_.classes, 0);
        for (std::size_t u = 0; u < table_.units(); ++u) {
            for (std::size_t c = 0; c < table_.classes; ++c) {
                total_[c] += time(u, c);
                bytes[c] += static_cast<double>(table_.bytes[table_.at(u, c)].raw());
            }
        }
        const double longest = total_.empty() ? 0 : *std::max_element(total_.begin(), total_.end());
        if (longest <= 0) return false;
        for (std::size_t c = 0; c < table_.classes; ++c) {
            time_weight_[c] = table_.devices[c] * longest / std::max(total_[c], longest * 1e-9);
            if (bytes[c] > capacity(c) && capacity(c) > 0) byte_weight_[c] = kFirstByteWeight;
        }
        const double sum = std::accumulate(time_weight_.begin(), time_weight_.end(), 0.0);
        for (double& weight : time_weight_) weight /= sum;
        for (std::size_t c = 0; c < table_.classes; ++c) {
            price_[c] = time_weight_[c] / table_.devices[c];
        }
        for (std::size_t u = 0; u < table_.units(); ++u) {
            double cheapest = std::numeric_limits<double>::infinity();
            for (std::size_t c = 0; c < table_.classes; ++c) {
                if (open(u, c)) cheapest = std::min(cheapest, price_[c] * time(u, c));
            }
            if (std::isfinite(cheapest)) best_value_ += cheapest;
        }
        best_value_ = std::max(best_value_, 1.0);
        return true;
    }

    [[nodiscard]] double time(std::size_t u, std::size_t c) const {
        return static_cast<double>(table_.time[table_.at(u, c)].raw());
    }
    [[nodiscard]] bool open(std::size_t u, std::size_t c) const {
        return table_.open[table_.at(u, c)] != 0;
    }
    [[nodiscard]] double capacity(std::size_t c) const {
        return static_cast<double>(table_.capacity[c].raw());
    }

    /// Lets every unit choose, fills load_ and used_, and keeps the weights if their bound is new.
    void choose(double softness) {
        DualPrices prices;
        double time_sum = 0;
        double byte_sum = 0;
        for (std::size_t c = 0; c < table_.classes; ++c) {
            prices.time.push_back(time_weight_[c] / table_.devices[c]);
            const bool limited = byte_weight_[c] > 0;
            prices.bytes.push_back(limited ? byte_weight_[c] * best_value_ / capacity(c) : 0);
            time_sum += time_weight_[c];
            byte_sum += byte_weight_[c];
        }
        std::fill(load_.begin(), load_.end(), 0.0);
        std::fill(used_.begin(), used_.end(), 0.0);
        double value = 0;
        for (std::size_t u = 0; u < table_.units(); ++u) value += choose_for(u, prices, softness);
        const double bound = (value - best_value_ * byte_sum) / time_sum;
        if (bound < best_value_ && found_) return;
        found_ = true;
        best_ = std::move(prices);
        best_value_ = std::max(best_value_, bound);
    }

    /// Returns the unit's smallest price.
    double choose_for(std::size_t u, const DualPrices& prices, double softness) {
        double cheapest = std::numeric_limits<double>::infinity();
        for (std::size_t c = 0; c < table_.classes; ++c) {
            price_[c] = std::numeric_limits<double>::infinity();
            if (!open(u, c)) continue;
            price_[c] = prices.time[c] * time(u, c) +
                        prices.bytes[c] * static_cast<double>(table_.bytes[table_.at(u, c)].raw());
            cheapest = std::min(cheapest, price_[c]);
        }
        if (!std::isfinite(cheapest)) return 0;
        double sum = 0;
        for (double& price : price_) {
            const double above = price - cheapest;
            // Beyond 40 the share is lost in rounding.
            const bool equal = above <= 0;
            const bool fades = above < 40 * softness * cheapest;
            price = equal ? 1 : fades ? std::exp(-above / (softness * cheapest)) : 0;
            sum += price;
        }
        for (std::size_t c = 0; c < table_.classes; ++c) {
            if (price_[c] <= 0) continue;
            load_[c] += price_[c] / sum * time(u, c);
            used_[c] += price_[c] / sum * static_cast<double>(table_.bytes[table_.at(u, c)].raw());
        }
        return cheapest;
    }

    void raise_weights(double step) {
        double widest = 1;
        for (std::size_t c = 0; c < table_.classes; ++c) {
            load_[c] /= table_.devices[c] * best_value_;
            widest = std::max(widest, load_[c]);
            if (byte_weight_[c] <= 0) continue;
            used_[c] /= capacity(c);
            widest = std::max(widest, used_[c]);
        }
        double sum = 0;
        for (std::size_t c = 0; c < table_.classes; ++c) {
            time_weight_[c] *= std::exp(step * load_[c] / widest);
            if (byte_weight_[c] > 0) byte_weight_[c] *= std::exp(step * used_[c] / widest);
            sum += time_weight_[c] + byte_weight_[c];
        }
        for (std::size_t c = 0; c < table_.classes; ++c) {
            time_weight_[c] /= sum;
            byte_weight_[c] /= sum;
        }
    }

    const WorkTable& table_;
    std::vector<double> total_;
    std::vector<double> time_weight_;
    std::vector<double> byte_weight_;
    std::vector<double> load_;
    std::vector<double> used_;
    std::vector<double> price_;  ///< of one unit, then its shares
    DualPrices best_;
    double best_value_ = 0;
    bool found_ = false;
};

}  // namespace

DualPrices dual_prices(const WorkTable& table) {
    return Solver(table).run();
}

}  // namespace partita::search
