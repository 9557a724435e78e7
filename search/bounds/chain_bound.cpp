// SPDX-License-Identifier: Apache-2.0
#include "search/bounds/chain_bound.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "graph/op_graph.h"
#include "search/bounds/longest_chain.h"

namespace partita::search {

using graph::OpId;
using graph::TensorId;
using plan::Problem;

namespace {

/// Weights of the mean are counted in these.
constexpr std::int64_t kWeights = 1 << 12;
/// On more devices nothing is said of what moves: whether copies are measured is asked for every
/// pair.
constexpr int kMostDevices = 64;
/// How much less work counts on quick devices than by their speed: tried one after the other.
constexpr double kBiases[] = {0, 0.5, 1, 2, 4};
/// Pairs of states that the evaluations of one bias should look at, by their number. There are at
/// least four.
constexpr std::int64_t kMostChainLooks = 16'000'000;
/// Pairs that all evaluations may look at, which most never need. Then no more is said: after a
/// second or so.
constexpr std::int64_t kMostLookedAt = 400'000'000;

/// A number of parts and of devices of one link.
struct State {
    std::int64_t length = 0;  ///< ps, mean of the parts
    std::int64_t extra = 0;   ///< ps, of all devices, beyond the work of the whole op
    std::int64_t devices = 1;
    std::int64_t share = kWholeShare;  ///< of the largest part
};

class ChainCosts {
public:
    ChainCosts(const Problem& problem, const MicroBatchCosts& times, const PartCosts& parts,
               const WorkBound& work, const std::vector<ChainTask>& chain)
        : problem_(problem), times_(times), parts_(parts), work_(work), chain_(chain) {
        move_ = least_move();
    }

    /// What work counts: weights by speed, and of quick devices less and less as `bias` rises.
    void count_work(double bias) {
        const std::size_t classes = work_.classes().count();
        std::int64_t slowest = std::numeric_limits<std::int64_t>::max();
        for (std::size_t c = 0; c < classes; ++c) {
            if (work_.weight(c) > 0) slowest = std::min(slowest, work_.weight(c));
        }
        weight_.clear();
        speed_ = 0;
        for (std::size_t c = 0; c < classes; ++c) {
            const auto weight = static_cast<double>(work_.weight(c));
            const double less =
                weight > 0 ? std::pow(static_cast<double>(slowest) / weight, bias) : 0;
            weight_.push_back(static_cast<std::int64_t>(weight * std::min(1.0, less)));
            speed_ += static_cast<Int128>(weight_.back()) * work_.classes().size[c];
        }
        states_.clear();
        first_.assign(1, 0);
        for (const ChainTask& link : chain_) {
            add_states(link);
            if (move_ == 0) drop_dominated();
            first_.push_back(states_.size());
        }
        work_time_ = work_of_all();
    }

    /// Pairs of states that one evaluation looks at.
    [[nodiscard]] std::int64_t looks() const {
        std::int64_t looks = 1;
        for (std::size_t i = 1; i + 1 < first_.size(); ++i) {
            looks += static_cast<std::int64_t>((first_[i] - first_[i - 1]) *
                                               (first_[i + 1] - first_[i]));
        }
        return looks;
    }

    /// The least mean, with that weight of the chain's length, in kWeights: dynamic programming. 0
    /// once too much has been looked at.
    [[nodiscard]] Time bound(std::int64_t weight) {
        if (left_ < 0) return Time{0};
        const std::int64_t of_work = kWeights - weight;
        before_.assign(1, {0, 0});
        for (std::size_t link = 0; link < chain_.size(); ++link) {
            here_.clear();
            // The cheapest first, so that few are looked at.
            std::ranges::sort(before_, {}, &Sum::cost);
            for (std::size_t to = first_[link]; to < first_[link + 1]; ++to) {
                const State& state = states_[to];
                Int128 least = -1;
                for (const Sum& before : before_) {
                    if (least >= 0 && before.cost >= least) break;
                    --left_;
                    Int128 cost = before.cost;
                    if (link > 0) cost += moved(states_[before.state], state, weight);
                    least = least < 0 ? cost : std::min(least, cost);
                }
                here_.push_back({least + static_cast<Int128>(weight) * state.length +
                                     static_cast<Int128>(of_work) * state.extra,
                                 to});
            }
            std::swap(before_, here_);
            if (left_ < 0) return Time{0};
        }
        const Int128 mean = std::ranges::min(before_, {}, &Sum::cost).cost +
                            static_cast<Int128>(of_work) * work_time_;
        return Time(static_cast<std::int64_t>(mean / kWeights));
    }

private:
    /// `weight` times what the elements that change devices take.
    [[nodiscard]] std::int64_t moved(const State& a, const State& b, std::int64_t weight) const {
        const std::int64_t common = std::min(a.devices, b.devices) * std::min(a.share, b.share);
        if (common >= kWholeShare) return 0;
        return weight * (move_ * (kWholeShare - common) / kWholeShare);
    }

