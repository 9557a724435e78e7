// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

namespace partita {

/// The smallest of the values that a share of them does not exceed, at least: always one of the
/// values, and of an even number the lower of the two in the middle for a half. `values`: one or
/// more. `share`: in [0, 1].
/// Source: Hyndman, Fan, The American Statistician 50(4), 1996, definition 1.
template <class T, class Projection = std::identity>
T quantile(std::vector<T> values, double share, Projection projection = {}) {
    constexpr double kRounding = 1e-9;  // 0.07 * 100 is a little more than 7
    const double rank = std::ceil(share * static_cast<double>(values.size()) - kRounding);
    const auto index = static_cast<std::ptrdiff_t>(std::max(rank, 1.0)) - 1;
    const auto at = values.begin() + std::min(index, std::ssize(values) - 1);
    std::ranges::nth_element(values, at, {}, projection);
    return *at;
}

template <class T>
T median(std::vector<T> values) {
    return quantile(std::move(values), 0.5);
}

}  // namespace partita
