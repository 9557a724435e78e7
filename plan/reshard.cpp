// SPDX-License-Identifier: Apache-2.0
#include "plan/reshard.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <utility>

#include "plan/reshard_names.h"

namespace partita::plan {

using cost::Collective;

namespace {

/// Pieces of the old layout with equal region and summand, in order of parts.
struct Slot {
    std::int32_t region = -1;
    std::int32_t summand = 0;
    std::vector<std::int32_t> replicas;
};

/// One slot that a new piece needs: the replica it takes, and which of its elements.
struct Need {
    std::int32_t source = -1;  ///< piece of the old layout
    std::int32_t region = -1;  ///< intersection with the new piece
};

bool is_disjoint(const graph::Region& a, const graph::Region& b) {
    for (std::size_t i = 0; i < a.dims.size(); ++i) {
        if (intersection(a.dims[i], b.dims[i]).empty()) return true;
    }
    return false;
}

class Planner {
public:
    Planner(const Layout& from, const Layout& to, RegionTable& regions,
            const cost::Machine& machine)
        : from_(from), to_(to), regions_(regions), machine_(machine) {}

    Reshard run() {
        find_slots();
        resolves_in_place_ = from_.is_partial() && to_ == resolved() && can_resolve();
        find_needs();
        given_.assign(from_.pieces.size(), 0);
        reshard_.supplies.resize(to_.pieces.size());
        for (const std::vector<std::int32_t>& group : groups()) {
            if (add_collective(group)) continue;
            if (can_resolve()) {
                Reshard reshard;
                reshard.resolved = resolved();
                return reshard;
            }
            for (const std::int32_t target : group) add_copies(target);
        }
        for (Transfer& transfer : reshard_.transfers) note_packing(transfer);
        return std::move(reshard_);
    }

private:
    void find_slots();
    void find_needs();
    [[nodiscard]] std::int32_t replica_for(std::size_t target, const Slot& slot) const;
    [[nodiscard]] int distance(int a, int b) const;
    [[nodiscard]] std::vector<std::vector<std::int32_t>> groups();
    [[nodiscard]] bool is_served_locally(std::int32_t target) const;
    bool add_collective(const std::vector<std::int32_t>& group);
    void add_copies(std::int32_t target);
    void note_packing(Transfer& transfer) const;
    [[nodiscard]] bool overlap(const std::vector<Need>& needs) const;
    [[nodiscard]] bool can_resolve() const;
    [[nodiscard]] Layout resolved() const;

    [[nodiscard]] const Piece& source(std::int32_t i) const {
        return from_.pieces[static_cast<std::size_t>(i)];
    }
    [[nodiscard]] const Piece& target(std::int32_t i) const {
        return to_.pieces[static_cast<std::size_t>(i)];
    }
    [[nodiscard]] const std::vector<Need>& needs(std::int32_t target) const {
        return needs_[static_cast<std::size_t>(target)];
    }

