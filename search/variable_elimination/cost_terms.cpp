// SPDX-License-Identifier: Apache-2.0
#include "search/variable_elimination/cost_terms.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace partita::search {

namespace {

using Costs = std::vector<std::int64_t>;

std::size_t index_of(int v) {
    return static_cast<std::size_t>(v);
}

/// From one choice of v to the next: the combinations of the variables behind it.
std::size_t stride_of(const CostTerm& term, int v, const ChoiceCounts& counts) {
    std::size_t stride = 1;
    for (std::size_t i = term.scope.size(); term.scope[--i] != v;)
        stride *= counts[index_of(term.scope[i])];
    return stride;
}

/// [outer][own][inner] as [outer][inner][own].
Costs turned(const Costs& costs, std::size_t own, std::size_t inner) {
    if (inner == 1) return costs;
    Costs turned(costs.size());
    for (std::size_t block = 0; block < costs.size(); block += own * inner) {
        for (std::size_t k = 0; k < own; ++k) {
            for (std::size_t i = 0; i < inner; ++i) {
                turned[block + i * own + k] = costs[block + k * inner + i];
            }
        }
    }
    return turned;
}

}  // namespace

CostTerm slice(const CostTerm& term, int v, std::size_t choice, const ChoiceCounts& counts) {
    CostTerm of;
    const std::size_t stride = stride_of(term, v, counts);
    for (const int other : term.scope) {
        if (other != v) of.scope.push_back(other);
    }
    for (std::size_t i = 0; i < term.costs.size(); ++i) {
        if (i / stride % counts[index_of(v)] == choice) of.costs.push_back(term.costs[i]);
    }
    return of;
}

std::vector<std::int64_t> least_by_choice(const CostTerm& term, int v, const ChoiceCounts& counts) {
    const std::size_t stride = stride_of(term, v, counts);
    Costs least(counts[index_of(v)], std::numeric_limits<std::int64_t>::max());
    for (std::size_t i = 0; i < term.costs.size(); ++i) {
        std::int64_t& of = least[i / stride % least.size()];
        of = std::min(of, term.costs[i]);
    }
    return least;
}

TermSum::TermSum(int v, const std::vector<int>& scope, std::span<const CostTerm* const> terms,
                 const ChoiceCounts& counts)
    : digits_(scope.size(), 0) {
    for (const int other : scope) sizes_.push_back(counts[index_of(other)]);
    for (const CostTerm* const term : terms) {
        Cursor& cursor = cursors_.emplace_back();
        cursor.costs = turned(term->costs, counts[index_of(v)], stride_of(*term, v, counts));
        cursor.strides.assign(scope.size(), 0);
        std::size_t stride = counts[index_of(v)];
        for (std::size_t i = term->scope.size(); i-- > 0;) {
            const int other = term->scope[i];
            if (other == v) continue;
            const auto place = std::ranges::lower_bound(scope, other) - scope.begin();
            cursor.strides[static_cast<std::size_t>(place)] = stride;
            stride *= counts[index_of(other)];
        }
    }
}

void TermSum::add_to(std::vector<std::int64_t>& sums) const {
    for (const Cursor& cursor : cursors_) {
        const std::int64_t* costs = cursor.costs.data() + cursor.at;
        for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += costs[k];
    }
}

bool TermSum::advance() {
    for (std::size_t i = sizes_.size(); i-- > 0;) {
        ++digits_[i];
        for (Cursor& cursor : cursors_) cursor.at += cursor.strides[i];
        if (digits_[i] < sizes_[i]) return true;
        for (Cursor& cursor : cursors_) cursor.at -= digits_[i] * cursor.strides[i];
        digits_[i] = 0;
    }
    return false;
}

}  // namespace partita::search
