// SPDX-License-Identifier: Apache-2.0
//
// How GPUs compute products of float32, for as long as it lives: in TF32 if the graph says so
// (graph/operators/product_type.h), else in float32. Left alone, PyTorch multiplies matrices in
// float32 but convolves in TF32, which is not what a plan was priced as. CPUs have no TF32.
//
// Threads: it is a setting of the process; one at a time. Errors: none.
#pragma once

#include "graph/op_graph.h"

namespace partita::runtime {

class Float32Products {
public:
    explicit Float32Products(const graph::OpGraph& graph);
    ~Float32Products();
    Float32Products(const Float32Products&) = delete;
    Float32Products& operator=(const Float32Products&) = delete;

private:
    bool matrices_before_;
    bool convolutions_before_;
};

}  // namespace partita::runtime
