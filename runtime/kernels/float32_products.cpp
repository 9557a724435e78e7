// SPDX-License-Identifier: Apache-2.0
#include "runtime/kernels/float32_products.h"

#include <algorithm>

#include <ATen/Context.h>

namespace partita::runtime {

namespace {

bool computes_in_tf32(at::Float32Op op) {
    const auto precision = at::globalContext().float32Precision(at::Float32Backend::CUDA, op);
    return precision == at::Float32Precision::TF32;
}

void set(bool matrices, bool convolutions) {
    at::globalContext().setAllowTF32CuBLAS(matrices);
    at::globalContext().setAllowTF32CuDNN(convolutions);
}

}  // namespace

Float32Products::Float32Products(const graph::OpGraph& graph)
    : matrices_before_(computes_in_tf32(at::Float32Op::MATMUL)),
      convolutions_before_(computes_in_tf32(at::Float32Op::CONV)) {
    const bool tf32 = std::ranges::find(graph.ops(), graph::ProductType::tf32,
                                        &graph::Op::product_type) != graph.ops().end();
    set(tf32, tf32);
}

Float32Products::~Float32Products() {
    set(matrices_before_, convolutions_before_);
}

}  // namespace partita::runtime
