// SPDX-License-Identifier: Apache-2.0
//
// What copies and collectives keep busy: a core moves bytes itself, a GPU has engines for it.
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "plan/tasks/resource_sets.h"
#include "tests/plan/small_problems.h"

namespace partita::plan {
namespace {

class ResourceSetsTest : public testing::Test {
protected:
    /// Devices of those kinds in those nodes.
    static cost::Machine machine(const std::vector<cost::DeviceKind>& kinds,
                                 const std::vector<int>& nodes) {
        const cost::Machine gpus = switched_machine(static_cast<int>(kinds.size()), nodes);
        std::vector<cost::Device> devices(gpus.devices().begin(), gpus.devices().end());
        for (std::size_t i = 0; i < kinds.size(); ++i) devices[i].kind = kinds[i];
        return {
            "mixed", std::move(devices), {"switch"}, {gpus.links().begin(), gpus.links().end()}};
    }

    /// Devices whose compute rows a copy occupies.
    static std::vector<int> computing_in_copy(const cost::Machine& machine, int from, int to) {
        const graph::OpGraph graph = two_layers();
        const Problem problem = make_problem(graph, machine);
        ResourceSets resource_sets(problem);
        const std::int32_t resource_set = resource_sets.of_copy(from, to);
        return computing(problem,
                         resource_sets.resources()[static_cast<std::size_t>(resource_set)]);
    }

    static std::vector<int> computing(const Problem& problem,
                                      std::span<const std::int32_t> resources) {
        std::vector<int> devices;
        for (int d = 0; d < problem.device_count(); ++d) {
            if (std::ranges::find(resources, compute_row(d)) != resources.end()) {
                devices.push_back(d);
            }
        }
        return devices;
    }

    static constexpr auto kCpu = cost::DeviceKind::cpu;
    static constexpr auto kGpu = cost::DeviceKind::gpu;
};

TEST_F(ResourceSetsTest, TheCoreThatReceivesCopies) {
    EXPECT_EQ(computing_in_copy(machine({kCpu, kCpu}, {0, 0}), 0, 1), (std::vector<int>{1}));
}

TEST_F(ResourceSetsTest, BetweenNodesTheSendingCoreWorksToo) {
    EXPECT_EQ(computing_in_copy(machine({kCpu, kCpu}, {0, 1}), 0, 1), (std::vector<int>{0, 1}));
}

TEST_F(ResourceSetsTest, AGpuAtOneEndCopiesByItself) {
    EXPECT_TRUE(computing_in_copy(machine({kGpu, kGpu}, {0, 0}), 0, 1).empty());
    EXPECT_TRUE(computing_in_copy(machine({kGpu, kCpu}, {0, 0}), 0, 1).empty());
    EXPECT_TRUE(computing_in_copy(machine({kCpu, kGpu}, {0, 0}), 0, 1).empty());
}

TEST_F(ResourceSetsTest, ACollectiveKeepsItsCoresBusy) {
    const cost::Machine mixed = machine({kCpu, kGpu, kCpu}, {0, 0, 0});
    const graph::OpGraph graph = two_layers();
    const Problem problem = make_problem(graph, mixed);
    ResourceSets resource_sets(problem);
    const auto group = resource_sets.of_ranks(std::vector<int>{0, 1, 2});
    EXPECT_EQ(
        computing(problem, resource_sets.resources()[static_cast<std::size_t>(group.resource_set)]),
        (std::vector<int>{0, 2}));
}

}  // namespace
}  // namespace partita::plan
