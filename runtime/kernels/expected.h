// SPDX-License-Identifier: Apache-2.0
//
// What a kernel may rely on in its operands. ONNX's inference looks at few extents, and at no
// element that is computed; a kernel that takes one without looking reads beyond its operand or
// never ends.
//
//     KernelRow::expects    the extents of all operands, looked at before the kernel runs, by whoever runs it
//     expect()              anything else, in the kernel
//     TimeLimit             an end for loops as long as the data says
//
// Every operand that a row reads on the host has an entry in its `expects`
// (KernelTable.OperandsReadOnTheHostSayWhatIsExpected).
#pragma once

#include <chrono>
#include <string_view>

#include "runtime/kernels/kernel.h"

namespace partita::runtime {

/// Throws InputError naming the operand, what is expected and what there is. Operands that are left
/// out are not looked at.
void check_operands(const KernelRow& row, const KernelCall& call);

/// Throws InputError where contents decide the extents of a result and are not those that the model
/// declares; bit i of `upper_bounds`: dim i may be shorter.
void check_result(std::size_t index, const graph::Shape& declared, std::uint64_t upper_bounds,
                  const at::Tensor& result);

/// Throws InputError with that text, and what to do, when it does not hold.
void expect(bool holds, std::string_view what);

/// While it lives, check_time() in this thread throws when `time` is over. The outermost counts.
class TimeLimit {
public:
    explicit TimeLimit(std::chrono::milliseconds time);
    TimeLimit(const TimeLimit&) = delete;
    TimeLimit& operator=(const TimeLimit&) = delete;
    ~TimeLimit();

private:
    bool is_outermost_;
};

/// Once per turn of a loop whose length is decided by data. Throws std::runtime_error.
void check_time();

}  // namespace partita::runtime
