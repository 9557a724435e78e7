// SPDX-License-Identifier: Apache-2.0
//
// Ops of one class may have the same degrees on the same devices: of all that
// plan/legality/config_legality.h looks at in an op, they differ in nothing. Their factors have the
// same names, so their degrees have the same numbers (degree_lists.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/problem/problem.h"
#include "search/configs/factor_blocks.h"

namespace partita::search {

class ConfigClasses {
public:
    /// `blocks`: of factors, per op.
    ConfigClasses(const plan::Problem& problem,
                  const std::vector<std::vector<FactorBlocks>>& blocks);

    [[nodiscard]] std::size_t size() const { return examples_.size(); }
    [[nodiscard]] std::size_t of(graph::OpId op) const { return of_[op.index()]; }
    /// The first op of the class.
    [[nodiscard]] graph::OpId example(std::size_t index) const { return examples_[index]; }

private:
    std::vector<std::uint32_t> of_;  ///< per op
    std::vector<graph::OpId> examples_;
};

}  // namespace partita::search
