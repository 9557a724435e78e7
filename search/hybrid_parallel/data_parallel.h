// SPDX-License-Identifier: Apache-2.0
//
// Data parallelism: every op is split along the batch over a set of devices; what has no batch is
// repeated on all of them. Nothing more is said: gradients then come out partial, and lowering adds
// them (all-reduce), or sends them to the device that keeps the parameter (--gradient-sync
// parameter-server: parameters go to the devices in turn, the largest first).
//
//     x [b|b|b|b] ─▶ MatMul b|b|b|b ─▶ ...        w *|*|*|*   all-reduce of its gradient
//
// Device sets that are tried: all devices, all of the fastest model, those of one node, and halves
// of these down to two, if the batch can be cut into as many parts and there are no more than a
// million parts of ops in all. Where the plain form does not fit, updates are sharded over the
// devices (ZeRO-2), then parameters too, fetched for the forward and again for the backward
// (ZeRO-3); each form with more micro-batches too, until it fits, where the search may choose them.
//
// Optimal: no. Infeasible where even that does not fit.
// Source: REFERENCES.md 1, 3 and 4; Li et al., PyTorch Distributed, VLDB 2020; Rajbhandari et al.,
// ZeRO, SC 2020.
#pragma once

#include <vector>

#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"
#include "search/core/searcher.h"
#include "search/hybrid_parallel/zero.h"

namespace partita::search {

/// The strategy over these devices (at least one). Ops that the batch cannot be cut for, and those
/// that may not use all of the devices, lie as far as they may on the first.
plan::Strategy data_parallel_strategy(const plan::Problem& problem, const plan::DeviceSet& devices,
                                      ZeroLevel zero = ZeroLevel::none);
plan::Strategy data_parallel_strategy(const plan::Problem& problem, const plan::DeviceSet& devices,
                                      ZeroLevel zero, const plan::Policy& policy);

/// Device sets worth trying, most devices first, each once.
std::vector<plan::DeviceSet> data_parallel_devices(const plan::Problem& problem);

class DataParallel final : public Searcher {
public:
    [[nodiscard]] Status step(Engine& engine) override;

private:
    std::vector<plan::DeviceSet> devices_;
    std::size_t next_ = 0;
    bool started_ = false;
};

}  // namespace partita::search
