// SPDX-License-Identifier: Apache-2.0
#include "runtime/execute/hosts.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace partita::runtime {
namespace {

using Texts = std::vector<std::string>;

// Two processes on host a that may use all of its eight cores, two on b that are bound to half of
// it each, and one alone on c.
Hosts hosts(int self) {
    return {.ids = {"a", "a", "b", "b", "c"},
            .cores = {"0-7", "0-7", "0-3", "4-7", "0-7"},
            .self = self};
}

TEST(Hosts, ShareTheCoresThatSeveralProcessesMayUse) {
    EXPECT_EQ(hosts(0).core_count(8), 4);
    EXPECT_EQ(hosts(0).first_core(8), 0);
    EXPECT_EQ(hosts(1).core_count(8), 4);
    EXPECT_EQ(hosts(1).first_core(8), 4);
}

TEST(Hosts, LeaveBoundProcessesTheirOwnCores) {
    for (const int self : {2, 3}) {
        EXPECT_EQ(hosts(self).core_count(4), 4);
        EXPECT_EQ(hosts(self).first_core(4), 0);  // of those that it may use
    }
    EXPECT_EQ(hosts(4).core_count(8), 8);
    EXPECT_EQ(hosts(4).first_core(8), 0);
}

TEST(Hosts, GiveEveryProcessACoreWhenTheyAreFew) {
    const Hosts crowd{.ids = Texts(3, "a"), .cores = Texts(3, "0,1"), .self = 2};
    EXPECT_EQ(crowd.core_count(2), 1);
    EXPECT_EQ(crowd.first_core(2), 2);
}

TEST(Hosts, KnowWhoIsHere) {
    EXPECT_TRUE(hosts(2).is_here(3));
    EXPECT_FALSE(hosts(2).is_here(0));
}

TEST(OwnGpus, AreThoseThatNoOtherDeviceHas) {
    EXPECT_TRUE(are_own_gpus(
        hosts(0), Texts{"cuda:0 cuda:1 ", "cuda:2 ", "cuda:0 ", "cuda:1 ", "cuda:0 cuda:1 "}));
}

// NCCL refuses two ranks on one GPU.
TEST(OwnGpus, AreNoneThatDevicesOfOneProcessShare) {
    EXPECT_FALSE(are_own_gpus(hosts(0), Texts{"cuda:0 cuda:0 ", "", "", "", ""}));
}

TEST(OwnGpus, AreNoneThatProcessesOfOneHostShare) {
    EXPECT_FALSE(are_own_gpus(hosts(4), Texts{"cuda:0 ", "cuda:0 ", "", "", ""}));
    EXPECT_FALSE(are_own_gpus(hosts(0), Texts{"cuda:0 ", "cuda:1 ", "cuda:3 ", "cuda:3 ", ""}));
}

TEST(OwnGpus, AreNoCpus) {
    EXPECT_FALSE(are_own_gpus(hosts(0), Texts{"cpu ", "cpu ", "cpu ", "cpu ", "cpu "}));
    EXPECT_FALSE(are_own_gpus(hosts(0), Texts{"cuda:0 ", "cuda:1 ", "cuda:0 ", "cpu ", "cuda:0 "}));
}

}  // namespace
}  // namespace partita::runtime
