// SPDX-License-Identifier: Apache-2.0
//
// What `elimination` chooses for: a variable per op, or per ops that must share a device. No
// variable have sources that follow others: those with one reader, as it needs them, and those that
// nobody reads or that are loaded wherever they are used.
#pragma once

#include <vector>

#include "graph/ids.h"
#include "plan/problem/problem.h"
#include "search/coarsening/op_groups.h"

namespace partita::search {

class EliminationVariables {
public:
    explicit EliminationVariables(const plan::Problem& problem);

    /// The group of ops that must share a device; -1: none.
    [[nodiscard]] int group(graph::OpId op) const { return group_of_[op.index()]; }
    /// Devices that all ops of a group may use, rising; never empty.
    [[nodiscard]] const std::vector<int>& devices(int group) const {
        return groups_.devices(static_cast<std::size_t>(group));
    }
    /// Of an op; -1: it has none.
    [[nodiscard]] int of(graph::OpId op) const { return variable_of_[op.index()]; }
    [[nodiscard]] const std::vector<std::vector<graph::OpId>>& members() const { return members_; }
    /// Is it made by a source whose only reader decides where it lies?
    [[nodiscard]] bool is_folded(graph::TensorId t) const;

private:
    const plan::Problem& problem_;
    OpGroups groups_;
    std::vector<int> group_of_;                      ///< per op
    std::vector<int> variable_of_;                   ///< per op
    std::vector<std::vector<graph::OpId>> members_;  ///< per variable
};

}  // namespace partita::search
