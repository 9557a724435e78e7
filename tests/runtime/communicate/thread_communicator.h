// SPDX-License-Identifier: Apache-2.0
//
// Ranks that are threads of one process and see each other's memory: every rank reads what it needs
// from its peers' tensors, and there is no copy in between.
//
//     collective   meet ── each rank works ── meet
//                  all-reduce: rank r combines part r of all tensors and writes it into all of them
//     transfer     sender posts where its tensor is ── receiver copies ── sender goes on
//
// Waiting is a short spin and then sleep, in slices in which the Abort flag and the time-out are
// looked at. Besides at::Tensor views nothing is allocated.
//
// Tensors on GPUs: the same code. Ranks may have GPUs each, or share one (NCCL refuses two ranks on
// one GPU). A rank records an event on its current stream before it meets the others; whoever reads
// its tensor makes the own stream wait for that event, and for the events after the work before
// going on. So the streams are in order and the threads wait for each other, but not for the GPU.
// That part was never run on a GPU.
//
// Detects ranks that come with another operation, label, size or type.
#pragma once

#include <memory>
#include <vector>

#include "runtime/communicate/communicator.h"

namespace partita::runtime {

/// One per rank; each is for one thread. They share `options.abort`.
std::vector<std::unique_ptr<Communicator>> thread_communicators(
    int size, const CommunicatorOptions& options = {});

}  // namespace partita::runtime
