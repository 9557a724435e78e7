// SPDX-License-Identifier: Apache-2.0
#include "search/max_load/branch_and_bound/load_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <vector>

#include "search/coarsening/group_graph.h"
#include "search/max_load/branch_and_bound/load_masks.h"
#include "search/max_load/branch_and_bound/load_relaxation.h"
#include "search/max_load/model/load_state.h"
#include "search/max_load/model/piece_graph.h"
#include "tests/plan/small_problems.h"
#include "tests/search/max_load/contiguous/contiguous_cases.h"
#include "tests/search/max_load/model/assignments.h"

namespace partita::search {
namespace {

using Masks = std::vector<DeviceMask>;
using Devices = std::vector<std::int32_t>;

bool within(const Devices& devices, const Masks& masks) {
    for (std::size_t v = 0; v < masks.size(); ++v) {
        if (((masks[v] >> static_cast<unsigned>(devices[v])) & 1U) == 0) return false;
    }
    return true;
}

/// Some devices are left out for some vertices, never all.
Masks random_masks(const LoadMasks& rules, Random& random) {
    Masks masks = rules.all();
    for (DeviceMask& mask : masks) {
        const DeviceMask fewer = mask & random.next();
        if (fewer != 0 && random.below(2) == 0) mask = fewer;
    }
    return masks;
}

std::optional<std::int64_t> best_within(const Assignments& cases, const Masks& masks) {
    std::optional<std::int64_t> best;
    for (const auto& [load, devices] : cases.all) {
        if (within(devices, masks)) best = std::min(best.value_or(load), load);
    }
    return best;
}

TEST(LoadMasks, LoseNoAssignmentBelowTheTarget) {
    int excluded = 0;
    int contradictions = 0;
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        Random random(seed);
        const Assignments cases = assignments_of(random);
        LoadMasks rules(cases.problem);
        for (int i = 0; i < 10; ++i) {
            const Masks before = random_masks(rules, random);
            const std::int64_t target = best_within(cases, before).value_or(1) +
                                        static_cast<std::int64_t>(random.below(9'000'000));
            Masks after = before;
            const bool left = rules.propagate(after, target);
            contradictions += left ? 0 : 1;
            excluded += after == before ? 0 : 1;
            for (const auto& [load, devices] : cases.all) {
                if (load >= target || !within(devices, before)) continue;
                EXPECT_TRUE(left) << "seed " << seed;
                EXPECT_TRUE(within(devices, after)) << "seed " << seed;
            }
        }
    }
    EXPECT_GT(excluded, 500);
    EXPECT_GT(contradictions, 100);
}

/// Whatever the prices: those of an ascent, and these disturbed.
TEST(LoadRelaxation, PrunesAndExcludesNothingBelowTheTarget) {
    int pruned = 0;
    int excluded = 0;
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        Random random(seed);
        const Assignments cases = assignments_of(random);
        LoadMasks rules(cases.problem);
        LoadRelaxation relaxation(cases.problem);
        for (int i = 0; i < 10; ++i) {
            Masks masks = random_masks(rules, random);
            if (!rules.propagate(masks, kNever)) continue;
            const std::optional<std::int64_t> best = best_within(cases, masks);
            const auto share = static_cast<std::int64_t>(50 + random.below(70));
            const std::int64_t target = 1 + best.value_or(microseconds(50).raw()) * share / 100;
            relaxation.set_target(target);
            LoadPrices prices = relaxation.start();
            const LoadNode node{.masks = masks, .loads = rules.loads()};
            relaxation.ascend(node, 40, prices);
            if (i % 2 == 1) {
                for (double& flow : prices.flow) flow *= 2 * random.uniform();
                for (double& weight : prices.weight) weight *= random.uniform();
                for (double& bytes : prices.bytes) bytes += 1e5 * random.uniform();
            }
            const bool prunes = relaxation.prunes(node, prices);
            pruned += prunes ? 1 : 0;
            EXPECT_FALSE(prunes && best && *best < target) << "seed " << seed;
            for (const auto& [load, devices] : cases.all) {
                if (load >= target || !within(devices, masks)) continue;
                for (std::size_t v = 0; v < masks.size(); ++v) {
                    const auto d = static_cast<std::size_t>(devices[v]);
                    EXPECT_FALSE(relaxation.excludes(v, d)) << "seed " << seed;
                }
            }
            for (std::size_t v = 0; v < masks.size(); ++v) {
                excluded += !prunes && relaxation.excludes(
                                           v, static_cast<std::size_t>(std::countr_zero(masks[v])))
                                ? 1
                                : 0;
            }
        }
    }
    EXPECT_GT(pruned, 100);
    EXPECT_GT(excluded, 50);
}

TEST(LoadTree, FindsWhatIsBelowTheTargetAndNothingElse) {
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        Random random(seed);
        const Assignments cases = assignments_of(random);
        if (cases.all.empty()) continue;
        const auto best = std::min_element(cases.all.begin(), cases.all.end());
        LoadTree tree(cases.problem);
        for (const std::int64_t more : {0, 1, 5'000'000}) {
            tree.look_below(best->first + more);
            while (!tree.advance(1'000)) {
            }
            ASSERT_EQ(tree.solution().has_value(), more > 0) << "seed " << seed;
            if (more == 0) continue;
            LoadState state(cases.problem.graph, cases.problem.devices);
            state.assign(*tree.solution());
            EXPECT_EQ(state.score().overflow, 0);
            EXPECT_LT(state.score().load, best->first + more);
        }
    }
}

TEST(LoadRows, CountInWholeUnits) {
    // Five of 4 on three devices of 10 each, of which one holds 3 already.
    Assignments cases;
    LoadProblem& problem = cases.problem;
    problem.graph.size = 5;
    problem.graph.kinds = 1;
    problem.graph.times.assign(5, 4);
    problem.graph.bytes.assign(5, 0);
    problem.graph.nets.offsets.assign(6, 0);
    problem.devices.assign(3, {.kind = 0, .capacity = 1, .communicates = true});
    LoadRows rows(problem);
    rows.set(std::vector<DeviceMask>(5, 7), std::vector<std::int64_t>{0, 0, 3}, 10);
    EXPECT_EQ(rows.exact(0)[0], 4);
    EXPECT_EQ(rows.less(0, 2), 0);
    EXPECT_EQ(rows.exact(1)[0], 4);
    EXPECT_EQ(rows.less(1, 0), 2);  // 8 of 10
    EXPECT_EQ(rows.less(1, 2), 6);  // 4 of 7
    LoadMasks masks(problem);
    Masks all = masks.all();
    EXPECT_TRUE(masks.propagate(all, 11));  // two each
    EXPECT_FALSE(masks.propagate(all, 8));  // one each
}

}  // namespace
}  // namespace partita::search
