// SPDX-License-Identifier: Apache-2.0
//
// GPUs that are none, for tests of what runs in streams: a device type of LibTorch's (PrivateUse1) whose
// tensors lie in host memory, whose operators run on the CPU, at once, and which watches what a GPU would
// be free to do in another order.
//
//     operator        its tensors must lie on one device, but for scalars
//     access          of memory by an operator on a stream must come after every conflicting one: earlier on
//                     the same stream, or by way of events, or because the host waited in between
//     memory          that is given back while a stream, of which the allocator does not know, may still
//                     use it, may be given out again too early
//     copy            from another device runs on that device's current stream, and one from or to the host
//                     waits for its stream, as ATen does it on CUDA
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
/// How many operators ran on pretend GPUs since the last call, and how often one stream waited for another.
struct PretendWork {
    long operators = 0;
    long waits = 0;
};
PretendWork pretend_work();

}  // namespace partita::runtime
