// SPDX-License-Identifier: Apache-2.0
//
// Terms of variable elimination (variable_elimination.h): tables of costs over the choices of a few
// variables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace partita::search {

struct CostTerm {
    std::vector<int> scope;           ///< variables, rising
    std::vector<std::int64_t> costs;  ///< the last variable fastest
};

/// Choices of every variable.
using ChoiceCounts = std::vector<std::size_t>;

/// What is left of the term when v has made that choice.
CostTerm slice(const CostTerm& term, int v, std::size_t choice, const ChoiceCounts& counts);

/// Per choice of v the least that the term can then be.
std::vector<std::int64_t> least_by_choice(const CostTerm& term, int v, const ChoiceCounts& counts);

/// The sum of terms that v is in, for one combination of the other variables' choices after the
/// other, the last of them fastest.
class TermSum {
public:
    /// `scope`: all variables of the terms but v, rising.
    TermSum(int v, const std::vector<int>& scope, std::span<const CostTerm* const> terms,
            const ChoiceCounts& counts);

    /// Adds it, per choice of v.
    void add_to(std::vector<std::int64_t>& sums) const;
    /// To the next combination; false after the last.
    bool advance();

private:
    /// A term and the place in it.
    struct Cursor {
        std::vector<std::int64_t> costs;   ///< v's choices fastest
        std::vector<std::size_t> strides;  ///< per variable of the scope; 0: not in the term
        std::size_t at = 0;
    };

    std::vector<std::size_t> sizes_;  ///< choices of the scope's variables
    std::vector<std::size_t> digits_;
    std::vector<Cursor> cursors_;
};

}  // namespace partita::search
