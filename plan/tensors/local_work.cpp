// SPDX-License-Identifier: Apache-2.0
#include "plan/tensors/local_work.h"

#include <algorithm>
#include <cassert>
#include <cstdint>

#include "plan/tensors/cyclic_search.h"

namespace partita::plan {

/// A sum of what blocks of this device contribute belongs to the last of these blocks; any other to
/// none.
bool LocalWork::writes_in_block(std::span<const Location> locations, int device) const {
    return std::all_of(locations.begin(), locations.end(), [&](const Location& location) {
        if (location.task == -1 || location.device != device) return false;
        return is_part(location.task) || emitter_.is_in_block(location.task);
    });
}

TaskRef LocalWork::add_pack(std::span<const Location> locations, const Subject& subject,
                            const Piece& piece) {
    const std::int64_t elements = tensor_.elements(piece.region);
    Task task = task_of(TaskKind::pack, subject);
    task.device = piece.device;
    const Bytes bytes = tensor_.bytes(elements, subject.gradient);
    set_price(task, prices_.of(TaskKind::pack, bytes.raw(),
                               problem_.prices().device_class(piece.device), [&] {
                                   return problem_.prices().pack_price(
                                       tensor_.id(), elements, subject.gradient, piece.device);
                               }));
    const TaskRef id = emitter_.add_task(task);
    emitter_.add_inputs(id, locations);
    return id;
}

Locations LocalWork::packed(Locations locations, const Subject& subject, const Piece& piece) {
    const TaskRef id = add_pack(values_[locations], subject, piece);
    emitter_.set_in_block(id, writes_in_block(values_[locations], piece.device));
    Location location{.device = piece.device, .task = id};
    TensorBuffer buffer =
        buffer_of(subject, location, piece, tensor_.buffer_bytes(piece.region, subject.gradient));
    buffer.message = true;
    location.buffer = emitter_.add_buffer(buffer);
    return values_.add_location(location);
}

Location LocalWork::unpacked(const Location& message, const Subject& subject, const Piece& piece) {
    Location location{.device = piece.device, .task = add_pack({&message, 1}, subject, piece)};
    const Bytes bytes = is_in_place(subject, piece)
                            ? Bytes{0}
                            : tensor_.buffer_bytes(piece.region, subject.gradient);
    location.buffer = emitter_.add_buffer(buffer_of(subject, location, piece, bytes));
    return location;
}

bool LocalWork::is_in_place(const Subject& subject, const Piece& piece) {
    if (subject.updated) return true;
    if (subject.kept_in < 0 || piece.region < 0) return false;
    return any_from(tensor_.pieces(subject.kept_in), next_kept_, [&](const Piece& kept) {
        return kept.device == piece.device && kept.region >= 0 &&
               tensor_.regions().contains(kept.region, piece.region);
    });
}

/// Of adding up so many values.
cost::Price LocalWork::accumulate_price(const Piece& piece, std::size_t values) {
    const std::int64_t elements = tensor_.elements(piece.region);
    const cost::Price one = prices_.of(
        TaskKind::accumulate, elements, problem_.prices().device_class(piece.device),
        [&] { return problem_.prices().accumulate_price(tensor_.id(), elements, piece.device); });
    return {(static_cast<std::int64_t>(values) - 1) * one.time, one.source};
}

Locations LocalWork::sum(Locations locations, const Subject& subject, const Piece& piece,
                         graph::Combine combine, bool persistent) {
    const std::span<const Location> summands = values_[locations];
    const Location first = summands.front();
    assert(first.device == piece.device);
    const bool in_place =
        emitter_.buffer(first.buffer).region == piece.region && !emitter_.is_read(first.buffer);
    Task task = task_of(TaskKind::accumulate, subject);
    task.device = piece.device;
    task.updated = false;
    set_price(task, accumulate_price(piece, summands.size()));
    task.combine = combine;
    const TaskRef id = emitter_.add_task(task);
    emitter_.set_in_block(id, writes_in_block(summands, piece.device));
    emitter_.add_inputs(id, summands);
    Location sum{.device = piece.device, .task = id};
    const bool allocates = !persistent && !in_place;
    TensorBuffer buffer =
        buffer_of(subject, sum, piece,
                  allocates ? tensor_.buffer_bytes(piece.region, subject.gradient) : Bytes{0});
    if (in_place && !persistent) buffer.root = first.buffer;
    sum.buffer = emitter_.add_buffer(buffer);
    return values_.add_location(sum);
}

}  // namespace partita::plan
