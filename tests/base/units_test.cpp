// SPDX-License-Identifier: Apache-2.0
#include "base/units.h"

#include <limits>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/error.h"

namespace partita {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

TEST(Units, SumsBeyondTheRangeThrow) {
    EXPECT_EQ(Time(kMax - 1) + Time(1), Time::max());
    EXPECT_THROW(Time(kMax) + Time(1), OverflowError);
    EXPECT_THROW(Time(-kMax) - Time(2), OverflowError);
    EXPECT_THROW(2 * Bytes(kMax / 2 + 1), OverflowError);
    EXPECT_THROW(Flops::max() + Flops(1), OverflowError);
    Time sum(kMax);
    EXPECT_THROW(sum += Time(1), OverflowError);
}

TEST(Units, FlopsHold128Bits) {
    const Flops large = kMax * Flops(kMax);
    EXPECT_EQ(large.raw() / kMax, kMax);
    EXPECT_THROW(kMax * large, OverflowError);
}

TEST(Units, OverflowNamesTheUnit) {
    try {
        static_cast<void>(Time(kMax) + Time(1));
        FAIL();
    } catch (const OverflowError& error) {
        EXPECT_STREQ(error.what(),
                     "a time in picoseconds is out of range: the shapes, costs or rates in the "
                     "input are too large. Correct them.");
    }
}

TEST(TransferTime, RoundsUp) {
    EXPECT_EQ(transfer_time(Bytes(0), 3), Time(0));
    EXPECT_EQ(transfer_time(Bytes(1), 1'000'000'000'000), Time(1));
    EXPECT_EQ(transfer_time(Bytes(1), 3'000'000'000'000), Time(1));  // a third of a picosecond
    EXPECT_EQ(transfer_time(Bytes(10), 3), Time(3'333'333'333'334));
    EXPECT_EQ(compute_time(Flops(7), 7), Time(1'000'000'000'000));
}

TEST(TransferTime, BeyondTheRangeThrows) {
    EXPECT_EQ(transfer_time(Bytes(9'223'372), 1), Time(9'223'372'000'000'000'000));
    EXPECT_THROW(transfer_time(Bytes(9'223'373), 1), OverflowError);
    EXPECT_THROW(transfer_time(Bytes::max(), 1), OverflowError);
    EXPECT_THROW(compute_time(Flops::max(), kMax), OverflowError);
}

RC_GTEST_PROP(TransferTime, IsTheSmallestTimeThatSuffices, ()) {
    const auto amount = *rc::gen::inRange<std::int64_t>(0, kMax / 1'000'000);
    const auto rate = *rc::gen::inRange<std::int64_t>(1'000'000, kMax);
    const Int128 work = static_cast<Int128>(amount) * 1'000'000'000'000;
    const Int128 time = transfer_time(Bytes(amount), rate).raw();
    RC_ASSERT(time * rate >= work);
    RC_ASSERT(time == 0 || (time - 1) * rate < work);
}

TEST(TimeFromSeconds, RoundsToTheNearestPicosecond) {
    EXPECT_EQ(time_from_seconds(1.5e-12), Time(2));
    EXPECT_EQ(time_from_milliseconds(0.25), microseconds(250));
    EXPECT_DOUBLE_EQ(to_seconds(milliseconds(3)), 0.003);
    EXPECT_DOUBLE_EQ(to_milliseconds(microseconds(250)), 0.25);
}

TEST(TimeFromSeconds, RejectsWhatIsNoTime) {
    EXPECT_THROW(time_from_seconds(1e300), OverflowError);
    EXPECT_THROW(time_from_seconds(std::numeric_limits<double>::quiet_NaN()), OverflowError);
    EXPECT_THROW(time_from_milliseconds(std::numeric_limits<double>::infinity()), OverflowError);
    EXPECT_THROW(time_from_seconds(9223372.1), OverflowError);
}

TEST(BytesFor, RoundsUpToWholeBytes) {
    EXPECT_EQ(bytes_for(3, 4), Bytes(2));
    EXPECT_EQ(bytes_for(5, 2), Bytes(2));
    EXPECT_EQ(bytes_for(3, 32), Bytes(12));
    EXPECT_EQ(bytes_for(0, 32), Bytes(0));
    EXPECT_EQ(bytes_for(kMax, 8), Bytes(kMax));
    EXPECT_THROW(bytes_for(kMax, 16), OverflowError);
}

TEST(CheckedProduct, BeyondTheRangeThrows) {
    EXPECT_EQ(checked_product(1'000'000'007, 3), 3'000'000'021);
    EXPECT_THROW(checked_product(kMax, 2), OverflowError);
}

TEST(ToText, ThreeSignificantDigits) {
    EXPECT_EQ(to_text(Time(0)), "0 ps");
    EXPECT_EQ(to_text(Time(999)), "999 ps");
    EXPECT_EQ(to_text(microseconds(1430)), "1.43 ms");
    EXPECT_EQ(to_text(Time(999'600'000'000)), "1.00 s");
    EXPECT_EQ(to_text(Time(-1'500)), "-1.50 ns");
    EXPECT_EQ(to_text(Bytes(80LL << 30)), "80.0 GiB");
    EXPECT_EQ(to_text(Bytes(1023)), "1023 B");  // 1024 make the next unit
    EXPECT_EQ(to_text(Bytes(1024)), "1.00 KiB");
    EXPECT_EQ(to_text(Flops(8'180'000'000)), "8.18 G");
    EXPECT_EQ(to_text(Flops(123'456)), "123 k");
}

}  // namespace
}  // namespace partita
