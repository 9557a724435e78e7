// SPDX-License-Identifier: Apache-2.0
//
// Tensors on pretend GPUs (pretend_gpu.h), and their memory as that of CPU tensors.
//
// Pointers to elements are moved to where no program has memory: who reads or writes there ends by
// a signal.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "tests/runtime/pretend_gpus/pretend_streams.h"

namespace partita::runtime {

inline bool is_pretend(const at::Tensor& tensor) {
    return tensor.device().type() == kPretendType;
}

/// Of a tensor on a pretend GPU.
Access access_of(const at::Tensor& tensor, bool writes);

/// A new tensor on the device, from one of the CPU that nobody else holds,
at::Tensor unwritten(const at::Tensor& cpu, c10::Device device);
/// and that the operator `by` has written.
at::Tensor moved(const at::Tensor& cpu, c10::Device device, const std::string& by);

/// CPU tensors in the memory of a device's, for one call of an operator.
class Lent {
public:
    explicit Lent(std::string name) : name_(std::move(name)) {}

    at::Tensor of(const at::Tensor& tensor);
    /// What the operator gave: an operand of its own, a view of one, or something new.
    [[nodiscard]] at::Tensor back(const at::Tensor& result, c10::Device device) const;
    /// Operands that the operator has resized.
    void settle() const;

private:
    struct Pair {
        at::Tensor tensor;
        at::Tensor alias;
    };
    /// Tensors that share memory share it here too.
    [[nodiscard]] c10::Storage storage_of(const at::Tensor& tensor) const;

    std::string name_;  ///< of the operator
    std::vector<Pair> tensors_;
};

}  // namespace partita::runtime
