// SPDX-License-Identifier: Apache-2.0
#include "rl/sampler.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <ATen/ops/from_blob.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>

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

std::size_t place_of(std::span<const Place> places, std::int32_t option) {
    const auto at = std::ranges::find_if(
        places, [&](const Place& of) { return of.begin <= option && option < of.end; });
    return static_cast<std::size_t>(at - places.begin());
}

const Revision& revision_of(const Draws& draws, std::int64_t episode) {
    const auto revised = static_cast<std::int64_t>(draws.revisions.size());
    return draws.revisions[static_cast<std::size_t>(episode - (draws.count - revised))];
}

/// Box and Muller 1958.
double standard_normal(Random& random) {
    const double u = 1 - random.uniform();
    return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * random.uniform());
}

Tensor at_step(std::vector<float>& values, std::int64_t step, at::IntArrayRef shape) {
    std::int64_t size = 1;
    for (const std::int64_t extent : shape) size *= extent;
    return at::from_blob(values.data() + step * size, shape, at::kFloat);
}

}  // namespace

void Sampler::start(const Episodes& episodes) {
    while (walks_.size() < static_cast<std::size_t>(episodes.count)) {
        walks_.emplace_back(space_, prices_);
    }
    for (std::size_t e = 0; e < static_cast<std::size_t>(episodes.count); ++e) {
        walks_[e].start(static_cast<std::size_t>(episodes.iteration[e]));
    }
}

/// -1: the group is empty.
std::int64_t Sampler::lead(const Episodes& episodes, std::int64_t step, std::int64_t e) const {
    if (!episodes.has_groups()) return step;
    const auto members =
        episodes.members[static_cast<std::size_t>(e)][static_cast<std::size_t>(step)];
    if (members.empty()) return -1;
    return *std::ranges::max_element(members, {},
                                     [&](std::uint32_t d) { return prices_.least_compute(d); });
}

void Sampler::look(Episodes& episodes, std::int64_t step) {
    for (std::int64_t e = 0; e < episodes.count; ++e) {
        const std::int64_t of = lead(episodes, step, e);
        if (of < 0) {
            episodes.block_open[static_cast<std::size_t>((step * episodes.count + e) *
                                                         episodes.places)] = 1;
            continue;
        }
        const auto d = static_cast<std::size_t>(of);
        const std::size_t places = space_.places(d).size();
        Walk& walk = walks_[static_cast<std::size_t>(e)];
        walk.look(d);
        walk.write_block_features(episodes.block_row(step, e));
        float* const open =
            episodes.block_open.data() + (step * episodes.count + e) * episodes.places;
        for (std::size_t p = 0; p < places; ++p) open[p] = walk.is_open_place(p) ? 1.0F : 0.0F;
    }
}

void Sampler::look_closer(Episodes& episodes, std::int64_t step) {
    for (std::int64_t e = 0; e < episodes.count; ++e) {
        const std::int64_t lead = this->lead(episodes, step, e);
        if (lead < 0) {
            episodes
                .kind_open[static_cast<std::size_t>((step * episodes.count + e) * episodes.kinds)] =
                1;
            continue;
        }
        const auto d = static_cast<std::size_t>(lead);
        const Walk& walk = walks_[static_cast<std::size_t>(e)];
        const auto at = static_cast<std::size_t>(step * episodes.count + e);
        const auto place = static_cast<std::size_t>(episodes.place[at]);
        const Place& of = space_.places(d)[place];
        episodes.block[at] = of.block;
        walk.write_kind_features(place, episodes.kind_row(step, e));
        float* const open =
            episodes.kind_open.data() + static_cast<std::int64_t>(at) * episodes.kinds;
        for (std::int32_t o = of.begin; o < of.end; ++o) {
            open[o - of.begin] = walk.is_open_option(static_cast<std::size_t>(o)) ? 1.0F : 0.0F;
        }
    }
}

void Sampler::take(Episodes& episodes, std::int64_t step, std::vector<Choices>& choices) {
    for (std::int64_t e = 0; e < episodes.count; ++e) {
        const std::int64_t lead = this->lead(episodes, step, e);
        if (lead < 0) continue;
        const auto d = static_cast<std::size_t>(lead);
        const auto at = static_cast<std::size_t>(step * episodes.count + e);
        const Place& place = space_.places(d)[static_cast<std::size_t>(episodes.place[at])];
        const auto option = static_cast<std::int32_t>(place.begin + episodes.kind[at]);
        take(walks_[static_cast<std::size_t>(e)], d, option, choices[static_cast<std::size_t>(e)]);
        if (!episodes.has_groups()) continue;
        for (const std::uint32_t member :
             episodes.members[static_cast<std::size_t>(e)][static_cast<std::size_t>(step)]) {
            if (member != d)
                follow(walks_[static_cast<std::size_t>(e)], d, member,
                       choices[static_cast<std::size_t>(e)]);
        }
    }
}

