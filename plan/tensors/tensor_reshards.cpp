// SPDX-License-Identifier: Apache-2.0
//
// How lowering brings a tensor into the layout in which somebody needs it.
#include <algorithm>
#include <cassert>
#include <utility>

#include "plan/tensors/tensor_lowering.h"

namespace partita::plan {

Instance TensorLowering::resident(std::int32_t layout) {
    const Instance instance = next_instance(layout);
    for (const Piece& piece : pieces(layout)) {
        Location location{.device = piece.device};
        if (piece.region >= 0) location.buffer = add_value({}, location, piece, Bytes{0});
        add_piece(add_location(location));
    }
    return instance;
}

/// The tensor in that layout: an instance that it has already, a slice of one that lies right, or a
/// reshard of the first.
Instance TensorLowering::instance(const TensorEvent& event, std::int32_t layout) {
    const bool backward = event.kind != TensorEvent::Kind::forward_use;
    const int epoch = key_->refetch ? 2 * event.micro_batch + (backward ? 1 : 0) : -1;
    if (key_->refetch && instances_.size() > 1 && instances_.back().epoch != epoch)
        instances_.resize(1);
    for (const Instance& known : instances_) {
        if (known.layout == layout) return known;
    }
    Instance found;
    if (problem_.facts().is_resident(tensor_)) {
        found = resident(layout);
    } else {
        assert(!instances_.empty());
        const auto near =
            std::find_if(instances_.begin(), instances_.end(), [&](const Instance& known) {
                return layouts_.is_local(known.layout, layout, regions_);
            });
        if (near != instances_.end()) {
            found = local_instance(*near, layout);
        } else {
            found = reshard(instances_.front(), layout, {.micro_batch = label()});
            given_.steps.back().fetched = key_->refetch;
        }
    }
    found.operand = -1;
    found.epoch = epoch;
    instances_.push_back(found);
    return found;
}

/// `to` must be local to the instance's layout.
Instance TensorLowering::local_instance(const Instance& from, std::int32_t to) {
    const Instance instance = next_instance(to);
    for (const Piece& piece : pieces(to)) {
        if (piece.region < 0) {
            add_piece({});
            continue;
        }
        const std::int32_t source = local_source(layouts_[from.layout], piece, regions_);
        add_piece(locations(from, static_cast<std::size_t>(source)));
    }
    return instance;
}

/// The piece in the order of messages.
Locations TensorLowering::packed(Locations locations, const Subject& subject, const Piece& piece) {
    Task task = task_of(TaskKind::pack, subject);
    task.device = piece.device;
    set_price(task, pack_price(piece));
    const TaskRef id = add_task(task);
    given_.in_block.back() = writes_in_block(locations, piece.device) ? 1 : 0;
    add_work(id, locations);
    Location location{.device = piece.device, .task = id};
    location.buffer = add_value(subject, location, piece, buffer_bytes(piece.region), -1, true);
    return add_location(location);
}

/// What arrived in messages in the order of the tensor.
Location TensorLowering::unpacked(const Location& message, const Subject& subject,
                                  const Piece& piece) {
    Task task = task_of(TaskKind::pack, subject);
    task.device = piece.device;
    set_price(task, pack_price(piece));
    const TaskRef id = add_task(task);
    add_work(id, add_location(message));
    Location location{.device = piece.device, .task = id};
    const Bytes bytes = subject.updated ? Bytes{0} : buffer_bytes(piece.region);
    location.buffer = add_value(subject, location, piece, bytes);
    return location;
}

cost::Price TensorLowering::pack_price(const Piece& piece) {
    const std::int64_t elements = regions_.volume(piece.region);
    return prices_.of(TaskKind::pack, elements, problem_.prices().device_class(piece.device), [&] {
        return problem_.prices().pack_price(tensor_, elements, piece.device);
    });
}

cost::Price TensorLowering::copy_price(const Task& copy) {
    const std::int32_t like =
        copy_classes_.of(problem_.machine(), copy.resource_set, copy.device, copy.to);
    return prices_.of(TaskKind::copy, copy.bytes.raw(), like, [&] {
        return problem_.transfers().copy_price(tensor_, copy.bytes, copy.device, copy.to);
    });
}

/// The locations of its results become pieces.
void TensorLowering::add_transfer(const Instance& from, const Transfer& transfer,
                                  const Subject& subject) {
    messages_.clear();
    for (std::size_t i = 0; i < transfer.sources.size(); ++i) {
        const auto source = static_cast<std::size_t>(transfer.sources[i]);
        const Locations held = locations(from, source);
        // A piece in several fragments is no single message either.
        const bool pack = transfer.pack[i] != 0 || held.size() > 1;
        messages_.push_back(pack ? packed(held, subject, pieces(from.layout)[source]) : held);
    }
    const TaskRef id = add_message(layouts_[from.layout].combine, transfer, subject);
    for (const Locations& message : messages_) add_work(id, message);
    for (const Delivery& delivery : transfer.results) {
        Location location{.device = delivery.device, .task = id};
        // A new value of a parameter is written where the old one lies.
        const bool in_place = subject.updated && !delivery.unpack;
        const Bytes bytes = in_place ? Bytes{0} : buffer_bytes(delivery.region);
        const Piece piece{delivery.device, delivery.region, delivery.summand};
        location.buffer = add_value(subject, location, piece, bytes, -1, delivery.unpack);
        add_piece(add_location(delivery.unpack ? unpacked(location, subject, piece) : location));
    }
}

TaskRef TensorLowering::add_message(graph::Combine combine, const Transfer& transfer,
                                    const Subject& subject) {
    Task task = task_of(TaskKind::copy, subject);
    task.device = transfer.devices[0];
    task.bytes = bytes_.of(transfer.elements);
    if (!transfer.collective) {
        task.to = transfer.devices[1];
        task.resource_set = resource_sets_.of_copy(task.device, task.to);
        set_price(task, copy_price(task));
        return add_task(task);
    }
    const ResourceSets::Group group = resource_sets_.of_ranks(transfer.devices);
    const auto price = collective_prices_.of(
        problem_.transfers(), group.row,
        {.kind = *transfer.collective, .devices = transfer.devices, .bytes = task.bytes});
    task.resource_set = group.resource_set;
    task.ranks = group_of(transfer.devices);
    has_collective_ = true;
    task.kind = TaskKind::collective;
    task.collective = *transfer.collective;
    if (cost::reduces(task.collective)) task.combine = combine;
    task.algorithm = price.algorithm;
    task.protocol = price.protocol;
    set_price(task, {price.time, price.source});
    return add_task(task);
}

Instance TensorLowering::reshard(const Instance& from, std::int32_t to, const Subject& subject) {
    if (from.layout == to) return from;
    const Reshard& plan = layouts_.reshard(from.layout, to, regions_, problem_.machine());
    if (plan.resolved) {
        const Instance resolved = reshard(from, layouts_.intern(*plan.resolved), subject);
        return reshard(resolved, to, subject);
    }
    delivered_.clear();
    for (const Transfer& transfer : plan.transfers) {
        delivered_.push_back(static_cast<std::uint32_t>(pieces_.size()));
        add_transfer(from, transfer, subject);
    }
    const Instance instance = next_instance(to);
    for (std::size_t i = 0; i < plan.supplies.size(); ++i) {
        Locations locations = supplied(from, plan.supplies[i]);
        if (plan.supplies[i].sum) {
            locations = sum_of_locations(locations, subject, pieces(to)[i],
                                         layouts_[from.layout].combine, false);
        }
        add_piece(locations);
    }
    return instance;
}

/// What its items hold together.
Locations TensorLowering::supplied(const Instance& from, const Supply& supply) {
    const auto held = [&](const Supply::Item& item) {
        const auto at = static_cast<std::size_t>(item.index);
        return item.transfer < 0
                   ? locations(from, at)
                   : pieces_[delivered_[static_cast<std::size_t>(item.transfer)] + at];
    };
    if (supply.items.size() == 1) return held(supply.items[0]);
    const auto begin = static_cast<std::uint32_t>(locations_.size());
    for (const Supply::Item& item : supply.items) append(held(item));
    return {begin, static_cast<std::uint32_t>(locations_.size())};
}

}  // namespace partita::plan
