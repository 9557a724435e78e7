// SPDX-License-Identifier: Apache-2.0
//
// How a group of equal devices shares each op: split along one factor, or repeated. The time that
// is made small is the sum of
//
//     the largest part's computation, of every op
//     what brings every tensor from the form in which it arises to the forms that its readers need
//     the same for gradients on their way back, their sum over groups, and updates
//
// so that known patterns come out without being named: two matrix products by columns and by rows
// with one all-reduce behind them (Megatron-LM), attention by heads, the batch for convolutions and
// output features for wide fully connected layers ("one weird trick"), shards of the rows between
// the products (sequence parallelism), all-to-all around attention where the sequence is shared
// (DeepSpeed Ulysses).
//
//     form        replicated, shards of one dim, or partial sums
//
// First op by op in order of the data; then in sweeps, one op at a time beside its neighbours; then
// from each matrix product on, its axis and that of all ops up to a few products further together;
// then all that lies between products along another dim.
// Optimal: no, a local optimum. Time: O(sweeps * ops * factors * neighbours).
// Source: Shoeybi et al., Megatron-LM, 2019, section 3; Krizhevsky, One weird trick for
// parallelizing convolutional neural networks, 2014; Korthikanti et al., Reducing Activation
// Recomputation, 2022; the cost of a configuration as in Jia et al., OptCNN, ICML 2018, section 5.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"

namespace partita::search {

/// How activations lie between products that are split by columns and by rows.
enum class BetweenProducts : std::uint8_t {
    free,      ///< whichever is quicker
    repeated,  ///< partial sums are added up everywhere; other ops take no slice of what is whole
    sharded,   ///< partial sums are scattered
};

/// Sharing that somebody asked for.
enum class MustShare : std::uint8_t {
    nothing,
    /// Tensor parallelism: every batched op that multiplies by a weight, or looks one up, is split
    /// so that each device has a part of the weight, and products of activations by heads.
    weights,
    /// Context parallelism: these ops are split so that each device has all of the weight and a part
    /// of the positions, and products of activations so that each has a part of what they give.
    activations,
    /// Expert parallelism: products with the weights of many experts are split so that each device
    /// has some of these, all other ones by the batch.
    experts,
};

/// What attention is split by under MustShare::activations.
enum class AttentionBy : std::uint8_t {
    free,     ///< whichever is quicker
    heads,    ///< so that each device has some of the keys' heads, too (DeepSpeed Ulysses)
    queries,  ///< each has all heads; it needs all keys, at once or block by block
};

struct GroupSplitOptions {
    plan::DeviceSet group;     ///< one of the groups; two devices or more
    plan::DeviceSet replicas;  ///< the first device of each group; the groups share the batch
    bool whole_batch = false;  ///< may the batch be split inside the group? Only when it is alone.
    int micro_batches = 1;
    MustShare must_share = MustShare::nothing;
    AttentionBy attention = AttentionBy::free;
    BetweenProducts between = BetweenProducts::free;
    /// May the op be split so? Unsaid: where it is legal over the group alone.
    std::function<bool(graph::OpId, const plan::Axis&)> allows = {};
};

struct GroupSplit {
    /// Per op its axis: a factor, or "*". Sources have that of their first reader's need.
    std::vector<plan::Axis> axes;
    /// Per op: are the shards of the tensors it works on of another dim than around products with
    /// weights? Such as heads, where the other ones have positions of the sequence.
    std::vector<char> turned;
    /// Per op the estimated time of an iteration.
    std::vector<Time> times;
    /// Why an op cannot be shared as asked, naming it and its dims; "" where all can.
    std::string fault;
};

GroupSplit split_over_group(const plan::Problem& problem, const GroupSplitOptions& options);

}  // namespace partita::search
