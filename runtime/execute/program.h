// SPDX-License-Identifier: Apache-2.0
//
// A task graph as something that runs: per worker the tasks of its devices in the plan's order, each with
// the work that it means.
//
//     commit order   F(a) copy F(b) all-reduce U      worker of device 0   F(a)       all-reduce U
//                                                     worker of device 1        copy F(b) all-reduce U
//
// A worker drives one plan device or several. Values come from Sources: what lies on a device from the
// start is loaded here, and stays; everything else is made by a task and given back after its last reader.
//
// A worker's list is a restriction of one order in which every task comes after what it waits for, so
// whatever tasks take, workers cannot wait for one another in a circle (RULES.md 20).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "plan/problem.h"
#include "plan/strategy.h"
#include "plan/task_graph.h"
#include "runtime/execute/loss_work.h"
#include "runtime/execute/sources.h"
#include "runtime/execute/store.h"
#include "runtime/execute/update_work.h"

namespace partita::runtime {

/// Plan devices on real ones.
struct Placement {
    std::vector<int> worker;         ///< per plan device; workers are numbered from 0 without gaps
    std::vector<at::Device> device;  ///< per plan device
    [[nodiscard]] int workers() const;
};

struct ProgramOptions {
    OptimizerOptions optimizer;
    bool keep_outputs = true;     ///< until the next iteration
    bool keep_gradients = false;  ///< of parameters, the same
    bool weigh_sums = false;      ///< of a loss (loss_work.h)
};

struct Step {
    plan::TaskId task = -1;
    int device = 0;  ///< plan device on whose behalf
    std::unique_ptr<Work> work;
};

/// A piece of a tensor and where it is found.
struct Found {
    std::int32_t buffer = -1;
    graph::TensorId tensor;
    std::int32_t region = -1;  ///< of TaskGraph::regions
};
struct FoundGradient {
    const UpdateWork* update = nullptr;
    graph::TensorId tensor;
    std::int32_t region = -1;
};

struct Program {
    std::vector<std::vector<Step>> steps;  ///< per worker, in commit order
    std::vector<int> shares;               ///< per task: of how many steps it is made
    plan::Csr<plan::TaskId> predecessors;  ///< per task
    std::vector<int> uses;      ///< per buffer: tasks that read it, and one if it is kept
    std::vector<char> lasting;  ///< per buffer: it stays for all iterations
    Store store;
    // what comes out
    std::vector<Found> outputs;     ///< pieces, later ones are right where they overlap
    std::vector<Found> parameters;  ///< trained ones
    std::vector<FoundGradient> gradients;
    std::vector<const LossWork*> losses;
};

/// `order` holds all tasks. Every op must have a kernel (check_kernels()). Throws InputError when a value
/// cannot be had.
Program make_program(const plan::Problem& problem, const plan::Strategy& strategy,
                     const plan::TaskGraph& tasks, std::span<const plan::TaskId> order,
                     const Sources& sources, const Placement& placement,
                     const ProgramOptions& options);

}  // namespace partita::runtime
