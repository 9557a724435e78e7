// SPDX-License-Identifier: Apache-2.0
//
// Which collectives move as one: several tensors between the same devices at the same moment.
//
//     26 tables on 8 devices, each scattered over the batch      one all-to-all
//     the gradients of a layer's weight and bias                 one all-reduce
//
// At the same moment means: they all wait for parts of the same ops, or parts of the same ops wait for
// them all.
// They are joined when that is cheaper. Those that only end together may begin at different times;
// what overlap is lost is not seen here, so they must save a quarter.
//
//     scatters, gathers, all-to-alls among one set of devices      -> all-to-all
//     any others of one kind in one order of ranks                 -> that kind
//
// No cycle can arise: parts of an op never wait for each other, so they count as one, and then whatever
// one of the joined reaches (or is reached from), all of them do.
// Source: Naumov et al., DLRM, 2019, section 4; Li et al., PyTorch Distributed, VLDB 2020, section 3
// (buckets).
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "plan/problem.h"
#include "plan/task_graph.h"

namespace partita::plan {

/// One collective in place of several.
struct Join {
    std::vector<TaskId> members;  ///< rising; two or more
    cost::Collective kind = cost::Collective::all_to_all;
    std::vector<int> devices;  ///< in order of rank
    Bytes bytes;
    cost::CollectivePrice price;
};

/// No task is a member of two joins. Deterministic.
std::vector<Join> find_joins(const Problem& problem, std::span<const Task> tasks,
                             const Csr<std::int32_t>& ranks,
                             std::span<const std::pair<TaskId, TaskId>> edges);

}  // namespace partita::plan
