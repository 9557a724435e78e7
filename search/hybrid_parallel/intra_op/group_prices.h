// SPDX-License-Identifier: Apache-2.0
//
// What it costs a group of devices to bring a tensor from one form to another (group_forms.h), all
// micro-batches of an iteration together. Private to group_split.h.
#pragma once

#include <array>
#include <map>
#include <tuple>
#include <vector>

#include "plan/problem/problem.h"
#include "search/hybrid_parallel/intra_op/group_forms.h"
#include "search/hybrid_parallel/intra_op/group_split.h"

namespace partita::search {

class GroupPrices {
public:
    GroupPrices(const plan::Problem& problem, const GroupSplitOptions& options);

    [[nodiscard]] Time move(graph::TensorId t, FormNumber from, FormNumber to) const;
    /// Of a parameter: its gradients summed over the groups, and its update.
    [[nodiscard]] Time update(graph::TensorId t, FormNumber home) const;

private:
    struct Exchanges {
        Time all_reduce;
        Time reduce_scatter;
        Time all_gather;
        Time all_to_all;
        std::array<Time, 2> update{};  ///< of a parameter that is whole, and in shards
    };

    void price(graph::TensorId t);
    Time collective(cost::Collective kind, const std::vector<int>& devices, Bytes bytes);

    const plan::Problem& problem_;
    std::vector<int> group_;
    std::vector<int> replicas_;
    int micro_batches_;
    std::vector<Exchanges> exchanges_;  ///< per tensor
    std::map<std::tuple<cost::Collective, std::size_t, Bytes>, Time> known_;
};

}  // namespace partita::search
