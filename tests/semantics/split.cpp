// SPDX-License-Identifier: Apache-2.0
#include "tests/semantics/split.h"

#include <utility>

#include <fmt/format.h>

namespace partita::tests {

namespace {

constexpr std::pair<int, int> kPairs[] = {{2, 2}, {3, 2}, {2, 3}, {4, 2}, {2, 4},
                                          {3, 3}, {4, 3}, {3, 4}, {4, 4}};

/// Whether the factor, split already in `parts`, may be split so: 7 in 2 is 4|3, and then 3 is
/// legal for the second part only.
bool is_legal(const graph::OpRule& rule, const FactorSplit& split, std::int64_t parts = 1) {
    const graph::Factor& factor = rule.factors[static_cast<std::size_t>(split.factor)];
    if (!factor.splittable || !graph::is_legal_degree(factor.extent, parts)) return false;
    for (std::int64_t i = 0; i < parts; ++i) {
        const auto part = graph::part_of(graph::all_positions(factor.extent), parts, i);
        if (!graph::is_legal_degree(graph::count(part), split.degree)) return false;
    }
    return true;
}

}  // namespace

std::vector<Split> splits_of(const graph::OpRule& rule, std::size_t most_parts) {
    const int count = static_cast<int>(rule.factors.size());
    std::vector<Split> splits;
    std::size_t parts = 0;
    for (int f = 0; f < count; ++f) {
        for (const int degree : {2, 3, 4}) {
            if (!is_legal(rule, {f, degree})) continue;
            splits.push_back({{f, degree}});
            parts += static_cast<std::size_t>(degree);
        }
    }
    for (const auto& [first, second] : kPairs) {
        for (int f = 0; f < count; ++f) {
            for (int g = f; g < count; ++g) {
                if (!is_legal(rule, {f, first})) continue;
                if (!is_legal(rule, {g, second}, g == f ? first : 1)) continue;
                parts += static_cast<std::size_t>(first * second);
                if (parts > most_parts) return splits;
                splits.push_back({{f, first}, {g, second}});
            }
        }
    }
    return splits;
}

std::vector<graph::Box> boxes_of(const graph::OpRule& rule, const Split& split) {
    std::vector<graph::Box> boxes{graph::whole_box(rule)};
    for (const auto [factor, degree] : split) {
        const auto f = static_cast<std::size_t>(factor);
        std::vector<graph::Box> finer;
        for (const graph::Box& box : boxes) {
            for (std::int64_t index = 0; index < degree; ++index) {
                finer.push_back(box);
                finer.back()[f] = graph::part_of(box[f], degree, index);
            }
        }
        boxes = std::move(finer);
    }
    return boxes;
}

std::string text_of(const graph::OpRule& rule, const Split& split) {
    std::string text;
    for (const auto [factor, degree] : split) {
        text += fmt::format("{}{}/{}", text.empty() ? "" : " ",
                            rule.factors[static_cast<std::size_t>(factor)].name, degree);
    }
    return text;
}

}  // namespace partita::tests
