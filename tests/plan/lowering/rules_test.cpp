// SPDX-License-Identifier: Apache-2.0
//
// The small cases in which splitting goes wrong when a rule is forgotten, with numbers that can be
// checked by hand: lowered, and run by the interpreter with what the operators mean; losses are
// sums.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "plan/legality/config_legality.h"
#include "plan/lowering/lower.h"
#include "tests/plan/lowering/interpreter.h"
#include "tests/plan/lowering/op_meaning.h"
#include "tests/plan/named_axes.h"
#include "tests/plan/network_builder.h"
#include "tests/plan/small_problems.h"

namespace partita::plan {
namespace {

using graph::TensorId;
using graph::TensorRole;
using testing::ElementsAre;
using testing::HasSubstr;
using Ints = std::vector<std::int64_t>;

class Rules : public testing::Test {
protected:
    TensorId source(TensorRole role, graph::Shape shape, Ints values) {
        const TensorId t =
            net_.source("s" + std::to_string(net_.graph.op_count()), role, std::move(shape));
        options_.sources[t.value] = std::move(values);
        return t;
    }
    TensorId parameter(graph::Shape shape, Ints values) {
        return source(TensorRole::parameter, std::move(shape), std::move(values));
    }
    TensorId input(graph::Shape shape, Ints values) {
        return source(TensorRole::input, std::move(shape), std::move(values));
    }
    TensorId add(const std::string& type, std::vector<TensorId> operands, const graph::Shape& shape,
                 graph::Attributes attributes = {}) {
        return net_.add(type, std::move(operands), {shape}, std::move(attributes))[0];
    }
    /// The op whose result it is, on as many devices as it has parts, the first ones.
    void split(TensorId result, const AxisNames& axes) {
        split_along(result, axes_named(rule_of(result), axes));
    }
    void split_along(TensorId result, std::vector<Axis> axes) {
        int parts = 1;
        for (const Axis& axis : axes) parts *= axis.degree;
        configs_[net_.graph.tensor(result).producer.index()] = {
            std::move(axes), DeviceSet::progression(0, parts, 1)};
    }
    [[nodiscard]] graph::OpRule rule_of(TensorId result) const {
        return graph::rule_of(net_.graph, net_.graph.tensor(result).producer);
    }

    [[nodiscard]] Problem problem() const {
        return make_problem(net_.graph, machine_,
                            {.mode = Mode::training, .objective = Objective::step_time});
    }
    [[nodiscard]] Strategy strategy(int micro_batches = 1) const {
        Strategy strategy = on_devices(std::vector<int>(net_.graph.op_count(), 0));
        strategy.policy.micro_batches = micro_batches;
        for (const auto& [op, config] : configs_) strategy.ops[op].config = config;
        return strategy;
    }
    [[nodiscard]] std::optional<std::string> fault(int micro_batches = 1) const {
        return find_fault(problem(), strategy(micro_batches));
    }

    void run(int micro_batches = 1) {
        net_.add_outputs();
        ASSERT_EQ(fault(micro_batches), std::nullopt);
        found_ = interpreted(problem(), strategy(micro_batches), options_);
    }
    [[nodiscard]] static Ints with_sign(Ints values) {
        for (std::int64_t& value : values) {
            if (value > kPrime / 2) value -= kPrime;
        }
        return values;
    }
    [[nodiscard]] Ints output(TensorId t) const {
        return with_sign(found_.outputs.at(t.value).data);
    }
    [[nodiscard]] Ints gradient(TensorId t) const {
        Ints gradient = options_.sources.at(t.value);
        for (std::size_t i = 0; i < gradient.size(); ++i) {
            gradient[i] = modulo(gradient[i] - found_.parameters.at(t.value).data[i]);
        }
        return with_sign(gradient);
    }

