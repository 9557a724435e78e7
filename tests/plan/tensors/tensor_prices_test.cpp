// SPDX-License-Identifier: Apache-2.0
#include "plan/tensors/tensor_prices.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "cost/machine/machine_file.h"
#include "plan/tasks/resource_sets.h"
#include "tests/plan/small_problems.h"

namespace partita::plan {
namespace {

/// Prices are remembered by class, so a class must fix the price.
TEST(CopyClasses, HaveOnePriceForEverySize) {
    const graph::OpGraph graph = two_layers();
    for (const char* const name : {"dgx-1-v100", "p100-cluster:2", "dgx-a100:2"}) {
        const cost::Machine machine = cost::load_machine(name);
        const Problem problem = make_problem(graph, machine);
        ResourceSets resource_sets(problem);
        CopyClasses classes;
        std::map<std::pair<std::int32_t, std::int64_t>, Time> prices;
        std::size_t pairs = 0;
        for (int from = 0; from < machine.device_count(); ++from) {
            for (int to = 0; to < machine.device_count(); ++to) {
                if (from == to) continue;
                const std::int32_t like =
                    classes.of(machine, resource_sets.of_copy(from, to), from, to);
                for (const std::int64_t bytes : {1, 1'000, 12'345'678}) {
                    const Time time = problem.transfers().copy_time(graph::TensorId(std::size_t{0}),
                                                                    Bytes(bytes), from, to);
                    const auto known = prices.try_emplace({like, bytes}, time).first;
                    EXPECT_EQ(known->second, time) << name << ": " << from << " to " << to;
                    ++pairs;
                }
            }
        }
        EXPECT_LT(prices.size(), pairs) << name;
    }
}

}  // namespace
}  // namespace partita::plan