void Sampler::take(Walk& walk, std::size_t decision, std::int32_t option, Choices& choices) {
    walk.take(static_cast<std::size_t>(option));
    choices.options[decision] = option;
}

/// A member of a group does what is most like its lead's choice.
void Sampler::follow(Walk& walk, std::size_t lead, std::size_t member, Choices& choices) {
    const auto chosen = static_cast<std::size_t>(choices.options[lead]);
    const Option& option = space_.options(lead)[chosen];
    const std::int32_t own = space_.option_like(member, space_.block_of(lead, chosen).set,
                                                option.kind, -1, choices.iteration);
    walk.look(member);
    take(walk, member, own, choices);
}

Sampler::Whims Sampler::draw_whims(const Draws& draws, Random& random) const {
    const auto normal = [&](std::int64_t width, double deviation) {
        Tensor rows = at::zeros({draws.count, width});
        float* const values = rows.mutable_data_ptr<float>();
        for (std::int64_t i = draws.first_whim * width; i < draws.end_whim * width; ++i) {
            values[i] = static_cast<float>(deviation * standard_normal(random));
        }
        return rows;
    };
    return {normal(static_cast<std::int64_t>(kBlockFeatures), draws.whim),
            normal(static_cast<std::int64_t>(kKindFeatures), draws.whim),
            normal(static_cast<std::int64_t>(space_.blocks().size()), draws.whim / 2)};
}

Tensor Sampler::blocks_at(const Episodes& episodes, std::int64_t step) const {
    Tensor numbers = at::zeros({episodes.count, episodes.places}, at::kLong);
    std::int64_t* row = numbers.mutable_data_ptr<std::int64_t>();
    for (std::int64_t e = 0; e < episodes.count; ++e, row += episodes.places) {
        const std::int64_t lead = this->lead(episodes, step, e);
        if (lead < 0) continue;
        const auto places = space_.places(static_cast<std::size_t>(lead));
        for (std::size_t p = 0; p < places.size(); ++p) row[p] = places[p].block;
    }
    return numbers;
}

void Sampler::revise(const Draws& draws, Episodes& episodes, std::int64_t step, bool kinds) {
    const auto revised = static_cast<std::int64_t>(draws.revisions.size());
    for (std::int64_t e = draws.count - revised; e < draws.count; ++e) {
        const Revision& revision = revision_of(draws, e);
        const std::int64_t lead = this->lead(episodes, step, e);
        if (lead < 0 || revision.anew[static_cast<std::size_t>(step)] != 0) continue;
        const auto d = static_cast<std::size_t>(lead);
        const std::int32_t option = revision.choices.options[d];
        // What does not seem to fit any more is drawn anew too.
        if (!walks_[static_cast<std::size_t>(e)].is_open_option(static_cast<std::size_t>(option)))
            continue;
        const std::size_t place = place_of(space_.places(d), option);
        const auto at = static_cast<std::size_t>(step * episodes.count + e);
        if (!kinds) {
            episodes.place[at] = static_cast<std::int64_t>(place);
        } else {
            episodes.kind[at] = option - space_.places(d)[place].begin;
        }
    }
}

/// Decision by decision; revisions keep the groups of what they revise.
void Sampler::assign(PolicyNet& net, const GraphTensors& graph, const Draws& draws, Random& random,
                     Batch& batch) {
    const Tensor log = net.grouping(graph).contiguous();
    const std::int64_t revised = static_cast<std::int64_t>(draws.revisions.size());
    for (std::int64_t e = 0; e < draws.count; ++e) {
        std::vector<std::int64_t>& groups_of =
            batch.choices[static_cast<std::size_t>(e)].assignment;
        if (e >= draws.count - revised) {
            groups_of = revision_of(draws, e).choices.assignment;
        } else {
            for (std::int64_t d = 0; d < log.size(0); ++d) {
                groups_of.push_back(draw(log.const_data_ptr<float>() + d * log.size(1), log.size(1),
                                         e < draws.greedy, random));
            }
        }
        batch.episodes.assign(e, groups_of);
    }
}

