// SPDX-License-Identifier: Apache-2.0
#include "plan/tensors/tensor_lowering.h"

#include <algorithm>
#include <cassert>
#include <map>

namespace partita::plan {

using graph::OpKind;
using Kind = TensorEvent::Kind;

TensorLowering::TensorLowering(const Problem& problem, LayoutTable& layouts, RegionTable& regions,
                               ResourceSets& resource_sets)
    : problem_(problem), layouts_(layouts), regions_(regions), resource_sets_(resource_sets) {}

const TensorTasks& TensorLowering::run(const TensorEvents& events, const TensorKey& key) {
    clear(events, key);
    for (std::size_t i = 0; i < events.events.size(); ++i) {
        given_.steps.push_back({.sources = static_cast<std::uint32_t>(given_.sources.rows())});
        lower(events.events[i], key.layouts[i]);
        given_.steps.back().tasks = static_cast<std::uint32_t>(given_.tasks.size());
        given_.steps.back().buffers = static_cast<std::uint32_t>(given_.buffers.size());
    }
    if (problem_.facts().is_resident(tensor_)) add_resident_memory();
    finish();
    return given_;
}

void TensorLowering::clear(const TensorEvents& events, const TensorKey& key) {
    events_ = &events;
    key_ = &key;
    tensor_ = events.tensor;
    producer_ = problem_.graph().tensor(tensor_).producer;
    bytes_ = TensorBytes(problem_.graph().tensor(tensor_));
    prices_.clear();
    given_.tasks.clear();
    given_.in_block.clear();
    given_.groups.clear();
    given_.buffers.clear();
    given_.steps.clear();
    given_.sources.offsets.assign(1, 0);
    given_.sources.items.clear();
    given_.persistent.clear();
    locations_.clear();
    pieces_.clear();
    edges_.clear();
    reads_.clear();
    is_read_.clear();
    instances_.clear();
    pending_.clear();
    first_readers_.clear();
    readers_.clear();
    before_in_bucket_.clear();
    ++run_;
    has_collective_ = false;
}

void TensorLowering::lower(const TensorEvent& event, std::int32_t layout) {
    switch (event.kind) {
    case Kind::produce: produce(event, layout); break;
    case Kind::forward_use:
    case Kind::backward_use:
    case Kind::result_use: add_use(event, layout); break;
    case Kind::contribute: contribute(event, layout); break;
    case Kind::accumulate: accumulate_pending(event.micro_batch, false); break;
    case Kind::collect:
        given_.steps.back().waits = true;
        hold(collect_gradient(layout, false));
        break;
    case Kind::parameter: lower_parameter(event, layout); break;
    case Kind::update: lower_update(collect_gradient(layout, true)); break;
    }
}

/// What a producer leaves: parts of an op their results, a source what lies there at time 0.
void TensorLowering::produce(const TensorEvent& event, std::int32_t layout) {
    if (problem_.facts().is_resident(tensor_)) return;  // lies wherever it is used
    const Instance produced = next_instance(layout);
    const bool source = event.block < 0;
    const std::vector<Piece>& lying = pieces(layout);
    for (std::size_t part = 0; part < lying.size(); ++part) {
        const Piece& piece = lying[part];
        Location location{.device = piece.device};
        if (!source) location.task = part_ref(event.block, static_cast<int>(part));
        const Bytes bytes = source ? Bytes{0} : buffer_bytes(piece.region);
        location.buffer = add_value({.micro_batch = label()}, location, piece, bytes);
        if (source) add_persistent(piece.device, bytes_.of(regions_.volume(piece.region)));
        add_piece(add_location(location));
    }
    if (problem_.graph().op(producer_).kind == OpKind::parameter) {
        first_readers_.assign(lying.size(), -1);
    }
    instances_.push_back(produced);
}

void TensorLowering::add_use(const TensorEvent& event, std::int32_t layout) {
    const Instance found = instance(event, layout);
    if (event.block < 0) return;  // nobody reads it
    const bool operand = event.kind == Kind::backward_use;
    const bool loss = problem_.graph().op(event.op).kind == OpKind::output;
    // What the forward had is there: the backward comes after it.
    given_.steps.back().waits = !operand || loss || key_->refetch;
    const std::size_t parts = pieces(layout).size();
    for (std::size_t part = 0; part < parts; ++part) {
        const Locations held = locations(found, part);
        for (std::uint32_t i = held.begin; i < held.end; ++i) {
            add_reader(part_ref(event.block, static_cast<int>(part)), locations_[i].buffer);
            for (auto b = locations_[i].buffer; b >= 0; b = buffer(b).root) {
                is_read_[static_cast<std::size_t>(b)] = 1;
            }
        }
    }
    hold(found);
}

void TensorLowering::contribute(const TensorEvent& event, std::int32_t layout) {
    Instance instance = next_instance(layout);
    instance.operand = event.operand;
    const std::vector<Piece>& given = pieces(layout);
    for (std::size_t part = 0; part < given.size(); ++part) {
        if (given[part].region < 0) {
            add_piece({});
            continue;
        }
        add_piece(add_location(
            {.device = given[part].device, .task = part_ref(event.block, static_cast<int>(part))}));
    }
    pending_.push_back(instance);
}

void TensorLowering::hold(const Instance& instance) {
    Csr<Source>& sources = given_.sources;
    const std::size_t parts = pieces(instance.layout).size();
    given_.steps.back().parts = static_cast<std::uint32_t>(parts);
    for (std::size_t part = 0; part < parts; ++part) {
        const Locations found = locations(instance, part);
        for (std::uint32_t i = found.begin; i < found.end; ++i) {
            sources.items.push_back({locations_[i].task, locations_[i].buffer});
        }
        sources.offsets.push_back(static_cast<std::uint32_t>(sources.items.size()));
    }
}

/// What never changes lies wherever it is read: the regions that are read, each once.
void TensorLowering::add_resident_memory() {
    std::map<int, std::vector<std::int32_t>> held;
    for (const Instance& instance : instances_) {
        for (const Piece& piece : pieces(instance.layout)) {
            if (piece.region >= 0) held[piece.device].push_back(piece.region);
        }
    }
    for (auto& [device, regions] : held) {
        std::stable_sort(regions.begin(), regions.end(), [&](std::int32_t a, std::int32_t b) {
            return regions_.volume(a) > regions_.volume(b);
        });
        std::vector<std::int32_t> kept;
        for (const std::int32_t region : regions) {
            const bool inside = std::any_of(kept.begin(), kept.end(), [&](std::int32_t other) {
                return regions_.contains(other, region);
            });
            if (inside) continue;
            kept.push_back(region);
            add_persistent(device, bytes_.of(regions_.volume(region)));
        }
    }
}

}  // namespace partita::plan
