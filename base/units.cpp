// SPDX-License-Identifier: Apache-2.0
#include "base/units.h"

#include <array>
#include <cassert>
#include <cmath>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "base/error.h"

namespace partita {

namespace detail {
void throw_overflow(const char* unit) {
    throw OverflowError(
        fmt::format("{} is out of range: the shapes, costs or rates in the input "
                    "are too large. Correct them.",
                    unit));
}
}  // namespace detail

namespace {

constexpr Int128 kPicosecondsPerSecond = 1'000'000'000'000;

/// ceil(amount / rate) in picoseconds.
Time time_at_rate(Int128 amount, std::int64_t rate) {
    assert(amount >= 0 && rate > 0);
    // Whole seconds first, so that the scaled remainder (< rate * 10^12) cannot overflow.
    const Int128 seconds = amount / rate;
    const Int128 rest = (amount % rate * kPicosecondsPerSecond + rate - 1) / rate;
    constexpr Int128 kMax = std::numeric_limits<std::int64_t>::max();
    if (seconds > kMax / kPicosecondsPerSecond) detail::throw_overflow(detail::TimeTag::kName);
    const Int128 total = seconds * kPicosecondsPerSecond + rest;
    if (total > kMax) detail::throw_overflow(detail::TimeTag::kName);
    return Time(static_cast<std::int64_t>(total));
}

Time time_from(double amount, double picoseconds_per_unit) {
    const double value = std::round(amount * picoseconds_per_unit);
    // 2^63 is a double; every double below it fits. The negation also catches NaN.
    if (!(std::abs(value) < 9223372036854775808.0)) {
        detail::throw_overflow(detail::TimeTag::kName);
    }
    return Time(static_cast<std::int64_t>(value));
}

struct Scale {
    std::string_view suffix;
    double size;
};

/// Three significant digits in the largest scale that leaves at least one before the point.
std::string scaled_text(double value, std::span<const Scale> scales) {
    const double magnitude = std::abs(value);
    for (std::size_t i = scales.size(); i-- > 1;) {
        // 999.5 of the next smaller scale already prints as 1.00 of this one.
        if (magnitude < scales[i].size - scales[i - 1].size / 2) continue;
        const double scaled = value / scales[i].size;
        const int decimals = std::abs(scaled) < 9.995 ? 2 : std::abs(scaled) < 99.95 ? 1 : 0;
        return fmt::format("{:.{}f}{}", scaled, decimals, scales[i].suffix);
    }
    return fmt::format("{:.0f}{}", value, scales[0].suffix);
}

}  // namespace

Time transfer_time(Bytes amount, std::int64_t rate) {
    return time_at_rate(amount.raw(), rate);
}

Time compute_time(Flops amount, std::int64_t rate) {
    return time_at_rate(amount.raw(), rate);
}

Time time_from_milliseconds(double milliseconds) {
    return time_from(milliseconds, 1e9);
}

Time time_from_seconds(double seconds) {
    return time_from(seconds, 1e12);
}

double to_seconds(Time time) {
    return static_cast<double>(time.raw()) / 1e12;
}

double to_milliseconds(Time time) {
    return static_cast<double>(time.raw()) / 1e9;
}

Bytes bytes_for(std::int64_t elements, int bits) {
    assert(elements >= 0 && bits >= 0);
    const Int128 bytes = (static_cast<Int128>(elements) * bits + 7) / 8;
    if (bytes > std::numeric_limits<std::int64_t>::max()) {
        detail::throw_overflow(detail::BytesTag::kName);
    }
    return Bytes(static_cast<std::int64_t>(bytes));
}

std::int64_t checked_product(std::int64_t a, std::int64_t b) {
    std::int64_t product = 0;
    if (__builtin_mul_overflow(a, b, &product)) detail::throw_overflow("a number of elements");
    return product;
}

std::string to_text(Time time) {
    constexpr std::array<Scale, 5> kScales{
        {{" ps", 1}, {" ns", 1e3}, {" us", 1e6}, {" ms", 1e9}, {" s", 1e12}}};
    return scaled_text(static_cast<double>(time.raw()), kScales);
}

std::string to_text(Bytes bytes) {
    constexpr std::array<Scale, 6> kScales{{{" B", 1},
                                            {" KiB", 0x1p10},
                                            {" MiB", 0x1p20},
                                            {" GiB", 0x1p30},
                                            {" TiB", 0x1p40},
                                            {" PiB", 0x1p50}}};
    return scaled_text(static_cast<double>(bytes.raw()), kScales);
}

std::string to_text(Flops flops) {
    constexpr std::array<Scale, 7> kScales{
        {{"", 1}, {" k", 1e3}, {" M", 1e6}, {" G", 1e9}, {" T", 1e12}, {" P", 1e15}, {" E", 1e18}}};
    return scaled_text(static_cast<double>(flops.raw()), kScales);
}

}  // namespace partita
