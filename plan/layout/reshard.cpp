// SPDX-License-Identifier: Apache-2.0
#include "plan/layout/reshard.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "plan/layout/reshard_collectives.h"
#include "plan/layout/reshard_planner.h"

namespace partita::plan {

using cost::Collective;

Reshard ReshardPlanner::plan(const Layout& from, const Layout& to, RegionTable& regions,
                             const cost::Machine& machine) {
    assert(!to.is_partial() || to.summands == from.summands);
    from_ = &from;
    to_ = &to;
    regions_ = &regions;
    machine_ = &machine;
    clear();
    find_slots();
    resolves_in_place_ = from.is_partial() && to == resolved() && can_resolve();
    find_ranks();
    find_needs();
    find_groups();
    for (const Run& run : groups_) {
        const std::span<const std::int32_t> group{grouped_.data() + run.begin,
                                                  grouped_.data() + run.end};
        if (add_collective(group)) continue;
        if (can_resolve()) {
            Reshard reshard;
            reshard.resolved = resolved();
            return reshard;
        }
        for (const std::int32_t target : group) add_copies(target);
    }
    return given();
}

void ReshardPlanner::clear() {
    slots_.clear();
    needs_.clear();
    needs_of_.clear();
    remote_.clear();
    groups_.clear();
    given_.assign(from_->pieces.size(), 0);
    transfers_.clear();
    ends_.clear();
    supplies_.assign(to_->pieces.size(), {});
    items_of_.assign(to_->pieces.size(), {});
    lists_.sources.clear();
    lists_.pack.clear();
    lists_.results.clear();
    lists_.devices.clear();
    lists_.items.clear();
}

void ReshardPlanner::find_slots() {
    const std::size_t count = from_->pieces.size();
    rank_equals(*from_, rank_of_source_);
    slot_of_source_.assign(count, -1);
    for (std::size_t i = 0; i < count; ++i) {
        const Piece& piece = from_->pieces[i];
        if (piece.region < 0 || regions_->volume(piece.region) == 0) continue;
        const auto first = static_cast<std::size_t>(first_equal_[i]);
        if (first == i) slots_.push_back({piece.region, piece.summand, {}});
        slot_of_source_[i] =
            first == i ? static_cast<std::int32_t>(slots_.size()) - 1 : slot_of_source_[first];
        ++slots_[static_cast<std::size_t>(slot_of_source_[i])].replicas.end;  // so many
    }
    std::uint32_t begin = 0;
    for (Slot& slot : slots_) {
        slot.replicas = {begin, begin + slot.replicas.end};
        begin = slot.replicas.end;
    }
    replicas_.resize(begin);
    for (std::size_t i = 0; i < count; ++i) {
        if (slot_of_source_[i] < 0) continue;
        const Slot& slot = slots_[static_cast<std::size_t>(slot_of_source_[i])];
        replicas_[slot.replicas.begin + static_cast<std::size_t>(rank_of_source_[i])] =
            static_cast<std::int32_t>(i);
    }
}

/// Per piece its place among those of equal region and summand; in first_equal_ the first of these.
void ReshardPlanner::rank_equals(const Layout& layout, std::vector<std::int32_t>& ranks) {
    const auto key = [&](std::int32_t i) {
        const Piece& piece = layout.pieces[static_cast<std::size_t>(i)];
        return std::tuple(piece.region, piece.summand, i);
    };
    order_.resize(layout.pieces.size());
    std::iota(order_.begin(), order_.end(), 0);
    std::ranges::sort(order_, {}, key);
    ranks.assign(order_.size(), 0);
    first_equal_.assign(order_.size(), 0);
    std::int32_t first = -1;
    std::int32_t rank = 0;
    for (const std::int32_t i : order_) {
        const auto at = static_cast<std::size_t>(i);
        const Piece& piece = layout.pieces[at];
        const Piece* before = first < 0 ? nullptr : &layout.pieces[static_cast<std::size_t>(first)];
        const bool equal =
            before != nullptr && before->region == piece.region && before->summand == piece.summand;
        if (!equal) {
            first = i;
            rank = 0;
        }
        ranks[at] = rank++;
        first_equal_[at] = first;
    }
}

/// What replica_for() asks of the layouts.
void ReshardPlanner::find_ranks() {
    rank_equals(*to_, rank_of_target_);
    own_source_.resize(static_cast<std::size_t>(machine_->device_count()));
    // Backwards, so that the first stays. What other reshards left is of another device.
    for (auto i = static_cast<std::int32_t>(from_->pieces.size()); i-- > 0;) {
        const Piece& piece = source(i);
        if (piece.region >= 0) own_source_[static_cast<std::size_t>(piece.device)] = i;
    }
}

/// The first old piece on the device that holds anything; -1: there is none.
std::int32_t ReshardPlanner::own_source(int device) const {
    const std::int32_t i = own_source_[static_cast<std::size_t>(device)];
    const bool is_own = std::cmp_less(i, from_->pieces.size()) && source(i).device == device &&
                        source(i).region >= 0;
    return is_own ? i : -1;
}

int ReshardPlanner::distance(int a, int b) const {
    if (a == b) return 0;
    return machine_->device(a).node == machine_->device(b).node ? 1 : 2;
}

/// The nearest replica. Among equally near ones that with the rank of the target's own piece, so
/// that replicas form groups side by side instead of all asking the first. In place by rank alone:
/// groups joined by a replica that is near to several would have no name.
std::int32_t ReshardPlanner::replica_for(std::size_t target, const Slot& slot) {
    const std::span<const std::int32_t> all = replicas(slot);
    if (resolves_in_place_) return all[static_cast<std::size_t>(rank_of_source_[target])];
    if (all.size() == 1) return all.front();
    const int device = to_->pieces[target].device;
    int nearest = 3;
    for (const std::int32_t i : all) {
        const int away = distance(source(i).device, device);
        if (away < nearest) nearest_.clear();
        nearest = std::min(nearest, away);
        if (away == nearest) nearest_.push_back(i);
    }
    if (nearest_.size() == 1) return nearest_.front();
    const std::int32_t own = own_source(device);
    const std::int32_t rank =
        own >= 0 ? rank_of_source_[static_cast<std::size_t>(own)] : rank_of_target_[target];
    for (const std::int32_t i : nearest_) {
        if (rank_of_source_[static_cast<std::size_t>(i)] == rank) return i;
    }
    return nearest_[static_cast<std::size_t>(rank) % nearest_.size()];
}

void ReshardPlanner::find_needs() {
    const auto end = [this] { return static_cast<std::uint32_t>(needs_.size()); };
    for (std::size_t t = 0; t < to_->pieces.size(); ++t) {
        const Piece& piece = to_->pieces[t];
        Run run{end(), end()};
        for (const Slot& slot : slots_) {
            if (piece.region < 0) break;
            if (to_->is_partial() && slot.summand != piece.summand) continue;
            const std::int32_t common = regions_->intersection(slot.region, piece.region);
            if (common >= 0) needs_.push_back({replica_for(t, slot), common});
        }
        run.end = end();
        needs_of_.push_back(run);
    }
}

bool ReshardPlanner::is_served_locally(std::int32_t t) const {
    return needs(t).size() == 1 && source(needs(t)[0].source).device == target(t).device;
}

/// New pieces that need something from elsewhere, joined where they need the same old piece; each
/// group and the groups in rising order.
void ReshardPlanner::find_groups() {
    needed_together_.reset(from_->pieces.size());
    const auto root = [this](std::int32_t t) {
        return needed_together_.root(static_cast<std::size_t>(needs(t)[0].source));
    };
    for (std::int32_t t = 0; t < static_cast<std::int32_t>(to_->pieces.size()); ++t) {
        if (needs(t).empty()) continue;
        if (is_served_locally(t)) {
            const auto at = static_cast<std::uint32_t>(lists_.items.size());
            lists_.items.push_back({-1, needs(t)[0].source});
            items_of_[static_cast<std::size_t>(t)] = {at, at + 1};
            continue;
        }
        remote_.push_back(t);
        for (const Need& need : needs(t)) {
            needed_together_.unite(static_cast<std::size_t>(needs(t)[0].source),
                                   static_cast<std::size_t>(need.source));
        }
    }
    group_of_.assign(from_->pieces.size(), -1);
    for (const std::int32_t t : remote_) {
        std::int32_t& group = group_of_[root(t)];
        if (group < 0) {
            group = static_cast<std::int32_t>(groups_.size());
            groups_.emplace_back();
        }
        ++groups_[static_cast<std::size_t>(group)].end;
    }
    std::uint32_t begin = 0;
    for (Run& run : groups_) {
        const std::uint32_t size = run.end;
        run = {begin, begin};
        begin += size;
    }
    grouped_.resize(begin);
    for (const std::int32_t t : remote_) {
        const std::int32_t group = group_of_[root(t)];
        grouped_[groups_[static_cast<std::size_t>(group)].end++] = t;
    }
}

/// What a group exchanges; its old pieces go into group_sources_, rising.
Exchange ReshardPlanner::exchange_of(std::span<const std::int32_t> group) {
    group_sources_.clear();
    Exchange exchange;
    for (const std::int32_t t : group) {
        for (const Need& need : needs(t)) {
            std::int64_t& given = given_[static_cast<std::size_t>(need.source)];
            if (given == 0) group_sources_.push_back(need.source);
            given += regions_->volume(need.region);
            exchange.elements += regions_->volume(need.region);
        }
        exchange.pairs += static_cast<std::int64_t>(needs(t).size());
    }
    for (const std::int32_t i : group_sources_) {
        const std::int64_t given = std::exchange(given_[static_cast<std::size_t>(i)], 0);
        exchange.most_given = std::max(exchange.most_given, given);
    }
    std::sort(group_sources_.begin(), group_sources_.end());
    return exchange;
}

bool ReshardPlanner::add_collective(std::span<const std::int32_t> group) {
    const Exchange exchange = exchange_of(group);
    const std::size_t sources = group_sources_.size();
    if (!may_have_name(sources, group.size())) return false;
    group_pieces_.clear();
    group_devices_.clear();
    for (const std::int32_t i : group_sources_) group_pieces_.push_back(source(i));
    for (const std::int32_t t : group) group_pieces_.push_back(target(t));
    for (const Piece& piece : group_pieces_) group_devices_.push_back(piece.device);
    const std::span<const Piece> pieces{group_pieces_};
    const std::span<const int> devices{group_devices_};
    const SideShape from = shape_of(pieces.first(sources), devices.first(sources), *regions_);
    const SideShape to = shape_of(pieces.subspan(sources), devices.subspan(sources), *regions_);
    const auto named = name_of_group(from, to, exchange);
    if (!named) return false;
    lists_.sources.insert(lists_.sources.end(), group_sources_.begin(), group_sources_.end());
    add_ranks(named->collective, from.devices, to.devices);
    const auto id = static_cast<std::int32_t>(transfers_.size());
    for (std::size_t i = 0; i < group.size(); ++i) {
        const Piece& piece = target(group[i]);
        lists_.results.push_back({piece.device, piece.region, piece.summand});
        const auto at = static_cast<std::uint32_t>(lists_.items.size());
        lists_.items.push_back({id, static_cast<std::int32_t>(i)});
        items_of_[static_cast<std::size_t>(group[i])] = {at, at + 1};
    }
    transfers_.push_back({.collective = named->collective, .elements = named->elements});
    close_transfer();
    return true;
}

/// The root first, if there is one.
void ReshardPlanner::add_ranks(Collective kind, std::span<const int> from,
                               std::span<const int> to) {
    const std::span<const int> first = has_root_at_target(kind) ? to : from;
    lists_.devices.insert(lists_.devices.end(), first.begin(), first.end());
    if (!has_root_at_source(kind) && !has_root_at_target(kind)) return;
    for (const int device : has_root_at_source(kind) ? to : from) {
        if (device != first[0]) lists_.devices.push_back(device);
    }
}

void ReshardPlanner::add_copies(std::int32_t t) {
    std::int64_t delivered = 0;
    Run run{static_cast<std::uint32_t>(lists_.items.size()), 0};
    for (const Need& need : needs(t)) {
        delivered += regions_->volume(need.region);
        if (source(need.source).device == target(t).device) {
            lists_.items.push_back({-1, need.source});
            continue;
        }
        lists_.items.push_back({static_cast<std::int32_t>(transfers_.size()), 0});
        add_copy(t, need);
    }
    run.end = static_cast<std::uint32_t>(lists_.items.size());
    items_of_[static_cast<std::size_t>(t)] = run;
    supplies_[static_cast<std::size_t>(t)].sum =
        from_->is_partial() && !to_->is_partial() &&
        (delivered > regions_->volume(target(t).region) || overlap(needs(t)));
}

void ReshardPlanner::add_copy(std::int32_t t, const Need& need) {
    lists_.sources.push_back(need.source);
    lists_.results.push_back({target(t).device, need.region, target(t).summand});
    lists_.devices.push_back(source(need.source).device);
    lists_.devices.push_back(target(t).device);
    transfers_.push_back({.collective = std::nullopt, .elements = regions_->volume(need.region)});
    close_transfer();
}

/// What the lists have got since the transfer before belongs to the latest one.
void ReshardPlanner::close_transfer() {
    const Ends begin = ends_.empty() ? Ends{} : ends_.back();
    ends_.push_back({lists_.sources.size(), lists_.results.size(), lists_.devices.size()});
    Transfer& transfer = transfers_.back();
    transfer.sources = std::span{lists_.sources}.subspan(begin.sources);
    note_packing(transfer, std::span{lists_.results}.subspan(begin.results));
}

/// Who gives all that he has packs nothing, and who gets all from one rank unpacks nothing.
void ReshardPlanner::note_packing(Transfer& transfer, std::span<Delivery> results) {
    const bool gives_parts = !transfer.collective || gives_a_part(*transfer.collective);
    const bool gets_from_all = transfer.collective && gets_from_many(*transfer.collective);
    for (const std::int32_t i : transfer.sources) {
        const std::int32_t given = source(i).region;
        bool pack = false;
        for (Delivery& delivery : results) {
            if (delivery.region == given || (!gives_parts && !gets_from_all)) continue;
            // What is copied is what both have in common.
            const std::int32_t message = transfer.collective
                                             ? regions_->intersection(given, delivery.region)
                                             : delivery.region;
            if (message < 0) continue;
            pack = pack || (gives_parts && !regions_->is_contiguous(given, message));
            delivery.unpack = delivery.unpack ||
                              (gets_from_all && !regions_->is_contiguous(delivery.region, message));
        }
        lists_.pack.push_back(pack ? 1 : 0);
    }
}

/// With gaps (strides beyond the window) addends may overlap and still be few.
bool ReshardPlanner::overlap(std::span<const Need> needs) const {
    for (std::size_t i = 0; i < needs.size(); ++i) {
        for (std::size_t j = 0; j < i; ++j) {
            if (regions_->overlap(needs[i].region, needs[j].region)) return true;
        }
    }
    return false;
}

/// Can the addends of every region be combined in place? Windowed gradients cannot: their regions
/// overlap without being equal.
bool ReshardPlanner::can_resolve() {
    if (!from_->is_partial() || to_->is_partial()) return false;
    const auto slot = [this](std::int32_t i) -> const Slot& {
        return slots_[static_cast<std::size_t>(i)];
    };
    order_.resize(slots_.size());
    std::iota(order_.begin(), order_.end(), 0);
    std::ranges::sort(order_, {}, [&](std::int32_t i) { return slot(i).region; });
    const auto addends = static_cast<std::size_t>(from_->summands);
    if (order_.size() % addends != 0) return false;
    // As many of each region as there are summands, all with as many replicas.
    for (std::size_t i = 0; i < order_.size(); ++i) {
        const Slot& first = slot(order_[i - i % addends]);
        const Slot& own = slot(order_[i]);
        const bool starts = i % addends == 0;
        if (own.region != first.region || replicas(own).size() != replicas(first).size())
            return false;
        if (starts && i > 0 && own.region == slot(order_[i - 1]).region) return false;
    }
    return true;
}

Layout ReshardPlanner::resolved() const {
    Layout layout{.pieces = from_->pieces};
    for (Piece& piece : layout.pieces) piece.summand = 0;
    return layout;
}

/// With lists of their own sizes.
Reshard ReshardPlanner::given() {
    Reshard reshard;
    reshard.transfers = transfers_;
    reshard.supplies = supplies_;
    reshard.lists = lists_;
    Ends begin;
    for (std::size_t i = 0; i < ends_.size(); ++i) {
        const Ends& end = ends_[i];
        Transfer& transfer = reshard.transfers[i];
        const std::size_t sources = end.sources - begin.sources;
        transfer.sources = std::span{reshard.lists.sources}.subspan(begin.sources, sources);
        transfer.pack = std::span{reshard.lists.pack}.subspan(begin.sources, sources);
        transfer.results =
            std::span{reshard.lists.results}.subspan(begin.results, end.results - begin.results);
        transfer.devices =
            std::span{reshard.lists.devices}.subspan(begin.devices, end.devices - begin.devices);
        begin = end;
    }
    for (std::size_t t = 0; t < items_of_.size(); ++t) {
        const Run& run = items_of_[t];
        reshard.supplies[t].items =
            std::span{reshard.lists.items}.subspan(run.begin, run.end - run.begin);
    }
    return reshard;
}

std::int32_t local_source(const Layout& from, const Piece& piece, const RegionTable& regions) {
    const auto source =
        std::find_if(from.pieces.begin(), from.pieces.end(), [&](const Piece& held) {
            return held.device == piece.device && held.region >= 0 &&
                   held.summand == piece.summand && regions.contains(held.region, piece.region);
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
