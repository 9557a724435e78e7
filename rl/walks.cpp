// SPDX-License-Identifier: Apache-2.0
#include "rl/walks.h"

#include <algorithm>

namespace partita::rl {

namespace {

std::size_t index(const Episodes& episodes, std::int64_t step, std::int64_t episode) {
    return static_cast<std::size_t>(step * episodes.count + episode);
}

/// The step's first so many flags: what may be chosen.
float* block_open(Episodes& episodes, std::int64_t step, std::int64_t episode) {
    return episodes.block_open.data() + (step * episodes.count + episode) * episodes.places;
}

float* kind_open(Episodes& episodes, std::int64_t step, std::int64_t episode) {
    return episodes.kind_open.data() + (step * episodes.count + episode) * episodes.kinds;
}

}  // namespace

Batch::Batch(const ActionSpace& space, std::int64_t count, std::int64_t groups)
    : episodes(space, count, groups), choices(static_cast<std::size_t>(count)), own(count) {
    for (Choices& of : choices) of.options.assign(space.size(), -1);
}

void Walks::start(const Episodes& episodes) {
    while (walks_.size() < static_cast<std::size_t>(episodes.count)) {
        walks_.emplace_back(space_, prices_);
    }
    for (std::size_t e = 0; e < static_cast<std::size_t>(episodes.count); ++e) {
        walks_[e].start(static_cast<std::size_t>(episodes.iteration[e]));
    }
}

std::int64_t Walks::lead(const Episodes& episodes, std::int64_t step, std::int64_t episode) const {
    if (!episodes.has_groups()) return step;
    const auto members =
        episodes.members[static_cast<std::size_t>(episode)][static_cast<std::size_t>(step)];
    if (members.empty()) return -1;
    return *std::ranges::max_element(members, {},
                                     [&](std::uint32_t d) { return prices_.least_compute(d); });
}

void Walks::look(Episodes& episodes, std::int64_t step) {
    for (std::int64_t e = 0; e < episodes.count; ++e) {
        float* const open = block_open(episodes, step, e);
        const std::int64_t lead = this->lead(episodes, step, e);
        if (lead < 0) {
            open[0] = 1;
            continue;
        }
        const auto d = static_cast<std::size_t>(lead);
        Walk& walk = walks_[static_cast<std::size_t>(e)];
        walk.look(d);
        walk.write_block_features(episodes.block_row(step, e));
        for (std::size_t p = 0; p < space_.places(d).size(); ++p) {
            open[p] = walk.is_open_place(p) ? 1.0F : 0.0F;
        }
    }
}

void Walks::look_closer(Episodes& episodes, std::int64_t step) {
    for (std::int64_t e = 0; e < episodes.count; ++e) {
        float* const open = kind_open(episodes, step, e);
        const std::int64_t lead = this->lead(episodes, step, e);
        if (lead < 0) {
            open[0] = 1;
            continue;
        }
        const std::size_t at = index(episodes, step, e);
        const auto place = static_cast<std::size_t>(episodes.place[at]);
        const Place& of = space_.places(static_cast<std::size_t>(lead))[place];
        episodes.block[at] = of.block;
        walks_[static_cast<std::size_t>(e)].write_kind_features(place, episodes.kind_row(step, e));
        for (std::int32_t o = of.begin; o < of.end; ++o) {
            open[o - of.begin] = is_open_option(e, o) ? 1.0F : 0.0F;
        }
    }
}

void Walks::take(Batch& batch, std::int64_t step) {
    const Episodes& episodes = batch.episodes;
    for (std::int64_t e = 0; e < episodes.count; ++e) {
        const std::int64_t lead = this->lead(episodes, step, e);
        if (lead < 0) continue;
        const auto d = static_cast<std::size_t>(lead);
        const auto episode = static_cast<std::size_t>(e);
        const std::size_t at = index(episodes, step, e);
        const Place& place = space_.places(d)[static_cast<std::size_t>(episodes.place[at])];
        const auto option = static_cast<std::int32_t>(place.begin + episodes.kind[at]);
        take(walks_[episode], d, option, batch.choices[episode]);
        if (!episodes.has_groups()) continue;
        for (const std::uint32_t member :
             episodes.members[episode][static_cast<std::size_t>(step)]) {
            if (member != d) follow(walks_[episode], d, member, batch.choices[episode]);
        }
    }
}

void Walks::take(Walk& walk, std::size_t decision, std::int32_t option, Choices& choices) {
    walk.take(static_cast<std::size_t>(option));
    choices.options[decision] = option;
}

/// A member of a group does what is most like its lead's choice.
void Walks::follow(Walk& walk, std::size_t lead, std::size_t member, Choices& choices) {
    const auto chosen = static_cast<std::size_t>(choices.options[lead]);
    const Option& option = space_.options(lead)[chosen];
    const std::int32_t own = space_.option_like(member, space_.block_of(lead, chosen).set,
                                                option.kind, -1, choices.iteration);
    walk.look(member);
    take(walk, member, own, choices);
}

std::vector<std::int64_t> Walks::blocks(const Episodes& episodes, std::int64_t step) const {
    std::vector<std::int64_t> numbers(static_cast<std::size_t>(episodes.count * episodes.places));
    std::int64_t* row = numbers.data();
    for (std::int64_t e = 0; e < episodes.count; ++e, row += episodes.places) {
        const std::int64_t lead = this->lead(episodes, step, e);
        if (lead < 0) continue;
        const auto places = space_.places(static_cast<std::size_t>(lead));
        for (std::size_t p = 0; p < places.size(); ++p) row[p] = places[p].block;
    }
    return numbers;
}

Batch Walks::replay(std::span<const Choices> choices) {
    Batch batch(space_, static_cast<std::int64_t>(choices.size()));
    Episodes& episodes = batch.episodes;
    for (std::size_t e = 0; e < choices.size(); ++e) {
        episodes.iteration[e] = static_cast<std::int64_t>(choices[e].iteration);
        batch.choices[e].iteration = choices[e].iteration;
    }
    start(episodes);
    for (std::int64_t step = 0; step < episodes.steps; ++step) {
        const auto d = static_cast<std::size_t>(step);
        look(episodes, step);
        for (std::int64_t e = 0; e < episodes.count; ++e) {
            const std::int32_t option = choices[static_cast<std::size_t>(e)].options[d];
            const std::size_t place = space_.place_of(d, option);
            episodes.place[index(episodes, step, e)] = static_cast<std::int64_t>(place);
            episodes.kind[index(episodes, step, e)] = option - space_.places(d)[place].begin;
        }
        look_closer(episodes, step);
        // Given choices may seem not to fit; they are possible all the same.
        for (std::int64_t e = 0; e < episodes.count; ++e) {
            const std::size_t at = index(episodes, step, e);
            block_open(episodes, step, e)[episodes.place[at]] = 1;
            kind_open(episodes, step, e)[episodes.kind[at]] = 1;
        }
        take(batch, step);
    }
    return batch;
}

}  // namespace partita::rl
