// SPDX-License-Identifier: Apache-2.0
#include <partita/machine.h>

#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "api/impl.h"
#include "cost/machine/machine.h"
#include "tests/cli/program.h"

namespace partita {
namespace {

std::string digest_of(const Machine& machine) {
    return cost::digest(machine.impl().machine);
}

/// Two GPUs and a switch.
MachineSpec pair() {
    const DeviceSpec gpu{.name = "gpu0",
                         .memory = gibibytes(80),
                         .memory_bandwidth = 2'000'000'000'000,
                         .launch_interval = microseconds(7),
                         .matrix_flops = {{DType::float32, 19'500'000'000'000},
                                          {DType::float16, 312'000'000'000'000}},
                         .vector_flops = 19'500'000'000'000};
    MachineSpec spec{.name = "pair", .devices = {gpu, gpu}, .switches = {{"hub"}}};
    spec.devices[1].name = "gpu1";
    for (const DeviceSpec& device : spec.devices) {
        spec.links.push_back({.from = device.name,
                              .to = "hub",
                              .bandwidth = 300'000'000'000,
                              .latency = nanoseconds(300)});
    }
    return spec;
}

std::string complaint(const std::function<void(MachineSpec&)>& spoil) {
    MachineSpec spec = pair();
    spoil(spec);
    try {
        static_cast<void>(Machine(spec));
    } catch (const InputError& error) {
        return error.what();
    }
    return "nothing";
}

TEST(Machine, OfItsOwnSpecIsTheSameMachine) {
    for (const std::string& name : Machine::presets()) {
        const Machine machine = Machine::load(name);
        EXPECT_EQ(digest_of(Machine(machine.spec())), digest_of(machine)) << name;
    }
}

TEST(Machine, ByHandMayBeATorus) {
    MachineSpec spec = Machine::load("tpu-v5e:2x4").spec();
    EXPECT_EQ(spec.torus, (std::vector<int>{2, 4}));
    for (const std::vector<int>& torus :
         {std::vector<int>{0}, {-2, -4}, {3}, {2, 4, 2}, {1, 1, 1, 2, 4}, {1 << 30, 1 << 30, 4}}) {
        spec.torus = torus;
        EXPECT_THROW(static_cast<void>(Machine(spec)), InputError);
    }
    spec.torus = {4, 2};
    EXPECT_EQ(Machine(spec).device_count(), 8);
}

TEST(Machine, ByHandIsWhatItsFileSays) {
    const Machine machine(pair());
    EXPECT_EQ(machine.name(), "pair");
    EXPECT_EQ(machine.device_count(), 2);
    const TemporaryFolder folder;
    const auto file = folder.path() / "pair.json";
    machine.save(file);
    EXPECT_EQ(digest_of(Machine::load(file.string())), digest_of(machine));
}

TEST(Machine, AChangedFigureMakesAnotherMachine) {
    const Machine dgx = Machine::load("dgx-a100");
    MachineSpec spec = dgx.spec();
    spec.devices[3].memory = gibibytes(40);
    EXPECT_NE(digest_of(Machine(spec)), digest_of(dgx));
    EXPECT_EQ(Machine(spec).spec().devices[3].memory, gibibytes(40));
}

TEST(Machine, WhatIsWrongIsNamedWithItsField) {
    EXPECT_EQ(complaint([](MachineSpec& spec) { spec.links[1].to = "hub2"; }),
              "pair: links[1].to: no device or switch is called 'hub2'. Correct the name, or add "
              "it.");
    EXPECT_EQ(complaint([](MachineSpec& spec) { spec.links.pop_back(); }),
              "pair: links: no way from \"gpu0\" to \"gpu1\". Add a link.");
    EXPECT_EQ(complaint([](MachineSpec& spec) {
                  spec.devices[1].name = "gpu0";
                  spec.links[1].from = "gpu0";
              }),
              "pair: devices[1].name: the name \"gpu0\" occurs twice. Rename one.");
    EXPECT_EQ(complaint([](MachineSpec& spec) { spec.devices[0].memory = Bytes{0}; }),
              "pair: devices[0].memory_bytes: expected bytes > 0, got 0. Correct it.");
    EXPECT_EQ(complaint([](MachineSpec& spec) { spec.devices[0].matrix_flops.clear(); }),
              "pair: devices[0].matrix_flops.float32: expected FLOP/s > 0, got 0. Correct "
              "it.");
}

TEST(Machine, DiscoveredHasThisHostsMemory) {
    const Machine host = Machine::discover();
    ASSERT_GE(host.device_count(), 1);
    EXPECT_GT(host.spec().devices[0].memory, Bytes{0});
}

TEST(Machine, AnUnknownPresetIsWrongUsageAndTheKnownOnesAreListed) {
    try {
        static_cast<void>(Machine::load("dgx-z9"));
        FAIL() << "accepted";
    } catch (const UsageError& error) {
        const std::string what = error.what();
        EXPECT_NE(what.find("dgx-z9"), std::string::npos) << what;
        for (const std::string& name : Machine::presets()) {
            EXPECT_NE(what.find(name), std::string::npos) << what;
        }
    }
    EXPECT_THROW(static_cast<void>(Machine::load("/no/such/machine.json")), InputError);
}

}  // namespace
}  // namespace partita
