// SPDX-License-Identifier: Apache-2.0
#include "api/pace.h"

#include <gtest/gtest.h>

#include <vector>

namespace partita::api {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// A host whose probes take these times; the last one forever.
class Host {
public:
    explicit Host(std::vector<int> probes) : probes_(std::move(probes)) {}
    Pace pace() {
        return {[this] { return milliseconds(probes_[std::min(next_++, probes_.size() - 1)]); },
                [this](Pace::Duration time) { slept_ += time; }};
    }
    [[nodiscard]] Pace::Duration slept() const { return slept_; }
    [[nodiscard]] std::size_t probes() const { return next_; }

private:
    std::vector<int> probes_;
    std::size_t next_ = 0;
    Pace::Duration slept_{0};
};

TEST(Pace, OfAHostThatIsAlwaysTheSameWaitsForNothing) {
    Host host({100, 105, 98, 110});
    Pace pace = host.pace();
    for (int i = 0; i < 4; ++i) pace.wait();
    EXPECT_EQ(host.slept(), Pace::Duration{0});
    EXPECT_EQ(host.probes(), 4U);
}

TEST(Pace, WaitsForASlowSpellToEnd) {
    Host host({100, 160, 150, 104});
    Pace pace = host.pace();
    pace.wait();
    EXPECT_EQ(host.probes(), 1U);
    pace.wait();
    EXPECT_EQ(host.probes(), 4U);
    EXPECT_EQ(host.slept(), pace.waited());
    EXPECT_GT(host.slept(), Pace::Duration{0});
}

TEST(Pace, LearnsThatTheHostWasSlowAtFirst) {
    Host host({160, 100, 160, 100});
    Pace pace = host.pace();
    pace.wait();
    pace.wait();
    EXPECT_EQ(host.slept(), Pace::Duration{0});
    pace.wait();
    EXPECT_EQ(host.probes(), 4U);
}

TEST(Pace, DoesNotWaitForever) {
    Host host({100, 160});
    Pace pace = host.pace();
    pace.wait();
    pace.wait();
    EXPECT_LE(host.slept(), seconds(6));
    for (int i = 0; i < 100; ++i) pace.wait();
    EXPECT_LE(host.slept(), seconds(31));
}

TEST(Pace, OfThisHostReturns) {
    Pace pace(2);
    pace.wait();
    pace.wait();
    SUCCEED();
}

}  // namespace
}  // namespace partita::api
