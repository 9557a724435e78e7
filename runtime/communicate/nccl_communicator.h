// SPDX-License-Identifier: Apache-2.0
//
// NCCL: one GPU per rank, in one process or several, through nccl.h itself. Operations go onto the
// calling thread's current stream of the GPU and return; wait() waits for them, with the time-out.
//
//     all-reduce, reduce, broadcast             NCCL's own, NCCL chooses the algorithm
//     all-gather, reduce-scatter                NCCL's own when all parts are equal
//     transfer, and everything else             sends and receives in one group call
//
// The communicator is non-blocking: NCCL's calls return at once and are polled until the time-out,
// which then aborts it (ncclCommAbort). It connects at the first operation, where all ranks have to
// come.
//
// Rounding: NCCL adds half floats hop by hop and rounds at each hop, unlike the other
// communicators. Types that NCCL cannot combine (16-bit integers, bool, complex, float8) are
// exchanged and combined by ATen as everywhere else.
//
// NCCL refuses two ranks on one GPU.
//
// This file was compiled and linked, and never run: no GPU was there. Its conformance test waits
// for one (tests/runtime/communicate/thread_communicator_test.cpp shows the suite).
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/communicate/communicator.h"

namespace partita::runtime {

inline constexpr std::size_t kNcclIdBytes = 128;

/// Has this program NCCL?
bool has_nccl();

/// An id of kNcclIdBytes for one new group: made by one rank, given to all (processes.h: share()).
/// Throws UsageError when the program has no NCCL, DeviceError when NCCL fails.
std::string nccl_unique_id();

/// `device`: the rank's GPU, where all its tensors lie. No communication yet. Throws as above.
std::unique_ptr<Communicator> nccl_communicator(std::string_view unique_id, int rank, int size,
                                                at::Device device,
                                                const CommunicatorOptions& options);

}  // namespace partita::runtime
