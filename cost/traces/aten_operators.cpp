// SPDX-License-Identifier: Apache-2.0
#include "cost/traces/aten_operators.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace partita::cost {

namespace {

using graph::Shape;
using Shapes = std::vector<Shape>;
using Key = std::optional<std::string>;

constexpr std::string_view kNamespace = "aten::";

/// Of what has dims, in order.
std::vector<std::int64_t> volumes(const Shapes& shapes) {
    std::vector<std::int64_t> volumes;
    for (const Shape& shape : shapes) {
        if (!shape.empty()) volumes.push_back(volume(shape));
    }
    return volumes;
}

bool has(const Shapes& shapes, std::size_t i, std::size_t rank) {
    return i < shapes.size() && shapes[i].size() == rank;
}
bool has_any(const Shapes& shapes, std::size_t i) {
    return i < shapes.size() && !shapes[i].empty();
}

/// Operand `First` and the next, both of `Rank` dims.
template <std::size_t First, std::size_t Rank>
Key product(std::string_view of, const Shapes& shapes) {
    if (!has(shapes, First, Rank) || !has(shapes, First + 1, Rank)) return std::nullopt;
    const Shape& a = shapes[First];
    const Shape& b = shapes[First + 1];
    const std::int64_t batch = Rank == 3 ? a[0] : 1;
    return product_key(of == "biased-product", batch, a[Rank - 2], a[Rank - 1], b[Rank - 1]);
}

Key linear(std::string_view /*of*/, const Shapes& shapes) {
    if (!has_any(shapes, 0) || !has(shapes, 1, 2)) return std::nullopt;
    const std::int64_t k = shapes[1][1];
    if (k == 0) return std::nullopt;
    return product_key(has_any(shapes, 2), 1, volume(shapes[0]) / k, k, shapes[1][0]);
}

Key matmul(std::string_view /*of*/, const Shapes& shapes) {
    if (!has_any(shapes, 0) || !has_any(shapes, 1) || shapes[1].size() < 2) return std::nullopt;
    const std::int64_t k = shapes[0].back();
    const std::int64_t n = shapes[1].back();
    const std::int64_t matrix = volume({k, n});
    if (matrix == 0) return std::nullopt;
    const std::int64_t batch = volume(shapes[1]) / matrix;
    if (batch == 0) return std::nullopt;
    return product_key(false, batch, volume(shapes[0]) / k / batch, k, n);
}

/// Two operands, from `First` on.
template <std::size_t First>
Key two(std::string_view of, const Shapes& shapes) {
    if (!has_any(shapes, First) || !has_any(shapes, First + 1)) return std::nullopt;
    return shapes_key(of, {shapes[First], shapes[First + 1]});
}

template <std::size_t At>
Key one(std::string_view of, const Shapes& shapes) {
    if (!has_any(shapes, At)) return std::nullopt;
    return shapes_key(of, {shapes[At]});
}

Key all_elements(std::string_view of, const Shapes& shapes) {
    if (volumes(shapes).empty()) return std::nullopt;
    return elements_key(of, volumes(shapes));
}

Key first_elements(std::string_view of, const Shapes& shapes) {
    if (!has_any(shapes, 0)) return std::nullopt;
    return elements_key(of, {volume(shapes[0])});
}

/// Along the last dim.
Key rows(std::string_view of, const Shapes& shapes) {
    if (!has_any(shapes, 0)) return std::nullopt;
    return elements_key(of, {volume(shapes[0]), shapes[0].back()});
}

/// Of rows as long as the weight, which is the next tensor, or in a backward the last.
template <bool Backward>
Key norm(std::string_view of, const Shapes& shapes) {
    const std::vector<std::int64_t> sizes = volumes(shapes);
    if (sizes.size() < 2 || !has_any(shapes, 0)) return std::nullopt;
    return elements_key(of, {sizes[0], Backward ? sizes.back() : sizes[1]});
}

/// `First`: the queries. `ByHead`: [batch, heads, length, dim], else [batch, length, heads, dim].
template <std::size_t First, bool ByHead>
Key attention(std::string_view of, const Shapes& shapes) {
    if (!has(shapes, First, 4) || !has(shapes, First + 1, 4)) return std::nullopt;
    Shape query = shapes[First];
    Shape key = shapes[First + 1];
    if (!ByHead) {
        std::swap(query[1], query[2]);
        std::swap(key[1], key[2]);
    }
    return attention_key(of, query, key);
}

/// Rows of a table, and how many are looked up.
template <std::size_t Table, std::size_t Indices>
Key lookup(std::string_view of, const Shapes& shapes) {
    if (!has(shapes, Table, 2) || !has_any(shapes, Indices)) return std::nullopt;
    return elements_key(of, {volume(shapes[Indices]), shapes[Table][1]});
}

Key lookup_backward(std::string_view of, const Shapes& shapes) {
    if (!has_any(shapes, 0) || !has_any(shapes, 1)) return std::nullopt;
    return elements_key(of, {volume(shapes[1]), shapes[0].back()});
}

struct OperatorRow {
    std::string_view name;
    std::string_view of;  ///< the class
    Key (*key)(std::string_view, const Shapes&);
};

// Sorted by name.
constexpr OperatorRow kRows[] = {
    {"_adaptive_avg_pool2d", "global-average", one<0>},
    {"_adaptive_avg_pool2d_backward", "global-average-backward", one<1>},
    {"_conv_depthwise2d", "convolution", two<0>},
    {"_convolution", "convolution", two<0>},
    {"_cudnn_attention_backward", "attention-backward", attention<1, true>},
    {"_cudnn_attention_forward", "attention", attention<0, true>},
    {"_efficient_attention_backward", "attention-backward", attention<1, false>},
    {"_efficient_attention_forward", "attention", attention<0, false>},
    {"_flash_attention_backward", "attention-backward", attention<1, false>},
    {"_flash_attention_forward", "attention", attention<0, false>},
    {"_log_softmax", "log-softmax", rows},
    {"_log_softmax_backward_data", "log-softmax-backward", rows},
    {"_scaled_dot_product_attention_math", "attention", attention<0, true>},
    {"_scaled_dot_product_cudnn_attention", "attention", attention<0, true>},
    {"_scaled_dot_product_cudnn_attention_backward", "attention-backward", attention<1, true>},
    {"_scaled_dot_product_efficient_attention", "attention", attention<0, true>},
    {"_scaled_dot_product_efficient_attention_backward", "attention-backward", attention<1, true>},
    {"_scaled_dot_product_flash_attention", "attention", attention<0, true>},
    {"_scaled_dot_product_flash_attention_backward", "attention-backward", attention<1, true>},
    {"_scaled_dot_product_flash_attention_for_cpu", "attention", attention<0, true>},
    {"_scaled_dot_product_flash_attention_for_cpu_backward", "attention-backward",
     attention<1, true>},
    {"_slow_conv2d_forward", "convolution", two<0>},
    {"_softmax", "softmax", rows},
    {"_softmax_backward_data", "softmax-backward", rows},
    {"adaptive_avg_pool2d", "global-average", one<0>},
    {"add", "add", all_elements},
    {"add_", "add", all_elements},
    {"addmm", "biased-product", product<1, 2>},
    {"avg_pool2d", "average-pool", one<0>},
    {"avg_pool2d_backward", "average-pool-backward", one<1>},
    {"baddbmm", "biased-product", product<1, 3>},
    {"batch_norm", "batch-norm", one<0>},
    {"bmm", "product", product<0, 3>},
    {"clamp_min", "relu", first_elements},
    {"clamp_min_", "relu", first_elements},
    {"conv1d", "convolution", two<0>},
    {"conv2d", "convolution", two<0>},
    {"conv3d", "convolution", two<0>},
    {"convolution", "convolution", two<0>},
    {"convolution_backward", "convolution-backward", two<1>},
    {"cudnn_batch_norm", "batch-norm", one<0>},
    {"cudnn_batch_norm_backward", "batch-norm-backward", one<0>},
    {"cudnn_convolution", "convolution", two<0>},
    {"div", "div", all_elements},
    {"div_", "div", all_elements},
    {"embedding", "lookup", lookup<0, 1>},
    {"embedding_dense_backward", "lookup-backward", lookup_backward},
    {"exp", "exp", first_elements},
    {"gelu", "gelu", first_elements},
    {"gelu_backward", "gelu-backward", first_elements},
    {"index_select", "lookup", lookup<0, 2>},
    {"layer_norm", "layer-norm", norm<false>},
    {"linear", "linear", linear},
    {"log_softmax", "log-softmax", rows},
    {"matmul", "product", matmul},
    {"max_pool2d", "max-pool", one<0>},
    {"max_pool2d_with_indices", "max-pool", one<0>},
    {"max_pool2d_with_indices_backward", "max-pool-backward", one<1>},
    {"miopen_convolution", "convolution", two<0>},
    {"mkldnn_convolution", "convolution", two<0>},
    {"mm", "product", product<0, 2>},
    {"mul", "mul", all_elements},
    {"mul_", "mul", all_elements},
    {"native_batch_norm", "batch-norm", one<0>},
    {"native_batch_norm_backward", "batch-norm-backward", one<0>},
    {"native_layer_norm", "layer-norm", norm<false>},
    {"native_layer_norm_backward", "layer-norm-backward", norm<true>},
    {"neg", "neg", first_elements},
    {"pow", "pow", first_elements},
    {"relu", "relu", first_elements},
    {"relu_", "relu", first_elements},
    {"scaled_dot_product_attention", "attention", attention<0, true>},
    {"sigmoid", "sigmoid", first_elements},
    {"sigmoid_backward", "sigmoid-backward", first_elements},
    {"silu", "silu", first_elements},
    {"silu_", "silu", first_elements},
    {"silu_backward", "silu-backward", first_elements},
    {"softmax", "softmax", rows},
    {"sqrt", "sqrt", first_elements},
    {"sub", "sub", all_elements},
    {"sub_", "sub", all_elements},
    {"sum", "sum", first_elements},
    {"tanh", "tanh", first_elements},
    {"tanh_backward", "tanh-backward", first_elements},
    {"threshold_backward", "relu-backward", first_elements},
};
static_assert(std::ranges::is_sorted(kRows, {}, &OperatorRow::name));

const OperatorRow* find(std::string_view name) {
    if (name.starts_with(kNamespace)) name.remove_prefix(kNamespace.size());
    const auto* row = std::ranges::lower_bound(kRows, name, {}, &OperatorRow::name);
    return row != std::ranges::end(kRows) && row->name == name ? row : nullptr;
}

}  // namespace

