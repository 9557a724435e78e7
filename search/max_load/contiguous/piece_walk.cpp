// SPDX-License-Identifier: Apache-2.0
#include "search/max_load/contiguous/piece_walk.h"

namespace partita::search {

PieceWalk::PieceWalk(const PieceGraph& graph, const PieceDevices& devices,
                     const PieceLattice& lattice, const PieceIncidence& incidence)
    : graph_(graph),
      devices_(devices),
      lattice_(lattice),
      incidence_(incidence),
      open_(graph.nets.size(), 0),
      taken_(graph.nets.size(), 0),
      home_taken_(graph.nets.size(), 0),
      inside_(graph.nets.size(), 0),
      loads_(graph.kinds, 0) {}

/// Any way down from the top meets all its vertices.
void PieceWalk::start(std::size_t top) {
    std::fill(inside_.begin(), inside_.end(), 0);
    for (std::size_t at = top; !lattice_.steps(at).empty();) {
        const PieceLattice::Step& step = lattice_.steps(at).front();
        for (const auto& pin : incidence_.pins[static_cast<std::size_t>(step.vertex)]) {
            ++inside_[static_cast<std::size_t>(pin.net)];
        }
        at = step.ideal;
    }
    for (std::size_t n = 0; n < open_.size(); ++n) {
        open_[n] = inside_[n] < incidence_.count[n] ? 1 : 0;
    }
    const auto steps = lattice_.steps(top);
    frames_.push_back({.step = steps.data(), .end = steps.data() + steps.size()});
    times_.resize(std::max(times_.size(), graph_.kinds));
    std::fill_n(times_.begin(), graph_.kinds, 0);
}

void PieceWalk::enter(const PieceLattice::Step& step) {
    const auto steps = lattice_.steps(step.ideal);
    const PieceLattice::Step* first = steps.data();
    const PieceLattice::Step* end = first + steps.size();
    while (first != end && first->vertex > step.vertex) ++first;
    const auto vertex = static_cast<std::size_t>(step.vertex);
    frames_.push_back({.step = first,
                       .end = end,
                       .vertex = step.vertex,
                       .bytes = frames_.back().bytes + graph_.bytes[vertex]});
    const std::size_t kinds = graph_.kinds;
    const std::size_t at = (frames_.size() - 1) * kinds;
    if (times_.size() < at + kinds) times_.resize(2 * (at + kinds));
    for (std::size_t k = 0; k < kinds; ++k) {
        times_[at + k] = std::min(kNever, times_[at - kinds + k] + graph_.time(vertex, k));
    }
    take(step.vertex);
}

void PieceWalk::leave() {
    const std::int32_t vertex = frames_.back().vertex;
    frames_.pop_back();
    if (vertex >= 0) give_back(vertex);
}

void PieceWalk::take(std::int32_t vertex) {
    for (const auto& pin : incidence_.pins[static_cast<std::size_t>(vertex)]) {
        const auto n = static_cast<std::size_t>(pin.net);
        const std::int64_t cost = incidence_.cost[n];
        const std::int32_t before = taken_[n]++;
        const bool all = taken_[n] == incidence_.count[n];
        if (before == 0 && open_[n] != 0) fixed_ += cost;
        if (pin.is_source) {
            home_taken_[n] = 1;
            if (before > 0) received_ -= cost;
            if (!all) sent_ += cost;
        } else if (home_taken_[n] != 0) {
            if (all) sent_ -= cost;
        } else if (before == 0) {
            received_ += cost;
        }
    }
}

void PieceWalk::give_back(std::int32_t vertex) {
    for (const auto& pin : incidence_.pins[static_cast<std::size_t>(vertex)]) {
        const auto n = static_cast<std::size_t>(pin.net);
        const std::int64_t cost = incidence_.cost[n];
        const bool all = taken_[n] == incidence_.count[n];
        const std::int32_t after = --taken_[n];
        if (after == 0 && open_[n] != 0) fixed_ -= cost;
        if (pin.is_source) {
            home_taken_[n] = 0;
            if (after > 0) received_ += cost;
            if (!all) sent_ -= cost;
        } else if (home_taken_[n] != 0) {
            if (all) sent_ += cost;
        } else if (after == 0) {
            received_ -= cost;
        }
    }
}

/// Of what is taken away; false: with more, too, it costs every kind more than the limit.
bool PieceWalk::find_loads(std::int64_t limit) {
    bool useful = false;
    const std::int64_t* times = times_.data() + (frames_.size() - 1) * graph_.kinds;
    for (std::size_t k = 0; k < graph_.kinds; ++k) {
        const PieceKind& kind = devices_.kinds[k];
        std::int64_t least = times[k];
        loads_[k] = times[k];
        if (kind.communicates) {
            if (graph_.overlap) {
                loads_[k] = std::max({times[k], sent_, received_});
                least = std::max(least, fixed_ / 2);
            } else {
                loads_[k] += sent_ + received_;
                least += fixed_;
            }
        }
        if (Bytes(frames_.back().bytes) > kind.capacity) {
            loads_[k] = kNever;
        } else if (least <= limit) {
            useful = true;
        }
    }
    return useful;
}

}  // namespace partita::search
