// SPDX-License-Identifier: Apache-2.0
//
// Strategies executed on devices of this host, and what comes out of them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "cost/collective.h"
#include "graph/host_tensor.h"
#include "importers/onnx/onnx_importer.h"
#include "plan/problem.h"
#include "plan/strategy.h"
#include "runtime/execute/sources.h"

namespace partita::runtime {

struct Executed {
    std::vector<graph::HostTensor> outputs;
    std::vector<graph::HostTensor> parameters;  ///< trained ones, after the last iteration
    std::vector<graph::HostTensor> gradients;   ///< of the last iteration
    std::vector<double> losses;                 ///< per iteration
};

/// Real devices, dealt out in turn to those of a plan.
using RealOnes = std::vector<at::Device>;
inline const RealOnes kCpu{at::Device(at::kCPU)};

/// Lowers, orders and runs on `workers` threads, devices dealt out in turn.
Executed executed(const plan::Problem& problem, const plan::Strategy& strategy,
                  const Sources& sources, int workers, int iterations,
                  const RealOnes& devices = kCpu);

struct OverProcesses {
    int count = 2;
    int workers = 1;  ///< of each, for its devices in turn; more than it has devices: one for each
    bool backwards = false;  ///< the last devices are those of process 0
    /// Of every all-reduce, instead of the one that the cost model chose.
    std::optional<cost::Algorithm> algorithm;
    RealOnes devices = kCpu;
};

/// The same by several processes, each a thread of its own with mailboxes between them.
Executed executed_by(const OverProcesses& processes, const plan::Problem& problem,
                     const plan::Strategy& strategy, const Sources& sources, int iterations);

/// Largest |a - b| / (1 + |b|) over all elements of tensors of equal names; infinity where a tensor is
/// missing or of another shape. Floating-point and integer tensors.
double largest_difference(const std::vector<graph::HostTensor>& a,
                          const std::vector<graph::HostTensor>& b);

}  // namespace partita::runtime
