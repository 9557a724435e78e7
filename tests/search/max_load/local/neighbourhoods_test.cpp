// SPDX-License-Identifier: Apache-2.0
#include "search/max_load/local/neighbourhoods.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "search/coarsening/group_graph.h"
#include "search/max_load/model/load_part.h"
#include "tests/search/max_load/contiguous/contiguous_cases.h"
#include "tests/search/max_load/model/assignments.h"

namespace partita::search {
namespace {

using Devices = std::vector<std::int32_t>;

void one_by_one(std::size_t size, const std::function<void(std::size_t)>& work) {
    for (std::size_t i = 0; i < size; ++i) work(i);
}

void last_first(std::size_t size, const std::function<void(std::size_t)>& work) {
    for (std::size_t i = size; i-- > 0;) work(i);
}

bool never() {
    return false;
}

std::vector<std::size_t> some_devices(std::size_t count, Random& random) {
    std::vector<std::size_t> devices;
    for (std::size_t d = 0; d < count; ++d) {
        if (random.below(2) == 0) devices.push_back(d);
    }
    return devices;
}

TEST(LoadPart, HasTheLoadsAndBytesOfTheWhole) {
    int moved = 0;
    for (std::uint64_t seed = 1; seed <= 300; ++seed) {
        Random random(seed);
        const Assignments cases = assignments_of(random);
        if (cases.all.empty()) continue;
        const Devices start = cases.all[random.below(cases.all.size())].second;
        const std::vector<std::size_t> devices = some_devices(cases.problem.devices.size(), random);
        const LoadPart part = make_load_part(cases.problem, start, devices);
        LoadState whole(cases.problem.graph, cases.problem.devices);
        LoadState own(part.problem.graph, part.problem.devices);
        whole.assign(start);
        Devices places(part.problem.graph.size, static_cast<std::int32_t>(devices.size()));
        for (std::size_t i = 0; i < part.vertices.size(); ++i) {
            const auto v = static_cast<std::size_t>(part.vertices[i]);
            const auto place = random.below(devices.size());
            places[i] = static_cast<std::int32_t>(place);
            if (!whole.allowed(v, devices[place])) {
                EXPECT_FALSE(own.allowed(i, place));
                places[i] = static_cast<std::int32_t>(
                    std::ranges::find(devices, static_cast<std::size_t>(start[v])) -
                    devices.begin());
                continue;
            }
            if (devices[place] == static_cast<std::size_t>(start[v])) continue;
            whole.move(v, devices[place]);
            ++moved;
        }
        own.assign(places);
        for (std::size_t place = 0; place < devices.size(); ++place) {
            EXPECT_EQ(own.load(place), whole.load(devices[place])) << "seed " << seed;
            EXPECT_EQ(own.bytes(place), whole.bytes(devices[place])) << "seed " << seed;
            EXPECT_EQ(own.capacity(place), whole.capacity(devices[place]));
        }
        EXPECT_EQ(own.load(devices.size()), 0);
    }
    EXPECT_GT(moved, 100);
}

/// From there to the end.
LoadNeighbourhoods searched(const LoadProblem& problem, const Devices& start,
                            const LoadNeighbourhoods::Parallel& parallel) {
    LoadNeighbourhoods search(problem, 300'000'000);
    search.begin(start);
    while (!search.over()) search.advance(parallel, never);
    return search;
}

TEST(LoadNeighbourhoods, AreOptimalWhereTheyAreTheWhole) {
    int successes = 0;
    int cases_with_three = 0;
    for (std::uint64_t seed = 1; seed <= 300; ++seed) {
        Random random(seed);
        const Assignments cases = assignments_of(random);
        if (cases.all.empty() || cases.problem.devices.size() > 3) continue;
        const Devices start = cases.all[random.below(cases.all.size())].second;
        const LoadNeighbourhoods search = searched(cases.problem, start, one_by_one);
        // Their loads differ by more than the least gain, so no better one is passed over.
        EXPECT_EQ(search.best_score().load, std::ranges::min(cases.all).first) << "seed " << seed;
        EXPECT_EQ(search.best_score().overflow, 0);
        successes += search.successes() > 0 ? 1 : 0;
        cases_with_three += cases.problem.devices.size() == 3 ? 1 : 0;
    }
    EXPECT_GT(successes, 50);
    EXPECT_GT(cases_with_three, 20);
}

TEST(LoadNeighbourhoods, DoNotDependOnTheOrderOfTheirWork) {
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
        Random random(seed);
        const Assignments cases = assignments_of(random);
        if (cases.all.empty()) continue;
        const Devices start = cases.all[random.below(cases.all.size())].second;
        EXPECT_EQ(searched(cases.problem, start, one_by_one).best(),
                  searched(cases.problem, start, last_first).best());
    }
}

TEST(LoadNeighbourhoods, EndWhenStopped) {
    Random random(3);
    const Assignments cases = assignments_of(random);
    ASSERT_FALSE(cases.all.empty());
    const Devices start = cases.all.front().second;
    LoadNeighbourhoods search(cases.problem, 1);
    search.begin(start);
    for (int i = 0; i < 1'000 && !search.over(); ++i)
        search.advance(one_by_one, [] { return true; });
    EXPECT_TRUE(search.over());
}

}  // namespace
}  // namespace partita::search
