// SPDX-License-Identifier: Apache-2.0
//
// What is remembered by number equals what is asked anew.
#include "search/mcmc/moves/proposal_builder.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "plan/legality/config_legality.h"
#include "search/configs/parameter_sharding.h"
#include "tests/search/mcmc/moves/literal_proposal.h"
#include "tests/search/mcmc/moves/move_cases.h"

namespace partita::search {
namespace {

using graph::OpId;
using plan::OpConfig;
using plan::Strategy;

/// The same changes in a proposal builder and in a literal one.
class Pair {
public:
    Pair(Case& of, ProposalBuilder& builder, const State& base, const Strategy& strategy)
        : space_(of.space), builder_(builder), literal_(of.space, strategy) {
        builder_.start(base);
    }

    void set(OpId op, const OpConfig& config) {
        builder_.set(op, space_.table().id(op, config));
        literal_.set(op, config);
    }
    void spread(OpId op) {
        builder_.spread(op);
        literal_.spread(op);
    }
    void repeat() {
        builder_.repeat();
        literal_.repeat();
    }
    void set_update(OpId op, const plan::UpdateConfig& update) {
        builder_.set_update(op, space_.table().id(op, update));
        literal_.set_update(op, update);
    }
    void set_policy(const plan::Policy& policy) {
        builder_.set_policy(policy);
        literal_.set_policy(policy);
    }
    bool finish(Changes& changes) { return builder_.finish(changes); }
    [[nodiscard]] const LiteralProposal& literal() const { return literal_; }
    std::optional<Strategy> finish_literally() { return literal_.finish(); }

private:
    SearchSpace& space_;
    ProposalBuilder& builder_;
    LiteralProposal literal_;
};

class Editor {
public:
    Editor(Case& of, Random& random) : of_(of), table_(of.space.table()), random_(random) {}

    void edit(Pair& pair) {
        for (std::uint64_t left = 1 + random_.below(3); left > 0; --left) edit_once(pair);
        if (random_.below(4) == 0) pair.repeat();
    }

private:
    void edit_once(Pair& pair) {
        const OpId op = of_.space.draw_op(random_);
        switch (random_.below(6)) {
        case 0: return pair.set(op, draw(op));
        case 1: pair.set(op, draw(op)); return pair.spread(op);
        case 2: return relocate(pair, OpId(random_.below(of_.graph.op_count())));
        case 3: return pass_partial_sums(pair, op);
        case 4: return change_sharding(pair);
        default: return change_policy(pair);
        }
    }

    OpConfig draw(OpId op) {
        const DevicesId devices = table_.draw_devices(op, random_);
        const int size = table_.sets().size(devices);
        return table_.config(op, {table_.draw_degrees(op, size, random_), devices});
    }

    /// Maybe to where it may not be.
    void relocate(Pair& pair, OpId op) {
        OpConfig config = pair.literal().config(op);
        const OpId other = of_.space.draw_op(random_);
        const auto& sets = table_.device_sets(other, config.devices.size());
        if (!sets.empty()) config.devices = sets[random_.below(sets.size())];
        pair.set(op, config);
    }

    /// An op whose reduction is split, and a reader that takes the summands.
    void pass_partial_sums(Pair& pair, OpId op) {
        const plan::DeviceSet devices = pair.literal().config(op).devices;
        const auto& factors = of_.problem.facts().rule(op).factors;
        for (std::size_t f = 0; f < factors.size(); ++f) {
            if (factors[f].reduction) {
                pair.set(op, {.axes = {plan::Axis::along(f, devices.size())}, .devices = devices});
            }
        }
        for (const OpId reader : of_.graph.successors(op)) {
            pair.set(reader, {.axes = {plan::Axis::summands(devices.size())}, .devices = devices});
        }
    }

    void change_sharding(Pair& pair) {
        const auto& all = of_.space.parameters();
        if (all.empty()) return;
        const OpId parameter = all[random_.below(all.size())];
        const OpConfig& reader = pair.literal().config(leading_reader(of_.problem, parameter));
        const int micro_batches = pair.literal().micro_batches();
        const OpConfig read = as_read(of_.problem, parameter, reader, micro_batches);
        const auto decision =
            sharded(of_.problem, parameter, read,
                    kParameterShardings[random_.below(kParameterShardings.size())], micro_batches);
        if (!decision) return;
        pair.set(parameter, decision->config);
        pair.set_update(parameter, decision->update);
    }

    void change_policy(Pair& pair) {
        plan::Policy policy = pair.literal().base().policy;
        policy.micro_batches = static_cast<int>(1 + random_.below(4));
        if (random_.below(4) == 0) pair.set_policy(policy);
    }

