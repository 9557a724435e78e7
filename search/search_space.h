// SPDX-License-Identifier: Apache-2.0
//
// What moves look at: the problem, its groups and repeated blocks, and the configs to choose from.
// Made once per search.
//
// Threads: the config table fills itself, so one thread at a time.
#pragma once

#include <vector>

#include "plan/problem.h"
#include "search/config_table.h"
#include "search/group_graph.h"
#include "search/random.h"
#include "search/repeats.h"

namespace partita::search {

class SearchSpace {
public:
    /// `groups` must outlive it.
    explicit SearchSpace(const GroupGraph& groups, ConfigTableOptions options = {});

    [[nodiscard]] const plan::Problem& problem() const { return groups_.problem(); }
    [[nodiscard]] const GroupGraph& groups() const { return groups_; }
    [[nodiscard]] const Repeats& repeats() const { return repeats_; }
    [[nodiscard]] ConfigTable& table() { return table_; }

    /// Ops that run something forward, rising.
    [[nodiscard]] const std::vector<graph::OpId>& computing() const { return computing_; }
    /// Parameters that are trained and read, rising.
    [[nodiscard]] const std::vector<graph::OpId>& parameters() const { return parameters_; }
    /// The computing op of its group that takes longest; ties: the first.
    [[nodiscard]] graph::OpId leader(graph::OpId op) const;
    [[nodiscard]] bool same_group(graph::OpId a, graph::OpId b) const;

    /// A computing op, each as likely; there is one at least.
    [[nodiscard]] graph::OpId draw_op(Random& random) const {
        return computing_[random.below(computing_.size())];
    }

private:
    const GroupGraph& groups_;
    Repeats repeats_;
    ConfigTable table_;
    std::vector<graph::OpId> computing_;
    std::vector<graph::OpId> parameters_;
    std::vector<graph::OpId> leaders_;  ///< per group; invalid: nothing in it computes
};

}  // namespace partita::search