    void add_states(const ChainTask& link) {
        const auto time = link.backward ? &PartCost::backward : &PartCost::forward;
        const auto most =
            static_cast<std::int64_t>(problem_.constraints().allowed_devices(link.op).size());
        const Int128 whole = least_price(link.op, [&](int device) {
            return link.backward ? times_.backward(link.op, device).all
                                 : times_.forward(link.op, device).all;
        });
        const std::size_t rows = parts_.of(link.op, 0).size();
        for (std::size_t row = 0; row < rows; ++row) {
            const PartCost& part = parts_.of(link.op, 0)[row];
            add_state(link.op, row, time, {part.fewest, part.most}, whole);
            // Where nothing is known of shares nothing moves, and replicas are of no use. Numbers
            // of them by powers of two: the work of the fewest, on as many devices as the most.
            if (part.fewest < part.most) continue;
            for (std::int64_t replicas = 2; replicas * part.most <= most; replicas *= 2) {
                const std::int64_t last = std::min(most / part.most, 2 * replicas - 1);
                add_state(link.op, row, time, {replicas * part.most, last * part.most}, whole);
            }
        }
        if (states_.size() == first_.back()) states_.push_back({});  // it may run nowhere
    }

    /// Of the latest link, those that another is no worse than: where nothing moves, the bound looks
    /// at length and extra alone.
    void drop_dominated() {
        const auto first = states_.begin() + static_cast<std::ptrdiff_t>(first_.back());
        std::sort(first, states_.end(), [](const State& a, const State& b) {
            return std::pair(a.length, a.extra) < std::pair(b.length, b.extra);
        });
        auto kept = first;
        for (auto it = first; it != states_.end(); ++it) {
            if (it == first || it->extra < std::prev(kept)->extra) *kept++ = *it;
        }
        states_.erase(kept, states_.end());
    }

    struct Devices {
        std::int64_t fewest = 1;
        std::int64_t most = 1;
    };

    void add_state(OpId op, std::size_t row, Time PartCost::*time, Devices devices, Int128 whole) {
        constexpr std::int64_t kLooksPerClass = 8;  // takes as long
        left_ -= kLooksPerClass * static_cast<std::int64_t>(work_.classes().count());
        if (left_ < 0) return;
        by_speed_.clear();
        for (std::size_t c = 0; c < work_.classes().count(); ++c) {
            if (!work_.may_use(op, c)) continue;
            const std::int64_t here = (parts_.of(op, c)[row].*time).raw();
            by_speed_.push_back(
                {here, work_.classes().size[c], static_cast<Int128>(weight_[c]) * here});
        }
        if (by_speed_.empty()) return;
        std::ranges::sort(by_speed_, {}, &Speed::time);
        State state{.devices = devices.most, .share = parts_.of(op, 0)[row].largest};
        const Int128 extra = times_.runs(op) * price_on(devices.fewest) - whole;
        state.extra = static_cast<std::int64_t>(std::max<Int128>(0, extra) / speed_);
        state.length = mean_length(state.share);
        states_.push_back(state);
    }

    /// Of parts on so many devices: the quickest, where these are the cheapest too.
    [[nodiscard]] Int128 price_on(std::int64_t devices) const {
        if (!std::ranges::is_sorted(by_speed_, {}, &Speed::price)) {
            return devices * std::ranges::min(by_speed_, {}, &Speed::price).price;
        }
        Int128 sum = 0;
        for (const Speed& speed : by_speed_) {
            const std::int64_t here = std::min(devices, speed.devices);
            sum += here * speed.price;
            devices -= here;
        }
        return sum + devices * by_speed_.back().price;
    }

    /// Of parts on the quickest devices, none with more than `share`.
    [[nodiscard]] std::int64_t mean_length(std::int64_t share) const {
        Int128 sum = 0;
        std::int64_t left = kWholeShare;
        for (const Speed& speed : by_speed_) {
            const std::int64_t here = std::min(left, share * speed.devices);
            sum += static_cast<Int128>(here) * speed.time;
            left -= here;
        }
        sum += static_cast<Int128>(left) * by_speed_.back().time;
        return static_cast<std::int64_t>(sum / kWholeShare);
    }

    template <class TimeOn>
    [[nodiscard]] Int128 least_price(OpId op, TimeOn time_on) const {
        Int128 least = -1;
        for (std::size_t c = 0; c < work_.classes().count(); ++c) {
            if (!work_.may_use(op, c)) continue;
            const Int128 price =
                static_cast<Int128>(weight_[c]) * time_on(work_.classes().device[c]).raw();
            least = least < 0 ? price : std::min(least, price);
        }
        return std::max<Int128>(least, 0);
    }