    Case& of_;
    ConfigTable& table_;
    Random& random_;
};

TEST(ProposalBuilder, EqualsTheLiteralOneAfterAnyEdits) {
    int legal = 0;
    int illegal = 0;
    int summands = 0;
    for (const auto& of : cases()) {
        ProposalBuilder builder(of->space);
        Changes changes;
        for (Strategy strategy : starts(*of)) {
            Random random(5);
            Editor editor(*of, random);
            State state(of->space.table(), strategy);
            for (int i = 0; i < 200; ++i) {
                Pair pair(*of, builder, state, strategy);
                editor.edit(pair);
                const std::optional<Strategy> expected = pair.finish_literally();
                ASSERT_EQ(pair.finish(changes), expected.has_value());
                if (!expected) {
                    ++illegal;
                    continue;
                }
                ++legal;
                Strategy changed = strategy;
                apply(changes, of->space.table(), changed);
                ASSERT_EQ(changed, *expected);
                const auto& lists = of->space.table().degree_lists();
                std::optional<OpId> before;
                for (const auto& [op, decision] : changes.ops) {
                    EXPECT_TRUE(!before || *before < op);
                    before = op;
                    EXPECT_NE(decision, state.decision(op));
                    if (lists.takes_summands(op, decision.config.degrees)) ++summands;
                }
                if (i % 3 != 0) continue;
                state.apply(changes);  // wander
                strategy = *expected;
                ASSERT_EQ(state.strategy(), strategy);
            }
        }
    }
    EXPECT_GT(legal, 500);
    EXPECT_GT(illegal, 500);
    EXPECT_GT(summands, 20);
}

TEST(ConfigTable, GivesBackWhatItNumbers) {
    for (const auto& of : cases()) {
        for (const Strategy& strategy : starts(*of)) {
            ConfigTable& table = of->space.table();
            for (std::size_t i = 0; i < of->graph.op_count(); ++i) {
                const plan::OpDecision& decision = strategy.ops[i];
                const DecisionId id = table.id(OpId(i), decision);
                EXPECT_EQ(table.decision(OpId(i), id), decision);
                EXPECT_EQ(table.id(OpId(i), decision), id);
            }
        }
    }
}

/// All configs of the table, and for each of the others whether it is legal.
TEST(ConfigTable, KnowsWhatIsLegal) {
    int legal = 0;
    int illegal = 0;
    for (const auto& of : cases()) {
        ConfigTable& table = of->space.table();
        for (const int micro_batches : {1, 2, 4}) {
            const MicroBatchesId micro_batches_id = table.micro_batches_id(micro_batches);
            EXPECT_EQ(table.micro_batches(micro_batches_id), micro_batches);
            Random random(9);
            for (int i = 0; i < 400; ++i) {
                const OpId op(random.below(of->graph.op_count()));
                const OpId other = of->space.draw_op(random);
                const DevicesId devices = table.draw_devices(other, random);
                const int size = table.sets().size(table.draw_devices(other, random));
                const ConfigId own{table.draw_degrees(other, size, random), devices};
                const OpConfig config = table.config(other, own);
                const bool expected = !plan::find_fault(of->problem, op, config, micro_batches);
                EXPECT_EQ(table.is_legal(op, table.id(op, config), micro_batches_id), expected);
                ++(expected ? legal : illegal);
            }
        }
    }
    EXPECT_GT(legal, 1'000);
    EXPECT_GT(illegal, 1'000);
}

TEST(PropagationTable, FollowsAsIfAskedAnew) {
    for (const auto& of : cases()) {
        ConfigTable& table = of->space.table();
        PropagationTable& propagation = of->space.propagation();
        Random random(4);
        for (int i = 0; i < 1'000; ++i) {
            const OpId from = of->space.draw_op(random);
            const DevicesId devices = table.draw_devices(from, random);
            const ConfigId config{table.draw_degrees(from, table.sets().size(devices), random),
                                  devices};
            const int micro_batches = random.below(2) == 0 ? 1 : 4;
            EndId end = propagation.first_end(from);
            for (const Link& link : links_of(of->problem, from)) {
                const OpId to = link.producer == from ? link.reader : link.producer;
                ASSERT_EQ(propagation.end(end).to, to);
                const ConfigId propagated =
                    propagation.propagate(end, config, table.micro_batches_id(micro_batches));
                EXPECT_EQ(
                    table.config(to, propagated),
                    propagate(of->problem, link, from, table.config(from, config), micro_batches));
                ++end;
            }
        }
    }
}

TEST(ParameterShardingTable, KeepsAndRecognizesAsIfAskedAnew) {
    int shardings = 0;
    for (const auto& of : cases()) {
        ConfigTable& table = of->space.table();
        for (Strategy strategy : starts(*of)) {
            const int micro_batches = strategy.policy.micro_batches;
            for (const OpId parameter : of->space.parameters()) {
                const OpId reader = leading_reader(of->problem, parameter);
                const OpConfig read =
                    as_read(of->problem, parameter, strategy.config(reader), micro_batches);
                for (const ParameterSharding sharding : kParameterShardings) {
                    const auto expected =
                        sharded(of->problem, parameter, read, sharding, micro_batches);
                    const auto decision = of->space.parameter_shardings().sharded(
                        parameter, table.id(parameter, read), sharding,
                        table.micro_batches_id(micro_batches));
                    ASSERT_EQ(decision.has_value(), expected.has_value());
                    if (!decision) continue;
                    EXPECT_EQ(table.decision(parameter, *decision), *expected);
                    strategy.ops[parameter.index()] = *expected;
                    const State state(table, strategy);
                    EXPECT_EQ(of->space.parameter_shardings().sharding_of(
                                  *of->space.propagation().leading_end(parameter), state),
                              sharding_of(of->problem, parameter, strategy));
                    ++shardings;
                }
            }
        }
    }
    EXPECT_GT(shardings, 100);
}

}  // namespace
}  // namespace partita::search
