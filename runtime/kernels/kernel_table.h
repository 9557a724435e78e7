// SPDX-License-Identifier: Apache-2.0
//
// All kernels, by families: each family is one file with one table of rows, sorted by type, and
// adding a row there is the whole registration. Looking one up is done once per op, before anything
// runs.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/op_graph.h"
#include "runtime/kernels/kernel.h"

namespace partita::runtime {

// The families.
std::span<const KernelRow> activation_kernels();
std::span<const KernelRow> attention_kernels();
std::span<const KernelRow> axis_kernels();
std::span<const KernelRow> block_attention_kernels();
std::span<const KernelRow> cast_kernels();
std::span<const KernelRow> control_kernels();
std::span<const KernelRow> convolution_kernels();
std::span<const KernelRow> deform_conv_kernels();
std::span<const KernelRow> index_kernels();
std::span<const KernelRow> logic_kernels();
std::span<const KernelRow> loss_kernels();
std::span<const KernelRow> matrix_kernels();
std::span<const KernelRow> movement_kernels();
std::span<const KernelRow> normalization_kernels();
std::span<const KernelRow> optimizer_kernels();
std::span<const KernelRow> pointwise_kernels();
std::span<const KernelRow> pooling_kernels();
std::span<const KernelRow> quantization_kernels();
std::span<const KernelRow> random_kernels();
std::span<const KernelRow> recurrent_kernels();
std::span<const KernelRow> reduction_kernels();
std::span<const KernelRow> reshape_kernels();
std::span<const KernelRow> resize_kernels();
std::span<const KernelRow> roi_pooling_kernels();
std::span<const KernelRow> shape_kernels();
std::span<const KernelRow> signal_kernels();
std::span<const KernelRow> variadic_kernels();
std::span<const KernelRow> vision_kernels();

/// The row for an operator, or null.
const KernelRow* find_kernel(std::string_view domain, std::string_view type);

/// Every kernel, sorted by (domain, type).
std::vector<const KernelRow*> all_kernels();

/// Is every use of the tensor an operand that a kernel reads on the host (KernelRow::on_host)?
bool is_read_on_host(const graph::OpGraph& graph, graph::TensorId tensor);

/// Throws UsageError naming the ops that no kernel runs, each type once, with the first op of its
/// kind, or one whose products are priced and never executed (float8); before anything is loaded or
/// run.
void check_kernels(const graph::OpGraph& graph);

}  // namespace partita::runtime
