// SPDX-License-Identifier: Apache-2.0
#include "cost/traces/aten_calls.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "cost/traces/aten_operators.h"

namespace partita::cost {

namespace {

using graph::Shape;
using Calls = std::vector<AtenCall>;
using Tensor = WorkText::Tensor;

/// m x k times k x n, or the transposed of that.
AtenCall product(bool biased, std::int64_t batch, std::int64_t m, std::int64_t k, std::int64_t n) {
    AtenCall call;
    for (const bool with : {biased, !biased}) {
        call.keys.push_back(product_key(with, batch, m, k, n));
        call.keys.push_back(product_key(with, batch, n, k, m));
    }
    return call;
}

struct ProductSize {
    std::int64_t batch = 1;
    std::int64_t m = 1;
    std::int64_t k = 1;
    std::int64_t n = 1;
};

std::optional<ProductSize> size_of(const WorkText& work, const Tensor& a, const Tensor& b) {
    if (a.shape.size() < 2 || b.shape.size() < 2 || volume(a.shape) * volume(b.shape) == 0) {
        return std::nullopt;
    }
    ProductSize size;
    const bool a_transposed = work.integer("transA").value_or(0) != 0;
    const bool b_transposed = work.integer("transB").value_or(0) != 0;
    size.k = a_transposed ? a.shape[0] : a.shape.back();
    size.n = b_transposed ? b.shape[0] : b.shape.back();
    size.batch = volume(b.shape) / (size.k * size.n);
    size.m = volume(a.shape) / (size.k * std::max<std::int64_t>(size.batch, 1));
    return size.batch > 0 && size.m > 0 ? std::optional(size) : std::nullopt;
}

Calls products(const WorkText& work, const Tensor& a) {
    const Tensor* b = work.operand(1);
    if (b == nullptr) return {};
    const auto size = size_of(work, a, *b);
    if (!size) return {};
    const auto [batch, m, k, n] = *size;
    if (work.phase == Phase::forward) {
        return {product(work.operand(2) != nullptr, batch, m, k, n)};
    }
    Calls calls;
    if (work.wants(0)) calls.push_back(product(false, batch, m, n, k));
    if (work.wants(1)) calls.push_back(product(false, batch, k, m, n));
    if (work.wants(2)) {
        calls.push_back({.keys = {elements_key("sum", {batch * m * n})}, .may_lack = true});
    }
    return calls;
}

/// Its bias is added, and its gradient summed, by kernels of their own.
Calls convolution(const WorkText& work, const Tensor& x) {
    const Tensor* weight = work.operand(1);
    if (weight == nullptr || work.results.empty() || !work.results[0]) return {};
    const bool forward = work.phase == Phase::forward;
    Calls calls = {{.keys = {shapes_key(forward ? "convolution" : "convolution-backward",
                                        {x.shape, weight->shape})}}};
    const Tensor* bias = work.operand(2);
    if (bias == nullptr || (!forward && !work.wants(2))) return calls;
    const std::int64_t result = volume(work.results[0]->shape);
    calls.push_back({.keys = {forward ? elements_key("add", {result, volume(bias->shape)})
                                      : elements_key("sum", {result})},
                     .may_lack = true,
                     .is_inner = true});
    return calls;
}

/// [batch, heads, length, dim]; rows of 3 dims have their heads side by side.
std::optional<Shape> by_head(const WorkText& work, const Tensor& tensor, std::string_view heads) {
    if (tensor.shape.size() == 4) return tensor.shape;
    const auto count = work.integer(heads);
    if (tensor.shape.size() != 3 || !count || *count <= 0) return std::nullopt;
    return Shape{tensor.shape[0], *count, tensor.shape[1], tensor.shape[2] / *count};
}

Calls attention(const WorkText& work, const Tensor& query) {
    const Tensor* key = work.operand(1);
    if (key == nullptr) return {};
    const auto queries = by_head(work, query, "q_num_heads");
    const auto keys = by_head(work, *key, "kv_num_heads");
    if (!queries || !keys) return {};
    const bool forward = work.phase == Phase::forward;
    return {
        {.keys = {attention_key(forward ? "attention" : "attention-backward", *queries, *keys)}}};
}

/// Rows of a table.
Calls lookup(const WorkText& work, const Tensor& table) {
    const Tensor* indices = work.operand(1);
    const bool by_rows = work.integer("axis").value_or(0) == 0 && table.shape.size() == 2;
    if (indices == nullptr || !by_rows) return {};
    const bool forward = work.phase == Phase::forward;
    return {{.keys = {elements_key(forward ? "lookup" : "lookup-backward",
                                   {volume(indices->shape), table.shape[1]})}}};
}

/// A norm of as long rows as the second operand.
Calls norm(const WorkText& work, const Tensor& x) {
    const Tensor* weight = work.operand(1);
    if (weight == nullptr) return {};
    const bool forward = work.phase == Phase::forward;
    return {{.keys = {elements_key(forward ? "layer-norm" : "layer-norm-backward",
                                   {volume(x.shape), volume(weight->shape)})}}};
}

/// One kernel each way, of the shape of the first operand.
template <bool Shapes>
Calls unary(std::string_view of, const WorkText& work, const Tensor& x) {
    std::string name(of);
    if (work.phase == Phase::backward) name += "-backward";
    return {
        {.keys = {Shapes ? shapes_key(name, {x.shape}) : elements_key(name, {volume(x.shape)})}}};
}

/// Along the last dim alone.
Calls along_rows(std::string_view of, const WorkText& work, const Tensor& x) {
    const std::int64_t axis = work.integer("axis").value_or(-1);
    if (x.shape.empty() || (axis != -1 && axis != std::ssize(x.shape) - 1)) return {};
    std::string name(of);
    if (work.phase == Phase::backward) name += "-backward";
    return {{.keys = {elements_key(name, {volume(x.shape), x.shape.back()})}}};
}

/// Operands that have dims; numbers are arguments.
std::vector<std::int64_t> volumes(const WorkText& work) {
    std::vector<std::int64_t> volumes;
    for (const auto& operand : work.operands) {
        if (operand && !operand->shape.empty()) volumes.push_back(volume(operand->shape));
    }
    return volumes;
}

Calls binary(std::string_view of, const WorkText& work, const Tensor& /*a*/) {
    if (volumes(work).empty()) return {};
    if (work.phase == Phase::forward) return {{.keys = {elements_key(of, volumes(work))}}};
    if (of != "mul" || work.results.empty() || !work.results[0]) return {};
    // The gradient times the other operand, for each that has one. A sum over what was repeated
    // would be another kernel.
    const std::int64_t result = volume(work.results[0]->shape);
    Calls calls;
    for (std::size_t i = 0; i < 2; ++i) {
        const Tensor* own = work.operand(i);
        const Tensor* other = work.operand(1 - i);
        if (!work.wants(i) || own == nullptr || other == nullptr) continue;
        if (volume(own->shape) != result) return {};
        std::vector<std::int64_t> operands = {result};
        if (!other->shape.empty()) operands.push_back(volume(other->shape));
        calls.push_back({.keys = {elements_key(of, operands)}});
    }
    return calls;
}

Calls forward_only(std::string_view of, const WorkText& work, const Tensor& x) {
    if (work.phase == Phase::backward) return {};
    return unary<false>(of, work, x);
}

template <auto Make>
Calls plain(std::string_view /*of*/, const WorkText& work, const Tensor& x) {
    return Make(work, x);
}

struct WorkRow {
    std::string_view type;
    std::string_view of;
    Calls (*calls)(std::string_view of, const WorkText&, const Tensor&);
    bool attributes_count = false;  ///< and keys leave them out
};

// Sorted by type.
constexpr WorkRow kWorkRows[] = {
    {"Add", "add", binary},
    {"Attention", "", plain<attention>, true},
    {"AveragePool", "average-pool", unary<true>, true},
    {"BatchNormalization", "batch-norm", unary<true>},
    {"Conv", "", plain<convolution>, true},
    {"Div", "div", binary},
    {"Exp", "exp", forward_only},
    {"Gather", "", plain<lookup>},
    {"Gelu", "gelu", unary<false>},
    {"Gemm", "", plain<products>},
    {"GlobalAveragePool", "global-average", unary<true>},
    {"LayerNormalization", "", plain<norm>},
    {"Linear", "", plain<products>},
    {"LogSoftmax", "log-softmax", along_rows},
    {"MatMul", "", plain<products>},
    {"MaxPool", "max-pool", unary<true>, true},
    {"Mul", "mul", binary},
    {"Neg", "neg", forward_only},
    {"Pow", "pow", forward_only},
    {"Relu", "relu", unary<false>},
    {"Sigmoid", "sigmoid", unary<false>},
    {"Softmax", "softmax", along_rows},
    {"Sqrt", "sqrt", forward_only},
    {"Sub", "sub", binary},
    {"Tanh", "tanh", unary<false>},
};
static_assert(std::ranges::is_sorted(kWorkRows, {}, &WorkRow::type));

}  // namespace

AtenCalls aten_calls(const WorkText& work) {
    if (work.phase == Phase::accumulate) {
        return {.dtype = work.dtype,
                .calls = {{.keys = {elements_key("add", {work.elements, work.elements})}}},
                .unsaid = {}};
    }
    const auto* row = std::ranges::lower_bound(kWorkRows, work.type, {}, &WorkRow::type);
    const Tensor* first = work.operand(0);
    if (row == std::ranges::end(kWorkRows) || row->type != work.type || first == nullptr) return {};
    AtenCalls calls{
        .dtype = first->dtype, .calls = row->calls(row->of, work, *first), .unsaid = {}};
    if (row->attributes_count) calls.unsaid = work.attributes;
    return calls;
}

}  // namespace partita::cost
