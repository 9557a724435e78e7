// SPDX-License-Identifier: Apache-2.0
#include "cost/machine/what_if.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "cost/collectives/collective.h"
#include "cost/collectives/collective_file.h"
#include "cost/collectives/measured_links.h"
#include "cost/machine/machine_file.h"

namespace partita::cost {
namespace {

using testing::HasSubstr;

Machine scaled(const std::string& machine, const std::string& change) {
    return changed(load_machine(machine), {.set = {}, .scale = {change}});
}

Machine with(const std::string& machine, const std::string& change) {
    return changed(load_machine(machine), {.set = {change}, .scale = {}});
}

Time all_reduce(const Machine& machine, std::int64_t bytes) {
    std::vector<int> all;
    for (int d = 0; d < machine.device_count(); ++d) all.push_back(d);
    return collective_model_of(machine)
        ->price({Collective::all_reduce, all, Bytes{bytes}}, machine)
        ->time;
}

TEST(WhatIf, AFactorOfOneChangesNothing) {
    for (const char* name : {"dgx-h100:2", "dgx-a100", "dgx-1-v100", "a100-t4"}) {
        const Machine machine = load_machine(name);
        for (const char* change : {"links=1", "links.latency=1", "compute=1", "device.memory=1"}) {
            const Machine same = scaled(name, change);
            EXPECT_EQ(digest(same), digest(machine)) << name << ' ' << change;
            EXPECT_EQ(all_reduce(same, 1 << 26), all_reduce(machine, 1 << 26));
            EXPECT_EQ(collectives_note(same), std::nullopt);
        }
    }
}

TEST(WhatIf, MeasuredCollectivesFollowTheLinks) {
    for (const char* name : {"dgx-h100", "dgx-h100:2", "dgx-a100:2", "dgx-1-v100"}) {
        const Time before = all_reduce(load_machine(name), 1 << 28);
        const Time after = all_reduce(scaled(name, "links=0.01"), 1 << 28);
        // The start of the collective costs what it did.
        EXPECT_GT(after, 50 * before) << name;
        EXPECT_LE(after, 101 * before) << name;
        EXPECT_LT(all_reduce(scaled(name, "links=4"), 1 << 28), before) << name;
        EXPECT_GT(all_reduce(scaled(name, "links.latency=100"), 1 << 10),
                  all_reduce(load_machine(name), 1 << 10))
            << name;
        EXPECT_THAT(collectives_note(scaled(name, "links=0.01")).value_or(""), HasSubstr("scaled"));
    }
}

TEST(WhatIf, ScaledCollectivesNeverGetCheaperWithTheirBytes) {
    for (const char* name : {"dgx-h100:2", "dgx-a100", "dgx-1-v100"}) {
        const Machine machine = scaled(name, "links=0.3");
        Time last;
        for (std::int64_t bytes = 0; bytes < std::int64_t{1} << 32; bytes = bytes * 3 / 2 + 1) {
            const Time time = all_reduce(machine, bytes);
            EXPECT_GE(time, last) << name << ' ' << bytes;
            last = time;
        }
    }
}

TEST(WhatIf, TheNetworkIsWhatLeavesANode) {
    const Machine before = load_machine("dgx-h100:2");
    const Machine machine = with("dgx-h100:2", "network.bandwidth=12.5GB/s");
    int changed_links = 0;
    for (std::size_t i = 0; i < before.links().size(); ++i) {
        const bool network = before.links()[i].bandwidth == 50'000'000'000;
        changed_links += network ? 1 : 0;
        EXPECT_EQ(machine.links()[i].bandwidth,
                  network ? 12'500'000'000 : before.links()[i].bandwidth);
    }
    EXPECT_EQ(changed_links, 16);
}

TEST(WhatIf, SetsFiguresOfDevices) {
    EXPECT_EQ(with("dgx-h100", "device.memory=40GiB").device(7).memory, Bytes{40LL << 30});
    EXPECT_EQ(with("dgx-h100", "device.memory=40GiB").device(7).reserved, Bytes{2LL << 30});
    EXPECT_EQ(with("dgx-h100", "device.reserved=0").device(7).reserved, Bytes{0});
    EXPECT_EQ(with("dgx-h100", "device.reserved=100GiB").device(0).reserved,
              load_machine("dgx-h100").device(0).memory - Bytes{1});
    EXPECT_EQ(changed(load_machine("dgx-h100"),
                      {.set = {"device.reserved=6GiB", "device.memory=40GiB"}, .scale = {}})
                  .device(0)
                  .reserved,
              Bytes{6LL << 30});
    EXPECT_EQ(with("dgx-h100", "device.launch_interval=5us").device(0).launch_interval,
              microseconds(5));
    EXPECT_EQ(with("dgx-h100", "device.price_per_hour=2.49").device(3).price_per_hour, 2.49);
    const Machine machine = scaled("dgx-h100", "compute=2");
    const Device before = load_machine("dgx-h100").device(0);
    EXPECT_EQ(machine.device(0).vector_flops, 2 * before.vector_flops);
    EXPECT_EQ(machine.device(0).matrix_flops_of(graph::DType::bfloat16),
              2 * before.matrix_flops_of(graph::DType::bfloat16));
    EXPECT_EQ(machine.device(0).memory_bandwidth, before.memory_bandwidth);
}

TEST(WhatIf, RefusesUnknownPathsAndFigures) {
    const auto message = [](const WhatIf& changes) -> std::string {
        try {
            static_cast<void>(changed(load_machine("dgx-h100"), changes));
        } catch (const UsageError& error) {
            return error.what();
        }
        return "";
    };
    EXPECT_THAT(message({.set = {"net.bandwidth=1GB/s"}, .scale = {}}),
                HasSubstr("Known are network.bandwidth, "));
    EXPECT_THAT(message({.set = {}, .scale = {"net=2"}}), HasSubstr("unknown figure \"net\""));
    EXPECT_THAT(message({.set = {"links.bandwidth=5us"}, .scale = {}}), HasSubstr("12.5GB/s"));
    EXPECT_THAT(message({.set = {"links.bandwidth=0"}, .scale = {}}), HasSubstr("expected"));
    EXPECT_THAT(message({.set = {"links.bandwidth"}, .scale = {}}), HasSubstr("PATH=VALUE"));
    EXPECT_THAT(message({.set = {}, .scale = {"links=-1"}}), HasSubstr("a factor"));
    EXPECT_THAT(message({.set = {}, .scale = {"links=nan"}}), HasSubstr("a factor"));
    // One node has no network.
    EXPECT_THAT(message({.set = {}, .scale = {"network=0.5"}}), HasSubstr("no such link"));
}

}  // namespace
}  // namespace partita::cost
