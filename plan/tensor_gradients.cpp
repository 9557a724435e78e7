// SPDX-License-Identifier: Apache-2.0
//
// How lowering adds up the gradients of a tensor and updates a parameter.
#include <algorithm>
#include <cassert>
#include <utility>

#include "plan/tensor_lowering.h"

namespace partita::plan {

/// Buffers for contributions that have none yet.
void TensorLowering::allocate(Form& form, const Subject& subject, bool persistent) {
    const std::vector<Piece> pieces = layouts_[form.layout].pieces;
    for (std::size_t i = 0; i < form.pieces.size(); ++i) {
        for (Place& place : form.pieces[i]) {
            if (place.buffer >= 0) continue;
            const Bytes bytes = persistent ? Bytes{0} : buffer_bytes(pieces[i].region);
            Subject of = subject;
            of.operand = form.operand;
            place.buffer = add_value(of, place, pieces[i], bytes);
        }
    }
}

/// A sum of what blocks of this device give belongs to the last of these blocks; any other to none.
bool TensorLowering::writes_in_block(const Places& places, int device) const {
    return std::all_of(places.begin(), places.end(), [&](const Place& place) {
        if (place.task == -1 || place.device != device) return false;
        return is_part(place.task) || given_.in_block[static_cast<std::size_t>(place.task)] != 0;
    });
}

/// Adds values that lie on one device, in place where the first of them covers the piece and nobody
/// else reads it.
Places TensorLowering::sum_of_places(Places places, const Subject& subject, const Piece& piece,
                                     graph::Combine combine, bool persistent) {
    const int device = places[0].device;
    const bool in_place = buffer(places[0].buffer).region == piece.region &&
                          is_read_[static_cast<std::size_t>(places[0].buffer)] == 0;
    const std::int64_t volume = regions_.volume(piece.region);
    const auto adds = static_cast<std::int64_t>(places.size()) - 1;
    Task task = task_of(TaskKind::accumulate, subject);
    task.device = device;
    task.updated = false;
    task.duration = adds * problem_.accumulate_time(tensor_, volume, device);
    task.combine = combine;
    const TaskRef id = add_task(task);
    given_.in_block.back() = writes_in_block(places, device) ? 1 : 0;
    for (const Place& place : places) {
        add_edge(place.task, id);
        add_read(id, place.buffer);
    }
    const bool allocates = !persistent && !in_place;
    Place sum{.device = device, .task = id};
    sum.buffer = add_value(subject, sum, piece, allocates ? buffer_bytes(piece.region) : Bytes{0},
                           persistent || !in_place ? -1 : places[0].buffer);
    return {sum};
}

/// Forms of equal layout, added piece by piece.
Form TensorLowering::sum_of(const std::vector<Form>& forms, const Subject& subject,
                            bool persistent) {
    Form sum{.layout = forms[0].layout, .pieces = {}};
    const std::vector<Piece> pieces = layouts_[sum.layout].pieces;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
        Places places;
        for (const Form& form : forms) {
            places.insert(places.end(), form.pieces[i].begin(), form.pieces[i].end());
        }
        const bool alone = forms.size() == 1 || places.size() < 2;
        sum.pieces.push_back(alone ? std::move(places)
                                   : sum_of_places(std::move(places), subject, pieces[i],
                                                   graph::Combine::sum, persistent));
    }
    return sum;
}

namespace {

/// Forms of equal layout together, in order of appearance.
std::vector<std::vector<Form>> by_layout(std::vector<Form> forms) {
    std::vector<std::vector<Form>> groups;
    for (Form& form : forms) {
        const auto same = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
            return group[0].layout == form.layout;
        });
        if (same == groups.end()) {
            groups.push_back({std::move(form)});
        } else {
            same->push_back(std::move(form));
        }
    }
    return groups;
}

}  // namespace

