// SPDX-License-Identifier: Apache-2.0
//
// GPUs that are none, on any machine: devices that show what kernels, executor and communicators
// would do wrong on real ones. Tensors lie on them as on a GPU, and hold values; every ATen
// operator runs on CPU tensors that lend their memory, at once:
//
//     at::add(a, b)     a, b on GPU 0  ─▶  the same memory as CPU tensors  ─▶  ATen's CPU kernel
//                                                                                  │
//                       result on GPU 0  ◀─────────────────────────────────────────┘
//
// What a GPU refuses they refuse, by c10::Error: operands on the CPU or on another device (but for
// the numbers of no dims that ATen's pointwise kernels take from the CPU), and some element types
// that ATen's CPU kernels have and its CUDA kernels have not. Who follows a pointer to elements
// ends by a signal.
//
// They have streams and events, and watch what a GPU would be free to do in another order:
//
//     access          of memory by an operator on a stream must come after every conflicting one: earlier on
//                     the same stream, or by way of events, or because the host waited in between
//     memory          that is given back while a stream, of which the allocator does not know, may still
//                     use it, may be given out again too early
//     copy            from another device runs on that device's current stream, and one from or to the host
//                     waits for its stream, as ATen does it on CUDA
//
// What breaks a rule is a race, and is told by races(): a vector clock per stream and tensor, what
// FastTrack (Flanagan, Freund, PLDI 2009) does for threads. What makes the host wait is written
// down, too.
//
// What they cannot show: other types that ATen's CUDA kernels lack, and what CUDA's kernels
// compute.
//
// Registered with ATen before main(), under a device type that nothing else uses; not where the environment
// has PARTITA_TEST_CUDA: LibTorch's autograd knows one kind of accelerator in a process, and with both it would
// take CUDA's tensors for no GPU's. Any number of threads.
#pragma once

#include <string>
#include <vector>

#include <c10/core/Device.h>

namespace partita::runtime {

inline constexpr int kPretendGpus = 6;

at::Device pretend_gpu(int index = 0);

/// GPUs of this host that tests may use: none without PARTITA_TEST_CUDA, which ctest sets for suites named
/// ...OnCuda.
int cuda_gpus();

/// Nothing that an event stands behind has run yet, as far as who asks is told; until it is let go.
void hold_pretend_gpus(bool hold);

/// Between tests: what ran before is over.
void reset_pretend_gpus();

/// Those since the last call, at most some ten.
std::vector<std::string> races();

/// What the host has waited for since the last call, in any thread: names of ATen's operators, and
/// "copy to the host" and "copy from the host". Waiting for events is none.
std::vector<std::string> take_waits();

}  // namespace partita::runtime