Batch Sampler::sample(PolicyNet& net, const GraphTensors& graph, const Draws& draws,
                      Random& random) {
    const at::NoGradGuard no_grad;
    const std::int64_t count = draws.count;
    const std::int64_t greedy = draws.greedy;
    const bool has_whims = draws.end_whim > draws.first_whim;
    const auto revised = static_cast<std::int64_t>(draws.revisions.size());
    Choices none;
    none.options.resize(space_.size(), -1);
    Batch batch{Episodes(space_, count, net.groups()),
                std::vector<Choices>(static_cast<std::size_t>(count), none), draws.own()};
    const Whims whims = has_whims ? draw_whims(draws, random) : Whims{};
    Episodes& episodes = batch.episodes;
    if (net.groups() > 0) assign(net, graph, draws, random, batch);
    const Tensor encoding = net.encode(graph, episodes);
    const Tensor iteration_log = net.iteration_head(graph, encoding).contiguous();
    for (std::int64_t e = 0; e < count; ++e) {
        std::int64_t iteration =
            draw(iteration_log.const_data_ptr<float>() +
                     std::min(e, iteration_log.size(0) - 1) * iteration_log.size(1),
                 iteration_log.size(1), e < greedy, random);
        if (e >= count - revised)
            iteration = static_cast<std::int64_t>(revision_of(draws, e).choices.iteration);
        episodes.iteration[static_cast<std::size_t>(e)] = iteration;
        batch.choices[static_cast<std::size_t>(e)].iteration = static_cast<std::size_t>(iteration);
    }
    start(episodes);
    const Tensor iterations = at::from_blob(episodes.iteration.data(), {count}, at::kLong);
    PolicyNet::State state = net.start(encoding, graph.iterations.index_select(0, iterations));
    const auto draw_all = [&](const Tensor& log, std::int64_t step, std::vector<std::int64_t>& to) {
        const Tensor rows = log.contiguous();
        for (std::int64_t e = 0; e < count; ++e) {
            to[static_cast<std::size_t>(step * count + e)] = draw(
                rows.const_data_ptr<float>() + e * rows.size(1), rows.size(1), e < greedy, random);
        }
    };
    for (std::int64_t step = 0; step < episodes.steps; ++step) {
        look(episodes, step);
        const Tensor z = net.step(state, encoding, step);
        const Tensor block_rows =
            at_step(episodes.block_rows, step,
                    {count, episodes.places, static_cast<std::int64_t>(kBlockFeatures)});
        const Tensor block_open = at_step(episodes.block_open, step, {count, episodes.places});
        Tensor whim;
        if (has_whims) {
            whim = at::matmul(block_rows, whims.block_weights.unsqueeze(2)).squeeze(2) +
                   whims.likings.gather(1, blocks_at(episodes, step));
        }
        draw_all(net.block_head(z, block_rows, block_open, whim), step, episodes.place);
        revise(draws, episodes, step, /*kinds=*/false);
        look_closer(episodes, step);
        const Tensor kind_rows =
            at_step(episodes.kind_rows, step,
                    {count, episodes.kinds, static_cast<std::int64_t>(kKindFeatures)});
        if (episodes.kinds > 1) {
            const Tensor kind_open = at_step(episodes.kind_open, step, {count, episodes.kinds});
            if (has_whims) whim = at::matmul(kind_rows, whims.kind_weights.unsqueeze(2)).squeeze(2);
            draw_all(net.kind_head(z, kind_rows, kind_open, whim), step, episodes.kind);
        }
        revise(draws, episodes, step, /*kinds=*/true);
        take(episodes, step, batch.choices);
        const Tensor block =
            at::from_blob(episodes.block.data() + step * count, {count}, at::kLong);
        const Tensor place =
            at::from_blob(episodes.place.data() + step * count, {count, 1, 1}, at::kLong);
        const Tensor kind =
            at::from_blob(episodes.kind.data() + step * count, {count, 1, 1}, at::kLong);
        state.before = net.choice(
            block,
            block_rows.gather(1, place.expand({-1, 1, static_cast<std::int64_t>(kBlockFeatures)}))
                .squeeze(1),
            kind_rows.gather(1, kind.expand({-1, 1, static_cast<std::int64_t>(kKindFeatures)}))
                .squeeze(1));
    }
    return batch;
}

Batch Sampler::replay(std::span<const Choices> choices) {
    const auto count = static_cast<std::int64_t>(choices.size());
    Choices none;
    none.options.resize(space_.size(), -1);
    Batch batch{Episodes(space_, count), std::vector<Choices>(choices.size(), none), count};
    Episodes& episodes = batch.episodes;
    for (std::size_t e = 0; e < choices.size(); ++e) {
        episodes.iteration[e] = static_cast<std::int64_t>(choices[e].iteration);
        batch.choices[e].iteration = choices[e].iteration;
    }
    start(episodes);
    for (std::int64_t step = 0; step < episodes.steps; ++step) {
        const auto d = static_cast<std::size_t>(step);
        look(episodes, step);
        for (std::size_t e = 0; e < choices.size(); ++e) {
            const std::int32_t option = choices[e].options[d];
            const std::size_t place = place_of(space_.places(d), option);
            const auto at = static_cast<std::size_t>(step * count) + e;
            episodes.place[at] = static_cast<std::int64_t>(place);
            episodes.kind[at] = option - space_.places(d)[place].begin;
        }
        look_closer(episodes, step);
        // Given choices may seem not to fit; they are possible all the same.
        for (std::size_t e = 0; e < choices.size(); ++e) {
            const std::int64_t at = step * count + static_cast<std::int64_t>(e);
            const auto i = static_cast<std::size_t>(at);
            episodes
                .block_open[static_cast<std::size_t>(at * episodes.places + episodes.place[i])] = 1;
            episodes.kind_open[static_cast<std::size_t>(at * episodes.kinds + episodes.kind[i])] =
                1;
        }
        take(episodes, step, batch.choices);
    }
    return batch;
}

}  // namespace partita::rl
