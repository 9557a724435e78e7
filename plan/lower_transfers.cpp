// SPDX-License-Identifier: Apache-2.0
//
// How lowering brings a tensor into the layout in which somebody needs it.
#include <algorithm>
#include <cassert>
#include <utility>

#include "plan/lowering.h"

namespace partita::plan {

using graph::TensorId;

Lowering::TensorState& Lowering::state(TensorId t, int micro_batch) {
    const int m = problem_.is_batched(t) ? micro_batch : 0;
    return states_[t.index() * static_cast<std::size_t>(micro_batches_) +
                   static_cast<std::size_t>(m)];
}

/// Buffers of a workload are part of the memory it gives for the node.
Bytes Lowering::buffer_bytes(TensorId t, std::int32_t region) const {
    if (graph_.op(graph_.tensor(t).producer).given || region < 0) return Bytes{0};
    return bytes_of(graph_.tensor(t), build_.regions().volume(region));
}

std::int32_t Lowering::add_value(const Subject& subject, const Place& place, const Piece& piece,
                                 Bytes bytes, std::int32_t root, bool message) {
    return build_.add_buffer({.device = place.device,
                              .writer = place.task,
                              .bytes = bytes,
                              .tensor = subject.tensor,
                              .gradient = subject.gradient,
                              .message = message,
                              .micro_batch = subject.micro_batch,
                              .region = piece.region,
                              .summand = piece.summand,
                              .operand = subject.operand,
                              .root = root});
}

Form Lowering::resident(TensorId t, std::int32_t layout) {
    Form form{.layout = layout, .pieces = {}};
    for (const Piece& piece : layouts_[layout].pieces) {
        Place place{.device = piece.device};
        if (piece.region >= 0) place.buffer = add_value({.tensor = t}, place, piece, Bytes{0});
        form.pieces.push_back({place});
    }
    return form;
}

/// The tensor in that layout: a form that it has already, a slice of one that lies right, or a
/// reshard of its home.
const Form& Lowering::form(TensorId t, int micro_batch, std::int32_t layout, bool backward) {
    TensorState& tensor = state(t, micro_batch);
    const graph::OpId producer = graph_.tensor(t).producer;
    const int epoch = 2 * micro_batch + (backward ? 1 : 0);
    if (strategy_.update(producer).refetch && tensor.epoch != epoch && !tensor.forms.empty()) {
        tensor.forms.resize(1);
        tensor.epoch = epoch;
    }
    for (const Form& known : tensor.forms) {
        if (known.layout == layout) return known;
    }
    if (problem_.is_resident(t)) {
        tensor.forms.push_back(resident(t, layout));
        return tensor.forms.back();
    }
    assert(!tensor.forms.empty());
    for (const Form& known : tensor.forms) {
        if (!layouts_.is_local(known.layout, layout, build_.regions())) continue;
        Form slice{.layout = layout, .pieces = local_pieces(known, layout)};
        tensor.forms.push_back(std::move(slice));
        return tensor.forms.back();
    }
    const TaskId begin = build_.task_count();
    Form fetched =
        reshard(tensor.forms.front(), layout, {.tensor = t, .micro_batch = label(t, micro_batch)});
    if (strategy_.update(producer).refetch) {
        fetches_.push_back({.tensor = t, .tasks = {begin, build_.task_count()}});
    }
    tensor.forms.push_back(std::move(fetched));
    return tensor.forms.back();
}

/// `to` must be local to the form's layout.
Pieces Lowering::local_pieces(const Form& from, std::int32_t to) const {
    Pieces pieces;
    for (const Piece& piece : layouts_[to].pieces) {
        pieces.emplace_back();
        if (piece.region < 0) continue;
        const std::int32_t source = local_source(layouts_[from.layout], piece, build_.regions());
        pieces.back() = from.pieces[static_cast<std::size_t>(source)];
    }
    return pieces;
}

TaskId Lowering::add_pack(const Subject& subject, const Piece& piece, std::int32_t turn) {
    const std::int64_t elements = build_.regions().volume(piece.region);
    return build_.add_task(
        {.kind = TaskKind::pack,
         .gradient = subject.gradient,
         .updated = subject.updated,
         .op = graph_.tensor(subject.tensor).producer,
         .tensor = subject.tensor,
         .device = piece.device,
         .micro_batch = subject.micro_batch,
         .turn = turn,
         .duration = problem_.pack_time(subject.tensor, elements, piece.device)});
}

/// The piece in the order of messages.
Places Lowering::packed(const Places& places, const Subject& subject, const Piece& piece) {
    const TaskId task = add_pack(subject, piece, turn_of_sum(places, piece.device));
    add_work(task, places);
    Place place{.device = piece.device, .task = task};
    const Bytes bytes = buffer_bytes(subject.tensor, piece.region);
    place.buffer = add_value(subject, place, piece, bytes, -1, true);
    return {place};
}

/// What arrived in messages in the order of the tensor.
Place Lowering::unpacked(const Place& message, const Subject& subject, const Piece& piece) {
    const TaskId task = add_pack(subject, piece, -1);
    add_work(task, {message});
    Place place{.device = piece.device, .task = task};
    const Bytes bytes = subject.updated ? Bytes{0} : buffer_bytes(subject.tensor, piece.region);
    place.buffer = add_value(subject, place, piece, bytes);
    return place;
}

/// Returns the places of the transfer's results.
Pieces Lowering::add_transfer(const Form& from, const Transfer& transfer, const Subject& subject) {
    const TensorId t = subject.tensor;
    Task task{.kind = TaskKind::copy,
              .gradient = subject.gradient,
              .updated = subject.updated,
              .op = graph_.tensor(t).producer,
              .tensor = t,
              .device = transfer.devices[0],
              .to = transfer.devices[1],
              .micro_batch = subject.micro_batch,
              .bytes = bytes_of(graph_.tensor(t), transfer.elements)};
    Pieces given;
    for (std::size_t i = 0; i < transfer.sources.size(); ++i) {
        const auto source = static_cast<std::size_t>(transfer.sources[i]);
        const Places& places = from.pieces[source];
        const Piece piece = layouts_[from.layout].pieces[source];
        // A piece in several fragments is no single message either.
        const bool pack = transfer.pack[i] != 0 || places.size() > 1;
        given.push_back(pack ? packed(places, subject, piece) : places);
    }
    TaskId id = -1;
    if (transfer.collective) {
        const auto price = problem_.collective_price(
            {.kind = *transfer.collective, .devices = transfer.devices, .bytes = task.bytes});
        task.to = -1;
        task.collective = *transfer.collective;
        if (cost::reduces(task.collective)) task.combine = layouts_[from.layout].combine;
        task.algorithm = price.algorithm;
        task.protocol = price.protocol;
        task.duration = price.time;
        id = build_.add_collective(task, transfer.devices);
    } else {
        task.duration = problem_.copy_time(t, task.bytes, task.device, task.to);
        id = build_.add_task(task);
    }
    for (const Places& places : given) add_work(id, places);
    Pieces results;
    for (const Delivery& delivery : transfer.results) {
        Place place{.device = delivery.device, .task = id};
        // A new value of a parameter is written where the old one lies.
        const bool in_place = subject.updated && !delivery.unpack;
        const Bytes bytes = in_place ? Bytes{0} : buffer_bytes(t, delivery.region);
        const Piece piece{delivery.device, delivery.region, delivery.summand};
        place.buffer = add_value(subject, place, piece, bytes, -1, delivery.unpack);
        results.push_back({delivery.unpack ? unpacked(place, subject, piece) : place});
    }
    return results;
}

Form Lowering::reshard(const Form& from, std::int32_t to, const Subject& subject) {
    if (from.layout == to) return from;
    const Reshard& plan = layouts_.reshard(from.layout, to, build_.regions(), problem_.machine());
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
        const Piece piece = layouts_[to].pieces[i];
        if (plan.supplies[i].sum) {
            const graph::Combine combine = layouts_[from.layout].combine;
            places = sum_of_places(std::move(places), subject, piece, combine, false);
        }
        form.pieces.push_back(std::move(places));
    }
    return form;
}

}  // namespace partita::plan
