// SPDX-License-Identifier: Apache-2.0
//
// The degrees among which configs of one number of parts are chosen: one factor (in blocks too:
// factor_blocks.h), or two in either order, "*" (replicas) among them; reductions too. Drawn evenly
// by the number of axes first, because there are many more pairs than single factors, and few of
// them good.
#pragma once

#include <cstddef>
#include <vector>

#include "plan/problem/problem.h"
#include "search/configs/degree_lists.h"
#include "search/configs/factor_blocks.h"
#include "search/support/random.h"

namespace partita::search {

/// May the op be split like this on some devices that it may use?
bool is_legal_split(const plan::Problem& problem, graph::OpId op,
                    const DegreeLists::Degrees& degrees, int size, int micro_batches);

class DegreeChoices {
public:
    /// `blocks`: of the op's factors. Legal for the problem's own number of micro-batches.
    DegreeChoices(const plan::Problem& problem, graph::OpId op, int size,
                  const std::vector<FactorBlocks>& blocks, DegreeLists& lists);

    /// Those of one axis first. For one part: that of a whole op.
    [[nodiscard]] const std::vector<DegreeLists::Degrees>& degrees() const { return degrees_; }
    /// There must be one.
    [[nodiscard]] DegreesId draw(Random& random) const;
    /// The logarithm of the probability with which draw() gives these. Those that are not there (a
    /// start has them) count as others with as many axes.
    [[nodiscard]] double log_probability(const DegreeLists::Degrees& degrees) const;

private:
    std::vector<DegreeLists::Degrees> degrees_;
    std::vector<DegreesId> ids_;
    std::size_t singles_ = 0;  ///< those of one axis
    std::size_t pairs_ = 0;    ///< those of two
};

}  // namespace partita::search
