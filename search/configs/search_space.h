// SPDX-License-Identifier: Apache-2.0
//
// What moves look at: the problem, its groups and repeated blocks, and the configs to choose from.
// Made once per search.
//
// Threads: the tables fill themselves, so one thread at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/problem/problem.h"
#include "search/coarsening/group_graph.h"
#include "search/coarsening/repeated_blocks.h"
#include "search/configs/config_table.h"
#include "search/configs/parameter_sharding_table.h"
#include "search/configs/propagation_table.h"
#include "search/support/random.h"

namespace partita::search {

class SearchSpace {
public:
    /// `groups` must outlive it.
    explicit SearchSpace(const GroupGraph& groups);
    SearchSpace(const SearchSpace&) = delete;
    SearchSpace& operator=(const SearchSpace&) = delete;

    [[nodiscard]] const plan::Problem& problem() const { return groups_.problem(); }
    [[nodiscard]] const GroupGraph& groups() const { return groups_; }
    [[nodiscard]] const RepeatedBlocks& repeats() const { return repeats_; }
    [[nodiscard]] ConfigTable& table() { return table_; }
    [[nodiscard]] PropagationTable& propagation() { return propagation_; }
    [[nodiscard]] ParameterShardingTable& parameter_shardings() { return parameter_shardings_; }

    /// Ops that run something forward, rising.
    [[nodiscard]] const std::vector<graph::OpId>& computing() const { return computing_; }
    /// Parameters that are trained and read, rising.
    [[nodiscard]] const std::vector<graph::OpId>& parameters() const { return parameters_; }
    [[nodiscard]] bool is_parameter(graph::OpId op) const { return is_parameter_[op.index()] != 0; }
    /// Of Constraints::together, those that the op is in, rising.
    [[nodiscard]] std::span<const std::uint32_t> partners(graph::OpId op) const {
        return partners_.rows() == 0 ? std::span<const std::uint32_t>() : partners_[op.index()];
    }
    /// The computing op of its group that takes longest; ties: the first.
    [[nodiscard]] graph::OpId leader(graph::OpId op) const;
    [[nodiscard]] bool same_group(graph::OpId a, graph::OpId b) const;

    /// Would all parameters, with all that is kept for them, take half the memory of some device?
    /// Then it may pay to fetch them again for every use, which is never quicker.
    [[nodiscard]] bool is_memory_short() const { return is_memory_short_; }

    /// A computing op, each as likely; there is one at least.
    [[nodiscard]] graph::OpId draw_op(Random& random) const {
        return computing_[random.below(computing_.size())];
    }

private:
    void find_partners();
    void find_shortage();

    const GroupGraph& groups_;
    RepeatedBlocks repeats_;
    ConfigTable table_;
    PropagationTable propagation_;
    ParameterShardingTable parameter_shardings_;
    std::vector<graph::OpId> computing_;
    std::vector<graph::OpId> parameters_;
    std::vector<char> is_parameter_;    ///< per op
    Csr<std::uint32_t> partners_;       ///< per op; no rows: nothing must be together
    std::vector<graph::OpId> leaders_;  ///< per group; invalid: nothing in it computes
    bool is_memory_short_ = false;
};

}  // namespace partita::search
