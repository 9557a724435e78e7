// SPDX-License-Identifier: Apache-2.0
#include "graph/fusion/attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/plan/network_builder.h"

namespace partita::graph {
namespace {

using plan::add_compute;
using plan::add_source;
using ::testing::ElementsAre;

/// q, k, v [2 5 4 8], as a model has them before it splits heads: length 5, 4 heads of 8.
class Products : public ::testing::Test {
protected:
    static constexpr std::int64_t kHeads = 4;
    static constexpr std::int64_t kLength = 5;
    static constexpr std::int64_t kSize = 8;

    Products() {
        const Shape split = {2, kLength, kHeads, kSize};
        query_ = turn("query", add_source(graph_, "q", TensorRole::input, split), {0, 2, 1, 3});
        key_ = turn("key", add_source(graph_, "k", TensorRole::input, split), {0, 2, 3, 1});
        value_ = turn("value", add_source(graph_, "v", TensorRole::input, split), {0, 2, 1, 3});
        scale_ = add_source(graph_, "scale", TensorRole::constant, {});
        mask_ = add_source(graph_, "mask", TensorRole::constant, {2, 1, 1, kLength});
    }

    TensorId turn(const std::string& name, TensorId x, std::vector<std::int64_t> perm) {
        Shape shape;
        for (const std::int64_t dim : perm) {
            shape.push_back(graph_.tensor(x).shape[static_cast<std::size_t>(dim)]);
        }
        return add_compute(graph_, name, "Transpose", {x}, shape,
                           plan::attribute("perm", std::move(perm)));
    }
    TensorId scores(const std::string& name, const std::string& type,
                    std::vector<TensorId> operands, Attributes attributes = {}) {
        return add_compute(graph_, name, type, std::move(operands), {2, kHeads, kLength, kLength},
                           std::move(attributes), "layers.0");
    }
    TensorId context(TensorId weights) {
        return add_compute(graph_, "context", "MatMul", {weights, value_},
                           {2, kHeads, kLength, kSize}, {}, "layers.0");
    }
    TensorId usual() {
        TensorId x = scores("scores", "MatMul", {query_, key_});
        x = scores("scaled", "Mul", {x, scale_});
        x = scores("masked", "Add", {x, mask_});
        return context(scores("softmax", "Softmax", {x}));
    }
    TensorId number(const std::string& name, double value) {
        const TensorId t = add_source(graph_, name, TensorRole::constant, {});
        numbers_[t] = value;
        return t;
    }
    /// Of this graph's constants, those that are known.
    [[nodiscard]] NumberOf numbers() const {
        return [this](TensorId t) {
            const auto known = numbers_.find(t);
            return known == numbers_.end() ? std::nullopt : std::optional(known->second);
        };
    }
    [[nodiscard]] std::vector<std::string> types() const {
        std::vector<std::string> types;
        const FusedAttention fused = with_fused_attention(graph_, numbers());
        for (const Op& op : fused.graph.ops()) {
            if (op.kind == OpKind::compute) types.push_back(op.type);
        }
        return types;
    }