    /// Of all devices, nothing split.
    [[nodiscard]] std::int64_t work_of_all() const {
        Int128 price = 0;
        for (std::size_t i = 0; i < problem_.graph().op_count(); ++i) {
            const OpId op(i);
            const auto forward = [&](int device) { return times_.forward(op, device).all; };
            const auto backward = [&](int device) { return times_.backward(op, device).all; };
            const auto update = [&](int d) { return problem_.bounds().least_update_time(op, d); };
            price += least_price(op, forward) + least_price(op, backward) + least_price(op, update);
        }
        for (std::size_t i = 0; i < problem_.graph().tensor_count(); ++i) {
            const TensorId t(i);
            if (times_.additions(t) == 0) continue;
            Int128 least = -1;
            for (std::size_t c = 0; c < work_.classes().count(); ++c) {
                const int device = work_.classes().device[c];
                const Int128 here = static_cast<Int128>(weight_[c]) *
                                    problem_.bounds().least_accumulate_time(t, device).raw();
                least = least < 0 ? here : std::min(least, here);
            }
            price += times_.additions(t) * least;
        }
        return static_cast<std::int64_t>(price / speed_);
    }

    /// No copy and no collective is shorter than a launch, unless copies are measured.
    [[nodiscard]] std::int64_t least_move() const {
        const int devices = problem_.device_count();
        if (devices > kMostDevices || problem_.prices().uses_signatures()) return 0;
        Time least = Time::max();
        for (int a = 0; a < devices; ++a) {
            least = std::min(least, problem_.machine().device(a).launch_interval);
            for (int b = 0; b < devices; ++b) {
                if (a == b) continue;
                for (const Bytes bytes : {Bytes{1}, Bytes{1'000'000}}) {
                    const auto measured = problem_.transfers().collectives().copy_price(
                        a, b, bytes, problem_.machine());
                    if (measured) return 0;
                }
            }
        }
        return least.raw();
    }

    /// The least of the links up to that state.
    struct Sum {
        Int128 cost = 0;
        std::size_t state = 0;
    };

    struct Speed {
        std::int64_t time = 0;  ///< of a part there
        std::int64_t devices = 0;
        Int128 price = 0;
    };

    const Problem& problem_;
    const MicroBatchCosts& times_;
    const PartCosts& parts_;
    const WorkBound& work_;
    const std::vector<ChainTask>& chain_;
    std::vector<std::int64_t> weight_;  ///< of work, per class
    Int128 speed_ = 0;                  ///< of all devices
    std::vector<State> states_;
    std::vector<std::size_t> first_;  ///< per link, and the end
    std::int64_t move_ = 0;           ///< ps
    std::int64_t work_time_ = 0;      ///< ps
    std::int64_t left_ = kMostLookedAt;
    // Kept for their memory.
    std::vector<Speed> by_speed_;
    std::vector<Sum> before_;
    std::vector<Sum> here_;
};

/// The best weight: the bound is concave in it. First a few far apart, then between the best and
/// its neighbours.
Time best_weight(ChainCosts& costs) {
    auto left = std::clamp<std::int64_t>(kMostChainLooks / costs.looks(), 4, 16);
    Time best;
    std::int64_t at = 0;
    const auto attempt = [&](std::int64_t weight) {
        if (weight <= 0 || weight > kWeights || left-- <= 0) return;
        const Time bound = costs.bound(weight);
        if (bound <= best) return;
        best = bound;
        at = weight;
    };
    for (std::int64_t weight = kWeights; weight > 0; weight /= 4) attempt(weight);
    for (std::int64_t step = at; step > 1; step /= 2) {
        const std::int64_t from = at;
        attempt(from - step / 2);
        if (at == from) attempt(from + step);
    }
    return best;
}

}  // namespace

ChainBound chain_bound(const Problem& problem, const MicroBatchCosts& times, const PartCosts& parts,
                       const WorkBound& work) {
    const std::vector<ChainTask> chain = longest_chain(problem, parts, work);
    if (chain.empty()) return {};
    const auto turn = std::ranges::find(chain, true, &ChainTask::backward);
    ChainBound bound{.first = chain.front().op,
                     .last = turn == chain.end() ? chain.back().op : turn->op};
    ChainCosts costs(problem, times, parts, work, chain);
    for (const double bias : kBiases) {
        costs.count_work(bias);
        bound.value = std::max(bound.value, best_weight(costs));
        if (work.classes().count() == 1) break;
    }
    return bound;
}

}  // namespace partita::search
