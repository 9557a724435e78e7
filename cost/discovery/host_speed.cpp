// SPDX-License-Identifier: Apache-2.0
//
// The part of host.h that measures. Every core runs the same loop at the same time, because cores
// share caches, memory channels and clock.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <system_error>
#include <thread>
#include <vector>

#include "cost/discovery/host.h"

namespace partita::cost {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kMeasured{40};
constexpr std::size_t kMostArrayBytes = std::size_t{96} << 20;  ///< of all threads together
constexpr std::size_t kLeastArrayFloats = 1 << 16;

/// Multiply-adds on enough independent accumulators to fill the pipelines. A is the widest vector
/// that the function's target can hold in a register, so each target needs its own text.
constexpr int kRounds = 4'096;
constexpr int kAccumulators = 10;
using Vector4 = float __attribute__((vector_size(16)));

float multiply_add_any(float factor, float term) {
    std::array<Vector4, kAccumulators> sums{};
    for (int round = 0; round < kRounds; ++round) {
        for (Vector4& sum : sums) sum = sum * factor + term;
    }
    Vector4 total{};
    for (const Vector4& sum : sums) total += sum;
    return total[0];
}

#if defined(__x86_64__)
using Vector8 = float __attribute__((vector_size(32)));
using Vector16 = float __attribute__((vector_size(64)));

__attribute__((target("avx2,fma"))) float multiply_add_avx2(float factor, float term) {
    std::array<Vector8, kAccumulators> sums{};
    for (int round = 0; round < kRounds; ++round) {
        for (Vector8& sum : sums) sum = sum * factor + term;
    }
    Vector8 total{};
    for (const Vector8& sum : sums) total += sum;
    return total[0];
}

__attribute__((target("avx512f"))) float multiply_add_avx512(float factor, float term) {
    std::array<Vector16, kAccumulators> sums{};
    for (int round = 0; round < kRounds; ++round) {
        for (Vector16& sum : sums) sum = sum * factor + term;
    }
    Vector16 total{};
    for (const Vector16& sum : sums) total += sum;
    return total[0];
}
#endif

struct Kernel {
    float (*run)(float factor, float term) = multiply_add_any;
    int lanes = 4;
};

Kernel best_kernel() {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) return {multiply_add_avx512, 16};
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        return {multiply_add_avx2, 8};
    }
#endif
    return {};
}

/// Keeps results alive, so that the loops are not optimized away.
std::atomic<float> sink{0};

/// Calls `block` until the time is up; what it returns, per second.
double rate_of(const std::function<double()>& block) {
    static_cast<void>(block());  // wakes clock and pages
    const auto start = Clock::now();
    double done = 0;
    auto now = start;
    do {
        done += block();
        now = Clock::now();
    } while (now - start < kMeasured);
    return done / std::chrono::duration<double>(now - start).count();
}

double measure_flops() {
    const Kernel kernel = best_kernel();
    const float factor = 0.5F + sink.load() * 0;  // not a constant to the compiler
    return rate_of([&] {
        sink.store(kernel.run(factor, 1.0F));
        return 2.0 * kRounds * kAccumulators * kernel.lanes;
    });
}

double measure_bandwidth(std::size_t floats) {
    std::vector<float> a(floats);
    std::vector<float> b(floats, 1.0F);
    std::vector<float> c(floats, 2.0F);
    float scale = 0.5F;
    return rate_of([&] {
        for (std::size_t i = 0; i < floats; ++i) a[i] = b[i] + scale * c[i];
        sink.store(a[floats / 2]);
        scale += 0.25F;
        return 3.0 * static_cast<double>(floats * sizeof(float));
    });
}

/// Sum of the rates of `threads` threads that measure at the same time.
std::int64_t sum_of_rates(int threads, const std::function<double()>& measure) {
    std::vector<double> rates(static_cast<std::size_t>(threads));
    std::vector<std::thread> running;
    try {
        for (double& rate : rates) running.emplace_back([&] { rate = measure(); });
    } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch)
        // Fewer threads than cores: the rates of those that run are what this process can have.
    }
    if (running.empty()) rates[0] = measure();
    for (std::thread& thread : running) thread.join();
    double sum = 0;
    for (const double rate : rates) sum += rate;
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(sum));
}

}  // namespace

HostSpeed measure_host(int cores, Bytes memory) {
    const std::size_t bytes =
        std::min(kMostArrayBytes, static_cast<std::size_t>(memory.raw()) / 8) /
        static_cast<std::size_t>(cores);
    const std::size_t floats = std::max(kLeastArrayFloats, bytes / (3 * sizeof(float)));
    return {.memory_bandwidth = sum_of_rates(cores, [&] { return measure_bandwidth(floats); }),
            .flops = sum_of_rates(cores, [] { return measure_flops(); })};
}

}  // namespace partita::cost