std::int64_t volume(const Shape& shape) {
    std::int64_t volume = 1;
    for (const std::int64_t extent : shape) {
        if (__builtin_mul_overflow(volume, extent, &volume)) {
            return std::numeric_limits<std::int64_t>::max();
        }
    }
    return volume;
}

std::string_view operator_class(std::string_view name) {
    const OperatorRow* row = find(name);
    if (row == nullptr) return {};
    // Products call one another: linear a biased one, matmul a batched one.
    for (const std::string_view product : {"product", "biased-product", "linear"}) {
        if (row->of == product) return "product";
    }
    return row->of;
}

std::optional<std::string> operator_key(std::string_view name, const Shapes& shapes) {
    const OperatorRow* row = find(name);
    if (row == nullptr) return std::nullopt;
    return row->key(row->of, shapes);
}

std::string product_key(bool biased, std::int64_t batch, std::int64_t m, std::int64_t k,
                        std::int64_t n) {
    return fmt::format("{} {} {} {} {}", biased ? "biased-product" : "product", batch, m, k, n);
}

std::string elements_key(std::string_view of, std::vector<std::int64_t> elements) {
    if (of == "add" || of == "mul") std::ranges::sort(elements, std::greater{});
    return fmt::format("{} {}", of, fmt::join(elements, " "));
}

std::string shapes_key(std::string_view of, const Shapes& shapes) {
    std::string key(of);
    for (const Shape& shape : shapes) key += fmt::format(" {}", fmt::join(shape, "x"));
    return key;
}

std::string attention_key(std::string_view of, const Shape& query, const Shape& key) {
    return fmt::format("{} {} {}", of, fmt::join(query, "x"), key[2]);
}

}  // namespace partita::cost
