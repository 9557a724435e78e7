// SPDX-License-Identifier: Apache-2.0
//
// Pieces of strategies that split ops: what data-parallel and expert have in common.
#pragma once

#include <vector>

#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"

namespace partita::search {

/// The devices that an op that runs may use (Constraints::allowed), rising; all if nothing runs.
std::vector<int> usable_devices(const plan::Problem& problem);

/// Of these, the class with the fastest matrix products, rising; ties by the first device.
std::vector<int> equal_devices(const plan::Problem& problem);

/// Of these, how many the node of the first has.
int node_size(const plan::Problem& problem);
/// `count` of the devices from the `first` on, `stride` apart in that list.
plan::DeviceSet some_of(const std::vector<int>& devices, int first, int count, int stride = 1);

/// The op whole on the first device of the set that it may use, or else on the first it may use.
plan::OpConfig on_one_device(const plan::Problem& problem, graph::OpId op,
                             const plan::DeviceSet& devices);

/// The factors of the op that carry the batch, each in that many parts; most ops have one or none.
std::vector<plan::Axis> batch_axes(const plan::Problem& problem, graph::OpId op, int degree);
/// The same, and of what no input reaches and is read per sample, such as a mask; of that only with one
/// micro-batch: with several it is computed once for all of them, and what a device reads lies apart.
std::vector<plan::Axis> sample_axes(const plan::Problem& problem, graph::OpId op, int degree,
                                    int micro_batches);

/// What must share its devices (Constraints::together) gets those of its first op; if they differ,
/// all of it goes onto one device, `preferred` if that is allowed.
void join_groups(const plan::Problem& problem, int preferred, plan::Strategy& strategy);

/// With ops in that many parts each, would there be more of them (micro-batches too) than are worth
/// lowering? A task takes about half a kilobyte.
bool is_too_fine(const plan::Problem& problem, int parts, int micro_batches);

/// The backward of one micro-batch goes before the forward of the next, so that less is held; it is
/// nearly always quicker, too.
inline constexpr plan::Schedule kPipelineOrder{.kind = plan::ScheduleKind::one_f_one_b};
/// The problem's, with so many micro-batches, in that order if the search may choose one.
plan::Policy policy_with(const plan::Problem& problem, int micro_batches);

/// Several micro-batches: gradients of parameters add up where they arise.
void accumulate_locally(const plan::Problem& problem, plan::Strategy& strategy);

}  // namespace partita::search