    const Layout& from_;
    const Layout& to_;
    RegionTable& regions_;
    const cost::Machine& machine_;
    std::vector<Slot> slots_;
    std::vector<std::int32_t> rank_of_source_;  ///< per old piece: its place among its replicas
    std::vector<std::int32_t> rank_of_target_;  ///< the same per new piece
    std::vector<std::vector<Need>> needs_;      ///< per new piece
    std::vector<std::int64_t> given_;           ///< per old piece, while a group is counted
    bool resolves_in_place_ = false;            ///< to what resolved() gives
    Reshard reshard_;
};

void Planner::find_slots() {
    for (std::size_t i = 0; i < from_.pieces.size(); ++i) {
        const Piece& piece = from_.pieces[i];
        rank_of_source_.push_back(0);
        if (piece.region < 0 || regions_.volume(piece.region) == 0) continue;
        auto slot = std::find_if(slots_.begin(), slots_.end(), [&](const Slot& s) {
            return s.region == piece.region && s.summand == piece.summand;
        });
        if (slot == slots_.end()) {
            slots_.push_back({piece.region, piece.summand, {}});
            slot = slots_.end() - 1;
        }
        rank_of_source_.back() = static_cast<std::int32_t>(slot->replicas.size());
        slot->replicas.push_back(static_cast<std::int32_t>(i));
    }
    for (std::size_t i = 0; i < to_.pieces.size(); ++i) {
        const auto equal = std::count_if(
            to_.pieces.begin(), to_.pieces.begin() + static_cast<std::ptrdiff_t>(i),
            [&](const Piece& p) {
                return p.region == to_.pieces[i].region && p.summand == to_.pieces[i].summand;
            });
        rank_of_target_.push_back(static_cast<std::int32_t>(equal));
    }
}

int Planner::distance(int a, int b) const {
    if (a == b) return 0;
    return machine_.device(a).node == machine_.device(b).node ? 1 : 2;
}

/// The nearest replica. Among equally near ones that with the rank of the target's own piece, so
/// that replicas form groups side by side instead of all asking the first. In place by rank alone:
/// groups joined by a replica that is near to several would have no name.
std::int32_t Planner::replica_for(std::size_t target, const Slot& slot) const {
    if (resolves_in_place_) return slot.replicas[static_cast<std::size_t>(rank_of_source_[target])];
    const int device = to_.pieces[target].device;
    int nearest = 3;
    for (const std::int32_t i : slot.replicas) {
        nearest = std::min(nearest, distance(source(i).device, device));
    }
    std::vector<std::int32_t> candidates;
    for (const std::int32_t i : slot.replicas) {
        if (distance(source(i).device, device) == nearest) candidates.push_back(i);
    }
    if (candidates.size() == 1) return candidates.front();
    std::int32_t rank = rank_of_target_[target];
    for (std::size_t i = 0; i < from_.pieces.size(); ++i) {
        if (from_.pieces[i].device == device && from_.pieces[i].region >= 0) {
            rank = rank_of_source_[i];
            break;
        }
    }
    for (const std::int32_t i : candidates) {
        if (rank_of_source_[static_cast<std::size_t>(i)] == rank) return i;
    }
    return candidates[static_cast<std::size_t>(rank) % candidates.size()];
}

void Planner::find_needs() {
    needs_.resize(to_.pieces.size());
    for (std::size_t t = 0; t < to_.pieces.size(); ++t) {
        const Piece& piece = to_.pieces[t];
        if (piece.region < 0) continue;
        for (const Slot& slot : slots_) {
            if (to_.is_partial() && slot.summand != piece.summand) continue;
            std::int32_t common = slot.region;
            if (common != piece.region) {
                common =
                    regions_.intern(intersection(regions_[slot.region], regions_[piece.region]));
            }
            if (regions_.volume(common) == 0) continue;
            needs_[t].push_back({replica_for(t, slot), common});
        }
    }
}

bool Planner::is_served_locally(std::int32_t t) const {
    const bool here = std::all_of(needs(t).begin(), needs(t).end(), [&](const Need& need) {
        return source(need.source).device == target(t).device;
    });
    return here && needs(t).size() <= 1;
}

/// New pieces that need something from elsewhere, joined where they need the same old piece; each
/// group and the groups in rising order.
std::vector<std::vector<std::int32_t>> Planner::groups() {
    std::vector<std::int32_t> parent(from_.pieces.size());
    std::iota(parent.begin(), parent.end(), 0);
    const auto root = [&parent](std::int32_t i) {
        while (parent[static_cast<std::size_t>(i)] != i) i = parent[static_cast<std::size_t>(i)];
        return i;
    };
    std::vector<std::int32_t> remote;
    for (std::int32_t t = 0; t < static_cast<std::int32_t>(to_.pieces.size()); ++t) {
        if (needs(t).empty()) continue;
        if (is_served_locally(t)) {
            reshard_.supplies[static_cast<std::size_t>(t)].items = {{-1, needs(t)[0].source}};
            continue;
        }
        remote.push_back(t);
        for (const Need& need : needs(t)) {
            const std::int32_t a = root(needs(t)[0].source);
            const std::int32_t b = root(need.source);
            parent[static_cast<std::size_t>(std::max(a, b))] = std::min(a, b);
        }
    }
    std::vector<std::vector<std::int32_t>> found;
    std::vector<std::int32_t> roots;
    for (const std::int32_t t : remote) {
        const std::int32_t r = root(needs(t)[0].source);
        const auto at = std::find(roots.begin(), roots.end(), r);
        if (at == roots.end()) {
            roots.push_back(r);
            found.push_back({t});
        } else {
            found[static_cast<std::size_t>(at - roots.begin())].push_back(t);
        }
    }
    return found;
}

bool Planner::add_collective(const std::vector<std::int32_t>& group) {
    std::vector<std::int32_t> sources;
    std::vector<Piece> targets;
    Exchange exchange;
    for (const std::int32_t t : group) {
        targets.push_back(target(t));
        for (const Need& need : needs(t)) {
            std::int64_t& given = given_[static_cast<std::size_t>(need.source)];
            if (given == 0) sources.push_back(need.source);
            given += regions_.volume(need.region);
            exchange.elements += regions_.volume(need.region);
        }
        exchange.pairs += static_cast<std::int64_t>(needs(t).size());
    }
    std::sort(sources.begin(), sources.end());
    std::vector<Piece> pieces;
    for (const std::int32_t i : sources) {
        pieces.push_back(source(i));
        const std::int64_t given = std::exchange(given_[static_cast<std::size_t>(i)], 0);
        exchange.most_given = std::max(exchange.most_given, given);
    }
    const SideShape from = shape_of(pieces, regions_);
    const SideShape to = shape_of(targets, regions_);
    const auto named = name_of_group(from, to, exchange);
    if (!named) return false;
    const Collective kind = named->collective;
    Transfer transfer{.collective = kind,
                      .sources = sources,
                      .results = {},
                      .devices = has_root_at_target(kind) ? to.devices : from.devices,
                      .elements = named->elements};
    if (has_root_at_source(kind) || has_root_at_target(kind)) {
        const int root = transfer.devices[0];
        for (const int device : has_root_at_source(kind) ? to.devices : from.devices) {
            if (device != root) transfer.devices.push_back(device);
        }
    }
    const auto id = static_cast<std::int32_t>(reshard_.transfers.size());
    for (std::size_t i = 0; i < group.size(); ++i) {
        transfer.results.push_back({targets[i].device, targets[i].region, targets[i].summand});
        reshard_.supplies[static_cast<std::size_t>(group[i])].items = {
            {id, static_cast<std::int32_t>(i)}};
    }
    reshard_.transfers.push_back(std::move(transfer));
    return true;
}

void Planner::add_copies(std::int32_t t) {
    Supply& supply = reshard_.supplies[static_cast<std::size_t>(t)];
    std::int64_t delivered = 0;
    for (const Need& need : needs(t)) {
        delivered += regions_.volume(need.region);
        const int device = source(need.source).device;
        if (device == target(t).device) {
            supply.items.push_back({-1, need.source});
            continue;
        }
        supply.items.push_back({static_cast<std::int32_t>(reshard_.transfers.size()), 0});
        reshard_.transfers.push_back(
            {.collective = std::nullopt,
             .sources = {need.source},
             .results = {{target(t).device, need.region, target(t).summand}},
             .devices = {device, target(t).device},
             .elements = regions_.volume(need.region)});
    }
    supply.sum = from_.is_partial() && !to_.is_partial() &&
                 (delivered > regions_.volume(target(t).region) || overlap(needs(t)));
}

/// Who gives all that he has packs nothing, and who gets all from one rank unpacks nothing.
void Planner::note_packing(Transfer& transfer) const {
    const bool gives_parts = !transfer.collective || gives_a_part(*transfer.collective);
    const bool gets_from_all = transfer.collective && gets_from_many(*transfer.collective);
    for (const std::int32_t i : transfer.sources) {
        const graph::Region& given = regions_[source(i).region];
        bool pack = false;
        for (Delivery& delivery : transfer.results) {
            if (delivery.region == source(i).region) continue;
            const graph::Region& got = regions_[delivery.region];
            const graph::Region message = intersection(given, got);
            if (message.empty()) continue;
            pack = pack || (gives_parts && !is_contiguous(given, message));
            delivery.unpack = delivery.unpack || (gets_from_all && !is_contiguous(got, message));
        }
        transfer.pack.push_back(pack ? 1 : 0);
    }
}

/// With gaps (strides beyond the window) addends may overlap and still be few.
bool Planner::overlap(const std::vector<Need>& needs) const {
    for (std::size_t i = 0; i < needs.size(); ++i) {
        for (std::size_t j = 0; j < i; ++j) {
            if (!is_disjoint(regions_[needs[i].region], regions_[needs[j].region])) return true;
        }
    }
    return false;
}

/// Can the addends of every region be combined in place? Windowed gradients cannot: their regions
/// overlap without being equal.
bool Planner::can_resolve() const {
    if (!from_.is_partial() || to_.is_partial()) return false;
    for (const Slot& slot : slots_) {
        std::int32_t addends = 0;
        for (const Slot& other : slots_) {
            if (other.region != slot.region) continue;
            if (other.replicas.size() != slot.replicas.size()) return false;
            ++addends;
        }
        if (addends != from_.summands) return false;
    }
    return true;
}

Layout Planner::resolved() const {
    Layout layout{.pieces = from_.pieces};
    for (Piece& piece : layout.pieces) piece.summand = 0;
    return layout;
}

}  // namespace

Reshard plan_reshard(const Layout& from, const Layout& to, RegionTable& regions,
                     const cost::Machine& machine) {
    assert(!to.is_partial() || to.summands == from.summands);
    return Planner(from, to, regions, machine).run();
}

std::int32_t local_source(const Layout& from, const Piece& piece, const RegionTable& regions) {
    const auto source =
        std::find_if(from.pieces.begin(), from.pieces.end(), [&](const Piece& held) {
            return held.device == piece.device && held.region >= 0 &&
                   held.summand == piece.summand &&
                   contains(regions[held.region], regions[piece.region]);
        });
    if (source == from.pieces.end()) return -1;
    return static_cast<std::int32_t>(source - from.pieces.begin());
}

bool is_local(const Layout& from, const Layout& to, const RegionTable& regions) {
    if (from.summands != to.summands) return false;
    return std::all_of(to.pieces.begin(), to.pieces.end(), [&](const Piece& piece) {
        return piece.region < 0 || local_source(from, piece, regions) >= 0;
    });
}

}  // namespace partita::plan
