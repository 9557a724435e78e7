// SPDX-License-Identifier: Apache-2.0
#include "plan/tasks/distinct_resources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

namespace partita::plan {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// A task on each of the sets.
TaskGraph on_sets(std::int32_t resources, std::initializer_list<std::vector<std::int32_t>> sets) {
    TaskGraph graph;
    graph.resource_count = resources;
    for (const auto& set : sets) {
        Task task;
        task.resource_set = static_cast<std::int32_t>(graph.resource_sets.rows());
        graph.resource_sets.add_row(set);
        graph.tasks.push_back(task);
    }
    return graph;
}

std::vector<std::int32_t> row(const Csr<std::int32_t>& sets, std::size_t of) {
    return {sets[of].begin(), sets[of].end()};
}

TEST(DistinctResources, KeepOneOfThoseThatAreAlwaysUsedTogether) {
    const TaskGraph graph = on_sets(6, {{0, 1, 2, 3}, {2, 3}, {1, 4}, {5}});
    const DistinctResources distinct(graph);
    ASSERT_EQ(distinct.resources.rows(), 4U);
    EXPECT_THAT(row(distinct.resources, 0), ElementsAre(0, 1, 2)) << "3 is a twin of 2";
    EXPECT_THAT(row(distinct.resources, 1), ElementsAre(2));
    EXPECT_THAT(row(distinct.resources, 2), ElementsAre(1, 4));
    EXPECT_THAT(row(distinct.resources, 3), ElementsAre(5));
}

TEST(DistinctResources, SetsWithoutTasksTellNothingApart) {
    TaskGraph graph = on_sets(3, {{0, 1, 2}});
    graph.resource_sets.add_row(std::vector<std::int32_t>{1});
    const DistinctResources distinct(graph);
    EXPECT_THAT(row(distinct.resources, 0), ElementsAre(0));
    EXPECT_THAT(row(distinct.resources, 1), IsEmpty());
    EXPECT_THAT(row(distinct.hosts, 0), IsEmpty()) << "launching is free";
}

TEST(DistinctResources, HostsToo) {
    TaskGraph graph = on_sets(2, {{0, 1}, {1}});
    graph.device_count = 3;
    graph.hosts.add_row(std::vector<std::int32_t>{0, 1, 2});
    graph.hosts.add_row(std::vector<std::int32_t>{2});
    const DistinctResources distinct(graph);
    EXPECT_THAT(row(distinct.hosts, 0), ElementsAre(0, 2));
    EXPECT_THAT(row(distinct.hosts, 1), ElementsAre(2));
}

}  // namespace
}  // namespace partita::plan
