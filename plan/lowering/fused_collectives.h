// SPDX-License-Identifier: Apache-2.0
//
// Which collectives move as one: several tensors between the same devices at the same moment.
//
//     26 tables on 8 devices, each scattered over the batch      one all-to-all
//     the gradients of a layer's weight and bias                 one all-reduce
//
// At the same moment means: the parts of one op wait for them all and nobody else does, or
// (gradients) they all wait for the parts of one op and for nothing else. So it is decided op by
// op. They are fused when that is cheaper. Those that only end together may begin at different
// times; what overlap is lost is not seen here, so they must save a quarter. By other prices that
// may be otherwise, so a plan says which are (planned_collectives.h).
//
//     scatters, gathers, all-to-alls among one set of devices      -> all-to-all
//     any others of one kind in one order of ranks                 -> that kind
//
// No cycle can arise: parts of an op never wait for each other, so whatever one of the fused
// reaches (or is reached from), all of them do. What is in one bucket goes together whenever all of it
// is ready, where equally many collectives of their tensors are before them (tensor_tasks.h): nothing
// comes after gradients but updates, and after new values nothing. What a bucket fetches waits for
// what fetch_limits.h says alone.
// Source: Naumov et al., DLRM, 2019, section 4; Li et al., PyTorch Distributed, VLDB 2020, section
// 3 (buckets).
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "plan/problem/problem.h"
#include "plan/tasks/task_graph.h"

namespace partita::plan {

class PlannedCollectives;

/// A collective that may be fused.
struct FusibleCollective {
    const Task* task = nullptr;
    std::span<const std::int32_t> devices;  ///< in order of rank
};

/// What collectives must have in common to be fused.
struct FusionSignature {
    bool exchange = false;
    cost::Collective kind = cost::Collective::all_to_all;  ///< of those that are no exchanges
    std::vector<std::int32_t> devices;  ///< of exchanges rising, else in order of rank
    std::int32_t micro_batch = -1;
    bool gradient = false;
    bool updated = false;
    graph::Combine combine = graph::Combine::none;
    graph::DType dtype = graph::DType::undefined;  ///< of those that combine
    friend auto operator<=>(const FusionSignature&, const FusionSignature&) = default;
};
FusionSignature signature_of(const Problem& problem, const FusibleCollective& collective);

/// One collective in place of several.
struct FusedCollective {
    std::vector<std::size_t> members;  ///< numbers of the fusible, rising; two or more
    cost::Collective kind = cost::Collective::all_to_all;
    std::vector<int> devices;  ///< in order of rank
    Bytes bytes;
    cost::CollectivePrice price;
};

/// Where collectives meet that may be fused.
enum class FusionPlace : std::uint8_t {
    block,   ///< before one block of parts, or (gradients) after it: fused where that is cheaper
    bucket,  ///< of one bucket (gradient_buckets.h): always fused, each tensor once
};

/// Of collectives at one place. Nothing is a member of two fusions. Deterministic. With `planned`
/// those of a plan instead.
std::vector<FusedCollective> find_fused(const Problem& problem,
                                        std::span<const FusibleCollective> around,
                                        FusionPlace place,
                                        const PlannedCollectives* planned = nullptr);

/// What a fusion's first member becomes; its ordinal stays.
void become(Task& first, const FusedCollective& fused);

}  // namespace partita::plan
