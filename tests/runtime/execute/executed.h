// SPDX-License-Identifier: Apache-2.0
//
// Strategies executed on CPU devices and pretend GPUs, and what comes out of them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cost/collectives/collective.h"
#include "graph/host_tensor.h"
#include "importers/onnx/onnx_importer.h"
#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"
#include "runtime/execute/sources.h"

namespace partita::runtime {

/// Of float32 sums in another order.
inline constexpr double kTolerance = 2e-4;

struct Executed {
    std::vector<graph::HostTensor> outputs;
    std::vector<graph::HostTensor> parameters;  ///< trained ones, after the last iteration
    std::vector<graph::HostTensor> gradients;   ///< of the last iteration
    std::vector<double> losses;                 ///< per iteration
};

/// Lowers, orders and runs on `workers` threads, devices dealt out in turn.
Executed executed(const plan::Problem& problem, const plan::Strategy& strategy,
                  const Sources& sources, int workers, int iterations);

/// The same on so many pretend GPUs (pretend_gpu.h), neighbours on one; where each device has its
/// own, with something in NCCL's place.
Executed executed_on_pretend_gpus(const plan::Problem& problem, const plan::Strategy& strategy,
                                  const Sources& sources, int gpus, int iterations);

/// What makes the host wait for its pretend GPUs (take_waits()) in an iteration that is not the
/// first, but for the losses, which are read when all is done.
std::vector<std::string> waits_on_pretend_gpus(const plan::Problem& problem,
                                               const plan::Strategy& strategy,
                                               const Sources& sources, int gpus);

/// Every second device of the plan is a CPU, the others have a pretend GPU each.
Executed executed_on_cpus_and_pretend_gpus(const plan::Problem& problem,
                                           const plan::Strategy& strategy, const Sources& sources,
                                           int iterations);
/// The same on so many real ones.
Executed executed_on_cuda(const plan::Problem& problem, const plan::Strategy& strategy,
                          const Sources& sources, int gpus, int iterations);

/// So many groups have had something in NCCL's place since the last call.
int nccl_groups_made();

struct OverProcesses {
    int count = 2;
    bool on_pretend_gpus = false;  ///< one for each device, with something in NCCL's place
    int workers = 1;  ///< of each, for its devices in turn; more than it has devices: one for each
    bool backwards = false;  ///< the last devices are those of process 0
    /// Of every all-reduce, instead of the one that the cost model chose.
    std::optional<cost::Algorithm> algorithm;
};

/// The same by several processes, each a thread of its own with mailboxes between them.
Executed executed_by(const OverProcesses& processes, const plan::Problem& problem,
                     const plan::Strategy& strategy, const Sources& sources, int iterations);

/// Largest |a - b| / (1 + |b|) over all elements of tensors of equal names; infinity where a tensor
/// is missing or of another shape. Floating-point and integer tensors.
double largest_difference(const std::vector<graph::HostTensor>& a,
                          const std::vector<graph::HostTensor>& b);

}  // namespace partita::runtime
