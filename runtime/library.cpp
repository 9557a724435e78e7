// SPDX-License-Identifier: Apache-2.0
//
// What the shared library shows to who loads it.
#include <chrono>
#include <memory>
#include <string>

#include <torch/headeronly/version.h>

#include "cost/discovery/host.h"
#include "runtime/execute/devices.h"
#include "runtime/execute/execute.h"
#include "runtime/execute/ranks.h"
#include "runtime/interface/runtime.h"
#include "runtime/kernels/kernel_table.h"

namespace partita::runtime {
namespace {

class LibTorchRuntime final : public Runtime {
public:
    ExecuteResult execute(const ExecuteRequest& request) override {
        return runtime::execute(request);
    }
    std::unique_ptr<Ranks> join(const Launch& launch, std::chrono::milliseconds timeout) override {
        return join_ranks(launch, timeout);
    }
    void check(const graph::OpGraph& graph) const override { check_kernels(graph); }
    Hardware hardware(const std::string& devices, const cost::Machine& machine) const override {
        return runtime::real_devices(devices, machine, cost::host_limits().cores).hardware;
    }
    std::string versions() const override { return "LibTorch " TORCH_VERSION; }
};

}  // namespace
}  // namespace partita::runtime

extern "C" partita::runtime::Runtime* partita_make_runtime() {
    return new partita::runtime::LibTorchRuntime;
}
