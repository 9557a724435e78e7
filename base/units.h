// SPDX-License-Identifier: Apache-2.0
//
// Strong integer units: Time (picoseconds), Bytes and Flops are distinct types, so that a length of
// time is never added to an amount of memory, and a number never becomes a unit by accident.
//
//     Time + Time, Time - Time, int * Time, Time / Time -> ratio         (Bytes alike)
//     Flops / (FLOP/s) -> Time, Bytes / (bytes/s) -> Time, both rounded up: see transfer_time()
//
// Time and Bytes are int64, Flops 128 bits. Every operator is checked: leaving the range throws
// OverflowError, because the operands may come from files. Inner loops that have proved their sums
// bounded (see plan/tasks/task_graph.h) use `raw()`.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <string>

namespace partita {

__extension__ typedef __int128 Int128;

namespace detail {
/// Throws OverflowError (base/error.h), naming the unit.
[[noreturn]] void throw_overflow(const char* unit);

template <class Tag>
class Quantity {
public:
    using Raw = typename Tag::Raw;

    constexpr Quantity() = default;
    constexpr explicit Quantity(Raw value) : value_(value) {}

    [[nodiscard]] constexpr Raw raw() const { return value_; }
    [[nodiscard]] static constexpr Quantity max() {
        return Quantity(std::numeric_limits<Raw>::max());
    }

    friend constexpr auto operator<=>(Quantity, Quantity) = default;

    friend constexpr Quantity operator+(Quantity a, Quantity b) {
        Raw sum{};
        if (__builtin_add_overflow(a.value_, b.value_, &sum)) throw_overflow(Tag::kName);
        return Quantity(sum);
    }
    friend constexpr Quantity operator-(Quantity a, Quantity b) {
        Raw difference{};
        if (__builtin_sub_overflow(a.value_, b.value_, &difference)) throw_overflow(Tag::kName);
        return Quantity(difference);
    }
    friend constexpr Quantity operator*(std::int64_t factor, Quantity q) {
        Raw product{};
        if (__builtin_mul_overflow(q.value_, static_cast<Raw>(factor), &product)) {
            throw_overflow(Tag::kName);
        }
        return Quantity(product);
    }
    constexpr Quantity& operator+=(Quantity other) { return *this = *this + other; }
    constexpr Quantity& operator-=(Quantity other) { return *this = *this - other; }

    /// A dimensionless ratio, e.g. gap = value / bound - 1. `b` must not be zero.
    friend constexpr double operator/(Quantity a, Quantity b) {
        return static_cast<double>(a.value_) / static_cast<double>(b.value_);
    }

private:
    Raw value_ = 0;
};

struct TimeTag {
    using Raw = std::int64_t;
    static constexpr const char* kName = "a time in picoseconds";
};
struct BytesTag {
    using Raw = std::int64_t;
    static constexpr const char* kName = "an amount of bytes";
};
struct FlopsTag {
    using Raw = Int128;
    static constexpr const char* kName = "an amount of floating-point operations";
};
}  // namespace detail

using Time = detail::Quantity<detail::TimeTag>;    ///< picoseconds
using Bytes = detail::Quantity<detail::BytesTag>;  ///< bytes
using Flops = detail::Quantity<detail::FlopsTag>;  ///< floating-point operations

constexpr Time picoseconds(std::int64_t n) {
    return Time(n);
}
constexpr Time nanoseconds(std::int64_t n) {
    return n * Time(1'000);
}
constexpr Time microseconds(std::int64_t n) {
    return n * Time(1'000'000);
}
constexpr Time milliseconds(std::int64_t n) {
    return n * Time(1'000'000'000);
}

/// `amount` / `rate` as a Time, rounded up: work whose last byte is free could beat the lower
/// bound. Units: `rate` in bytes/s or FLOP/s, > 0 (files are checked for it). Throws OverflowError.
Time transfer_time(Bytes amount, std::int64_t rate);
Time compute_time(Flops amount, std::int64_t rate);

/// From a real number of milliseconds or seconds in a file, rounded to the nearest picosecond.
/// Throws OverflowError when it is not finite or out of range.
Time time_from_milliseconds(double milliseconds);
Time time_from_seconds(double seconds);
double to_seconds(Time time);
double to_milliseconds(Time time);

/// Bytes of a vector of `elements` elements of `bits` bits each, rounded up to whole bytes.
Bytes bytes_for(std::int64_t elements, int bits);

/// Product of two extents from a file; throws OverflowError. Extents are >= 0.
std::int64_t checked_product(std::int64_t a, std::int64_t b);

/// Short texts for people, three significant digits: "1.43 ms", "80.0 GiB", "8.18 G".
std::string to_text(Time time);
std::string to_text(Bytes bytes);
std::string to_text(Flops flops);

}  // namespace partita
