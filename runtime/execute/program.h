// SPDX-License-Identifier: Apache-2.0
//
// A task graph as something that runs: per worker the tasks of its devices in the plan's order,
// each with the work that it means.
//
//     commit order   F(a) copy F(b) all-reduce U      worker of device 0   F(a)       all-reduce U
//                                                     worker of device 1        copy F(b) all-reduce U
//
// A worker drives one plan device or several. Values come from Sources: what lies on a device from
// the start is loaded here, and stays; everything else is made by a task and given back after its
// last reader.
//
// A worker's list is a restriction of one order in which every task comes after what it waits for,
// so whatever tasks take, workers cannot wait for one another in a circle (RULES.md 20). That holds
// for the workers of several processes, too: sends end at once, and go before what a task waits
// for.
//
// One of several processes has the steps of its own devices alone, and loads what lies on these
// (messages.h says what goes between processes).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"
#include "plan/tasks/task_graph.h"
#include "runtime/execute/exchange.h"
#include "runtime/execute/loss_work.h"
#include "runtime/execute/sources.h"
#include "runtime/execute/store.h"
#include "runtime/execute/update_work.h"

namespace partita::runtime {

class NcclGroups;
struct NcclLibrary;

/// Plan devices on real ones.
struct Placement {
    /// Per plan device; workers are numbered from 0 without gaps; -1: another process drives it.
    std::vector<int> worker;
    std::vector<at::Device> device;  ///< per plan device
    bool own_gpus = false;           ///< every plan device has a GPU of its own, in all processes
    [[nodiscard]] int workers() const;
};

struct ProgramOptions {
    OptimizerOptions optimizer;
    bool keep_outputs = true;           ///< until the next iteration
    bool keep_gradients = false;        ///< of parameters, the same
    bool weigh_sums = false;            ///< of a loss (loss_work.h)
    const Peers* peers = nullptr;       ///< other processes; must outlive the program
    const NcclLibrary* nccl = nullptr;  ///< null: this program's; must outlive the program
};

struct Step {
    plan::TaskId task;
    int device = 0;  ///< plan device on whose behalf
    std::unique_ptr<Work> work;
    std::vector<std::int32_t> messages;  ///< messages and tokens that must be there (Messages::in)
};

/// A piece of a tensor and where it is found.
struct Found {
    plan::BufferId buffer;
    graph::TensorId tensor;
    std::int32_t region = -1;  ///< of TaskGraph::regions
    std::int64_t place = 0;    ///< among the pieces of all processes
};
struct FoundGradient {
    const UpdateWork* update = nullptr;
    graph::TensorId tensor;
    std::int32_t region = -1;
};

struct Program {
    std::vector<std::vector<Step>> steps;  ///< per worker, in commit order
    plan::TaskId first;                    ///< of those that have steps here, in commit order
    plan::TaskId last;
    std::vector<int> shares;         ///< per task: of how many steps it is made here
    Csr<plan::TaskId> predecessors;  ///< per task
    // per buffer, and per message behind them
    std::vector<int> uses;      ///< tasks that read it, and one if it is kept
    std::vector<char> lasting;  ///< it stays for all iterations
    Store store;
    std::unique_ptr<Exchange> exchange;  ///< with other processes; or null
    std::unique_ptr<NcclGroups> nccl;
    // what comes out
    std::vector<Found> outputs;     ///< pieces, later ones are right where they overlap
    std::vector<Found> parameters;  ///< trained ones
    std::vector<FoundGradient> gradients;
    std::vector<const LossWork*> losses;
    std::vector<UpdateWork*> updates;

    Program();
    ~Program();
    Program(Program&&) noexcept;
    Program& operator=(Program&&) noexcept;
};

/// `order` holds all tasks. Every op must have a kernel (check_kernels()). Throws InputError when a
/// value cannot be had.
Program make_program(const plan::Problem& problem, const plan::Strategy& strategy,
                     const plan::TaskGraph& tasks, std::span<const plan::TaskId> order,
                     const Sources& sources, const Placement& placement,
                     const ProgramOptions& options);

}  // namespace partita::runtime
