// SPDX-License-Identifier: Apache-2.0
#include "rl/whims.h"

#include <cmath>
#include <numbers>

#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>

#include "rl/walk.h"

namespace partita::rl {

using at::Tensor;
using search::Random;

namespace {

/// Box and Muller 1958.
double standard_normal(Random& random) {
    const double u = 1 - random.uniform();
    return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * random.uniform());
}

}  // namespace

Tensor Whims::of_blocks(const Tensor& rows, const Tensor& blocks) const {
    return at::matmul(rows, block_weights.unsqueeze(2)).squeeze(2) + likings.gather(1, blocks);
}

Tensor Whims::of_kinds(const Tensor& rows) const {
    return at::matmul(rows, kind_weights.unsqueeze(2)).squeeze(2);
}

Whims draw_whims(const Draws& draws, const ActionSpace& space, Random& random) {
    if (draws.whims == 0) return {};
    const auto normal = [&](std::size_t width, double deviation) {
        const auto row = static_cast<std::int64_t>(width);
        Tensor rows = at::zeros({draws.count, row});
        float* const values = rows.mutable_data_ptr<float>();
        for (std::int64_t i = (draws.count - draws.whims) * row; i < draws.count * row; ++i) {
            values[i] = static_cast<float>(deviation * standard_normal(random));
        }
        return rows;
    };
    return {.block_weights = normal(kBlockFeatures, draws.deviation),
            .kind_weights = normal(kKindFeatures, draws.deviation),
            .likings = normal(space.blocks().size(), draws.deviation / 2),
            .iterations = normal(space.iterations().size(), draws.deviation)};
}

}  // namespace partita::rl
