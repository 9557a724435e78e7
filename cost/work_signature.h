// SPDX-License-Identifier: Apache-2.0
//
// What a measured time is the time of. Works with equal texts take equal time on a device; those of
// one family differ in size alone (graph/operators/part_signature.h).
//
//     forward MatMul.13 (float32[8,64], float32[64,32]) -> (float32[8,32])
//     forward 11 MatMul.13 (...) -> (...)       1: the gradient of that operand is wanted, so
//     backward 11 MatMul.13 (...) -> (...)         that the forward has to keep something
//     forward MatMul.13 (...) -> (...) beside 1   another core works on the same op, in the same memory
//     accumulate float32 4096                   work on that many elements of any tensor
//     update adam float32 4096
//     loss mse float32 4096
//
// Pure; any number of threads. Errors: none.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "cost/cost_model.h"
#include "graph/operators/part_signature.h"

namespace partita::cost {

struct WorkSignature {
    std::string family;
    std::string text;
    friend bool operator==(const WorkSignature&, const WorkSignature&) = default;
};

/// `wanted`: per operand of the op, is its gradient asked for?
/// `beside`: other cores at work on the op.
WorkSignature forward_signature(const graph::PartSignature& part, std::span<const char> wanted,
                                int beside = 0);
WorkSignature backward_signature(const graph::PartSignature& part, std::span<const char> wanted,
                                 int beside = 0);
/// Of work on elements alone, whose Work says how many (accumulate, pack, update, loss).
WorkSignature element_signature(const Work& work);

}  // namespace partita::cost
