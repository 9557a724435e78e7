// SPDX-License-Identifier: Apache-2.0
//
// How lowering adds up the gradients of a tensor and updates a parameter.
#include <algorithm>
#include <cassert>
#include <iterator>
#include <utility>

#include "plan/tensors/tensor_lowering.h"

namespace partita::plan {

/// Buffers for contributions that have none yet.
void TensorLowering::allocate(const Form& form, const Subject& subject, bool persistent) {
    Subject of = subject;
    of.operand = form.operand;
    const std::vector<Piece>& lying = pieces(form.layout);
    for (std::size_t i = 0; i < lying.size(); ++i) {
        const Places held = places(form, i);
        for (std::uint32_t at = held.begin; at < held.end; ++at) {
            if (places_[at].buffer >= 0) continue;
            const Bytes bytes = persistent ? Bytes{0} : buffer_bytes(lying[i].region);
            places_[at].buffer = add_value(of, places_[at], lying[i], bytes);
        }
    }
}

/// A sum of what blocks of this device give belongs to the last of these blocks; any other to none.
bool TensorLowering::writes_in_block(Places places, int device) const {
    for (std::uint32_t i = places.begin; i < places.end; ++i) {
        const Place& place = places_[i];
        if (place.task == -1 || place.device != device) return false;
        const bool in_block =
            is_part(place.task) || given_.in_block[static_cast<std::size_t>(place.task)] != 0;
        if (!in_block) return false;
    }
    return true;
}

/// Adds values that lie on one device, in place where the first of them covers the piece and nobody
/// else reads it.
Places TensorLowering::sum_of_places(Places places, const Subject& subject, const Piece& piece,
                                     graph::Combine combine, bool persistent) {
    const Place target = first(places);
    const int device = target.device;
    const bool in_place = buffer(target.buffer).region == piece.region &&
                          is_read_[static_cast<std::size_t>(target.buffer)] == 0;
    const std::int64_t volume = regions_.volume(piece.region);
    const auto adds = static_cast<std::int64_t>(places.size()) - 1;
    Task task = task_of(TaskKind::accumulate, subject);
    task.device = device;
    task.updated = false;
    const cost::Price one =
        prices_.of(TaskKind::accumulate, volume, problem_.device_class(device),
                   [&] { return problem_.accumulate_price(tensor_, volume, device); });
    set_price(task, {adds * one.time, one.source});
    task.combine = combine;
    const TaskRef id = add_task(task);
    given_.in_block.back() = writes_in_block(places, device) ? 1 : 0;
    for (std::uint32_t i = places.begin; i < places.end; ++i) {
        add_edge(places_[i].task, id);
        add_read(id, places_[i].buffer);
    }
    const bool allocates = !persistent && !in_place;
    Place sum{.device = device, .task = id};
    sum.buffer = add_value(subject, sum, piece, allocates ? buffer_bytes(piece.region) : Bytes{0},
                           persistent || !in_place ? -1 : target.buffer);
    return add_place(sum);
}

/// Forms of equal layout, added piece by piece.
Form TensorLowering::sum_of(const Forms& forms, const Subject& subject, bool persistent) {
    if (forms.size() == 1) return forms[0];
    const Form sum = next_form(forms[0].layout);
    const std::vector<Piece>& lying = pieces(sum.layout);
    for (std::size_t i = 0; i < lying.size(); ++i) {
        const auto begin = static_cast<std::uint32_t>(places_.size());
        for (const Form& form : forms) append(places(form, i));
        Places all{begin, static_cast<std::uint32_t>(places_.size())};
        if (all.size() > 1) {
            all = sum_of_places(all, subject, lying[i], graph::Combine::sum, persistent);
        }
        add_piece(all);
    }
    return sum;
}

namespace {

/// Calls `then` with forms of equal layout together, in order of appearance.
template <class Then>
void for_each_layout(const Forms& forms, Then then) {
    for (std::size_t i = 0; i < forms.size(); ++i) {
        const auto same = [&](const Form& form) { return form.layout == forms[i].layout; };
        const auto here = forms.begin() + static_cast<std::ptrdiff_t>(i);
        if (std::any_of(forms.begin(), here, same)) continue;
        Forms group;
        std::copy_if(here, forms.end(), std::back_inserter(group), same);
        then(group);
    }
}

}  // namespace

/// The gradient in that layout: what lies so already and what is resharded to it, added.
Form TensorLowering::take_gradient(std::int32_t layout, bool persistent) {
    const Subject subject{.micro_batch = label(), .gradient = true};
    const Forms pending = std::exchange(pending_, {});
    assert(!pending.empty());
    const bool lone = pending.size() == 1;
    Forms arrived;
    Forms others;
    for (const Form& form : pending) {
        const bool here = form.layout == layout;
        allocate(form, subject, here && persistent && lone);
        (here ? arrived : others).push_back(form);
    }
    for_each_layout(others, [&](const Forms& group) {
        arrived.push_back(reshard(sum_of(group, subject, false), layout, subject));
    });
    return sum_of(arrived, subject, persistent);
}

/// Adds up what lies in equal layouts, between two micro-batches. What comes first in a layout is the
/// accumulator, whose bytes may be persistent.
void TensorLowering::fold_pending(int micro_batch, bool persistent) {
    // Each micro-batch gives its own, to a tensor too that is the same for all.
    const Subject subject{.micro_batch = key_->micro_batches > 1 ? micro_batch : -1,
                          .gradient = true};
    const Forms pending = std::exchange(pending_, {});
    for (std::size_t i = 0; i < pending.size(); ++i) {
        const Form& form = pending[i];
        const auto end = pending.begin() + static_cast<std::ptrdiff_t>(i);
        const bool first = std::none_of(
            pending.begin(), end, [&](const Form& other) { return other.layout == form.layout; });
        allocate(form, subject, persistent && first);
    }
    for_each_layout(pending,
                    [&](const Forms& group) { pending_.push_back(sum_of(group, subject, false)); });
}

/// What a micro-batch adds to the accumulator of a parameter.
void TensorLowering::lower_parameter(const TensorEvent& event, std::int32_t layout) {
    if (key_->accumulate_locally) {
        fold_pending(event.micro_batch, true);
    } else if (!pending_.empty()) {
        // Readers that do not depend on the batch give nothing before the last micro-batch.
        const Form taken = take_gradient(layout, true);
        pending_.push_back(taken);
    }
    if (event.micro_batch + 1 < key_->micro_batches || !key_->accumulate_locally) return;
    for (const Form& form : pending_) {
        for (const Piece& piece : pieces(form.layout)) {
            if (piece.region >= 0) add_persistent(piece.device, buffer_bytes(piece.region));
        }
    }
}

void TensorLowering::lower_update(const Form& gradient) {
    const Subject subject{.updated = true};
    const std::vector<Piece>& lying = pieces(gradient.layout);
    const graph::Tensor& tensor = problem_.graph().tensor(tensor_);
    const Form updated = next_form(gradient.layout);
    for (std::size_t i = 0; i < lying.size(); ++i) {
        const Piece& piece = lying[i];
        const std::int64_t elements = regions_.volume(piece.region);
        Task task{.kind = TaskKind::update,
                  .op = {},
                  .tensor = {},
                  .device = piece.device,
                  .part = lying.size() > 1 ? static_cast<std::int32_t>(i) : -1};
        const int device_class = problem_.device_class(piece.device);
        set_price(task, prices_.of(TaskKind::update, elements, device_class, [&] {
            return elements == tensor.elements()
                       ? problem_.update_price(producer_, piece.device)
                       : problem_.update_price(producer_, elements, piece.device);
        }));
        const TaskRef id = add_task(task);
        const Places held = places(gradient, i);
        for (std::uint32_t at = held.begin; at < held.end; ++at) {
            add_edge(places_[at].task, id);
            add_read(id, places_[at].buffer);
        }
        // In place, so every reader of the old value comes first.
        wait_for_readers(id, piece.device);
        Place place{.device = piece.device, .task = id};
        place.buffer = add_value(subject, place, piece, Bytes{0});
        add_piece(add_place(place));
        if (!key_->accumulate_locally) add_persistent(piece.device, buffer_bytes(piece.region));
        add_persistent(piece.device, optimizer_state_bytes(tensor, elements, key_->optimizer));
    }
    const Form everywhere = reshard(updated, forms_.front().layout, subject);
    const std::size_t count = pieces(everywhere.layout).size();
    for (std::size_t i = 0; i < count; ++i) {
        const Places held = places(everywhere, i);
        for (std::uint32_t at = held.begin; at < held.end; ++at) {
            wait_for_readers(places_[at].task, places_[at].device);
        }
    }
}

void TensorLowering::wait_for_readers(TaskRef task, int device) {
    const Form& home = forms_.front();
    for (std::size_t i = 0; i < first_readers_.size(); ++i) {
        if (first(places(home, i)).device != device) continue;
        for (std::int32_t r = first_readers_[i]; r >= 0;) {
            const Reader& reader = readers_[static_cast<std::size_t>(r)];
            if (reader.task != task) add_edge(reader.task, task);
            r = reader.next;
        }
    }
}

}  // namespace partita::plan
