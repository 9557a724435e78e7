// SPDX-License-Identifier: Apache-2.0
//
// Factors of Reshape against its definition: operand and result list the same elements in row-major
// order, so a part of a factor must name the same elements on both sides.
#include <cstdint>
#include <numeric>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/error.h"
#include "graph/operators/op_rule.h"
#include "tests/graph/operators/examples.h"

namespace partita::graph {
namespace {

using testing::complaint_about;
using testing::graph_of;
using testing::last_op;
using testing::rule_of_example;

/// Flat numbers of the elements of a tensor whose factor has the given digit; all of them when no
/// dim has the factor.
std::set<std::int64_t> elements_with(const OpRule& rule, const TensorRule& tensor,
                                     const Shape& shape, int factor, std::int64_t digit) {
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) count *= extent;
    std::set<std::int64_t> elements;
    for (std::int64_t flat = 0; flat < count; ++flat) {
        bool is_in = true;
        std::int64_t rest = flat;
        for (std::size_t d = shape.size(); d-- > 0;) {
            std::int64_t position = rest % shape[d];
            rest /= shape[d];
            const auto& factors = tensor.dims[d].factors;
            for (std::size_t f = factors.size(); f-- > 0;) {
                const std::int64_t extent = rule.factors[std::size_t(factors[f])].extent;
                if (factors[f] == factor && position % extent != digit) is_in = false;
                position /= extent;
            }
        }
        if (is_in) elements.insert(flat);
    }
    return elements;
}

/// Two shapes with the same elements: prime factors dealt to dims in two ways, ones mixed in.
std::pair<Shape, Shape> any_reshape() {
    const auto primes = *rc::gen::container<std::vector<std::int64_t>>(
        *rc::gen::inRange(0, 6), rc::gen::element<std::int64_t>(2, 2, 3, 5));
    const auto deal = [](std::vector<std::int64_t> numbers, bool shuffled) {
        if (shuffled && numbers.size() > 1) {
            std::swap(numbers[std::size_t(*rc::gen::inRange<int>(0, int(numbers.size())))],
                      numbers.front());
        }
        Shape shape;
        for (const std::int64_t number : numbers) {
            const int choice = *rc::gen::inRange(0, 5);
            if (choice == 0) shape.push_back(1);
            if (choice <= 2 && !shape.empty()) {
                shape.back() *= number;
            } else {
                shape.push_back(number);
            }
        }
        return shape;
    };
    const bool shuffled = *rc::gen::arbitrary<bool>();
    return {deal(primes, false), deal(primes, shuffled)};
}

std::string example_of(const Shape& from, const Shape& to) {
    const auto text = [](const Shape& shape) {
        return shape.empty() ? std::string("()") : fmt::format("{}", fmt::join(shape, ","));
    };
    return fmt::format("Reshape | {} -> {}", text(from), text(to));
}

RC_GTEST_PROP(ReshapeRule, PartsNameTheSameElementsOnBothSides, ()) {
    const auto [from, to] = any_reshape();
    const OpGraph graph = graph_of(example_of(from, to));
    const OpRule rule = rule_of(graph, last_op(graph));
    RC_ASSERT(complaint_about(graph, last_op(graph), rule) == "");
    for (int f = 0; f < static_cast<int>(rule.factors.size()); ++f) {
        const Factor& factor = rule.factors[std::size_t(f)];
        if (!factor.splittable) continue;
        for (std::int64_t digit = 0; digit < factor.extent; ++digit) {
            RC_ASSERT(elements_with(rule, rule.operands[0], from, f, digit) ==
                      elements_with(rule, rule.results[0], to, f, digit));
        }
    }
}

// When one shape only merges neighbours of the other, everything stays splittable.
RC_GTEST_PROP(ReshapeRule, MergingLosesNothing, ()) {
    const auto from =
        *rc::gen::container<Shape>(*rc::gen::inRange(1, 5), rc::gen::inRange<std::int64_t>(2, 7));
    Shape to;
    for (const std::int64_t extent : from) {
        if (!to.empty() && *rc::gen::arbitrary<bool>()) {
            to.back() *= extent;
        } else {
            to.push_back(extent);
        }
    }
    const OpRule merged = rule_of_example(example_of(from, to));
    const OpRule divided = rule_of_example(example_of(to, from));
    for (const OpRule* rule : {&merged, &divided}) {
        RC_ASSERT(rule->factors.size() == from.size());
        for (std::size_t i = 0; i < from.size(); ++i) {
            RC_ASSERT(rule->factors[i].extent == from[i]);
            RC_ASSERT(rule->factors[i].splittable && !rule->factors[i].reduction);
        }
    }
}

TEST(ReshapeRule, NothingToSplitInAnEmptyTensor) {
    const OpRule rule = rule_of_example("Reshape | 0,4 -> 2,0,2");
    EXPECT_TRUE(rule.factors.empty());
}

TEST(ReshapeRule, OtherNumberOfElementsIsAnError) {
    try {
        static_cast<void>(rule_of_example("Reshape | 2,3 -> 7"));
        FAIL();
    } catch (const InputError& error) {
        EXPECT_STREQ(error.what(),
                     "node 'op' (Reshape), expected as many elements in the result as in the "
                     "operand, 6, got 7. Correct the model or export it again.");
    }
}

}  // namespace
}  // namespace partita::graph
