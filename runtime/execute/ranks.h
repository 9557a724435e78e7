// SPDX-License-Identifier: Apache-2.0
//
// Several processes that execute one plan: how they find each other, agree, divide its devices, and
// put together what each of them measured.
//
//     2 processes, 4 devices     rank 0 drives devices 0 and 1, rank 1 devices 2 and 3; with as many
//                                processes as nodes, each those of its node
//
// Cores of a host are divided among the processes that may use the same ones: mpirun binds
// processes to cores of their own, torchrun does not.
//
// Errors: DeviceError on all ranks when one carries another plan, dies, or hangs; UsageError when
// there are more processes than devices.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "cost/machine/machine.h"
#include "runtime/communicate/processes.h"
#include "runtime/execute/devices.h"
#include "runtime/execute/exchange.h"
#include "runtime/interface/runtime.h"

namespace partita::runtime {

class ProcessRanks final : public Ranks {
public:
    ProcessRanks(std::unique_ptr<Processes> processes, std::shared_ptr<Abort> abort,
                 std::chrono::milliseconds timeout);

    [[nodiscard]] int rank() const override { return rank_; }
    [[nodiscard]] int size() const override { return size_; }
    [[noreturn]] void fail(int exit_code, const std::string& reason) override;
    void leave() override { processes_.reset(); }

    // Until leave().
    [[nodiscard]] Processes& processes() { return *processes_; }
    [[nodiscard]] const std::shared_ptr<Abort>& abort() const { return abort_; }
    [[nodiscard]] std::chrono::milliseconds timeout() const { return timeout_; }
    /// For those that still start or load.
    [[nodiscard]] std::chrono::milliseconds patience() const;

private:
    std::unique_ptr<Processes> processes_;
    std::shared_ptr<Abort> abort_;  ///< of all that communicates
    std::chrono::milliseconds timeout_;
    int rank_ = 0;
    int size_ = 1;
};

/// Null: this process is alone. Throws DeviceError when the others do not come in time.
std::unique_ptr<ProcessRanks> join_ranks(const Launch& launch, std::chrono::milliseconds timeout);

/// Which of so many processes drives each device. Throws UsageError.
std::vector<int> divided(const cost::Machine& machine, int processes);

/// This process with its share of the devices.
struct Team {
    Peers peers;
    RealDevices devices;
    Bytes host_memory;  ///< that devices in it need at their peaks, of all its processes
};

/// Compares what the ranks were given, and divides the devices. `request` has ranks.
Team make_team(ProcessRanks& ranks, const ExecuteRequest& request);

/// What all of them measured, on rank 0; the others' results are of no use.
void merge(Communicator& world, ExecuteResult& result);

}  // namespace partita::runtime