/// The gradient in that layout: what lies so already and what is resharded to it, added.
Form TensorLowering::take_gradient(std::int32_t layout, bool persistent) {
    const Subject subject{.micro_batch = label(), .gradient = true};
    std::vector<Form> pending = std::exchange(pending_, {});
    assert(!pending.empty());
    const bool lone = pending.size() == 1;
    std::vector<Form> arrived;
    std::vector<Form> others;
    for (Form& form : pending) {
        const bool here = form.layout == layout;
        allocate(form, subject, here && persistent && lone);
        (here ? arrived : others).push_back(std::move(form));
    }
    for (const std::vector<Form>& group : by_layout(std::move(others))) {
        arrived.push_back(reshard(sum_of(group, subject, false), layout, subject));
    }
    return sum_of(arrived, subject, persistent);
}

/// Adds up what lies in equal layouts, between two micro-batches. What comes first in a layout is the
/// accumulator, whose bytes may be persistent.
void TensorLowering::fold_pending(int micro_batch, bool persistent) {
    // Each micro-batch gives its own, to a tensor too that is the same for all.
    const Subject subject{.micro_batch = key_.micro_batches > 1 ? micro_batch : -1,
                          .gradient = true};
    for (std::size_t i = 0; i < pending_.size(); ++i) {
        Form& form = pending_[i];
        const auto end = pending_.begin() + static_cast<std::ptrdiff_t>(i);
        const bool first = std::none_of(
            pending_.begin(), end, [&](const Form& other) { return other.layout == form.layout; });
        allocate(form, subject, persistent && first);
    }
    for (const std::vector<Form>& group : by_layout(std::exchange(pending_, {}))) {
        pending_.push_back(sum_of(group, subject, false));
    }
}

/// What a micro-batch adds to the accumulator of a parameter.
void TensorLowering::lower_parameter(const TensorEvent& event, std::int32_t layout) {
    if (key_.accumulate_locally) {
        fold_pending(event.micro_batch, true);
    } else if (!pending_.empty()) {
        // Readers that do not depend on the batch give nothing before the last micro-batch.
        pending_ = {take_gradient(layout, true)};
    }
    if (event.micro_batch + 1 < key_.micro_batches || !key_.accumulate_locally) return;
    for (const Form& form : pending_) {
        for (const Piece& piece : layouts_[form.layout].pieces) {
            if (piece.region >= 0) add_persistent(piece.device, buffer_bytes(piece.region));
        }
    }
}

void TensorLowering::lower_update(const Form& gradient) {
    const Subject subject{.updated = true};
    Form updated{.layout = gradient.layout, .pieces = {}};
    const std::vector<Piece> pieces = layouts_[gradient.layout].pieces;
    const graph::Tensor& tensor = problem_.graph().tensor(tensor_);
    for (std::size_t i = 0; i < gradient.pieces.size(); ++i) {
        const Piece& piece = pieces[i];
        const std::int64_t elements = regions_.volume(piece.region);
        Task task{.kind = TaskKind::update,
                  .op = {},
                  .tensor = {},
                  .device = piece.device,
                  .part = gradient.pieces.size() > 1 ? static_cast<std::int32_t>(i) : -1};
        task.duration = elements == tensor.elements()
                            ? problem_.update_time(producer_, piece.device)
                            : problem_.update_time(producer_, elements, piece.device);
        const TaskRef id = add_task(task);
        for (const Place& place : gradient.pieces[i]) {
            add_edge(place.task, id);
            add_read(id, place.buffer);
        }
        // In place, so every reader of the old value comes first.
        wait_for_readers(id, piece.device);
        Place place{.device = piece.device, .task = id};
        place.buffer = add_value(subject, place, piece, Bytes{0});
        updated.pieces.push_back({place});
        if (!key_.accumulate_locally) add_persistent(piece.device, buffer_bytes(piece.region));
        add_persistent(piece.device, optimizer_state_bytes(tensor, elements, key_.optimizer));
    }
    const Form everywhere = reshard(updated, forms_.front().layout, subject);
    for (const auto& places : everywhere.pieces) {
        for (const Place& place : places) wait_for_readers(place.task, place.device);
    }
}

void TensorLowering::wait_for_readers(TaskRef task, int device) {
    const Form& home = forms_.front();
    for (std::size_t i = 0; i < home.pieces.size(); ++i) {
        if (home.pieces[i][0].device != device) continue;
        for (const TaskRef reader : readers_[i]) {
            if (reader != task) add_edge(reader, task);
        }
    }
}

}  // namespace partita::plan
