// SPDX-License-Identifier: Apache-2.0
#include "plan/strategy/host_time.h"

#include <gtest/gtest.h>

namespace partita::plan {
namespace {

constexpr Time us(std::int64_t count) {
    return Time(count * 1'000'000);
}

TEST(HostTime, IsReadAsItIsWritten) {
    const HostTime host{.kernel = us(45), .communication = Time(30'500'000), .update = {}};
    EXPECT_EQ(to_text(host), "kernel=45us,communication=30500000ps,update=0us");
    EXPECT_EQ(host_time_from_text(to_text(host)), host);
    EXPECT_EQ(to_text(HostTime{}), "none");
    EXPECT_EQ(host_time_from_text("none"), HostTime{});
}

TEST(HostTime, OneTimeIsThatOfKernelsAndCommunication) {
    EXPECT_EQ(host_time_from_text("45us"), (HostTime{us(45), us(45), {}}));
    EXPECT_EQ(host_time_from_text("update=0.005ms"), (HostTime{{}, {}, us(5)}));
}

TEST(HostTime, OtherTextsAreNone) {
    for (const char* const text :
         {"", "45", "1.1ms", "-1us", "kernel", "kernel=", "kernel=45", "kernels=45us",
          "kernel=1us,kernel=2us", "kernel=1us,", "kernel=1us update=2us"}) {
        EXPECT_EQ(host_time_from_text(text), std::nullopt) << text;
    }
}

}  // namespace
}  // namespace partita::plan
