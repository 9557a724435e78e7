// SPDX-License-Identifier: Apache-2.0
//
// Where a parameter is kept and who updates it, relative to how its reader needs it. These are the
// well-known ways, of which most searchers only ever use the first:
//
//     as read              as the reader's parts need it: replicas are updated alike everywhere
//     updates in shards    the same, but replicas share the update (ZeRO-1, ZeRO-2)
//     in shards            replicas keep a shard each and fetch the rest for every use (ZeRO-3)
//     on one device        a parameter server
//
// So a parameter's place follows when the config of its reader changes, and the way stays.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"

namespace partita::search {

enum class ParameterSharding : std::uint8_t {
    as_read,
    updates_in_shards,
    in_shards,
    on_one_device
};

inline constexpr std::array kParameterShardings = {
    ParameterSharding::as_read, ParameterSharding::updates_in_shards, ParameterSharding::in_shards,
    ParameterSharding::on_one_device};

/// Does the op hold a parameter with a gradient?
bool is_trained(const plan::Problem& problem, graph::OpId op);

/// Axes as read with shards of a dim in place of the replicas, dim by dim, legal or not; none
/// where nothing is repeated. Dims that are split already come last: shards of what a replica has
/// would lie on devices that have other parts of it.
std::vector<std::vector<plan::Axis>> axes_in_shards(const plan::Problem& problem,
                                                    graph::OpId source,
                                                    const std::vector<plan::Axis>& read);

/// The first reader, which the parameter (or any other source) follows; invalid when nobody reads
/// it.
graph::OpId leading_reader(const plan::Problem& problem, graph::OpId source);

/// What the source's config would be if it lay as its leading reader with `config` needs it.
plan::OpConfig as_read(const plan::Problem& problem, graph::OpId source,
                       const plan::OpConfig& config, int micro_batches);

/// A source in one of these ways, its reader needing it as `read`. nullopt: it cannot be kept so,
/// or that would be the same as as_read. Ways beyond as_read are for parameters with gradients.
std::optional<plan::OpDecision> sharded(const plan::Problem& problem, graph::OpId source,
                                        const plan::OpConfig& read, ParameterSharding sharding,
                                        int micro_batches);

/// The way in which the strategy keeps a source now; nullopt: another one.
std::optional<ParameterSharding> sharding_of(const plan::Problem& problem, graph::OpId source,
                                             const plan::Strategy& strategy);

}  // namespace partita::search
