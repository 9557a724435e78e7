// SPDX-License-Identifier: Apache-2.0
#include "runtime/kernels/score_dropout.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/custom_function.h>

#include "graph/fusion/attention.h"
#include "runtime/kernels/expected.h"
#include "runtime/kernels/heads.h"
#include "runtime/kernels/random_numbers.h"

namespace partita::runtime {

namespace {

constexpr std::int64_t kMostScores = std::int64_t{1} << 22U;  ///< at a time

/// Some heads of one entry.
struct Block {
    std::int64_t entry = 0;
    std::int64_t head = 0;
    std::int64_t heads = 0;

    /// [n h ...] -> [heads ...]
    [[nodiscard]] at::Tensor of(const at::Tensor& all) const {
        return all.select(0, entry).narrow(0, head, heads);
    }
    /// The same of what broadcasts; nothing of nothing.
    [[nodiscard]] at::Tensor of_bias(const at::Tensor& bias) const {
        if (bias.numel() == 0) return {};
        const at::Tensor one = bias.select(0, bias.size(0) == 1 ? 0 : entry);
        return one.size(0) == 1 ? one : one.narrow(0, head, heads);
    }
};

template <class Body>
void for_blocks(const at::Tensor& query, std::int64_t keys, const Body& body) {
    const std::int64_t heads = query.size(1);
    const std::int64_t scores = std::max<std::int64_t>(query.size(2) * keys, 1);
    const std::int64_t step = std::max<std::int64_t>(kMostScores / scores, 1);
    for (std::int64_t entry = 0; entry < query.size(0); ++entry) {
        for (std::int64_t head = 0; head < heads; head += step) {
            body(Block{entry, head, std::min(step, heads - head)});
        }
    }
}

/// The softmax of a block's scores.
at::Tensor weights_of(const at::Tensor& query, const at::Tensor& key, const at::Tensor& bias,
                      double scale) {
    const at::Tensor scores = at::matmul(query * scale, key.transpose(-2, -1));
    return softmax_of_scores(bias.defined() ? scores + bias : scores, bias, scores.scalar_type());
}

class AttentionWithDropout : public torch::autograd::Function<AttentionWithDropout> {
public:
    using Context = torch::autograd::AutogradContext;

    static at::Tensor forward(Context* context, const at::Tensor& query, const at::Tensor& key,
                              const at::Tensor& value, const at::Tensor& bias,
                              const at::Tensor& rows, double ratio, double scale) {
        context->save_for_backward({query, key, value, bias, rows});
        context->saved_data["ratio"] = ratio;
        context->saved_data["scale"] = scale;
        const ScoreDropout dropout(ratio, rows);
        const at::Tensor keys = at::arange(key.size(2), rows.options());
        at::Tensor result = at::empty({query.size(0), query.size(1), query.size(2), value.size(3)},
                                      query.options());
        for_blocks(query, key.size(2), [&](const Block& block) {
            const at::Tensor weights =
                weights_of(block.of(query), block.of(key), block.of_bias(bias), scale);
            const at::Tensor kept = dropout.applied(weights, block.of(rows), keys);
            block.of(result).copy_(at::matmul(kept, block.of(value)));
        });
        return result;
    }

    /// With p the softmax's result, d what is kept of it, and D the same choice of any other:
    ///
    ///     dv = d^T dy     dp = D(dy v^T)     ds = p * (dp - sum(dp * p))
    static torch::autograd::variable_list backward(Context* context,
                                                   const torch::autograd::variable_list& given) {
        const torch::autograd::variable_list saved = context->get_saved_variables();
        const at::Tensor& query = saved[0];
        const at::Tensor& key = saved[1];
        const at::Tensor& value = saved[2];
        const at::Tensor& bias = saved[3];
        const double scale = context->saved_data["scale"].toDouble();
        const ScoreDropout dropout(context->saved_data["ratio"].toDouble(), saved[4]);
        const at::Tensor keys = at::arange(key.size(2), saved[4].options());
        const at::Tensor of_query = at::empty_like(query);
        const at::Tensor of_key = at::empty_like(key);
        const at::Tensor of_value = at::empty_like(value);
        const at::Tensor of_bias = at::zeros_like(bias);
        for_blocks(query, key.size(2), [&](const Block& block) {
            const at::Tensor weights =
                weights_of(block.of(query), block.of(key), block.of_bias(bias), scale);
            const at::Tensor rows = block.of(dropout.rows());
            const at::Tensor of_result = block.of(given[0]);
            const at::Tensor kept = dropout.applied(weights, rows, keys);
            block.of(of_value).copy_(at::matmul(kept.transpose(-2, -1), of_result));
            const at::Tensor of_weights = dropout.applied(
                at::matmul(of_result, block.of(value).transpose(-2, -1)), rows, keys);
            const at::Tensor of_scores =
                weights * (of_weights - (of_weights * weights).sum(-1, /*keepdim=*/true));
            block.of(of_query).copy_(at::matmul(of_scores, block.of(key)) * scale);
            block.of(of_key).copy_(at::matmul(of_scores.transpose(-2, -1), block.of(query)) *
                                   scale);
            const at::Tensor part = block.of_bias(of_bias);
            if (part.defined()) part.add_(unbroadcast(of_scores, part.sizes().vec()));
        });
        return {of_query, of_key, of_value, of_bias, at::Tensor(), at::Tensor(), at::Tensor()};
    }
};

}  // namespace

ScoreDropout::ScoreDropout(const KernelCall& call) : ratio_(call.real(graph::kDropoutRatio, 0.0)) {
    if (!drops()) return;
    const graph::Region& region = call.op.results[0].region;
    expect(ratio_ < 1 && region.dims.size() == 4,
           "attention with dropout: expected a ratio below 1, and 4 dims");
    rows_ = random_bits(call, seed_of(call, call.text(graph::kDropoutName, call.op.name)));
    for (std::size_t dim = 0; dim < 3; ++dim) {
        rows_ = with_dim(rows_.unsqueeze(-1), positions_of(call, region.dims[dim]));
    }
}

at::Tensor ScoreDropout::applied(const at::Tensor& weights, const at::Tensor& rows,
                                 const at::Tensor& keys) const {
    const at::Tensor kept = as_uniform(with_dim(rows.unsqueeze(-1), keys)).ge(ratio_);
    return at::where(kept, weights / (1 - ratio_), 0);
}

at::Tensor attention_with_dropout(const ScoreDropout& dropout, const at::Tensor& query,
                                  const at::Tensor& key, const at::Tensor& value,
                                  const at::Tensor& bias, double scale) {
    // A Function takes no undefined tensor.
    const at::Tensor given = bias.defined() ? bias : at::empty({0}, query.options());
    return AttentionWithDropout::apply(query, key, value, given, dropout.rows(), dropout.ratio(),
                                       scale);
}

}  // namespace partita::runtime
