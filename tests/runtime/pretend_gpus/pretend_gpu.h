// SPDX-License-Identifier: Apache-2.0
//
// GPUs that are none, for tests of what runs in streams: a device type of LibTorch's (PrivateUse1) whose
// tensors lie in host memory, whose operators run on the CPU, at once, and which watches what a GPU would
// be free to do in another order.
//
//     operator        its tensors must lie on one device, but for scalars; some element types are refused
//                     that ATen's CUDA kernels have not (gpu_rules.h)
//     pointer         to elements, followed by anybody else, ends the program: they lie elsewhere
//     access          of memory by an operator on a stream must come after every conflicting one: earlier on
//                     the same stream, or by way of events, or because the host waited in between
//     memory          that is given back while a stream, of which the allocator does not know, may still
//                     use it, may be given out again too early
//     copy            from another device runs on that device's current stream, and one from or to the host
//                     waits for its stream, as ATen does it on CUDA; but for one from the host that may not
//
// What makes the host wait is written down: waits_of_host().
//
// What breaks a rule is a race, and is told by races(). A vector clock per stream and byte range: what
// FastTrack (Flanagan, Freund, PLDI 2009) does for threads.
#pragma once

#include <string>
#include <vector>

#include <c10/core/Device.h>

namespace partita::runtime {

inline constexpr int kPretendGpus = 6;

/// Before the first use, and between tests: what ran before is over.
void install_pretend_gpus();
at::Device pretend_gpu(int index);

/// Those since the last call, at most some ten.
std::vector<std::string> races();
/// What the host has waited for since the last call, in any thread: names of ATen's operators that give an
/// element, or results whose extents depend on elements; "copy to the host", "copy from the host".
std::vector<std::string> waits_of_host();
/// How many operators ran on pretend GPUs since the last call, and how often one stream waited for another.
struct PretendWork {
    long operators = 0;
    long waits = 0;
};
PretendWork pretend_work();

}  // namespace partita::runtime
