// SPDX-License-Identifier: Apache-2.0
//
// Kernels on a device against the CPU: a graph runs there op after op, and each op then runs again
// on the device, forward and backward, on the operands that it had. On the device operands lie as a
// kernel is promised them: those that it reads on the host (KernelRow::on_host) on the CPU, all
// others on the device.
//
//     CPU      x ─▶ Conv ─▶ y ─▶ Relu ─▶ z        results and gradients of each op must be the same:
//     device   x ─▶ Conv    y ─▶ Relu             where they lie, type, shape and values
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include <ATen/core/Tensor.h>

#include "graph/op_graph.h"
#include "runtime/kernels/kernel.h"

namespace partita::runtime {

class KernelAudit {
public:
    explicit KernelAudit(at::Device device) : device_(device) {}

    /// Every op of the graph, which must run on the CPU. What differs fails the test and names op
    /// and `name`. `inputs`: on the CPU, in order of the Input ops.
    void run(const graph::OpGraph& graph, std::span<const at::Tensor> inputs,
             const SourceValue& source, const std::string& name);

    [[nodiscard]] std::size_t ops() const { return ops_; }
    [[nodiscard]] std::size_t backwards() const { return backwards_; }
    [[nodiscard]] const std::set<std::string>& types() const { return types_; }
    /// What made the host wait for a pretend GPU, and in which graph; by operator, "Unique" or
    /// "Unique backward".
    [[nodiscard]] const std::map<std::string, std::string>& waits() const { return waits_; }

private:
    class OpCase;
    struct Outputs;
    void compute(const OpCase& each, Tensors& values);
    void compare(const std::string& type, const Outputs& found, const Outputs& expected);

    at::Device device_;
    std::string name_;  ///< of the graph
    std::size_t ops_ = 0;
    std::size_t backwards_ = 0;
    std::set<std::string> types_;
    std::map<std::string, std::string> waits_;
};

}  // namespace partita::runtime
