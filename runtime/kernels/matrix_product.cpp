// SPDX-License-Identifier: Apache-2.0
#include "runtime/kernels/matrix_product.h"

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>

namespace partita::runtime {

namespace {

/// Multiply-adds from which on oneDNN pays.
constexpr std::int64_t kLeastWork = std::int64_t{1} << 21U;
/// So many multiply-adds with an element are worth a copy of it.
constexpr std::int64_t kWorthACopy = 64;

/// x W^T of oneDNN: an operator without a function of its own in ATen. Absent where ATen was built
/// without oneDNN, or has another form of it.
std::optional<c10::OperatorHandle> find_linear() {
    if (!at::Context::hasMKLDNN()) return std::nullopt;
    auto found = c10::Dispatcher::singleton().findSchema({"mkldnn::_linear_pointwise", ""});
    constexpr std::size_t kArguments = 6;  // x, W, bias, name and numbers of what follows
    if (!found || found->schema().arguments().size() != kArguments) return std::nullopt;
    return found;
}

/// The operator, if it is there.
const std::optional<c10::OperatorHandle>& linear_operator() {
    static const std::optional<c10::OperatorHandle> kFound = find_linear();
    return kFound;
}

/// Without gaps, by rows or by columns. For a part of a larger matrix oneDNN has nothing but its
/// reference implementation, which is 900 times as slow.
bool is_dense(const at::Tensor& matrix) {
    return matrix.is_contiguous() || matrix.t().is_contiguous();
}

at::Tensor dense(const at::Tensor& matrix) {
    return is_dense(matrix) ? matrix : matrix.contiguous();
}

/// a b + bias
at::Tensor one_dnn_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias) {
    std::vector<c10::IValue> stack{dense(a),
                                   dense(b).t(),
                                   bias.defined() ? c10::IValue(bias) : c10::IValue(),
                                   std::string("none"),
                                   c10::List<std::optional<at::Scalar>>(),
                                   c10::IValue()};
    linear_operator()->callBoxed(stack);
    return stack.at(0).toTensor();
}

bool is_float_on_cpu(const at::Tensor& matrix) {
    return matrix.scalar_type() == at::kFloat && matrix.device().is_cpu();
}

bool is_large(const at::Tensor& a, const at::Tensor& b) {
    const std::int64_t m = a.size(0);
    const std::int64_t k = a.size(1);
    const std::int64_t n = b.size(1);
    return m > 1 && k > 1 && n > 1 && m * n * k >= kLeastWork;
}

bool has_history(const at::Tensor& a, const at::Tensor& b) {
    return at::GradMode::is_enabled() && (a.requires_grad() || b.requires_grad());
}

/// Elements that tensor cores' wide loads take at once, 16 bytes; 1: the product has no such loads.
std::int64_t wide_load(const at::Tensor& a) {
    constexpr std::int64_t kBytes = 16;
    const bool is_narrow = a.scalar_type() == at::kHalf || a.scalar_type() == at::kBFloat16;
    const bool is_tf32 = a.scalar_type() == at::kFloat && at::globalContext().allowTF32CuBLAS();
    return a.is_cuda() && (is_narrow || is_tf32) ? kBytes / a.element_size() : 1;
}

std::int64_t rounded_up(std::int64_t extent, std::int64_t multiple) {
    return (extent + multiple - 1) / multiple * multiple;
}

/// The dim along which its elements are neighbours.
std::size_t dense_dim(const at::Tensor& matrix) {
    return matrix.stride(0) == 1 && matrix.stride(1) != 1 ? 0 : 1;
}

/// The matrix with zeros behind its rows and columns, laid out as it is.
at::Tensor with_room(const at::Tensor& matrix, std::int64_t rows, std::int64_t columns) {
    if (matrix.size(0) == rows && matrix.size(1) == columns) return matrix;
    if (dense_dim(matrix) == 0) return with_room(matrix.t(), columns, rows).t();
    at::Tensor wider = at::empty({rows, columns}, matrix.options());
    wider.narrow(0, matrix.size(0), rows - matrix.size(0)).zero_();
    wider.narrow(1, matrix.size(1), columns - matrix.size(1)).zero_();
    wider.narrow(0, 0, matrix.size(0)).narrow(1, 0, matrix.size(1)).copy_(matrix);
    return wider;
}

/// Do copies pay? They move each element once or twice, a product uses it by as many multiply-adds
/// as the harmonic mean of the extents; where rows begin anywhere it takes about six times as long
/// (bfloat16, 50,257 instead of 50,304 columns on an H200, docs/hardware.md).
bool is_worth_room(const at::Tensor& a, const at::Tensor& b) {
    constexpr double kLeast = 128;  // multiply-adds per element
    const auto m = static_cast<double>(a.size(0));
    const auto k = static_cast<double>(a.size(1));
    const auto n = static_cast<double>(b.size(1));
    return m > 0 && k > 0 && n > 0 && 1 / m + 1 / k + 1 / n <= 1 / kLeast;
}

bool makes_room(const at::Tensor& a, const at::Tensor& b) {
    return wide_load(a) > 1 && !has_history(a, b) && is_worth_room(a, b);
}

/// a b by ATen, in rows that begin where wide loads can.
at::Tensor aten_product(const at::Tensor& a, const at::Tensor& b) {
    return makes_room(a, b) ? product_with_room(a, b, wide_load(a)) : at::mm(a, b);
}

bool is_one(const at::Scalar& factor) {
    return factor.to<double>() == 1.0;
}

at::Tensor first_matrix(at::Tensor stack) {
    while (stack.dim() > 2) stack = stack[0];
    return stack;
}

/// As many matrices in each, of a size that pays.
bool are_large_stacks(const at::Tensor& a, const at::Tensor& b) {
    if (a.dim() < 3 || a.dim() != b.dim() || a.numel() == 0 || b.numel() == 0) return false;
    const auto count = static_cast<std::size_t>(a.dim() - 2);
    if (a.sizes().slice(0, count) != b.sizes().slice(0, count)) return false;
    return suits_one_dnn(first_matrix(a), first_matrix(b));
}

at::Tensor one_by_one(const at::Tensor& a, const at::Tensor& b) {
    auto shape = a.sizes().vec();
    shape.back() = b.size(-1);
    at::Tensor products = at::empty(shape, a.options());
    const at::Tensor left = a.flatten(0, -3);
    const at::Tensor right = b.flatten(0, -3);
    const at::Tensor each = products.flatten(0, -3);
    for (std::int64_t i = 0; i < each.size(0); ++i) {
        each[i].copy_(one_dnn_product(left[i], right[i], {}));
    }
    return products;
}

}  // namespace

