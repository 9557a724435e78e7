// SPDX-License-Identifier: Apache-2.0
//
// Tensors put together from the pieces that lie on devices, and in other processes.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "graph/host_tensor.h"
#include "graph/op_graph.h"
#include "plan/layout/layout.h"
#include "runtime/communicate/communicator.h"

namespace partita::runtime {

struct Piece {
    graph::TensorId tensor;
    std::int32_t region = -1;  ///< of TaskGraph::regions
    std::int64_t place = 0;    ///< where pieces overlap, those of higher places are right
    at::Tensor value;
};

/// Whole tensors on the CPU, rising by id; 0 where no piece is.
std::vector<graph::HostTensor> assembled(const graph::OpGraph& graph,
                                         const plan::RegionTable& regions,
                                         std::vector<Piece> pieces);

/// Those of all ranks, on rank 0; nothing on the others. Throws as the communicator does.
std::vector<Piece> gathered(Communicator& world, std::vector<Piece> mine);

}  // namespace partita::runtime
