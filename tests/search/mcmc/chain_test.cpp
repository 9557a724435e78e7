// SPDX-License-Identifier: Apache-2.0
#include "search/mcmc/chain.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tests/plan/small_problems.h"
#include "tests/search/mcmc/moves/move_cases.h"
#include "tests/support/random_graph.h"

namespace partita::search {
namespace {

using graph::OpId;
using plan::Score;

Score score(std::int64_t value, std::int64_t overflow = 0) {
    return {true, Bytes{overflow}, Time{value}};
}

Changes change(std::uint32_t op, DegreesId degrees, DevicesId devices) {
    Changes changes;
    changes.ops.push_back({OpId(op), {.config = {degrees, devices}}});
    return changes;
}

TEST(RejectionCache, AreDecidedByWhatIsProvedAlone) {
    const RejectionCache::Known value{score(100), score(90)};
    EXPECT_EQ(value.accepted_by(score(99)), std::optional(false));
    EXPECT_EQ(value.accepted_by(score(100)), std::optional(true));
    const RejectionCache::Known above{std::nullopt, score(90)};
    EXPECT_EQ(above.accepted_by(score(89)), std::optional(false));
    EXPECT_EQ(above.accepted_by(score(90)), std::optional(false));
    EXPECT_EQ(above.accepted_by(score(91)), std::nullopt);
    EXPECT_EQ(above.accepted_by(score(89, /*overflow=*/1)), std::nullopt);
}

TEST(RejectionCache, TellProposalsApartByAllTheirChanges) {
    RejectionCache rejections;
    const Changes first = change(3, 1, 2);
    EXPECT_EQ(rejections.find(first), nullptr);
    rejections.remember(first, {score(7), score(0)});
    ASSERT_NE(rejections.find(first), nullptr);
    EXPECT_EQ(rejections.find(first)->score->value, Time{7});
    for (const Changes& other : {change(4, 1, 2), change(3, 2, 2), change(3, 1, 1)}) {
        EXPECT_EQ(rejections.find(other), nullptr);
    }
    Changes updated = first;
    updated.ops[0].decision.update = {.refetch = true};
    EXPECT_EQ(rejections.find(updated), nullptr);
    rejections.remember(updated, {score(8), score(0)});
    updated.ops[0].decision.update = {.accumulate_locally = true};
    EXPECT_EQ(rejections.find(updated), nullptr);
    rejections.clear();
    EXPECT_EQ(rejections.find(first), nullptr);
}

TEST(RejectionCache, NeverConfuseManyProposals) {
    RejectionCache rejections;
    Random random(2);
    int found = 0;
    for (int i = 0; i < 30'000; ++i) {  // more than there is room for
        const auto op = static_cast<std::uint32_t>(random.below(40));
        const auto degrees = static_cast<DegreesId>(random.below(40));
        const auto devices = static_cast<DevicesId>(random.below(8));
        const Changes changes = change(op, degrees, devices);
        const std::int64_t value = op * 1'000 + degrees * 10 + devices;
        if (const RejectionCache::Known* known = rejections.find(changes)) {
            ++found;
            EXPECT_EQ(known->score->value, Time{value});
        }
        rejections.remember(changes, {score(value), score(0)});
    }
    EXPECT_GT(found, 5'000);
}

enum class Memory { none, values, limits };

struct Trace {
    std::vector<Time> values;
    plan::Strategy last;
    int evaluations = 0;
};

/// A chain that asks the evaluator only for what it does not know.
Trace run(Case& of, Memory memory, int steps) {
    const auto evaluator = plan::make_evaluator(of.problem, plan::Scheduler::pct);
    const plan::Strategy start = of.data_parallel();
    Chain chain(of.space, start, score_of(evaluator->evaluate(start)), Random(3));
    std::vector<const Move*> moves;
    for (const Move& move : move_table()) moves.push_back(&move);
    Trace trace{.values = {}, .last = start};
    for (int i = 0; i < steps; ++i) {
        if (!chain.draw(moves, 0.01 / (1 + i))) break;
        const RejectionCache::Known* known = memory == Memory::none ? nullptr : chain.known();
        if (known != nullptr && known->accepted_by(chain.limit()) == std::optional(false)) {
            trace.values.push_back(chain.score().value);
            continue;
        }
        ++trace.evaluations;
        plan::Strategy next = trace.last;
        apply(chain.changes(), of.space.table(), next);
        const Score priced = score_of(evaluator->evaluate(next));
        if (chain.limit().admits(priced)) {
            trace.last = std::move(next);
            chain.accept(priced);
        } else {
            chain.reject(memory == Memory::limits ? std::nullopt : std::optional(priced));
        }
        trace.values.push_back(chain.score().value);
    }
    EXPECT_EQ(chain.state().strategy(), trace.last);
    return trace;
}

TEST(Chain, DecidesAsIfItRememberedNothing) {
    for (const int ops : {4, 8}) {
        Case of(support::chain_network(ops), plan::switched_machine(4), training());
        const Trace forgetful = run(of, Memory::none, 3'000);
        EXPECT_EQ(forgetful.evaluations, 3'000);
        for (const Memory memory : {Memory::values, Memory::limits}) {
            const Trace remembering = run(of, memory, 3'000);
            EXPECT_EQ(remembering.values, forgetful.values);
            EXPECT_EQ(remembering.last, forgetful.last);
            EXPECT_LT(remembering.evaluations, 2'500);
        }
    }
}

TEST(Chain, ForgetsWhereItWasWhenItRestarts) {
    Case of(support::chain_network(4), plan::switched_machine(4), training());
    const auto evaluator = plan::make_evaluator(of.problem, plan::Scheduler::pct);
    const plan::Strategy start = of.data_parallel();
    Chain chain(of.space, start, score_of(evaluator->evaluate(start)), Random(3));
    const std::vector<const Move*> moves{find_move("change-degrees")};
    ASSERT_TRUE(chain.draw(moves, 0.01));
    plan::Strategy next = start;
    apply(chain.changes(), of.space.table(), next);
    chain.reject(score_of(evaluator->evaluate(next)));
    EXPECT_NE(chain.known(), nullptr);
    chain.restart(next, score_of(evaluator->evaluate(next)));
    EXPECT_EQ(chain.known(), nullptr);
    EXPECT_EQ(chain.state().strategy(), next);
}

}  // namespace
}  // namespace partita::search