at::Tensor product_with_room(const at::Tensor& a, const at::Tensor& b, std::int64_t multiple) {
    // Along which operands and result have their rows: m, k, n.
    std::array<std::int64_t, 3> extents{a.size(0), a.size(1), b.size(1)};
    std::array<bool, 3> is_dense_dim{false, false, true};
    is_dense_dim[dense_dim(a)] = true;
    is_dense_dim[1 + dense_dim(b)] = true;
    for (std::size_t d = 0; d < extents.size(); ++d) {
        if (is_dense_dim[d]) extents[d] = rounded_up(extents[d], multiple);
    }
    const auto [m, k, n] = extents;
    return at::mm(with_room(a, m, k), with_room(b, k, n))
        .narrow(0, 0, a.size(0))
        .narrow(1, 0, b.size(1));
}

ProductGradients gradients_with_room(const at::Tensor& a, const at::Tensor& b, const at::Tensor& g,
                                     std::int64_t multiple) {
    const bool is_by_columns = dense_dim(g) == 0;
    const std::int64_t m = is_by_columns ? rounded_up(g.size(0), multiple) : g.size(0);
    const std::int64_t n = is_by_columns ? g.size(1) : rounded_up(g.size(1), multiple);
    const at::Tensor wide = with_room(g, m, n);
    const at::Tensor of_a = product_with_room(wide, with_room(b, b.size(0), n).t(), multiple);
    const at::Tensor of_b = product_with_room(with_room(a, m, a.size(1)).t(), wide, multiple);
    return {of_a.narrow(0, 0, g.size(0)), of_b.narrow(1, 0, g.size(1))};
}

ProductGradients product_gradients(const at::Tensor& a, const at::Tensor& b, const at::Tensor& g) {
    if (makes_room(g, b.t())) {  // and so does a^T g: of the same extents
        return gradients_with_room(a, b, g, wide_load(g));
    }
    return {matrix_product(g, b.t()), matrix_product(a.t(), g)};
}

bool suits_one_dnn(const at::Tensor& a, const at::Tensor& b) {
    return is_float_on_cpu(a) && is_float_on_cpu(b) && is_large(a, b) &&
           (is_dense(a) || b.size(1) >= kWorthACopy) && (is_dense(b) || a.size(0) >= kWorthACopy) &&
           !has_history(a, b) && at::globalContext().userEnabledMkldnn() && linear_operator();
}

at::Tensor matrix_product(const at::Tensor& a, const at::Tensor& b) {
    return suits_one_dnn(a, b) ? one_dnn_product(a, b, {}) : aten_product(a, b);
}

at::Tensor product_and_sum(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b,
                           const at::Scalar& beta, const at::Scalar& alpha) {
    if (is_one(alpha) && is_one(beta) && !has_history(c, c) && makes_room(a, b)) {
        return product_with_room(a, b, wide_load(a)).add_(c);
    }
    if (has_history(c, c) || !suits_one_dnn(a, b)) return at::addmm(c, a, b, beta, alpha);
    const bool is_row = c.dim() > 0 && c.size(-1) == b.size(1) && c.numel() == b.size(1);
    if (is_row && is_one(alpha) && is_one(beta)) return one_dnn_product(a, b, c.reshape({-1}));
    at::Tensor product = one_dnn_product(a, b, {});
    if (!is_one(alpha)) product.mul_(alpha);
    return product.add_(c, beta);
}

at::Tensor stacked_product(const at::Tensor& a, const at::Tensor& b) {
    if (are_large_stacks(a, b)) return one_by_one(a, b);
    if (a.dim() < 2 || b.dim() != 2) return at::matmul(a, b);
    auto shape = a.sizes().vec();
    shape.back() = b.size(1);
    return matrix_product(a.reshape({-1, a.size(-1)}), b).reshape(shape);
}

}  // namespace partita::runtime
