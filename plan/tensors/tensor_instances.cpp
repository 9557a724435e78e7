// SPDX-License-Identifier: Apache-2.0
#include "plan/tensors/tensor_instances.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "plan/tensors/cyclic_search.h"

namespace partita::plan {

void TensorInstances::produce(const TensorEvent& event, std::int32_t layout) {
    if (tensor_.is_resident()) return;
    const Instance produced = values_.next_instance(layout);
    const bool source = event.block < 0;
    const bool input =
        tensor_.problem().graph().op(tensor_.producer()).kind == graph::OpKind::input;
    const MemoryKind kept = input ? MemoryKind::activations : MemoryKind::weights;
    const std::span<const Piece> pieces = tensor_.pieces(layout);
    for (std::size_t part = 0; part < pieces.size(); ++part) {
        const Piece& piece = pieces[part];
        Location location{.device = piece.device};
        if (!source) location.task = part_ref(event.block, static_cast<int>(part));
        const Bytes bytes = source ? Bytes{0} : tensor_.buffer_bytes(piece.region, false);
        location.buffer = emitter_.add_buffer(
            buffer_of({.micro_batch = tensor_.label()}, location, piece, bytes));
        if (source) {
            emitter_.add_persistent(piece.device, kept,
                                    tensor_.bytes(tensor_.elements(piece.region), false));
        }
        values_.add_piece(values_.add_location(location));
    }
    if (tensor_.is_parameter()) {
        emitter_.watch_readers();
    }
    instances_.push_back(produced);
}

void TensorInstances::reproduce(const TensorEvent& event, std::int32_t layout) {
    const Subject subject{.micro_batch = tensor_.label(), .recomputed = true};
    const Instance reproduced = values_.next_instance(layout);
    const std::span<const Piece> pieces = tensor_.pieces(layout);
    for (std::size_t part = 0; part < pieces.size(); ++part) {
        const Piece& piece = pieces[part];
        Location location{.device = piece.device,
                          .task = part_ref(event.block, static_cast<int>(part))};
        location.buffer = emitter_.add_buffer(
            buffer_of(subject, location, piece, tensor_.buffer_bytes(piece.region, false)));
        values_.add_piece(values_.add_location(location));
    }
    recomputed_.push_back(reproduced);
    recomputing_.clear();
    for (const Piece& piece : pieces) recomputing_.push_back(piece.device);
    std::ranges::sort(recomputing_);
}

bool TensorInstances::finds_recomputed(const TensorEvent& event, std::int32_t layout) const {
    if (!event.finds_recomputed || recomputed_.empty()) return false;
    const std::span<const Piece> pieces = tensor_.pieces(layout);
    return std::all_of(pieces.begin(), pieces.end(), [&](const Piece& piece) {
        return std::ranges::binary_search(recomputing_, piece.device);
    });
}

Instance TensorInstances::find(const TensorEvent& event, std::int32_t layout) {
    if (tensor_.key().refetch) {
        const bool backward = event.kind != TensorEvent::Kind::forward_use;
        const int epoch = 2 * event.micro_batch + (backward ? 1 : 0);
        if (epoch_ != epoch && instances_.size() > 1) instances_.resize(1);
        epoch_ = epoch;
    }
    const bool again = finds_recomputed(event, layout);
    if (is_gathered_again(event, layout)) return gather_again(layout);
    if (event.kind == TensorEvent::Kind::backward_use) awaited_.clear();
    Instances& lying = again ? recomputed_ : instances_;
    for (const Instance& known : lying) {
        if (known.layout == layout) return known;
    }
    const Subject subject{.micro_batch = tensor_.label(), .recomputed = again};
    const Instance found =
        tensor_.is_resident() ? add_resident(layout) : fetch(lying, layout, subject);
    lying.push_back(found);
    return found;
}

void TensorInstances::await(const TensorEvent& event, std::int32_t layout) {
    const std::span<const Piece> pieces = tensor_.pieces(layout);
    for (std::size_t part = 0; part < pieces.size(); ++part) {
        awaited_.push_back(
            {.device = pieces[part].device, .task = part_ref(event.block, static_cast<int>(part))});
    }
}

bool TensorInstances::is_gathered_again(const TensorEvent& event, std::int32_t layout) const {
    if (!tensor_.key().gather_again || !tensor_.problem().facts().is_activation(tensor_.id()))
        return false;
    if (event.kind != TensorEvent::Kind::backward_use || finds_recomputed(event, layout))
        return false;
    const Instance& produced = instances_.front();
    if (tensor_.layouts().is_local(produced.layout, layout, tensor_.regions())) return false;
    const std::span<const Piece> makers = tensor_.pieces(produced.layout);
    const std::span<const Piece> readers = tensor_.pieces(layout);
    const auto volume = [&](const Piece& piece) {
        return piece.region < 0 ? 0 : tensor_.regions().volume(piece.region);
    };
    // What only lies in other shards then (heads instead of positions) is not smaller.
    std::size_t next = 0;
    return std::ranges::all_of(readers, [&](const Piece& reader) {
        return any_from(makers, next, [&](const Piece& maker) {
            const bool saves = reader.region < 0 || volume(maker) < volume(reader);
            return maker.device == reader.device && saves;
        });
    });
}

/// Its first tasks on a device come after what the device awaits.
Instance TensorInstances::gather_again(std::int32_t layout) {
    const auto awaited = std::exchange(awaited_, {});
    for (const Instance& known : gathered_again_) {
        if (known.layout == layout) return known;
    }
    const TaskRef first = emitter_.next_task();
    const Instance found = reshards_.reshard(produced(), layout, {.micro_batch = tensor_.label()});
    emitter_.delay(first, {awaited.data(), awaited.size()});
    gathered_again_.push_back(found);
    return found;
}

Instance TensorInstances::add_resident(std::int32_t layout) {
    const Instance instance = values_.next_instance(layout);
    for (const Piece& piece : tensor_.pieces(layout)) {
        Location location{.device = piece.device};
        if (piece.region >= 0) {
            location.buffer = emitter_.add_buffer(buffer_of({}, location, piece, Bytes{0}));
        }
        values_.add_piece(values_.add_location(location));
    }
    return instance;
}

Instance TensorInstances::fetch(const Instances& known, std::int32_t layout,
                                const Subject& subject) {
    assert(!known.empty());
    const auto near = std::find_if(known.begin(), known.end(), [&](const Instance& instance) {
        return tensor_.layouts().is_local(instance.layout, layout, tensor_.regions());
    });
    if (near != known.end()) return slice(*near, layout);
    emitter_.step().fetched = tensor_.key().refetch;
    return reshards_.reshard(known.front(), layout, subject);
}

/// `to` must be local to the instance's layout.
Instance TensorInstances::slice(const Instance& from, std::int32_t to) {
    const Instance instance = values_.next_instance(to);
    for (const Piece& piece : tensor_.pieces(to)) {
        if (piece.region < 0) {
            values_.add_piece({});
            continue;
        }
        const std::int32_t source =
            local_source(tensor_.layouts()[from.layout], piece, tensor_.regions());
        values_.add_piece(values_.piece(from, static_cast<std::size_t>(source)));
    }
    return instance;
}

void TensorInstances::add_resident_memory() {
    const RegionTable& regions = tensor_.regions();
    std::map<int, std::vector<std::int32_t>> read;
    for (const Instance& instance : instances_) {
        for (const Piece& piece : tensor_.pieces(instance.layout)) {
            if (piece.region >= 0) read[piece.device].push_back(piece.region);
        }
    }
    for (auto& [device, read_here] : read) {
        std::stable_sort(read_here.begin(), read_here.end(), [&](std::int32_t a, std::int32_t b) {
            return regions.volume(a) > regions.volume(b);
        });
        std::vector<std::int32_t> kept;
        for (const std::int32_t region : read_here) {
            const bool inside = std::any_of(kept.begin(), kept.end(), [&](std::int32_t other) {
                return regions.contains(other, region);
            });
            if (inside) continue;
            kept.push_back(region);
            emitter_.add_persistent(device, MemoryKind::weights,
                                    tensor_.bytes(regions.volume(region), false));
        }
    }
}

}  // namespace partita::plan
