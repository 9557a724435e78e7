// SPDX-License-Identifier: Apache-2.0
#include "search/max_load/local/load_annealer.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

namespace partita::search {

namespace {

/// Of draws; an exchange of blocks carries most of what is found late.
constexpr double kVertexMoves = 1.0 / 6;
constexpr double kSwaps = 1.0 / 6;
constexpr double kBlockMoves = 1.0 / 6;

/// Blocks do not grow along wider nets: what they hold has little to do with each other.
constexpr std::size_t kWidestNet = 8;

constexpr std::int64_t kWorkBetweenSharpenings = 4'096;
constexpr int kTriesForPartner = 9;

/// A block grows to a quarter of all vertices at most, and to so many: larger ones cost more than
/// they find.
constexpr double kLargestBlock = 256;

/// A device above its capacity costs more than one next to the target, and the more the further
/// above.
constexpr double kOverflow = 2;
constexpr double kOverflowShare = 1'000;

}  // namespace

LoadAnnealer::LoadAnnealer(const LoadProblem& problem, Random random)
    : problem_(problem),
      state_(problem.graph, problem.devices),
      random_(random),
      energies_(problem.devices.size(), 0),
      moved_(problem.graph.size, 0),
      most_doublings_(
          std::log2(std::clamp(static_cast<double>(problem.graph.size) / 4, 2.0, kLargestBlock))) {}

std::vector<std::int32_t> LoadAnnealer::random_start() {
    std::vector<std::int32_t> start;
    std::vector<std::int32_t> allowed;
    for (std::size_t v = 0; v < problem_.graph.size; ++v) {
        allowed.clear();
        for (std::size_t d = 0; d < state_.device_count(); ++d) {
            if (state_.allowed(v, d)) allowed.push_back(static_cast<std::int32_t>(d));
        }
        start.push_back(allowed[random_.below(allowed.size())]);
    }
    return start;
}

void LoadAnnealer::begin(std::span<const std::int32_t> start, const LoadAnnealing& options) {
    assert(options.work > 0 && options.temperature > 0);
    options_ = options;
    work_ = 0;
    next_sharpening_ = 0;
    state_.assign(start);
    best_score_ = state_.score();
    best_ = state_.device_of();
}

LoadAnnealer::Steps LoadAnnealer::advance(std::int64_t proposals,
                                          const std::function<bool()>& stopped) {
    Steps steps;
    const std::int64_t begin = work_;
    while (steps.proposals < proposals && !over()) {
        if (work_ >= next_sharpening_) {
            if (stopped()) break;
            sharpen();
        }
        const Outcome outcome = step();
        if (outcome != Outcome::nothing) ++steps.proposals;
        if (outcome == Outcome::accepted) {
            ++steps.acceptances;
            note();
        }
    }
    steps.work = work_ - begin;
    return steps;
}

/// By the share of the work that is done. The target may have fallen too.
void LoadAnnealer::sharpen() {
    next_sharpening_ = work_ + kWorkBetweenSharpenings;
    const double done = static_cast<double>(work_) / static_cast<double>(options_.work);
    const double sharpness =
        options_.first_sharpness *
        std::pow(options_.last_sharpness / options_.first_sharpness, std::min(done, 1.0));
    slope_ = sharpness / static_cast<double>(std::max<std::int64_t>(best_score_.load, 1));
    offset_ = 1 - sharpness;
    for (std::size_t d = 0; d < energies_.size(); ++d) energies_[d] = energy(d);
}

double LoadAnnealer::energy(std::size_t device, std::int64_t load, std::int64_t bytes) const {
    const double above = std::max(0.0, static_cast<double>(load) * slope_ + offset_);
    double energy = above * above;
    const std::int64_t capacity = state_.capacity(device);
    if (bytes > capacity) {
        energy += kOverflow + kOverflowShare * static_cast<double>(bytes - capacity) /
                                  static_cast<double>(std::max<std::int64_t>(capacity, 1));
    }
    return energy;
}

double LoadAnnealer::energy(std::size_t device) const {
    return energy(device, state_.load(device), state_.bytes(device));
}

void LoadAnnealer::note() {
    const LoadScore score = state_.score();
    if (!(score < best_score_)) return;
    best_score_ = score;
    best_ = state_.device_of();
}

LoadAnnealer::Outcome LoadAnnealer::step() {
    ++work_;
    Draw draw;
    if (!this->draw(draw)) return Outcome::nothing;
    const double kind = random_.uniform();
    if (kind < kVertexMoves) return move_vertex(draw);
    if (kind < kVertexMoves + kSwaps) return swap(draw);
    if (kind < kVertexMoves + kSwaps + kBlockMoves) return move_block(draw);
    return exchange_blocks(draw);
}

bool LoadAnnealer::draw(Draw& draw) {
    draw.vertex = random_.below(problem_.graph.size);
    draw.from = static_cast<std::size_t>(state_.device_of(draw.vertex));
    draw.to = draw_target(draw.vertex);
    draw.limit = -options_.temperature * std::log(1 - random_.uniform());
    return draw.to != draw.from && state_.allowed(draw.vertex, draw.to);
}

/// Half of the time where a neighbour is, which need not be another device.
std::size_t LoadAnnealer::draw_target(std::size_t vertex) {
    const auto nets = problem_.graph.nets[vertex];
    if (nets.empty() || random_.below(2) == 0) return random_.below(state_.device_count());
    const auto net = static_cast<std::size_t>(nets[random_.below(nets.size())]);
    const auto pins = problem_.graph.pins[net];
    const auto neighbour = static_cast<std::size_t>(pins[random_.below(pins.size())]);
    return static_cast<std::size_t>(state_.device_of(neighbour));
}

/// A vertex of the target device that may come back; false: none was met.
bool LoadAnnealer::draw_partner(const Draw& draw, std::size_t& partner) {
    for (int i = 0; i < kTriesForPartner; ++i) {
        partner = random_.below(problem_.graph.size);
        if (std::cmp_not_equal(state_.device_of(partner), draw.to)) continue;
        if (moved_[partner] == 0 && state_.allowed(partner, draw.from)) return true;
    }
    return false;
}

/// Priced before it is made; the others are made and taken back.
LoadAnnealer::Outcome LoadAnnealer::move_vertex(const Draw& draw) {
    const std::int64_t leaving = state_.leaving(draw.vertex);
    const std::int64_t joining = state_.joining(draw.vertex, draw.to);
    const std::int64_t bytes = problem_.graph.bytes[draw.vertex];
    const double left =
        energy(draw.from, state_.load(draw.from) + leaving, state_.bytes(draw.from) - bytes);
    const double joined =
        energy(draw.to, state_.load(draw.to) + joining, state_.bytes(draw.to) + bytes);
    const double gain = left + joined - energies_[draw.from] - energies_[draw.to];
    if (gain > draw.limit) return Outcome::rejected;
    state_.move(draw.vertex, draw.to, leaving, joining);
    energies_[draw.from] = left;
    energies_[draw.to] = joined;
    return Outcome::accepted;
}

/// Of what has been moved between the two devices.
LoadAnnealer::Outcome LoadAnnealer::decide(const Draw& draw) {
    const double left = energy(draw.from);
    const double joined = energy(draw.to);
    const double gain = left + joined - energies_[draw.from] - energies_[draw.to];
    if (gain > draw.limit) return Outcome::rejected;
    energies_[draw.from] = left;
    energies_[draw.to] = joined;
    return Outcome::accepted;
}

LoadAnnealer::Outcome LoadAnnealer::swap(const Draw& draw) {
    std::size_t partner = 0;
    if (!draw_partner(draw, partner)) return Outcome::nothing;
    work_ += 2;
    state_.move(draw.vertex, draw.to);
    state_.move(partner, draw.from);
    const Outcome outcome = decide(draw);
    if (outcome == Outcome::rejected) {
        state_.move(partner, draw.to);
        state_.move(draw.vertex, draw.from);
    }
    return outcome;
}

/// What hangs together with the vertex on its device and may go to the other; which of more than
/// fit is random.
void LoadAnnealer::grow_block(std::size_t vertex, std::size_t to,
                              std::vector<std::int32_t>& block) {
    const LoadGraph& graph = problem_.graph;
    const std::int32_t from = state_.device_of(vertex);
    const auto most = static_cast<std::size_t>(std::exp2(1 + random_.uniform() * most_doublings_));
    block.assign(1, static_cast<std::int32_t>(vertex));
    moved_[vertex] = 1;
    for (std::size_t i = 0; i < block.size() && block.size() < most; ++i) {
        std::swap(block[i], block[i + random_.below(block.size() - i)]);
        for (const std::int32_t net : graph.nets[static_cast<std::size_t>(block[i])]) {
            const auto pins = graph.pins[static_cast<std::size_t>(net)];
            if (pins.size() > kWidestNet) continue;
            for (const std::int32_t pin : pins) {
                const auto v = static_cast<std::size_t>(pin);
                if (block.size() == most || moved_[v] != 0 || state_.device_of(v) != from) continue;
                if (!state_.allowed(v, to)) continue;
                moved_[v] = 1;
                block.push_back(pin);
            }
        }
    }
}

void LoadAnnealer::move_all(const std::vector<std::int32_t>& block, std::size_t to) {
    work_ += static_cast<std::int64_t>(block.size());
    for (const std::int32_t v : block) state_.move(static_cast<std::size_t>(v), to);
}

LoadAnnealer::Outcome LoadAnnealer::move_block(const Draw& draw) {
    grow_block(draw.vertex, draw.to, block_);
    for (const std::int32_t v : block_) moved_[static_cast<std::size_t>(v)] = 0;
    move_all(block_, draw.to);
    const Outcome outcome = decide(draw);
    if (outcome == Outcome::rejected) move_all(block_, draw.from);
    return outcome;
}

LoadAnnealer::Outcome LoadAnnealer::exchange_blocks(const Draw& draw) {
    grow_block(draw.vertex, draw.to, block_);
    move_all(block_, draw.to);
    std::size_t partner = 0;
    Outcome outcome = Outcome::nothing;
    other_block_.clear();
    if (draw_partner(draw, partner)) {
        grow_block(partner, draw.from, other_block_);
        move_all(other_block_, draw.from);
        outcome = decide(draw);
    }
    for (const std::int32_t v : block_) moved_[static_cast<std::size_t>(v)] = 0;
    for (const std::int32_t v : other_block_) moved_[static_cast<std::size_t>(v)] = 0;
    if (outcome == Outcome::accepted) return outcome;
    move_all(other_block_, draw.to);
    move_all(block_, draw.from);
    return outcome;
}

}  // namespace partita::search
