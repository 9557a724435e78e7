// SPDX-License-Identifier: Apache-2.0
#include "rl/sampler.h"

#include <algorithm>
#include <cmath>

#include <ATen/ops/from_blob.h>
#include <ATen/ops/log_softmax.h>
#include <c10/core/ScalarType.h>

namespace partita::rl {

using search::Random;
using torch::Tensor;

namespace {

/// A row's number by log-probabilities, or the most probable one (ties: the first).
std::int64_t draw(const float* row, std::int64_t count, bool greedy, Random& random) {
    if (greedy) return std::max_element(row, row + count) - row;
    const double u = random.uniform();
    double sum = 0;
    std::int64_t last = 0;
    for (std::int64_t i = 0; i < count; ++i) {
        const double probability = std::exp(static_cast<double>(row[i]));
        if (probability == 0) continue;  // may not be chosen
        last = i;
        sum += probability;
        if (u < sum) break;
    }
    return last;
}

/// A number for each episode by its row of log-probabilities; one row may serve all.
void draw_rows(const Tensor& log, const Draws& draws, Random& random, std::int64_t* to) {
    const Tensor rows = log.contiguous();
    const std::int64_t width = rows.size(1);
    for (std::int64_t e = 0; e < draws.count; ++e) {
        const std::int64_t row = std::min(e, rows.size(0) - 1);
        to[e] = draw(rows.const_data_ptr<float>() + row * width, width, e < draws.greedy, random);
    }
}

/// A step of an array of Episodes.
template <typename T>
Tensor at_step(std::vector<T>& values, std::int64_t step, at::IntArrayRef shape) {
    std::int64_t size = 1;
    for (const std::int64_t extent : shape) size *= extent;
    return at::from_blob(values.data() + step * size, shape, c10::CppTypeToScalarType<T>::value);
}

Tensor block_rows(Episodes& of, std::int64_t step) {
    return at_step(of.block_rows, step,
                   {of.count, of.places, static_cast<std::int64_t>(kBlockFeatures)});
}

Tensor kind_rows(Episodes& of, std::int64_t step) {
    return at_step(of.kind_rows, step,
                   {of.count, of.kinds, static_cast<std::int64_t>(kKindFeatures)});
}

/// Of `rows` [count, n, features] the chosen ones, [count, features].
Tensor chosen_rows(const Tensor& rows, std::vector<std::int64_t>& chosen, std::int64_t step) {
    const Tensor at = at_step(chosen, step, {rows.size(0), 1, 1});
    return rows.gather(1, at.expand({-1, 1, rows.size(2)})).squeeze(1);
}

}  // namespace

void Sampler::assign_groups(PolicyNet& net, const GraphTensors& graph, const Draws& draws,
                            Random& random, Episodes& episodes) {
    const Tensor log = net.grouping(graph).contiguous();
    const std::int64_t groups = log.size(1);
    for (std::int64_t e = 0; e < draws.count; ++e) {
        std::vector<std::int64_t> groups_of;
        for (std::int64_t d = 0; d < log.size(0); ++d) {
            groups_of.push_back(
                draw(log.const_data_ptr<float>() + d * groups, groups, e < draws.greedy, random));
        }
        episodes.assign(e, groups_of);
    }
}

void Sampler::draw_iterations(const Tensor& log, const Draws& draws, Random& random, Batch& batch) {
    std::vector<std::int64_t>& iterations = batch.episodes.iteration;
    draw_rows(log, draws, random, iterations.data());
    for (std::size_t e = 0; e < iterations.size(); ++e) {
        batch.choices[e].iteration = static_cast<std::size_t>(iterations[e]);
    }
}

void Sampler::draw_places(PolicyNet& net, const Tensor& z, const Whims& whims, const Draws& draws,
                          Random& random, Episodes& episodes, std::int64_t step) {
    walks_.look(episodes, step);
    const Tensor rows = block_rows(episodes, step);
    const Tensor open = at_step(episodes.block_open, step, {draws.count, episodes.places});
    Tensor whim;
    if (whims.any()) {
        std::vector<std::int64_t> blocks = walks_.blocks(episodes, step);
        whim = whims.of_blocks(rows, at_step(blocks, 0, {draws.count, episodes.places}));
    }
    draw_rows(net.block_head(z, rows, open, whim), draws, random,
              episodes.place.data() + step * draws.count);
}

void Sampler::draw_kinds(PolicyNet& net, const Tensor& z, const Whims& whims, const Draws& draws,
                         Random& random, Episodes& episodes, std::int64_t step) {
    walks_.look_closer(episodes, step);
    if (episodes.kinds <= 1) return;
    const Tensor rows = kind_rows(episodes, step);
    const Tensor open = at_step(episodes.kind_open, step, {draws.count, episodes.kinds});
    const Tensor whim = whims.any() ? whims.of_kinds(rows) : Tensor();
    draw_rows(net.kind_head(z, rows, open, whim), draws, random,
              episodes.kind.data() + step * draws.count);
}

Batch Sampler::sample(PolicyNet& net, const GraphTensors& graph, const Draws& draws,
                      Random& random) {
    const at::NoGradGuard no_grad;
    Batch batch(space_, draws.count, net.groups());
    batch.own = draws.count - draws.whims;
    Episodes& episodes = batch.episodes;
    const Whims whims = draw_whims(draws, space_, random);
    if (net.groups() > 0) assign_groups(net, graph, draws, random, episodes);
    const Tensor encoding = net.encode(graph, episodes);
    Tensor iteration_log = net.iteration_head(graph, encoding);
    if (whims.any()) iteration_log = at::log_softmax(iteration_log + whims.iterations, 1);
    draw_iterations(iteration_log, draws, random, batch);
    walks_.start(episodes);
    const Tensor iterations = at_step(episodes.iteration, 0, {draws.count});
    PolicyNet::State state = net.start(encoding, graph.iterations.index_select(0, iterations));
    for (std::int64_t step = 0; step < episodes.steps; ++step) {
        const Tensor z = net.step(state, encoding, step);
        draw_places(net, z, whims, draws, random, episodes, step);
        draw_kinds(net, z, whims, draws, random, episodes, step);
        walks_.take(batch, step);
        state.before = net.choice(at_step(episodes.block, step, {draws.count}),
                                  chosen_rows(block_rows(episodes, step), episodes.place, step),
                                  chosen_rows(kind_rows(episodes, step), episodes.kind, step));
    }
    return batch;
}

}  // namespace partita::rl
