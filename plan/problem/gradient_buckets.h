// SPDX-License-Identifier: Apache-2.0
//
// Buckets: parameters whose gradients are reduced together, once the last of them is there, and that
// are fetched together.
//
//     backward      layer 3    layer 2    layer 1    embedding
//     gradients     w3 b3      w2 b2      w1 b1      e
//     buckets       [1 MiB]    [ 25 MiB          ]   [ 25 MiB ]
//
// Parameters go to buckets in the reverse order of their first use, which is that in which the
// backward finishes their gradients. A bucket that has reached its size is closed; the first one is
// closed at 1 MiB, so that communication begins early. Or a bucket is a layer: what a block that
// repeats reads first, what lies before, between or behind these, or, in a model that names no
// layers, what one op does.
//
// What of a bucket lies on the same devices and moves in the same way is one collective
// (fused_collectives.h); so is what gathers their new values where replicas update shards, and what
// fetches the parameters for a forward or a backward where each device keeps a shard.
//
// Source: Li et al., PyTorch Distributed, VLDB 2020, section 3.2; torch.nn.parallel's
// DistributedDataParallel (bucket_cap_mb = 25, a first bucket of 1 MiB); Zhao et al., PyTorch FSDP,
// VLDB 2023 (units).
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"
#include "graph/op_graph.h"

namespace partita::plan {

class GradientBuckets {
public:
    /// None.
    GradientBuckets() = default;
    /// `has_gradient`: per tensor. `is_batched`: per op, does it differ between micro-batches?
    /// `size`: of a bucket, kOneBucket or kLayerBuckets.
    GradientBuckets(const graph::OpGraph& graph, const std::vector<char>& has_gradient,
                    const std::vector<char>& is_batched, Bytes size);

    [[nodiscard]] std::size_t count() const { return members_.size(); }
    /// The bucket of a parameter; -1: none.
    [[nodiscard]] std::int32_t of(graph::OpId parameter) const {
        return of_.empty() ? -1 : of_[parameter.index()];
    }
    /// The bucket with which a parameter is fetched; -1: none, as several ops read it, maybe far from
    /// each other, or one that runs once for all micro-batches.
    [[nodiscard]] std::int32_t of_fetches(graph::OpId parameter) const {
        return of_fetches_.empty() ? -1 : of_fetches_[parameter.index()];
    }
    /// Parameters of a bucket.
    [[nodiscard]] const std::vector<graph::OpId>& members(std::size_t bucket) const {
        return members_[bucket];
    }

private:
    std::vector<std::vector<graph::OpId>> members_;
    std::vector<std::int32_t> of_;          ///< per op; empty: there are no buckets
    std::vector<std::int32_t> of_fetches_;  ///< the same
};

}  // namespace partita::plan
