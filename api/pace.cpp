// SPDX-License-Identifier: Apache-2.0
#include "api/pace.h"

#include <algorithm>
#include <array>
#include <thread>
#include <utility>
#include <vector>

namespace partita::api {

namespace {

using Clock = std::chrono::steady_clock;
using Duration = Pace::Duration;

constexpr double kSlow = 7.0 / 6.0;
constexpr Duration kNap = std::chrono::milliseconds(100);
constexpr Duration kPatience = std::chrono::seconds(5);      // of one wait
constexpr Duration kAllPatience = std::chrono::seconds(30);  // of all of them

/// Multiply-adds that keep a core's units busy: what a neighbour on the same core slows down.
Duration busy_loop() {
    constexpr int kRounds = 200'000;
    std::array<float, 16> sums{};
    const auto begin = Clock::now();
    for (int i = 0; i < kRounds; ++i) {
        for (float& sum : sums) sum = sum * 0.999F + 1.0F;
    }
    volatile float used = 0.0F;  // or nothing would be computed
    for (const float sum : sums) used = used + sum;
    return Clock::now() - begin;
}

/// The slowest core's, of two tries.
Duration probe(int cores) {
    Duration best = Duration::max();
    for (int attempt = 0; attempt < 2; ++attempt) {
        std::vector<Duration> times(static_cast<std::size_t>(cores));
        std::vector<std::jthread> threads;
        for (Duration& time : times) threads.emplace_back([&time] { time = busy_loop(); });
        threads.clear();  // joins
        best = std::min(best, std::ranges::max(times));
    }
    return best;
}

}  // namespace

Pace::Pace(int cores)
    : probe_([cores] { return probe(std::max(1, cores)); }),
      sleep_([](Duration time) { std::this_thread::sleep_for(time); }) {}

void Pace::wait() {
    Duration here{0};
    while (true) {
        const Duration now = probe_();
        best_ = std::min(best_, now);
        const bool is_slow = now > kSlow * best_;
        if (!is_slow || here >= kPatience || waited_ >= kAllPatience) return;
        sleep_(kNap);
        here += kNap;
        waited_ += kNap;
    }
}

}  // namespace partita::api
