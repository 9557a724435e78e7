// SPDX-License-Identifier: Apache-2.0
#include "plan/tensors/tensor_reshards.h"

#include <algorithm>
#include <cstddef>

namespace partita::plan {

Instance TensorReshards::reshard(const Instance& from, std::int32_t to, const Subject& subject) {
    if (from.layout == to) return from;
    LayoutTable& layouts = tensor_.layouts();
    const Reshard& plan = layouts.reshard(from.layout, to, tensor_.regions(), problem_.machine());
    Subject moved = subject;
    if (plan.through) {
        moved.kept_in = -1;
        const Instance there = reshard(from, layouts.intern(*plan.through), moved);
        return reshard(there, to, subject);
    }
    // Summands wait beside each other.
    if (std::ranges::any_of(plan.supplies, &Supply::sum)) moved.kept_in = -1;
    first_pieces_.clear();
    for (const Transfer& transfer : plan.transfers) {
        first_pieces_.push_back(values_.piece_count());
        add_transfer(from, transfer, moved);
    }
    const Instance instance = values_.next_instance(to);
    for (std::size_t i = 0; i < plan.supplies.size(); ++i) {
        Locations locations = supplied(from, plan.supplies[i]);
        if (plan.supplies[i].sum) {
            const Piece& piece = tensor_.pieces(to)[i];
            locations = local_work_.sum(locations, subject, piece, layouts[from.layout].combine,
                                        local_work_.is_in_place(subject, piece));
        }
        values_.add_piece(locations);
    }
    return instance;
}

/// Its results become pieces.
void TensorReshards::add_transfer(const Instance& from, const Transfer& transfer,
                                  const Subject& subject) {
    messages_.clear();
    for (std::size_t i = 0; i < transfer.sources.size(); ++i) {
        const auto source = static_cast<std::size_t>(transfer.sources[i]);
        const Locations piece = values_.piece(from, source);
        const Piece& what = tensor_.pieces(from.layout)[source];
        const bool pack = transfer.pack[i] != 0 || !is_one_message(piece, what);
        messages_.push_back(pack ? local_work_.packed(piece, subject, what) : piece);
    }
    const TaskRef id = transfer.collective ? add_collective(tensor_.layouts()[from.layout].combine,
                                                            transfer, subject)
                                           : add_copy(transfer, subject);
    for (const Locations& message : messages_) emitter_.add_inputs(id, values_[message]);
    for (const Delivery& delivery : transfer.results) {
        values_.add_piece(values_.add_location(delivered(delivery, id, subject)));
    }
}

/// Not a piece in several fragments, nor one that is strided in a buffer that holds more.
bool TensorReshards::is_one_message(const Locations& locations, const Piece& piece) const {
    if (locations.size() != 1) return false;
    const std::int32_t buffer = values_[locations][0].buffer;
    return buffer < 0 ||
           tensor_.regions().is_contiguous(emitter_.buffer(buffer).region, piece.region);
}

TaskRef TensorReshards::add_copy(const Transfer& transfer, const Subject& subject) {
    Task task = task_of(TaskKind::copy, subject);
    task.device = transfer.devices[0];
    task.to = transfer.devices[1];
    task.bytes = tensor_.bytes(transfer.elements, subject.gradient);
    task.resource_set = resource_sets_.of_copy(task.device, task.to);
    const std::int32_t copy_class =
        copy_classes_.of(problem_.machine(), task.resource_set, task.device, task.to);
    set_price(task, prices_.of(TaskKind::copy, task.bytes.raw(), copy_class, [&] {
        return problem_.transfers().copy_price(tensor_.id(), task.bytes, task.device, task.to);
    }));
    return emitter_.add_task(task);
}

TaskRef TensorReshards::add_collective(graph::Combine combine, const Transfer& transfer,
                                       const Subject& subject) {
    Task task = task_of(TaskKind::collective, subject);
    task.device = transfer.devices[0];
    task.bytes = tensor_.bytes(transfer.elements, subject.gradient);
    task.collective = *transfer.collective;
    if (cost::reduces(task.collective)) task.combine = combine;
    const ResourceSets::Group group = resource_sets_.of_ranks(transfer.devices);
    task.resource_set = group.resource_set;
    task.ranks = emitter_.ranks_of(transfer.devices);
    const cost::CollectivePrice price = collective_prices_.of(
        problem_.transfers(), group.row,
        {.kind = task.collective, .devices = transfer.devices, .bytes = task.bytes});
    task.algorithm = price.algorithm;
    task.protocol = price.protocol;
    set_price(task, {price.time, price.source});
    return emitter_.add_task(task);
}

/// What a transfer leaves, in the order of the tensor.
Location TensorReshards::delivered(const Delivery& delivery, TaskRef transfer,
                                   const Subject& subject) {
    const Piece piece{delivery.device, delivery.region, delivery.summand};
    Location location{.device = delivery.device, .task = transfer};
    const bool in_place = !delivery.unpack && local_work_.is_in_place(subject, piece);
    TensorBuffer buffer =
        buffer_of(subject, location, piece,
                  in_place ? Bytes{0} : tensor_.buffer_bytes(delivery.region, subject.gradient));
    buffer.message = delivery.unpack;
    location.buffer = emitter_.add_buffer(buffer);
    return delivery.unpack ? local_work_.unpacked(location, subject, piece) : location;
}

/// What its items hold together.
Locations TensorReshards::supplied(const Instance& from, const Supply& supply) {
    const auto locations_of = [&](const Supply::Item& item) {
        const auto at = static_cast<std::size_t>(item.index);
        if (item.transfer < 0) return values_.piece(from, at);
        return values_.piece(first_pieces_[static_cast<std::size_t>(item.transfer)] + at);
    };
    if (supply.items.size() == 1) return locations_of(supply.items[0]);
    const std::uint32_t begin = values_.location_count();
    for (const Supply::Item& item : supply.items) values_.append(locations_of(item));
    return {begin, values_.location_count()};
}

}  // namespace partita::plan
