// SPDX-License-Identifier: Apache-2.0
//
// What the kernels of a GPU reach of its peaks, by family and element type, fitted to measured
// tables (data/kernels). A curve has three constants:
//
//     time = start + sqrt((FLOPs / (peak * compute))^2 + (bytes / (bandwidth * memory))^2)
//
//     start      what the smallest kernel takes
//     sqrt       computing and moving overlap, but not wholly where both take as long; each alone
//                where the other is short
//
// A norm of sums is at most the sum of norms (Minkowski), and every part starts once more: parts of
// a work never take less in sum than the whole. Lower bounds count on that
// (plan/problem/time_bounds.h).
//
// Threads: immutable. Errors: InputError naming file and field.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "base/units.h"
#include "graph/op_graph.h"

namespace partita::cost {

enum class KernelFamily : std::uint8_t {
    product,          ///< MatMul, Gemm with a matrix
    batched_product,  ///< MatMul of two batches, such as attention's
    convolution,
    attention,   ///< in one kernel
    pointwise,   ///< what computes little, or copies
    activation,  ///< GELU and its like
    softmax,
    normalization,
    reduction,
    transpose,
    lookup,  ///< rows of a table
    update   ///< of parameters, all of an op in one kernel
};

/// The family of an operator; nullopt: none, so that no table prices it. `batched`: of a product,
/// have both operands a batch?
std::optional<KernelFamily> kernel_family_of(std::string_view type, bool batched);

struct KernelCurve {
    Time start;            ///< > 0
    double compute = 1.0;  ///< share of the peak for that type, in (0, 1]
    double memory = 1.0;   ///< share of the bandwidth, in (0, 1]
    double error = 0.0;    ///< mean relative error on rows that it was not fitted to

    /// `flops_time`, `bytes_time`: at the peaks. Rounded up.
    [[nodiscard]] Time time(Time flops_time, Time bytes_time) const;
};

class KernelTable {
public:
    /// Null: nothing fits. Of types: what multiplies (tf32), else the element type; a 16-bit type
    /// stands in for the other. A backward without a curve of its own has the forward's, and rows
    /// that begin at multiples of `row_bytes` have that of the largest number below which has one,
    /// else the one for aligned rows.
    [[nodiscard]] const KernelCurve* find(KernelFamily family, bool backward, graph::DType dtype,
                                          graph::ProductType product,
                                          int row_bytes = graph::kWideRow) const;

    [[nodiscard]] const std::string& name() const { return name_; }
    /// Of the file's content, 16 hex digits.
    [[nodiscard]] const std::string& digest() const { return digest_; }

private:
    friend std::shared_ptr<const KernelTable> read_kernel_table(const std::filesystem::path& file);
    using Key = std::tuple<KernelFamily, bool, std::string, int>;
    [[nodiscard]] const KernelCurve* exactly(KernelFamily family, bool backward,
                                             std::string_view type, int row_bytes) const;

    std::string name_;
    std::string digest_;
    std::map<Key, KernelCurve, std::less<>> curves_;
};

/// Format "partita-kernels" (docs/file-formats.md).
std::shared_ptr<const KernelTable> read_kernel_table(const std::filesystem::path& file);

}  // namespace partita::cost
