// SPDX-License-Identifier: Apache-2.0
//
// How lowering brings a tensor into the layout in which somebody needs it.
#include <algorithm>
#include <cassert>
#include <utility>

#include "plan/tensor_lowering.h"

namespace partita::plan {

Form TensorLowering::resident(std::int32_t layout) {
    Form form{.layout = layout, .pieces = {}};
    const std::vector<Piece> pieces = layouts_[layout].pieces;
    for (const Piece& piece : pieces) {
        Place place{.device = piece.device};
        if (piece.region >= 0) place.buffer = add_value({}, place, piece, Bytes{0});
        form.pieces.push_back({place});
    }
    return form;
}

/// The tensor in that layout: a form that it has already, a slice of one that lies right, or a
/// reshard of its home.
const Form& TensorLowering::form(const TensorEvent& event, std::int32_t layout) {
    const bool backward = event.kind != TensorEvent::Kind::forward_use;
    const int epoch = key_.refetch ? 2 * event.micro_batch + (backward ? 1 : 0) : -1;
    if (key_.refetch && forms_.size() > 1 && forms_.back().epoch != epoch) forms_.resize(1);
    for (const Form& known : forms_) {
        if (known.layout == layout) return known;
    }
    Form found;
    if (problem_.is_resident(tensor_)) {
        found = resident(layout);
    } else {
        assert(!forms_.empty());
        const auto near = std::find_if(forms_.begin(), forms_.end(), [&](const Form& known) {
            return layouts_.is_local(known.layout, layout, regions_);
        });
        if (near != forms_.end()) {
            found = {.layout = layout, .pieces = local_pieces(*near, layout)};
        } else {
            found = reshard(forms_.front(), layout, {.micro_batch = label()});
            given_.steps.back().fetched = key_.refetch;
        }
    }
    found.epoch = epoch;
    forms_.push_back(std::move(found));
    return forms_.back();
}

/// `to` must be local to the form's layout.
Pieces TensorLowering::local_pieces(const Form& from, std::int32_t to) const {
    Pieces pieces;
    for (const Piece& piece : layouts_[to].pieces) {
        pieces.emplace_back();
        if (piece.region < 0) continue;
        const std::int32_t source = local_source(layouts_[from.layout], piece, regions_);
        pieces.back() = from.pieces[static_cast<std::size_t>(source)];
    }
    return pieces;
}

/// The piece in the order of messages.
Places TensorLowering::packed(const Places& places, const Subject& subject, const Piece& piece) {
    Task task = task_of(TaskKind::pack, subject);
    task.device = piece.device;
    task.duration = problem_.pack_time(tensor_, regions_.volume(piece.region), piece.device);
    const TaskRef id = add_task(task);
    given_.in_block.back() = writes_in_block(places, piece.device) ? 1 : 0;
    add_work(id, places);
    Place place{.device = piece.device, .task = id};
    place.buffer = add_value(subject, place, piece, buffer_bytes(piece.region), -1, true);
    return {place};
}

/// What arrived in messages in the order of the tensor.
Place TensorLowering::unpacked(const Place& message, const Subject& subject, const Piece& piece) {
    Task task = task_of(TaskKind::pack, subject);
    task.device = piece.device;
    task.duration = problem_.pack_time(tensor_, regions_.volume(piece.region), piece.device);
    const TaskRef id = add_task(task);
    add_work(id, {message});
    Place place{.device = piece.device, .task = id};
    const Bytes bytes = subject.updated ? Bytes{0} : buffer_bytes(piece.region);
    place.buffer = add_value(subject, place, piece, bytes);
    return place;
}

/// Returns the places of the transfer's results.
Pieces TensorLowering::add_transfer(const Form& from, const Transfer& transfer,
                                    const Subject& subject) {
    Pieces given;
    for (std::size_t i = 0; i < transfer.sources.size(); ++i) {
        const auto source = static_cast<std::size_t>(transfer.sources[i]);
        const Places& places = from.pieces[source];
        const Piece piece = layouts_[from.layout].pieces[source];
        // A piece in several fragments is no single message either.
        const bool pack = transfer.pack[i] != 0 || places.size() > 1;
        given.push_back(pack ? packed(places, subject, piece) : places);
    }
    const TaskRef id = add_message(layouts_[from.layout].combine, transfer, subject);
    for (const Places& places : given) add_work(id, places);
    Pieces results;
    for (const Delivery& delivery : transfer.results) {
        Place place{.device = delivery.device, .task = id};
        // A new value of a parameter is written where the old one lies.
        const bool in_place = subject.updated && !delivery.unpack;
        const Bytes bytes = in_place ? Bytes{0} : buffer_bytes(delivery.region);
        const Piece piece{delivery.device, delivery.region, delivery.summand};
        place.buffer = add_value(subject, place, piece, bytes, -1, delivery.unpack);
        results.push_back({delivery.unpack ? unpacked(place, subject, piece) : place});
    }
    return results;
}

TaskRef TensorLowering::add_message(graph::Combine combine, const Transfer& transfer,
                                    const Subject& subject) {
    Task task = task_of(TaskKind::copy, subject);
    task.device = transfer.devices[0];
    task.bytes = bytes_of(problem_.graph().tensor(tensor_), transfer.elements);
    if (!transfer.collective) {
        task.to = transfer.devices[1];
        task.duration = problem_.copy_time(tensor_, task.bytes, task.device, task.to);
        return add_task(task);
    }
    const auto price = problem_.collective_price(
        {.kind = *transfer.collective, .devices = transfer.devices, .bytes = task.bytes});
    task.kind = TaskKind::collective;
    task.collective = *transfer.collective;
    if (cost::reduces(task.collective)) task.combine = combine;
    task.algorithm = price.algorithm;
    task.protocol = price.protocol;
    task.duration = price.time;
    return add_task(task, transfer.devices);
}

Form TensorLowering::reshard(const Form& from, std::int32_t to, const Subject& subject) {
    if (from.layout == to) return from;
    const Reshard& plan = layouts_.reshard(from.layout, to, regions_, problem_.machine());
    if (plan.resolved) {
        const Form resolved = reshard(from, layouts_.intern(*plan.resolved), subject);
        return reshard(resolved, to, subject);
    }
    std::vector<Pieces> delivered;
    for (const Transfer& transfer : plan.transfers) {
        delivered.push_back(add_transfer(from, transfer, subject));
    }
    Form form{.layout = to, .pieces = {}};
    for (std::size_t i = 0; i < plan.supplies.size(); ++i) {
        Places places;
        for (const Supply::Item& item : plan.supplies[i].items) {
            const auto at = static_cast<std::size_t>(item.index);
            const Places& held = item.transfer < 0
                                     ? from.pieces[at]
                                     : delivered[static_cast<std::size_t>(item.transfer)][at];
            places.insert(places.end(), held.begin(), held.end());
        }
        if (plan.supplies[i].sum) {
            const graph::Combine combine = layouts_[from.layout].combine;
            const Piece piece = layouts_[to].pieces[i];
            places = sum_of_places(std::move(places), subject, piece, combine, false);
        }
        form.pieces.push_back(std::move(places));
    }
    return form;
}

}  // namespace partita::plan
