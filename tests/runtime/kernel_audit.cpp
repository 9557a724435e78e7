// SPDX-License-Identifier: Apache-2.0
#include "tests/runtime/kernel_audit.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "graph/operators/op_rule.h"
#include "graph/operators/part.h"
#include "runtime/kernels/kernel_table.h"
#include "runtime/kernels/part_kernel.h"
#include "runtime/kernels/run_graph.h"
#include "tests/runtime/node_test.h"
#include "tests/runtime/one_op.h"
#include "tests/runtime/pretend_gpus/pretend_gpu.h"

namespace partita::runtime {

using graph::OpGraph;
using graph::OpId;
using graph::OpKind;
using graph::TensorId;

namespace {

bool has_gradient(const at::Tensor& tensor) {
    return tensor.defined() && tensor.is_floating_point() &&
           !at::isFloat8Type(tensor.scalar_type());
}

/// Numbers that differ from one another, so that one in the wrong place shows.
at::Tensor gradient_like(const at::Tensor& result) {
    const at::Tensor numbers = at::arange(result.numel(), at::kDouble).reshape(result.sizes());
    return at::cos(numbers).to(result.scalar_type());
}

Tensors on(at::Device device, const Tensors& tensors) {
    Tensors moved;
    for (const at::Tensor& each : tensors) moved.push_back(each.defined() ? each.to(device) : each);
    return moved;
}

/// The largest difference of two tensors over the largest magnitude of the expected one.
double relative_gap(const at::Tensor& found, const at::Tensor& expected) {
    const at::Tensor a = found.to(at::kDouble);
    const at::Tensor b = expected.to(at::kDouble);
    const at::Tensor same = a.eq(b).logical_or(a.isnan().logical_and(b.isnan()));
    const at::Tensor gap = (a - b).abs().masked_fill(same, 0);
    const at::Tensor magnitude = b.abs().masked_fill(b.isfinite().logical_not(), 0);
    return gap.max().item<double>() / magnitude.max().item<double>();
}

/// "" or how far they are apart. Different devices add up in different orders, and round in between: a
/// difference counts by the largest magnitude of its tensor.
std::string gap_between(const at::Tensor& found, const at::Tensor& expected, double share32) {
    if (are_close(found, expected)) return "";
    if (!found.is_floating_point() || found.numel() == 0) return "other values";
    const double share = found.scalar_type() == at::kBFloat16 ? 3e-2
                         : found.scalar_type() == at::kHalf   ? 4e-3
                                                              : share32;
    const double gap = relative_gap(found, expected);
    if (gap <= share) return "";
    return "other values, by " + std::to_string(gap * 1e6) + " millionths of the largest";
}

/// "" or how what the device gave differs from what the CPU gave.
std::string difference(const Tensors& found, const Tensors& expected, at::Device device,
                       double share32) {
    if (found.size() != expected.size()) return "another number of tensors";
    for (std::size_t i = 0; i < found.size(); ++i) {
        const std::string number = "number " + std::to_string(i);
        if (found[i].defined() != expected[i].defined()) return number + " is left out, or is not";
        if (!found[i].defined()) continue;
        if (found[i].device() != device) return number + " lies on " + found[i].device().str();
        if (found[i].scalar_type() != expected[i].scalar_type()) return number + ": another type";
        if (found[i].sizes() != expected[i].sizes()) return number + ": another shape";
        const std::string gap = gap_between(found[i].cpu(), expected[i], share32);
        if (!gap.empty()) return number + ": " + gap;
    }
    return "";
}

/// What runs, for on_crash().
std::array<char, 256> running{};

/// Who follows a pointer to elements that do not lie on the CPU ends the program: say who it was.
void on_crash(int number) {
    static_cast<void>(!write(STDERR_FILENO, running.data(), std::strlen(running.data())));
    std::signal(number, SIG_DFL);
    std::raise(number);
}

void name_crashes() {
    const auto before = std::signal(SIGSEGV, on_crash);
    if (before != SIG_DFL) std::signal(SIGSEGV, before);  // a sanitizer's says more
}

std::string joined(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : std::set(names.begin(), names.end())) {
        text += (text.empty() ? "" : ", ") + name;
    }
    return text;
}

}  // namespace

/// Of forward and backward, on one device.
struct KernelAudit::Outputs {
    Tensors results;
    Tensors gradients;
    std::string error;  ///< "": it ran
    std::string waits;
    std::string backward_error;
    std::string backward_waits;
};

/// One op, and its operands on the CPU.
class KernelAudit::OpCase {
public:
    OpCase(const OpGraph& graph, OpId id, const SourceValue& source, Tensors inputs)
        : graph_(graph),
          id_(id),
          op_(graph.op(id)),
          source_(source),
          inputs_(std::move(inputs)),
          rule_(graph::rule_of(graph, id)) {}

    [[nodiscard]] const graph::Op& op() const { return op_; }

    /// Of all operands that can have one, or of the first alone.
    [[nodiscard]] std::vector<char> wanted(bool all) const {
        std::vector<char> wanted;
        for (std::size_t i = 0; i < inputs_.size(); ++i) {
            wanted.push_back((all || i == 0) && has_gradient(inputs_[i]) ? 1 : 0);
        }
        return wanted;
    }

