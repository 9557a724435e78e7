// SPDX-License-Identifier: Apache-2.0
//
// NCCL's tuning model over the links of machines that nobody measured.
#include "cost/collectives/nccl_links.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/error.h"
#include "cost/collectives/collective_algorithms.h"
#include "cost/machine/machine_file.h"

namespace partita::cost {
namespace {

/// The machine with another collective model, and where asked with other GPUs.
Machine with_model(const Machine& machine, const std::string& model, const std::string& gpu = "",
                   std::vector<int> reducing = {}) {
    std::vector<Device> devices(machine.devices().begin(), machine.devices().end());
    if (!gpu.empty()) {
        for (Device& device : devices) device.model = gpu;
    }
    return {machine.name(),
            std::move(devices),
            {machine.switches().begin(), machine.switches().end()},
            {machine.links().begin(), machine.links().end()},
            {.model = model, .reducing_switches = std::move(reducing), .source = "a test"}};
}

/// `per_node[i]` devices of node i of 8.
std::vector<int> devices_of(const std::vector<int>& per_node) {
    std::vector<int> devices;
    for (std::size_t node = 0; node < per_node.size(); ++node) {
        for (int i = 0; i < per_node[node]; ++i) devices.push_back(8 * static_cast<int>(node) + i);
    }
    return devices;
}

NcclTopology topology_of(const Machine& machine, const std::vector<int>& devices) {
    return nccl_topology_of(*machine.group_links(devices), machine,
                            nccl_generation_of(machine.device(devices[0])));
}

TEST(NcclLinks, CountsOnASwitchWhatTheModelFilesSay) {
    const Machine a100 = load_machine("dgx-a100:2");
    const NcclTopology full = topology_of(a100, devices_of({8, 8}));
    EXPECT_EQ(full.generation, 1);
    EXPECT_DOUBLE_EQ(full.node_bandwidth, 240);
    EXPECT_DOUBLE_EQ(full.nic_bandwidth, 24);
    EXPECT_EQ(full.node_channels, 24);
    EXPECT_NEAR(full.net_latency, 0, 1e-9);
    EXPECT_FALSE(full.pci || full.nvls || full.collnet);
    const Machine h100 = load_machine("dgx-h100:2");
    const NcclTopology hopper = topology_of(h100, devices_of({8, 8}));
    EXPECT_EQ(hopper.generation, 2);
    EXPECT_DOUBLE_EQ(hopper.node_bandwidth, 370.8);
    EXPECT_DOUBLE_EQ(hopper.nic_bandwidth, 48);
    EXPECT_TRUE(hopper.nvls);
}

TEST(NcclLinks, CountsEveryLinkOfAMeshAndTheSharesOfABus) {
    // Nodes of 4 GPUs, one NVLink of 18 GB/s between each pair, one port of 12 GB/s for all four.
    const Machine mesh = load_machine("p100-cluster:2");
    std::vector<int> devices(8);
    std::iota(devices.begin(), devices.end(), 0);
    const NcclTopology whole = nccl_topology_of(*mesh.group_links(devices), mesh, 0);
    EXPECT_DOUBLE_EQ(whole.node_bandwidth, 54);
    EXPECT_NEAR(whole.nic_bandwidth, 3, 1e-6);
    EXPECT_FALSE(whole.pci);
    const std::vector<int> pairs = {0, 1, 4, 5};
    const NcclTopology two = nccl_topology_of(*mesh.group_links(pairs), mesh, 0);
    EXPECT_DOUBLE_EQ(two.node_bandwidth, 18);
    EXPECT_NEAR(two.nic_bandwidth, 6, 1e-6);
    EXPECT_EQ(two.node_channels, 2);
}

TEST(NcclLinks, FindsTheLinksThatNcclFindsInAHybridCubeMesh) {
    // 20 GB/s a link: one joins gpu0 and gpu1, four of each GPU stay among four, six in all.
    const Machine dgx = load_machine("dgx-1-v100");
    EXPECT_NEAR(topology_of(dgx, {0, 1}).node_bandwidth, 20, 1e-6);
    EXPECT_NEAR(topology_of(dgx, {0, 1, 2, 3}).node_bandwidth, 80, 1e-6);
    EXPECT_NEAR(topology_of(dgx, devices_of({8})).node_bandwidth, 120, 1e-6);
    EXPECT_EQ(topology_of(dgx, devices_of({8})).node_channels, 12);
    // No link of their own: through another GPU.
    EXPECT_NEAR(topology_of(dgx, {0, 5}).node_bandwidth, 20, 1e-6);
}

TEST(NcclLinks, PciExpressIsToldByItsLatency) {
    const Machine machine = load_machine("k80-cluster:1");
    const std::vector<int> devices = {0, 1, 2, 3};
    EXPECT_TRUE(nccl_topology_of(*machine.group_links(devices), machine, 0).pci);
}

TEST(NcclLinks, Ll128NeedsNvlink) {
    const Machine machine = load_machine("a100-t4");
    const auto model = collective_model_of(machine);
    const auto protocols = [&](const std::vector<int>& group) {
        std::set<Protocol> found;
        for (int k = 0; k < 30; ++k) {
            const CollectiveCall call{Collective::all_reduce, group, Bytes{std::int64_t{1} << k}};
            found.insert(model->price(call, machine)->protocol);
        }
        return found;
    };
    EXPECT_TRUE(protocols({0, 1, 2, 3}).contains(Protocol::ll128));
    EXPECT_EQ(protocols({4, 5, 6, 7}), (std::set{Protocol::simple, Protocol::ll}));
    EXPECT_FALSE(protocols({0, 4}).contains(Protocol::none));
}

TEST(NcclLinks, PricesWhatTheTuningModelPricesForThatTopology) {
    const Machine machine = with_model(load_machine("dgx-h100:2"), "");
    const auto model = collective_model_of(machine);
    for (const auto& group : {devices_of({8}), devices_of({3}), devices_of({1, 1}),
                              devices_of({8, 8}), devices_of({4, 4})}) {
        const auto links = machine.group_links(group);
        const NcclTuning tuning(nccl_constants(), nccl_topology_of(*links, machine, 2));
        for (const Collective kind :
             {Collective::all_reduce, Collective::all_gather, Collective::broadcast}) {
            const auto price = model->price({kind, group, Bytes{1 << 20}}, machine);
            EXPECT_EQ(price, tuning.price(kind, Bytes{1 << 20}, links->ranks, links->nodes));
            EXPECT_NE(price->protocol, Protocol::none);
        }
        // NCCL's model has no all-to-all.
        const CollectiveCall call{Collective::all_to_all, group, Bytes{1 << 20}};
        EXPECT_EQ(model->price(call, machine), AlphaBeta().price(call, machine));
    }
}

TEST(NcclLinks, TheOldestGpuOfAGroupCounts) {
    const Machine machine = load_machine("a100-t4");
    ASSERT_TRUE(machine.collectives().model.empty());
    EXPECT_EQ(nccl_generation_of(machine.device(0)), 1);
    EXPECT_EQ(nccl_generation_of(machine.device(4)), 0);
    const auto model = collective_model_of(machine);
    const std::vector<int> all = {0, 1, 2, 3, 4, 5, 6, 7};
    const auto links = machine.group_links(all);
    const NcclTuning volta(nccl_constants(), nccl_topology_of(*links, machine, 0));
    EXPECT_EQ(model->price({Collective::all_reduce, all, Bytes{4096}}, machine),
              volta.price(Collective::all_reduce, Bytes{4096}, 8, 2));
}

TEST(NcclLinks, GpusThatNcclHasNoConstantsForAreLeftToAlphaBeta) {
    for (const char* name : {"p100-cluster:2", "k80-cluster:2", "cpu:4", "mayer-50"}) {
        EXPECT_EQ(collective_model_of(load_machine(name))->name(), "alpha-beta") << name;
    }
    const Machine dgx = load_machine("dgx-a100");
    EXPECT_EQ(collective_model_of(with_model(dgx, ""))->name(), "nccl, alpha-beta");
    EXPECT_EQ(collective_model_of(with_model(dgx, "nccl"))->name(), "nccl, alpha-beta");
    EXPECT_EQ(collective_model_of(with_model(dgx, "alpha-beta"))->name(), "alpha-beta");
    EXPECT_EQ(collective_model_of(with_model(dgx, "", "AMD Instinct MI250"))->name(), "alpha-beta");
    EXPECT_THROW(
        static_cast<void>(collective_model_of(with_model(load_machine("p100-cluster"), "nccl"))),
        InputError);
}

TEST(NcclLinks, NamesOfProductsAreFoundInNamesOfDevices) {
    const auto generation = [](const std::string& model, DeviceKind kind = DeviceKind::gpu) {
        return nccl_generation_of(Device{.name = "d", .model = model, .kind = kind});
    };
    EXPECT_EQ(generation("Tesla V100-SXM2-16GB"), 0);
    EXPECT_EQ(generation("NVIDIA A10G"), 1);
    EXPECT_EQ(generation("NVIDIA GH200 480GB"), 2);
    EXPECT_EQ(generation("NVIDIA B200"), 3);
    EXPECT_EQ(generation("Tesla P100-SXM2-16GB"), -1);
    EXPECT_EQ(generation("NVIDIA A1000"), -1);
    EXPECT_EQ(generation("V100", DeviceKind::cpu), -1);
    EXPECT_EQ(generation(""), -1);
}

TEST(NcclLinks, PatServesOneRankPerNodeAndOnlyThere) {
    const Machine machine = with_model(load_machine("dgx-h100:16"), "");
    const auto model = collective_model_of(machine);
    const auto alone = devices_of(std::vector<int>(16, 1));
    const auto price = model->price({Collective::all_gather, alone, Bytes{1024}}, machine);
    EXPECT_EQ(price->algorithm, Algorithm::pat);
    EXPECT_EQ(price->protocol, Protocol::simple);
    // 8 + 4 x 14 / 3.5 + 16 x 2.8 us, and 1 KiB over 0.75 of 48 GB/s.
    EXPECT_NEAR(to_milliseconds(price->time) * 1e3, 8 + 16 + 44.8 + 1.024 / 36, 1e-3);
    const auto reduced = model->price({Collective::all_reduce, alone, Bytes{1024}}, machine);
    EXPECT_NE(reduced->algorithm, Algorithm::pat);
    const auto two = devices_of(std::vector<int>(16, 2));
    EXPECT_NE(model->price({Collective::all_gather, two, Bytes{1024}}, machine)->algorithm,
              Algorithm::pat);
}

/// The position of the switch "network".
int network_of(const Machine& machine) {
    const auto found = std::ranges::find(machine.switches(), "network");
    return static_cast<int>(found - machine.switches().begin());
}

TEST(NcclLinks, CollNetNeedsANetworkThatReduces) {
    const Machine plain = with_model(load_machine("dgx-a100:16"), "");
    const Machine sharp = with_model(plain, "", "", {network_of(plain)});
    const auto group = devices_of(std::vector<int>(16, 8));
    EXPECT_FALSE(topology_of(plain, group).collnet);
    EXPECT_TRUE(topology_of(sharp, group).collnet);
    EXPECT_FALSE(topology_of(sharp, devices_of({8})).collnet);
    const CollectiveCall call{Collective::all_reduce, group, Bytes{1 << 18}};
    const auto without = collective_model_of(plain)->price(call, plain);
    const auto with = collective_model_of(sharp)->price(call, sharp);
    // On a switch every peer is one hop away: 2 (3.7 + 7 x 0.4) + 31 us, where the chain takes
    // 2 (7 x 2.8) + 30. Both move twice the buffer over 192 GB/s.
    EXPECT_EQ(with->algorithm, Algorithm::collnet_direct);
    EXPECT_NEAR(to_milliseconds(with->time) * 1e3, 13 + 31 + 2 * 262.144 / 192, 1e-3);
    EXPECT_NE(without->algorithm, Algorithm::collnet_direct);
    EXPECT_LT(with->time, without->time);
}

TEST(NcclLinks, NvlsNeedsSwitchesThatReduceInEveryNode) {
    const Machine preset = load_machine("dgx-h100:2");
    const Machine reducing = with_model(preset, "", "",
                                        {preset.collectives().reducing_switches.begin(),
                                         preset.collectives().reducing_switches.end()});
    const Machine one = with_model(preset, "", "", {preset.collectives().reducing_switches[0]});
    const auto both = devices_of({8, 8});
    const auto large = [&](const Machine& machine, const std::vector<int>& group) {
        const CollectiveCall call{Collective::all_reduce, group, Bytes{1 << 30}};
        return collective_model_of(machine)->price(call, machine)->algorithm;
    };
    EXPECT_EQ(large(reducing, devices_of({8})), Algorithm::nvls);
    EXPECT_EQ(large(reducing, both), Algorithm::nvls_tree);
    EXPECT_EQ(large(one, devices_of({8})), Algorithm::nvls);
    EXPECT_NE(large(one, both), Algorithm::nvls_tree);
}

TEST(NcclLinks, ASlowerNetworkCostsMore) {
    const Machine fast = with_model(load_machine("dgx-a100:2"), "");
    std::vector<Link> links(fast.links().begin(), fast.links().end());
    for (Link& link : links) {
        if (link.to == fast.device_count() + network_of(fast)) link.latency = microseconds(10);
    }
    const Machine slow("slow", {fast.devices().begin(), fast.devices().end()},
                       {fast.switches().begin(), fast.switches().end()}, links);
    EXPECT_NEAR(topology_of(slow, devices_of({8, 8})).net_latency, 20 - 2.7, 1e-9);
    const auto time = [&](const Machine& machine, const std::vector<int>& group) {
        const CollectiveCall call{Collective::all_reduce, group, Bytes{64}};
        return collective_model_of(machine)->price(call, machine)->time;
    };
    // A tree goes through the network twice.
    EXPECT_EQ(time(slow, devices_of({8, 8})) - time(fast, devices_of({8, 8})),
              nanoseconds(2 * 17'300));
    EXPECT_EQ(time(slow, devices_of({8})), time(fast, devices_of({8})));
}

RC_GTEST_PROP(NcclLinks, NoGroupIsFasterThanThePortsOfItsSmallestNode, ()) {
    static const std::vector<Machine> kMachines = {with_model(load_machine("dgx-a100:4"), ""),
                                                   load_machine("dgx-a100:4"),
                                                   with_model(load_machine("dgx-h100:4"), "")};
    static const auto kModels = [] {
        std::vector<std::shared_ptr<const CollectiveModel>> models;
        for (const Machine& machine : kMachines) models.push_back(collective_model_of(machine));
        return models;
    }();
    const auto i = *rc::gen::inRange<std::size_t>(0, kMachines.size());
    const auto per_node = *rc::gen::container<std::vector<int>>(
        *rc::gen::inRange<std::size_t>(2, 5), rc::gen::inRange(1, 9));
    const auto group = devices_of(per_node);
    const Bytes size{std::int64_t{1} << *rc::gen::inRange(20, 34)};
    const auto kind =
        *rc::gen::element(Collective::all_reduce, Collective::all_gather, Collective::broadcast);
    const auto price = kModels[i]->price({kind, group, size}, kMachines[i]);
    // Half of the buffer at least crosses the ports of any node, in each direction.
    const double port = i == 2 ? 48e3 : 24e3;
    const double network = port * *std::ranges::min_element(per_node);
    RC_ASSERT(to_milliseconds(price->time) * 1e3 >= static_cast<double>(size.raw()) / 2 / network);
}

RC_GTEST_PROP(NcclLinks, PricesNeverFallWhenBytesGrow, ()) {
    static const std::vector<Machine> kMachines = {with_model(load_machine("dgx-a100:4"), ""),
                                                   with_model(load_machine("dgx-h100:4"), ""),
                                                   with_model(load_machine("dgx-1-v100:4"), "")};
    const Machine& machine = kMachines[*rc::gen::inRange<std::size_t>(0, kMachines.size())];
    const auto model = collective_model_of(machine);
    const auto per_node = *rc::gen::container<std::vector<int>>(
        *rc::gen::inRange<std::size_t>(1, 5), rc::gen::inRange(1, 9));
    const auto group = devices_of(per_node);
    const auto kind = static_cast<Collective>(*rc::gen::inRange(0, kCollectiveCount));
    Time before;
    for (std::int64_t size = 1; size < 100'000'000'000; size += size / 2 + 1) {
        const auto price = model->price({kind, group, Bytes{size}}, machine);
        RC_ASSERT(price->time >= before);
        before = price->time;
    }
}

}  // namespace
}  // namespace partita::cost
