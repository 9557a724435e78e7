// SPDX-License-Identifier: Apache-2.0
#include "plan/tensors/tensor_lowering.h"

#include <algorithm>
#include <cassert>
#include <cstddef>

#include "base/small_vector.h"

namespace partita::plan {

using Kind = TensorEvent::Kind;

TensorLowering::TensorLowering(const Problem& problem, LayoutTable& layouts, RegionTable& regions,
                               ResourceSets& resource_sets)
    : tensor_(problem, layouts, regions),
      local_work_(tensor_, values_, emitter_),
      reshards_(tensor_, resource_sets, values_, emitter_, local_work_),
      instances_(tensor_, values_, emitter_, reshards_),
      gradients_(tensor_, values_, emitter_, local_work_, reshards_),
      update_(tensor_, values_, emitter_, reshards_, instances_),
      totals_(resource_sets) {}

const TensorTasks& TensorLowering::run(const TensorEvents& events, const TensorKey& key) {
    clear();
    tensor_.start(events, key);
    for (std::size_t i = 0; i < events.events.size(); ++i) {
        emitter_.begin_step();
        lower(events.events[i], key.layouts[i]);
        emitter_.end_step();
    }
    if (tensor_.is_resident()) instances_.add_resident_memory();
    TensorTasks& tasks = emitter_.finish();
    tasks.fetches = std::ranges::any_of(tasks.steps, &TensorStep::fetched);
    const GradientBuckets& buckets = tensor_.problem().facts().buckets();
    fusion_blocks_.find(events,
                        {.gradients = buckets.of(tensor_.producer()) >= 0,
                         .fetches = buckets.of_fetches(tensor_.producer()) >= 0},
                        tasks);
    totals_.find(tasks);
    return tasks;
}

void TensorLowering::clear() {
    values_.clear();
    emitter_.clear();
    local_work_.clear();
    reshards_.clear();
    instances_.clear();
    gradients_.clear();
    update_.clear();
    collected_ = {};
}

void TensorLowering::lower(const TensorEvent& event, std::int32_t layout) {
    if (event.choice != Recompute::none && layout < 0) return;  // does not happen
    switch (event.kind) {
    case Kind::produce: instances_.produce(event, layout); break;
    case Kind::reproduce: instances_.reproduce(event, layout); break;
    case Kind::forward_use:
    case Kind::recompute_use:
    case Kind::backward_use:
    case Kind::result_use: add_use(event, layout); break;
    case Kind::await_gradient: await_gradient(layout); break;
    case Kind::await_backward: instances_.await(event, layout); break;
    case Kind::contribute:
        gradients_.contribute(event, layout);
        if (tensor_.is_parameter()) gradients_.add_contribution(event.micro_batch);
        break;
    case Kind::accumulate: gradients_.accumulate(event.micro_batch, false); break;
    case Kind::collect:
        emitter_.step().waits = true;
        add_sources(collected_ = gradients_.collect(layout, false));
        break;
    case Kind::gradient_use:  // the backward of these parts, which comes before, had it too
        assert(collected_.layout == layout);
        add_sources(collected_);
        break;
    case Kind::parameter: gradients_.end_micro_batch(event.micro_batch, layout); break;
    case Kind::update: update_.update(gradients_.collect(layout, true)); break;
    }
}

void TensorLowering::add_use(const TensorEvent& event, std::int32_t layout) {
    const bool anew =
        instances_.finds_recomputed(event, layout) || instances_.is_gathered_again(event, layout);
    const Instance found = instances_.find(event, layout);
    if (event.block < 0) return;  // nobody reads it
    const bool operand = event.kind == Kind::backward_use || event.kind == Kind::recompute_use;
    const bool loss = tensor_.problem().graph().op(event.op).kind == graph::OpKind::output;
    // What the forward had is there: what comes for the backward comes after it.
    emitter_.step().waits = !operand || loss || anew || tensor_.key().refetch;
    const std::size_t parts = tensor_.pieces(layout).size();
    for (std::size_t part = 0; part < parts; ++part) {
        const TaskRef reader = part_ref(event.block, static_cast<int>(part));
        for (const Location& location : values_[values_.piece(found, part)]) {
            emitter_.add_part_reader(reader, location.buffer);
        }
    }
    add_sources(found);
}

/// Each part, of which the layout tells the device, comes after what its device has contributed to
/// the gradient so far.
void TensorLowering::await_gradient(std::int32_t layout) {
    emitter_.step().waits = true;
    SmallVector<Location, 4> contributed;
    for (const Piece& piece : tensor_.pieces(layout)) {
        contributed.clear();
        gradients_.for_each_contribution(piece.device, [&](const Location& location) {
            contributed.push_back({.device = location.device, .task = location.task});
        });
        emitter_.add_sources({contributed.data(), contributed.size()});
    }
}

/// Parts find the instance, each its piece.
void TensorLowering::add_sources(const Instance& instance) {
    const std::size_t parts = tensor_.pieces(instance.layout).size();
    for (std::size_t part = 0; part < parts; ++part) {
        emitter_.add_sources(values_[values_.piece(instance, part)]);
    }
}

}  // namespace partita::plan
