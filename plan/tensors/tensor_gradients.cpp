// SPDX-License-Identifier: Apache-2.0
#include "plan/tensors/tensor_gradients.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <iterator>
#include <span>
#include <utility>

namespace partita::plan {

namespace {

auto has(std::int32_t layout) {
    return [layout](const Instance& instance) { return instance.layout == layout; };
}

bool has_layout(const Instances& instances, std::int32_t layout) {
    return std::any_of(instances.begin(), instances.end(), has(layout));
}

bool has_one_layout(const Instances& instances) {
    return std::all_of(instances.begin(), instances.end(), has(instances[0].layout));
}

/// Calls `then` with instances of equal layout together, in order of appearance.
template <class Then>
void for_each_layout(const Instances& instances, Then then) {
    for (std::size_t i = 0; i < instances.size(); ++i) {
        const auto same = has(instances[i].layout);
        const auto here = instances.begin() + static_cast<std::ptrdiff_t>(i);
        if (std::any_of(instances.begin(), here, same)) continue;
        Instances group;
        std::copy_if(here, instances.end(), std::back_inserter(group), same);
        then(group);
    }
}

}  // namespace

void TensorGradients::contribute(const TensorEvent& event, std::int32_t layout) {
    const Instance instance = values_.next_instance(layout);
    const std::span<const Piece> pieces = tensor_.pieces(layout);
    for (std::size_t part = 0; part < pieces.size(); ++part) {
        if (pieces[part].region < 0) {
            values_.add_piece({});
            continue;
        }
        values_.add_piece(
            values_.add_location({.device = pieces[part].device,
                                  .task = part_ref(event.block, static_cast<int>(part))}));
    }
    pending_.push_back({.instance = instance, .operand = event.operand});
}

/// Buffers for contributions that have none yet.
void TensorGradients::allocate(const Pending& pending, Subject subject, bool persistent) {
    subject.operand = pending.operand;
    const std::span<const Piece> pieces = tensor_.pieces(pending.instance.layout);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
        for (Location& location : values_[values_.piece(pending.instance, i)]) {
            if (location.buffer >= 0) continue;
            const Bytes bytes =
                persistent ? Bytes{0} : tensor_.buffer_bytes(pieces[i].region, true);
            location.buffer = emitter_.add_buffer(buffer_of(subject, location, pieces[i], bytes));
        }
    }
}

/// Instances of equal layout, added piece by piece.
Instance TensorGradients::sum_of(const Instances& instances, const Subject& subject,
                                 bool persistent) {
    if (instances.size() == 1) return instances[0];
    const Instance sum = values_.next_instance(instances[0].layout);
    const std::span<const Piece> pieces = tensor_.pieces(sum.layout);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
        const std::uint32_t begin = values_.location_count();
        for (const Instance& instance : instances) values_.append(values_.piece(instance, i));
        Locations all{begin, values_.location_count()};
        if (all.size() > 1) {
            all = local_work_.sum(all, subject, pieces[i], graph::Combine::sum, persistent);
        }
        values_.add_piece(all);
    }
    return sum;
}

Instance TensorGradients::collect(std::int32_t layout, bool persistent) {
    const Subject subject{.micro_batch = tensor_.label(), .gradient = true};
    const PendingList contributions = std::exchange(pending_, {});
    assert(!contributions.empty());
    const bool lone = contributions.size() == 1;
    const bool local = tensor_.key().accumulate_locally;
    Instances arrived;
    Instances others;
    for (const Pending& contribution : contributions) {
        const std::int32_t from = contribution.instance.layout;
        const bool here = from == layout;
        const bool kept =
            (here && lone) || (local && !has_layout(arrived, from) && !has_layout(others, from));
        allocate(contribution, subject, persistent && kept);
        (here ? arrived : others).push_back(contribution.instance);
    }
    // Where nothing else is there yet the only ones that come become what is kept, or take the place
    // of what they were added up in.
    Subject moved = subject;
    if (persistent && arrived.empty() && has_one_layout(others))
        moved.kept_in = local ? others[0].layout : layout;
    for_each_layout(others, [&](const Instances& group) {
        arrived.push_back(reshards_.reshard(sum_of(group, subject, false), layout, moved));
    });
    return sum_of(arrived, subject, persistent);
}

void TensorGradients::accumulate(int micro_batch, bool persistent) {
    // Each micro-batch contributes its own, to a tensor too that is the same for all.
    const Subject subject{.micro_batch = tensor_.key().micro_batches > 1 ? micro_batch : -1,
                          .gradient = true};
    Instances contributions;
    for (const Pending& contribution : pending_) {
        const bool first = !has_layout(contributions, contribution.instance.layout);
        allocate(contribution, subject, persistent && first);
        contributions.push_back(contribution.instance);
    }
    pending_.clear();
    for_each_layout(contributions, [&](const Instances& group) {
        pending_.push_back({.instance = sum_of(group, subject, false)});
    });
}

void TensorGradients::add_contribution(int micro_batch) {
    const TensorKey& key = tensor_.key();
    if (key.micro_batches == 1) return;
    if (key.accumulate_locally) {
        accumulate(micro_batch, true);
        return;
    }
    Pending& accumulator = pending_.front();
    const Pending latest = pending_.back();
    const bool has_accumulator = pending_.size() > 1 && accumulator.operand < 0;
    if (!has_accumulator || accumulator.instance.layout != latest.instance.layout) return;
    const Subject subject{.micro_batch = micro_batch, .gradient = true};
    allocate(latest, subject, false);
    accumulator.instance = sum_of({accumulator.instance, latest.instance}, subject, true);
    pending_.pop_back();
}

void TensorGradients::end_micro_batch(int micro_batch, std::int32_t layout) {
    const TensorKey& key = tensor_.key();
    if (!key.accumulate_locally && !pending_.empty()) {
        // Readers that do not depend on the batch contribute nothing before the last micro-batch.
        const Instance collected = collect(layout, true);
        pending_.push_back({.instance = collected});
    }
    if (micro_batch + 1 < key.micro_batches || !key.accumulate_locally) return;
    Instances kept;
    for (const Pending& accumulator : pending_) {
        if (has_layout(kept, accumulator.instance.layout)) continue;
        kept.push_back(accumulator.instance);
        for (const Piece& piece : tensor_.pieces(accumulator.instance.layout)) {
            if (piece.region < 0) continue;
            emitter_.add_persistent(piece.device, MemoryKind::gradients,
                                    tensor_.buffer_bytes(piece.region, /*gradient=*/true));
        }
    }
}

}  // namespace partita::plan
