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
void TensorLowering::allocate(const Instance& instance, const Subject& subject, bool persistent) {
    Subject of = subject;
    of.operand = instance.operand;
    const std::vector<Piece>& lying = pieces(instance.layout);
    for (std::size_t i = 0; i < lying.size(); ++i) {
        const Locations held = locations(instance, i);
        for (std::uint32_t at = held.begin; at < held.end; ++at) {
            if (locations_[at].buffer >= 0) continue;
            const Bytes bytes = persistent ? Bytes{0} : buffer_bytes(lying[i].region);
            locations_[at].buffer = add_value(of, locations_[at], lying[i], bytes);
        }
    }
}

/// A sum of what blocks of this device give belongs to the last of these blocks; any other to none.
bool TensorLowering::writes_in_block(Locations locations, int device) const {
    for (std::uint32_t i = locations.begin; i < locations.end; ++i) {
        const Location& location = locations_[i];
        if (location.task == -1 || location.device != device) return false;
        const bool in_block =
            is_part(location.task) || given_.in_block[static_cast<std::size_t>(location.task)] != 0;
        if (!in_block) return false;
    }
    return true;
}

/// Adds values that lie on one device, in place where the first of them covers the piece and nobody
/// else reads it.
Locations TensorLowering::sum_of_locations(Locations locations, const Subject& subject,
                                           const Piece& piece, graph::Combine combine,
                                           bool persistent) {
    const Location target = first(locations);
    const int device = target.device;
    const bool in_place = buffer(target.buffer).region == piece.region &&
                          is_read_[static_cast<std::size_t>(target.buffer)] == 0;
    const std::int64_t volume = regions_.volume(piece.region);
    const auto adds = static_cast<std::int64_t>(locations.size()) - 1;
    Task task = task_of(TaskKind::accumulate, subject);
    task.device = device;
    task.updated = false;
    const cost::Price one =
        prices_.of(TaskKind::accumulate, volume, problem_.prices().device_class(device),
                   [&] { return problem_.prices().accumulate_price(tensor_, volume, device); });
    set_price(task, {adds * one.time, one.source});
    task.combine = combine;
    const TaskRef id = add_task(task);
    given_.in_block.back() = writes_in_block(locations, device) ? 1 : 0;
    for (std::uint32_t i = locations.begin; i < locations.end; ++i) {
        add_edge(locations_[i].task, id);
        add_read(id, locations_[i].buffer);
    }
    const bool allocates = !persistent && !in_place;
    Location sum{.device = device, .task = id};
    sum.buffer = add_value(subject, sum, piece, allocates ? buffer_bytes(piece.region) : Bytes{0},
                           persistent || !in_place ? -1 : target.buffer);
    return add_location(sum);
}

/// Instances of equal layout, added piece by piece.
Instance TensorLowering::sum_of(const Instances& instances, const Subject& subject,
                                bool persistent) {
    if (instances.size() == 1) return instances[0];
    const Instance sum = next_instance(instances[0].layout);
    const std::vector<Piece>& lying = pieces(sum.layout);
    for (std::size_t i = 0; i < lying.size(); ++i) {
        const auto begin = static_cast<std::uint32_t>(locations_.size());
        for (const Instance& instance : instances) append(locations(instance, i));
        Locations all{begin, static_cast<std::uint32_t>(locations_.size())};
        if (all.size() > 1) {
            all = sum_of_locations(all, subject, lying[i], graph::Combine::sum, persistent);
        }
        add_piece(all);
    }
    return sum;
}

namespace {

/// Calls `then` with instances of equal layout together, in order of appearance.
template <class Then>
void for_each_layout(const Instances& instances, Then then) {
    for (std::size_t i = 0; i < instances.size(); ++i) {
        const auto same = [&](const Instance& instance) {
            return instance.layout == instances[i].layout;
        };
        const auto here = instances.begin() + static_cast<std::ptrdiff_t>(i);
        if (std::any_of(instances.begin(), here, same)) continue;
        Instances group;
        std::copy_if(here, instances.end(), std::back_inserter(group), same);
        then(group);
    }
}

}  // namespace

/// The gradient in that layout: what lies so already and what is resharded to it, added.
Instance TensorLowering::collect_gradient(std::int32_t layout, bool persistent) {
    const Subject subject{.micro_batch = label(), .gradient = true};
    const Instances pending = std::exchange(pending_, {});
    assert(!pending.empty());
    const bool lone = pending.size() == 1;
    Instances arrived;
    Instances others;
    for (const Instance& instance : pending) {
        const bool here = instance.layout == layout;
        allocate(instance, subject, here && persistent && lone);
        (here ? arrived : others).push_back(instance);
    }
    for_each_layout(others, [&](const Instances& group) {
        arrived.push_back(reshard(sum_of(group, subject, false), layout, subject));
    });
    return sum_of(arrived, subject, persistent);
}