    [[nodiscard]] Outputs run(at::Device device, const std::vector<char>& wanted) const {
        Outputs outputs;
        const PartKernel kernel(graph_, id_, rule_, graph::whole_box(rule_), device, source_);
        const Tensors operands = read_by(kernel, placed_on(device));
        static_cast<void>(take_waits());
        try {
            outputs.results = kernel.forward(operands);
        } catch (const std::exception& error) {
            outputs.error = first_line(error.what());
        }
        outputs.waits = joined(take_waits());
        if (!outputs.error.empty()) return outputs;
        Tensors given;
        for (const at::Tensor& result : outputs.results) {
            given.push_back(has_gradient(result) ? gradient_like(result) : at::Tensor());
        }
        given = on(device, given);
        static_cast<void>(take_waits());
        try {
            outputs.gradients = backward(kernel, operands, outputs.results, given, wanted);
        } catch (const std::exception& error) {
            outputs.backward_error = first_line(error.what());
        }
        outputs.backward_waits = joined(take_waits());
        return outputs;
    }

private:
    [[nodiscard]] Tensors placed_on(at::Device device) const {
        const KernelRow* const row = find_kernel(op_.domain, op_.type);
        Tensors placed;
        for (std::size_t i = 0; i < inputs_.size(); ++i) {
            const bool stays = !inputs_[i].defined() || row->reads_on_host(i);
            placed.push_back(stays ? inputs_[i] : inputs_[i].to(device));
        }
        return placed;
    }

    [[nodiscard]] Tensors backward(const PartKernel& kernel, const Tensors& operands,
                                   const Tensors& results, const Tensors& given,
                                   const std::vector<char>& wanted) const {
        Tape tape;
        if (kernel.needs_tape()) {
            static_cast<void>(kernel.forward(operands, wanted, tape));
            static_cast<void>(take_waits());
            return kernel.backward(tape, {}, {}, given, wanted);
        }
        return kernel.backward(tape, only(operands, rule_.saves_operands),
                               only(results, rule_.saves_results), given, wanted);
    }

    const OpGraph& graph_;
    OpId id_;
    const graph::Op& op_;
    const SourceValue& source_;
    Tensors inputs_;
    graph::OpRule rule_;
};

void KernelAudit::run(const OpGraph& graph, std::span<const at::Tensor> inputs,
                      const SourceValue& source, const std::string& name) {
    name_crashes();
    name_ = name;
    Tensors values(graph.tensor_count());
    std::size_t next = 0;
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        const graph::Op& op = graph.op(OpId(i));
        switch (op.kind) {
        case OpKind::input: values[op.outputs[0].index()] = inputs[next++]; break;
        case OpKind::parameter:
        case OpKind::constant:
            values[op.outputs[0].index()] = source(graph.tensor(op.outputs[0]));
            break;
        case OpKind::compute: {
            SCOPED_TRACE(op.type + " of " + name);
            std::snprintf(running.data(), running.size(), "in %s of %s:\n", op.type.c_str(),
                          name.c_str());
            Tensors operands;
            for (const TensorId t : op.inputs) {
                operands.push_back(t.valid() ? values[t.index()] : at::Tensor());
            }
            compute(OpCase(graph, OpId(i), source, std::move(operands)), values);
            break;
        }
        case OpKind::output: break;
        }
    }
}

void KernelAudit::compute(const OpCase& each, Tensors& values) {
    std::vector<char> wanted = each.wanted(/*all=*/true);
    Outputs expected = each.run(at::kCPU, wanted);
    if (!expected.backward_error.empty()) {  // ATen differentiates by some operands alone
        wanted = each.wanted(/*all=*/false);
        expected = each.run(at::kCPU, wanted);
    }
    ASSERT_EQ(expected.error, "") << "on the CPU";
    const graph::Op& op = each.op();
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
        if (op.outputs[i].valid()) values[op.outputs[i].index()] = expected.results[i];
    }
    ++ops_;
    types_.insert(op.type);
    const bool has_backward = std::ranges::count(wanted, 1) > 0 && expected.backward_error.empty();
    if (has_backward) ++backwards_;
    if (!has_backward) expected.gradients.clear();
    Outputs found = each.run(device_, has_backward ? wanted : std::vector<char>(wanted.size(), 0));
    if (!has_backward) found.gradients.clear();
    compare(op.type, found, expected);
}

void KernelAudit::compare(const std::string& type, const Outputs& found, const Outputs& expected) {
    const std::string where = ", in " + name_;
    if (!found.waits.empty()) waits_[type] = found.waits + where;
    if (!found.backward_waits.empty()) waits_[type + " backward"] = found.backward_waits + where;
    ASSERT_EQ(found.error, "") << "forward";
    // An H200's cuDNN differed by 1.2e-4 in the gradient of an LSTM's recurrent weight.
    const double share = device_.is_cuda() && type == "LSTM" ? 3e-4 : 1e-5;
    EXPECT_EQ(difference(found.results, expected.results, device_, share), "") << "results";
    if (expected.gradients.empty()) return;
    ASSERT_EQ(found.backward_error, "") << "backward";
    EXPECT_EQ(difference(found.gradients, expected.gradients, device_, share), "") << "gradients";
}

}  // namespace partita::runtime