    NetworkBuilder net_;
    cost::Machine machine_ = switched_machine(4);
    InterpreterOptions options_{.plain = true, .sources = {}};
    std::map<std::size_t, OpConfig> configs_;  ///< by op; others are whole, on device 0
    Interpretation found_;
};

// RULES.md 3: 3 samples in 2 micro-batches are 2 and 1; in 2 parts the second has one to give.
TEST_F(Rules, ADegreeMustBeLegalInEveryMicroBatch) {
    const TensorId x = input({3, 2}, {1, 2, 3, 4, 5, 6});
    const TensorId y = add("MatMul", {x, parameter({2, 2}, {1, 0, 0, 1})}, {3, 2});
    split(y, {{"m", 2}});
    net_.add_outputs();
    EXPECT_EQ(fault(), std::nullopt);
    ASSERT_TRUE(fault(2));
    EXPECT_THAT(*fault(2), HasSubstr("factor 'm': 1 positions in 2 parts leave one empty"));
    EXPECT_THAT(fault(4).value_or(""), HasSubstr("cannot be cut into 4 micro-batches"));
}

// Blocks are those of the whole factor, and each must bear the split.
TEST_F(Rules, BlocksAreEqualWholeAndLargeEnough) {
    const TensorId x = input({12, 2}, Ints(24, 1));
    const TensorId y = add("MatMul", {x, parameter({2, 2}, {1, 0, 0, 1})}, {12, 2});
    net_.add_outputs();
    const auto fault_of = [&](const AxisNames& axes, int micro_batches = 1) {
        split(y, axes);
        return fault(micro_batches).value_or("none");
    };
    EXPECT_EQ(fault_of({{"m/3", 4}}), "none");
    EXPECT_EQ(fault_of({{"m/3", 2}, {"m", 2}}), "none");
    EXPECT_THAT(fault_of({{"m/3", 3}}), HasSubstr("4 positions in 3 parts leave one empty"));
    EXPECT_THAT(fault_of({{"m", 2}, {"m/3", 2}}), HasSubstr("'m/3': its blocks were cut before"));
    EXPECT_THAT(fault_of({{"m/3", 2}}, 2), HasSubstr("'m/3': its blocks were cut before"));
    for (const char* name : {"m/5", "m/1", "m/0", "m/-3", "m/", "m/3x", "m//3", "q/3"}) {
        EXPECT_EQ(axis_of(rule_of(y), name, 2), std::nullopt) << name;
        EXPECT_THAT(unknown_axis(name), HasSubstr("no factor of so many equal blocks")) << name;
    }
    for (const std::int64_t blocks : {5, 0, -3}) {
        split_along(y, {Axis::along(0, 2, blocks)});
        EXPECT_THAT(fault().value_or("none"), HasSubstr("no factor of so many equal blocks"));
    }
}

// RULES.md 6: max does not pass through a sum, nor anything through what is not linear.
TEST_F(Rules, OnlySumsPassAndOnlyThroughLinearOps) {
    const TensorId x = parameter({1, 2}, {1, 2});
    const TensorId sum = add("ReduceSum", {x}, {1, 1}, attribute("axes", Ints{1}));
    const TensorId largest = add("ReduceMax", {x}, {1, 1}, attribute("axes", Ints{1}));
    const TensorId same = add("Identity", {largest}, {1, 1});
    const TensorId active = add("Relu", {sum}, {1, 1});
    net_.add_outputs();
    for (const TensorId t : {sum, largest}) split(t, {{"d1", 2}});
    EXPECT_EQ(fault(), std::nullopt);
    split(same, {{"+", 2}});
    EXPECT_THAT(fault().value_or(""), HasSubstr("is partial, but not as a sum"));
    split(same, {});
    split_along(active, {Axis::summands(2)});
    EXPECT_THAT(fault().value_or(""), HasSubstr("linear in no such operand"));
}

// RULES.md 7: a = 1 + 2 in two addends, y = 5: 8, not a + 2y = 13; y's gradient is 1, not 2.
TEST_F(Rules, WhatIsAddedToAPartialSumIsAddedOnce) {
    const TensorId w = parameter({2, 1}, {1, 2});
    const TensorId y = parameter({1, 1}, {5});
    const TensorId a = add("MatMul", {input({1, 2}, {1, 1}), w}, {1, 1});
    const TensorId sum = add("Add", {a, y}, {1, 1});
    split(a, {{"k", 2}});
    split(sum, {{"+0", 2}});
    run();
    EXPECT_THAT(output(sum), ElementsAre(8));
    EXPECT_THAT(gradient(y), ElementsAre(1));
    EXPECT_THAT(gradient(w), ElementsAre(1, 1));
}

// An addend that goes to another device stays the addend that it is.
TEST_F(Rules, AddendsKeepTheirNumbers) {
    const TensorId w = parameter({2, 1}, {3, 4});
    const TensorId a = add("MatMul", {input({1, 2}, {1, 1}), w}, {1, 1});
    const TensorId same = add("Identity", {a}, {1, 1});
    split(a, {{"k", 2}});
    split(same, {{"+", 2}});
    configs_[net_.graph.tensor(same).producer.index()].devices = DeviceSet::progression(2, 2, 1);
    run();
    EXPECT_THAT(output(same), ElementsAre(7));
    std::map<std::int32_t, std::int32_t> summands;  // by device
    const Problem of = problem();
    for (const Buffer& buffer : lower(of, strategy()).buffers) {
        if (buffer.tensor == a && !buffer.gradient) summands[buffer.device] = buffer.summand;
    }
    EXPECT_THAT(summands,
                ElementsAre(std::pair(0, 0), std::pair(1, 1), std::pair(2, 0), std::pair(3, 1)));
}

// RULES.md 7: (1 + 2) * (3 + 4) = 21, not 1 * 3 + 2 * 4 = 11: one factor is combined first.
TEST_F(Rules, OfAProductOneFactorIsPartial) {
    const TensorId x = input({1, 2}, {1, 1});
    const TensorId v = parameter({2, 1}, {1, 2});
    const TensorId w = parameter({2, 1}, {3, 4});
    const TensorId a = add("MatMul", {x, v}, {1, 1});
    const TensorId b = add("MatMul", {x, w}, {1, 1});
    const TensorId product = add("Mul", {a, b}, {1, 1});
    for (const TensorId t : {a, b}) split(t, {{"k", 2}});
    split(product, {{"+", 2}});
    run();
    EXPECT_THAT(output(product), ElementsAre(21));
    EXPECT_THAT(gradient(v), ElementsAre(7, 7));
    EXPECT_THAT(gradient(w), ElementsAre(3, 3));
}

// What selects is needed by every part: the condition is 1 > 0 for both addends, 3 and 4.
TEST_F(Rules, EveryAddendOfAChoiceNeedsItsCondition) {
    const TensorId w = parameter({2, 1}, {3, 4});
    const TensorId other = parameter({1, 1}, {5});
    const TensorId a = add("MatMul", {input({1, 2}, {1, 1}), w}, {1, 1});
    const TensorId condition =
        add("Greater", {input({1, 1}, {1}), input({1, 1}, {1})}, {1, 1});  // 1 * 1, as a factor
    const TensorId chosen = add("Where", {condition, a, other}, {1, 1});
    split(a, {{"k", 2}});
    split(chosen, {{"+1", 2}});
    run();
    EXPECT_THAT(output(chosen), ElementsAre(12)) << "the interpreter's Where is c * (a + b)";
    EXPECT_THAT(gradient(w), ElementsAre(1, 1));
    EXPECT_THAT(gradient(other), ElementsAre(1));
}

// One tensor in two places of an op: a task finds operands by their tensor.
TEST_F(Rules, ATensorIsNotPartialAndWholeInOneOp) {
    const TensorId a = add("MatMul", {input({1, 2}, {1, 1}), parameter({2, 1}, {3, 4})}, {1, 1});
    const TensorId twice = add("Add", {a, a}, {1, 1});
    net_.add_outputs();
    split(a, {{"k", 2}});
    split(twice, {{"+", 2}});
    EXPECT_EQ(fault(), std::nullopt) << "both are partial";
    split(twice, {{"+0", 2}});
    EXPECT_THAT(fault().value_or(""), HasSubstr("is operand 1 too, which is not partial"));
}

// RULES.md 8: the bias is added, and its gradient taken, by one of the two parts: 1, not 2.
TEST_F(Rules, ABiasIsAppliedOnceEachWay) {
    const TensorId bias = parameter({1}, {10});
    const TensorId y =
        add("Gemm", {input({1, 2}, {1, 1}), parameter({2, 1}, {1, 2}), bias}, {1, 1});
    split(y, {{"k", 2}});
    run();
    EXPECT_THAT(output(y), ElementsAre(13));
    EXPECT_THAT(gradient(bias), ElementsAre(1));
}

// RULES.md 11: kernel 3, stride 2: windows 0-2 and 2-4. Both read 2, nobody reads 5, so their
// gradients are as many elements as x has, and yet overlap.
TEST_F(Rules, GradientsOfOverlappingWindowsAreAdded) {
    const TensorId x = parameter({1, 1, 6}, {1, 2, 3, 4, 5, 6});
    const TensorId w = parameter({1, 1, 3}, {1, 0, 0});
    graph::Attributes window = attribute("kernel_shape", Ints{3});
    window.set("strides", Ints{2});
    const TensorId y = add("Conv", {x, w}, {1, 1, 2}, window);
    net_.add_outputs();
    const Problem probe = problem();
    const graph::OpRule& rule = probe.facts().rule(net_.graph.tensor(y).producer);
    const auto columns = static_cast<std::size_t>(rule.results[0].dims[2].factors[0]);
    split(y, {{rule.factors[columns].name, 2}});
    run();
    EXPECT_THAT(gradient(x), ElementsAre(1, 1, 2, 1, 1, 0));
}

// RULES.md 12: [1|2] in two parts: the gradient is [0, 1], not [1, 1].
TEST_F(Rules, TheGradientOfAMaximumGoesWhereTheWholeOneIs) {
    const TensorId x = parameter({1, 2}, {1, 2});
    const TensorId u = parameter({1, 2}, {1, 2});
    const TensorId largest = add("ReduceMax", {x}, {1, 1}, attribute("axes", Ints{1}));
    const TensorId smallest = add("ReduceMin", {u}, {1, 1}, attribute("axes", Ints{1}));
    for (const TensorId t : {largest, smallest}) split(t, {{"d1", 2}});
    run();
    EXPECT_THAT(output(largest), ElementsAre(2));
    EXPECT_THAT(gradient(x), ElementsAre(0, 1));
    EXPECT_THAT(output(smallest), ElementsAre(1));
    EXPECT_THAT(gradient(u), ElementsAre(1, 0));
}

// RULES.md 13: x feeds a column-split product, gradient {1, 1} in two addends, and a replicated
// addition, gradient 1 on both devices: 3 together. Added where they lie and then reduced it is 4.
TEST_F(Rules, GradientsOfDifferentLayoutsAreNotAddedAsTheyLie) {
    const TensorId x = parameter({1, 1}, {7});
    const TensorId columns = add("MatMul", {x, parameter({1, 2}, {1, 1})}, {1, 2});
    const TensorId residual = add("Add", {x, parameter({1, 1}, {5})}, {1, 1});
    split(x, {{"*", 2}});
    split(columns, {{"n", 2}});
    split(residual, {{"*", 2}});
    run();
    EXPECT_THAT(gradient(x), ElementsAre(3));
}

// RULES.md 15: w^2 has no sample, so its gradient counts once: 1 + 3 from x w, 2 * 5 from w^2.
TEST_F(Rules, ALossWithoutSamplesIsSeededOnce) {
    const TensorId w = parameter({1, 1}, {5});
    const TensorId xw = add("MatMul", {input({2, 1}, {1, 3}), w}, {2, 1});
    const TensorId square = add("Mul", {w, w}, {1, 1});
    run(/*micro_batches=*/2);
    EXPECT_THAT(output(xw), ElementsAre(5, 15));
    EXPECT_THAT(output(square), ElementsAre(25));
    EXPECT_THAT(gradient(w), ElementsAre(14));
}

// RULES.md 15, 16: mean(x w) + w^2 and (mean x)^2 need all samples at once, and say so.
TEST_F(Rules, WhatMixesSamplesIsNotCutIntoMicroBatches) {
    const TensorId w = parameter({1, 1}, {5});
    const TensorId xw = add("MatMul", {input({2, 1}, {1, 3}), w}, {2, 1});
    const TensorId mean = add("ReduceMean", {xw}, {1, 1}, attribute("axes", Ints{0}));
    add("Mul", {mean, mean}, {1, 1});
    net_.add_outputs();
    EXPECT_EQ(fault(), std::nullopt);
    ASSERT_TRUE(fault(2));
    EXPECT_THAT(*fault(2), HasSubstr("mixes samples of the batch"));
    ProblemOptions options{.mode = Mode::training, .objective = Objective::step_time};
    options.policy.micro_batches = 2;
    EXPECT_THROW(make_problem(net_.graph, machine_, options), UsageError);
}

// RULES.md 17: with 2 micro-batches gradients are reduced twice into a sharded accumulator
// (ZeRO-2), once from local ones (ZeRO-1); the parameter is the same.
TEST_F(Rules, TheAccumulatorsLayoutTellsWhenGradientsAreReduced) {
    const TensorId w = parameter({2, 1}, {5, 6});
    const TensorId y = add("MatMul", {input({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), w}, {4, 1});
    net_.add_outputs();
    split(w, {{"*", 2}});
    split(y, {{"m", 2}});
    for (const bool local : {false, true}) {
        Strategy zero = strategy(/*micro_batches=*/2);
        UpdateConfig& update = zero.ops[net_.graph.tensor(w).producer.index()].update;
        update = {.update = {axes_named(rule_of(w), {{"d0", 2}}), DeviceSet::progression(0, 2, 1)},
                  .accumulate_locally = local};
        const Problem of = problem();
        ASSERT_EQ(find_fault(of, zero), std::nullopt);
        int reductions = 0;
        for (const Task& task : lower(of, zero).tasks) {
            reductions += task.kind == TaskKind::collective && task.gradient ? 1 : 0;
        }
        EXPECT_EQ(reductions, local ? 1 : 2);
        found_ = interpreted(of, zero, options_);
        EXPECT_THAT(gradient(w), ElementsAre(16, 20));
    }
}

}  // namespace
}  // namespace partita::plan