/// Adds up what lies in equal layouts, between two micro-batches. What comes first in a layout is
/// the accumulator, whose bytes may be persistent.
void TensorLowering::accumulate_pending(int micro_batch, bool persistent) {
    // Each micro-batch gives its own, to a tensor too that is the same for all.
    const Subject subject{.micro_batch = key_->micro_batches > 1 ? micro_batch : -1,
                          .gradient = true};
    const Instances pending = std::exchange(pending_, {});
    for (std::size_t i = 0; i < pending.size(); ++i) {
        const Instance& instance = pending[i];
        const auto end = pending.begin() + static_cast<std::ptrdiff_t>(i);
        const bool first = std::none_of(pending.begin(), end, [&](const Instance& other) {
            return other.layout == instance.layout;
        });
        allocate(instance, subject, persistent && first);
    }
    for_each_layout(pending, [&](const Instances& group) {
        pending_.push_back(sum_of(group, subject, false));
    });
}

/// What a micro-batch adds to the accumulator of a parameter.
void TensorLowering::lower_parameter(const TensorEvent& event, std::int32_t layout) {
    if (key_->accumulate_locally) {
        accumulate_pending(event.micro_batch, true);
    } else if (!pending_.empty()) {
        // Readers that do not depend on the batch give nothing before the last micro-batch.
        const Instance taken = collect_gradient(layout, true);
        pending_.push_back(taken);
    }
    if (event.micro_batch + 1 < key_->micro_batches || !key_->accumulate_locally) return;
    for (const Instance& instance : pending_) {
        for (const Piece& piece : pieces(instance.layout)) {
            if (piece.region >= 0) add_persistent(piece.device, buffer_bytes(piece.region));
        }
    }
}

void TensorLowering::lower_update(const Instance& gradient) {
    const Subject subject{.updated = true};
    const std::vector<Piece>& lying = pieces(gradient.layout);
    const graph::Tensor& tensor = problem_.graph().tensor(tensor_);
    const Instance updated = next_instance(gradient.layout);
    for (std::size_t i = 0; i < lying.size(); ++i) {
        const Piece& piece = lying[i];
        const std::int64_t elements = regions_.volume(piece.region);
        Task task{.kind = TaskKind::update,
                  .op = {},
                  .tensor = {},
                  .device = piece.device,
                  .part = lying.size() > 1 ? static_cast<std::int32_t>(i) : -1};
        const int device_class = problem_.prices().device_class(piece.device);
        set_price(task, prices_.of(TaskKind::update, elements, device_class, [&] {
            return elements == tensor.elements()
                       ? problem_.prices().update_price(producer_, piece.device)
                       : problem_.prices().update_price(producer_, elements, piece.device);
        }));
        const TaskRef id = add_task(task);
        const Locations held = locations(gradient, i);
        for (std::uint32_t at = held.begin; at < held.end; ++at) {
            add_edge(locations_[at].task, id);
            add_read(id, locations_[at].buffer);
        }
        // In place, so every reader of the old value comes first.
        wait_for_readers(id, piece.device);
        Location location{.device = piece.device, .task = id};
        location.buffer = add_value(subject, location, piece, Bytes{0});
        add_piece(add_location(location));
        if (!key_->accumulate_locally) add_persistent(piece.device, buffer_bytes(piece.region));
        add_persistent(piece.device, optimizer_state_bytes(tensor, elements, key_->optimizer));
    }
    const Instance everywhere = reshard(updated, instances_.front().layout, subject);
    const std::size_t count = pieces(everywhere.layout).size();
    for (std::size_t i = 0; i < count; ++i) {
        const Locations held = locations(everywhere, i);
        for (std::uint32_t at = held.begin; at < held.end; ++at) {
            wait_for_readers(locations_[at].task, locations_[at].device);
        }
    }
}

void TensorLowering::wait_for_readers(TaskRef task, int device) {
    const Instance& produced = instances_.front();
    for (std::size_t i = 0; i < first_readers_.size(); ++i) {
        if (first(locations(produced, i)).device != device) continue;
        for (std::int32_t r = first_readers_[i]; r >= 0;) {
            const Reader& reader = readers_[static_cast<std::size_t>(r)];
            if (reader.task != task) add_edge(reader.task, task);
            r = reader.next;
        }
    }
}

}  // namespace partita::plan
