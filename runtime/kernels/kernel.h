// SPDX-License-Identifier: Apache-2.0
//
// A kernel runs one operator on ATen tensors, the same code on CPU and CUDA. What it is given is a
// part of an op (graph/operators/part_op.h): the part's own attributes, and operands that have the
// extents of the part's regions and no others. Everything lies on one device, but for the operands
// that its row says it reads on the host.
//
//     forward    operands -> results, the op's own number of them; an undefined operand is left out, an
//                undefined result nobody wants
//     backward   the vector-Jacobian product: gradients of the results -> gradients of the operands that
//                are wanted. Without one, autograd differentiates the forward
//
// A kernel that declares a backward is given only what its op's row says is saved
// (OpRule::saves_operands, saves_results), so that the memory model and the execution cannot
// disagree.
//
// Whatever the device: results lie there, and all that a kernel makes on its way; it never mixes in
// tensors of the CPU, never takes pointers to elements, and never waits for the device: that would
// end the overlap with what the host has still to start. Where extents depend on elements it has to
// wait; the few kernels of that kind stand by name in tests/runtime/kernel_device_test.cpp, which
// holds all others to this.
//
// Adding one: a row in the table of its family, e.g. pointwise_kernels.cpp. Kernels are pure: they
// change no operand, keep nothing, and may run in any number of threads. They throw c10::Error or
// std::exception when ATen refuses; who calls adds the task's name.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "graph/op_graph.h"
#include "graph/operators/part_op.h"

namespace partita::runtime {

using Tensors = std::vector<at::Tensor>;

/// The value of a parameter or constant, on the CPU.
using SourceValue = std::function<at::Tensor(const graph::Tensor&)>;

struct KernelCall {
    const graph::PartOp& op;
    std::span<const at::Tensor> operands;
    std::span<const graph::Body> bodies;  ///< of If, Loop and Scan
    const SourceValue* source = nullptr;  ///< of what their bodies hold; null: no op has bodies
    at::Device device = at::kCPU;         ///< of results, and of operands that are not on_host

    /// Undefined when it is left out or there is no such operand.
    [[nodiscard]] const at::Tensor& operand(std::size_t index) const;
    [[nodiscard]] bool has(std::size_t index) const { return operand(index).defined(); }
    /// The elements of an operand that holds integers: shape targets, axes, pads. One of those that
    /// the row lists as on_host.
    [[nodiscard]] std::vector<std::int64_t> integers(std::size_t index) const;
    /// An attribute of older opsets that is an operand of newer ones, e.g. axes of a reduction.
    [[nodiscard]] std::vector<std::int64_t> integers_of(std::size_t operand,
                                                        std::string_view attribute) const;
    /// What was worked out on the host, on the device; does not wait until it is there.
    [[nodiscard]] at::Tensor sent(const at::Tensor& values) const;

    [[nodiscard]] std::int64_t integer(std::string_view attribute, std::int64_t fallback) const {
        return op.attributes.get_int(attribute, fallback);
    }
    [[nodiscard]] double real(std::string_view attribute, double fallback) const {
        return op.attributes.get_float(attribute, fallback);
    }
    [[nodiscard]] std::string text(std::string_view attribute, std::string_view fallback) const {
        return op.attributes.get_string(attribute, fallback);
    }
};

struct BackwardCall : KernelCall {
    std::span<const at::Tensor> results;           ///< undefined: not saved
    std::span<const at::Tensor> gradients;         ///< of the results; undefined: nobody gave one
    std::span<const graph::Shape> operand_shapes;  ///< of saved operands or not
    std::span<const char> wanted;                  ///< per operand: its gradient is asked for

    [[nodiscard]] bool wants(std::size_t index) const {
        return index < wanted.size() && wanted[index] != 0;
    }
};

using ForwardKernel = Tensors (*)(const KernelCall& call);
/// One gradient per operand, undefined where it is not wanted.
using BackwardKernel = Tensors (*)(const BackwardCall& call);

/// Bit i: operand i.
using OperandBits = std::uint32_t;
constexpr OperandBits bits(std::initializer_list<unsigned> operands) {
    OperandBits all = 0;
    for (const unsigned operand : operands) all |= OperandBits{1} << operand;
    return all;
}

struct KernelRow {
    std::string_view type;
    ForwardKernel forward = nullptr;
    BackwardKernel backward = nullptr;  ///< absent: autograd
    std::string_view domain = {};
    /// Operands whose elements are read on the host: shape targets, axes, numbers that ATen takes
    /// as such. They are CPU tensors on every device. What nobody else reads stays there, and what
    /// the graph knows is not looked at, so only values that were computed on the device must be
    /// waited for.
    OperandBits on_host = 0;
    /// Extents of the operands in order, between commas, "" where any will do: "b n 4, b c n, one,
    /// #r". Equal names are equal extents, "..." any further dims, "one" a single element, "#r" r
    /// elements whatever the dims, "list" any number of elements. Looked at before the kernel runs
    /// (expected.h).
    std::string_view expects = {};

    [[nodiscard]] bool reads_on_host(std::size_t operand) const {
        return operand < 32 && (on_host >> operand & 1U) != 0;
    }
};

/// The gradient of a result summed over the dims that broadcasting added or stretched: what an
/// operand of that shape gets.
at::Tensor unbroadcast(const at::Tensor& gradient, const graph::Shape& shape);

/// The gradients of a call whose only operand with one is the first.
Tensors only_first(const BackwardCall& call, at::Tensor gradient);

}  // namespace partita::runtime