    OpGraph graph_;
    std::map<TensorId, double> numbers_;
    TensorId query_;
    TensorId key_;
    TensorId value_;
    TensorId scale_;
    TensorId mask_;
};

TEST_F(Products, BecomeAttention) {
    graph_.add_output("y", usual());
    const FusedAttention fused = with_fused_attention(graph_, numbers());
    EXPECT_EQ(fused.count, 1);
    EXPECT_EQ(products_as_attention(graph_, numbers()), 1);
    check(fused.graph);
    EXPECT_THAT(types(), ElementsAre("Transpose", "Transpose", "Mul", "Transpose", "Attention"));
    const Op& attention = fused.graph.op(*fused.graph.find_op("context"));
    EXPECT_EQ(attention.block, "layers.0");
    EXPECT_EQ(attention.attributes.get_float("scale", 0), 1.0);
    ASSERT_EQ(attention.inputs.size(), 4u);
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(fused.graph.tensor(attention.inputs[i]).shape,
                  (Shape{2, kHeads, kLength, kSize}));
    }
    EXPECT_EQ(fused.graph.tensor(attention.inputs[3]).name, "mask");
    EXPECT_THAT(fused.graph.op(*fused.graph.find_op("key")).attributes.get_ints("perm"),
                ElementsAre(0, 2, 1, 3));
}

TEST_F(Products, NeedNeitherScaleNorMask) {
    const TensorId x = scores("scores", "MatMul", {query_, key_});
    graph_.add_output("y", context(scores("softmax", "Softmax", {x})));
    EXPECT_THAT(types(), ElementsAre("Transpose", "Transpose", "Transpose", "Attention"));
}

// Keys that were scaled after they were turned are turned back.
TEST_F(Products, OfKeysThatAreNotJustTurnedTurnThemBack) {
    const TensorId scaled =
        add_compute(graph_, "scaled", "Mul", {key_, scale_}, {2, kHeads, kSize, kLength});
    const TensorId x = scores("scores", "MatMul", {query_, scaled});
    graph_.add_output("y", context(scores("softmax", "Softmax", {x})));
    EXPECT_THAT(types(), ElementsAre("Transpose", "Transpose", "Transpose", "Mul", "Transpose",
                                     "Attention"));
}

// A transposition of the last two dims alone is undone.
TEST_F(Products, OfKeysThatOnlyTheProductTurnsReadThem) {
    key_ = turn("turned", turn("split", graph_.op(*graph_.find_op("key")).inputs[0], {0, 2, 1, 3}),
                {0, 1, 3, 2});
    const TensorId x = scores("scores", "MatMul", {query_, key_});
    graph_.add_output("y", context(scores("softmax", "Softmax", {x})));
    const OpGraph fused = with_fused_attention(graph_, numbers()).graph;
    EXPECT_FALSE(fused.find_op("turned").has_value());
    EXPECT_EQ(fused.tensor(fused.op(*fused.find_op("context")).inputs[1]).name, "split.out");
}

TEST_F(Products, MayBeGuardedAgainstWhatIsNoNumber) {
    const TensorId x = scores("scores", "MatMul", {query_, key_});
    const TensorId softmax = scores("softmax", "Softmax", {x});
    const TensorId is_nan = scores("nan", "IsNaN", {softmax});
    const TensorId zero = number("zero", 0.0);
    graph_.add_output("y", context(scores("where", "Where", {is_nan, zero, softmax})));
    EXPECT_THAT(types(), ElementsAre("Transpose", "Transpose", "Transpose", "Attention"));
}

// Such as a bias of positions, and the padding of sequences.
TEST_F(Products, MayHaveSeveralMasks) {
    const TensorId bias = add_source(graph_, "bias", TensorRole::constant, {1, kLength});
    const TensorId x = scores("scores", "MatMul", {query_, key_});
    const TensorId once = scores("once", "Add", {x, bias});
    const TensorId twice = scores("twice", "Add", {mask_, once});
    graph_.add_output("y", context(scores("softmax", "Softmax", {twice})));
    EXPECT_THAT(types(), ElementsAre("Transpose", "Transpose", "Transpose", "Add", "Attention"));
    const OpGraph fused = with_fused_attention(graph_, numbers()).graph;
    check(fused);
    const Tensor& mask = fused.tensor(fused.op(*fused.find_op("context")).inputs[3]);
    EXPECT_EQ(mask.shape, (Shape{2, 1, 1, kLength}));
    EXPECT_EQ(fused.op(mask.producer).block, "layers.0");
}

TEST_F(Products, MayDropNothing) {
    const TensorId x = scores("scores", "MatMul", {query_, key_});
    const TensorId ratio = number("ratio", 0.1);
    const TensorId softmax = scores("softmax", "Softmax", {x});
    graph_.add_output("y", context(scores("drop", "Dropout", {softmax, ratio})));
    EXPECT_THAT(types(), ElementsAre("Transpose", "Transpose", "Transpose", "Attention"));
}

// Attention then drops what the Dropout would have dropped.
TEST_F(Products, MayDropSomething) {
    const TensorId x = scores("scores", "MatMul", {query_, key_});
    const TensorId ratio = number("ratio", 0.1);
    const TensorId trains = number("trains", 1.0);
    const TensorId softmax = scores("softmax", "Softmax", {x});
    graph_.add_output("y", context(scores("drop", "Dropout", {softmax, ratio, trains},
                                          plan::attribute("seed", std::int64_t{7}))));
    EXPECT_THAT(types(), ElementsAre("Transpose", "Transpose", "Transpose", "Attention"));
    const OpGraph fused = with_fused_attention(graph_, numbers()).graph;
    check(fused);
    const Attributes& attributes = fused.op(*fused.find_op("context")).attributes;
    EXPECT_EQ(attributes.get_float(kDropoutRatio, 0), 0.1);
    EXPECT_EQ(attributes.get_string(kDropoutName, ""), "drop");
    EXPECT_EQ(attributes.get_int("seed", 0), 7);
}

TEST_F(Products, MayBeAskedToDropNothing) {
    const TensorId x = scores("scores", "MatMul", {query_, key_});
    const TensorId softmax = scores("softmax", "Softmax", {x});
    graph_.add_output("y", context(scores("drop", "Dropout",
                                          {softmax, number("ratio", 0.1), number("trains", 0.0)})));
    EXPECT_THAT(types(), ElementsAre("Transpose", "Transpose", "Transpose", "Attention"));
    const OpGraph fused = with_fused_attention(graph_, numbers()).graph;
    EXPECT_EQ(fused.op(*fused.find_op("context")).attributes.find(kDropoutRatio), nullptr);
}

// masked_fill(hidden, -inf), and where(seen, scores, lowest).
TEST_F(Products, MayBeMaskedByACondition) {
    const TensorId condition =
        add_source(graph_, "hidden", TensorRole::input, {2, 1, 1, kLength}, DType::boolean);
    const TensorId filling = number("filling", -65'504.0);
    const TensorId x = scores("scores", "MatMul", {query_, key_});
    const OpGraph begun = graph_;
    const auto attention = [&](std::vector<TensorId> operands) {
        graph_ = begun;
        const TensorId masked = scores("masked", "Where", std::move(operands));
        graph_.add_output("y", context(scores("softmax", "Softmax", {masked})));
        FusedAttention fused = with_fused_attention(graph_, numbers());
        EXPECT_EQ(fused.count, 1);
        check(fused.graph);
        return std::move(fused.graph);
    };
    const OpGraph seen = attention({condition, x, filling});
    const Op& reads = seen.op(*seen.find_op("context"));
    EXPECT_EQ(seen.tensor(reads.inputs[3]).name, "hidden");
    const OpGraph hidden = attention({condition, filling, x});
    const Op& inverted = hidden.op(*hidden.find_op("context"));
    const Tensor& mask = hidden.tensor(inverted.inputs[3]);
    EXPECT_EQ(mask.dtype, DType::boolean);
    EXPECT_EQ(hidden.op(mask.producer).type, "Not");
    EXPECT_EQ(hidden.op(mask.producer).block, "layers.0");
}

TEST_F(Products, ThatAreNoAttentionStay) {
    const auto stays = [&](TensorId result) {
        graph_.add_output("y", result);
        EXPECT_EQ(with_fused_attention(graph_, numbers()).count, 0);
        EXPECT_EQ(products_as_attention(graph_, numbers()), 0);
        EXPECT_EQ(digest(with_fused_attention(graph_, numbers()).graph), digest(graph_));
    };
    const TensorId one = number("one", 1.0);
    const TensorId unknown = add_source(graph_, "unknown", TensorRole::constant, {});
    const TensorId condition =
        add_source(graph_, "condition", TensorRole::input, {kLength, kLength}, DType::boolean);
    const TensorId x = scores("scores", "MatMul", {query_, key_});
    const OpGraph begun = graph_;
    {  // over queries
        stays(context(scores("softmax", "Softmax", {x}, plan::attribute("axis", std::int64_t{2}))));
    }
    graph_ = begun;
    {  // a scale of its own for each query
        const TensorId many = add_source(graph_, "many", TensorRole::constant, {kLength, 1});
        stays(context(scores("softmax", "Softmax", {scores("scaled", "Mul", {x, many})})));
    }
    graph_ = begun;
    {  // a mask that says nothing of keys
        const TensorId mask = add_source(graph_, "rows", TensorRole::constant, {kLength, 1});
        stays(context(scores("softmax", "Softmax", {scores("masked", "Add", {x, mask})})));
    }
    graph_ = begun;
    {  // somebody reads the weights
        const TensorId softmax = scores("softmax", "Softmax", {x});
        graph_.add_output("weights", softmax);
        stays(context(softmax));
    }
    graph_ = begun;
    for (const TensorId instead : {one, unknown}) {  // of what is not a number
        graph_ = begun;
        const TensorId softmax = scores("softmax", "Softmax", {x});
        const TensorId is_nan = scores("nan", "IsNaN", {softmax});
        stays(context(scores("where", "Where", {is_nan, instead, softmax})));
    }
    for (const TensorId filling : {one, unknown}) {  // of keys that are hidden
        graph_ = begun;
        const TensorId filled = scores("filled", "Where", {condition, filling, x});
        stays(context(scores("softmax", "Softmax", {filled})));
    }
    graph_ = begun;
    {  // a dropout that may train
        const TensorId softmax = scores("softmax", "Softmax", {x});
        const TensorId trains = add_source(graph_, "trains", TensorRole::constant, {});
        stays(context(scores("drop", "Dropout", {softmax, one, trains})));
    }
    graph_ = begun;
    {  // a dropout of everything
        const TensorId softmax = scores("softmax", "Softmax", {x});
        stays(context(scores("drop", "Dropout", {softmax, one, one})));
    }
    graph_ = begun;
    {  // two of them
        const TensorId half = number("half", 0.5);
        const TensorId softmax = scores("softmax", "Softmax", {x});
        const TensorId once = scores("once", "Dropout", {softmax, half, one});
        stays(context(scores("twice", "Dropout", {once, half, one})));
    }
    graph_ = begun;
    {  // masks whose sum is larger than each
        const TensorId rows = add_source(graph_, "rows", TensorRole::constant, {kLength, kLength});
        const TensorId once = scores("once", "Add", {x, rows});
        stays(context(scores("softmax", "Softmax", {scores("twice", "Add", {mask_, once})})));
    }
    graph_ = begun;
    {  // a condition beside a mask
        const TensorId lowest = number("lowest", -65'504.0);
        const TensorId filled = scores("filled", "Where", {condition, lowest, x});
        stays(context(scores("softmax", "Softmax", {scores("masked", "Add", {filled, mask_})})));
    }
}

}  // namespace
}  // namespace partita::graph
