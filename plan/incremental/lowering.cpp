// SPDX-License-Identifier: Apache-2.0
#include "plan/incremental/lowering.h"

#include <algorithm>
#include <utility>

#include "plan/legality/stages.h"

namespace partita::plan {

using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::TensorId;

namespace {

constexpr std::size_t kMostSlots = 8'000'000;
constexpr std::size_t kMostBucketPlaces = 1'000'000;
/// Words of masks of resources (ready_queues.h), which grow with the square of the devices: of some
/// three thousand.
constexpr std::size_t kMostMaskWords = 2'000'000;

}  // namespace

void apply(Strategy& strategy, const StrategyChange& change) {
    for (const auto& [op, decision] : change.ops) strategy.ops[op.index()] = decision;
    if (change.policy != nullptr) strategy.policy = *change.policy;
}

bool is_incremental(const Problem& problem, const Strategy& strategy) {
    if (!SlotKeys::fitting(problem, strategy.policy)) return false;
    const auto devices = static_cast<std::size_t>(problem.device_count());
    const auto slots = problem.priority_count() *
                       static_cast<std::size_t>(strategy.policy.micro_batches) * devices;
    const auto words = devices * (static_cast<std::size_t>(resource_count_of(problem)) / 64);
    return slots <= kMostSlots && words <= kMostMaskWords &&
           bucket_places(problem, strategy.policy) <= kMostBucketPlaces &&
           !find_schedule_fault(problem, strategy);
}

IncrementalLowering::IncrementalLowering(const Problem& problem, const Strategy& strategy,
                                         LoweringCache& cache, const IncrementalLimits& limits)
    : problem_(problem),
      graph_(problem.graph()),
      policy_(strategy.policy),
      limits_(limits),
      keys_(SlotKeys::fitting(problem, strategy.policy).value()),
      layouts_(problem, strategy, cache),
      resource_sets_(cache.resource_sets()),
      tensors_(layouts_.events().size()),
      event_keys_(layouts_.events().size()),
      finds_(rows().blocks()),
      parts_(finds_.size(), 0),
      fused_(finds_.size() + bucket_places(problem, strategy.policy)),
      fetch_limits_(problem, layouts_),
      reduction_limits_(problem, layouts_),
      clipping_(problem, layouts_, *cache.regions()),
      slot_count_(first_slot(finds_.size())),
      least_loads_(static_cast<std::size_t>(resource_count_of(problem)), 0),
      most_bytes_(static_cast<std::size_t>(problem.device_count())),
      block_order_(problem, strategy),
      slot_order_(problem.device_count(), keys_),
      pending_(tensors_.size(), finds_.size(), fused_.size()) {
    limits_.messages = std::min(limits_.messages, keys_.most_tasks());
    if (clipping_.any()) clip_slot_ = new_slot();
    number_events();
    touch_all();
}

void IncrementalLowering::number_events() {
    const IterationScript& script = layouts_.script();
    const bool awaits = problem_.facts().recompute().any() || policy_.gather_again;
    if (awaits) further_rows_.resize(graph_.op_count());
    for (std::size_t row = 0; row < tensors_.size(); ++row) {
        event_keys_[row].resize(layouts_.events()[row].events.size());
        for (const TensorEvent& event : layouts_.events()[row].events) {
            const bool further = event.kind == TensorEvent::Kind::await_gradient ||
                                 event.kind == TensorEvent::Kind::await_backward;
            if (further) further_rows_[event.op.index()].push_back(row);
        }
    }
    for (const ScriptStep& step : script.steps) {
        const auto priority = problem_.priority(step.op, step.pass);
        for (std::uint32_t e = step.begin; e < step.end; ++e) {
            const EventId id = script.events[e];
            event_keys_[id.row][id.event] =
                keys_.of_event(priority, step.micro_batch, e - step.begin, e >= step.parts);
        }
        if (!step.has_parts) continue;
        const auto found = script.before_parts(step);
        // What may run again at one place or another has a step at each.
        std::vector<EventId>& finds =
            finds_[block_row({step.op, rows().own(step.op, step.micro_batch), step.pass})];
        finds.insert(finds.end(), found.begin(), found.end());
    }
}

bool IncrementalLowering::exists(const PartBlock& block) const {
    if (rows().own(block.op, block.micro_batch) != block.micro_batch) return false;
    const OpKind kind = graph_.op(block.op).kind;
    if (block.pass == Pass::forward) return kind == OpKind::compute;
    if (block.pass == Pass::recompute) return layouts_.recompute(block.op) != Recompute::none;
    if (block.pass == Pass::weights) return problem_.facts().splits_backward(block.op);
    return (kind == OpKind::compute || kind == OpKind::output) &&
           problem_.facts().has_backward(block.op);
}

int IncrementalLowering::parts_of(std::size_t block) const {
    const PartBlock of = block_at(block);
    return exists(of) ? layouts_.of(of.op, of.micro_batch).parts : 0;
}

void IncrementalLowering::touch_all() {
    pending_.least_loads_before = least_loads_;
    pending_.most_bytes_before = most_bytes_;
    for (std::size_t i = 0; i < graph_.op_count(); ++i) {
        add_parts(OpId(i), 1);
        change_op(OpId(i));
    }
    look_up();
}

void IncrementalLowering::begin(const StrategyChange& change) {
    pending_.least_loads_before = least_loads_;
    pending_.most_bytes_before = most_bytes_;
    pending_.work_before = work_;
    for (const auto& [op, decision] : change.ops) {
        const bool has_config = layouts_.of(op, 0).config == decision.config;
        if (has_config && layouts_.recompute(op) == decision.recompute) continue;
        add_parts(op, -1);
        const std::span<const std::int32_t> before = layouts_.of(op, 0).devices;
        if (!has_config) layouts_.set(op, decision.config);
        const bool runs_again = layouts_.set_recompute(op, decision.recompute);
        const bool moved = layouts_.of(op, 0).devices.data() != before.data();
        // Not every pipeline of chunks can recompute.
        const bool differs = moved || (runs_again && policy_.schedule.chunks > 1);
        if (differs && is_staged(problem_, op)) pending_.stages_differ = true;
        add_parts(op, 1);
        change_op(op);
    }
    for (const auto& [op, decision] : change.ops) {
        if (graph_.op(op).kind != OpKind::parameter) continue;
        if (!layouts_.set_update(op, decision.update)) continue;
        pending_.rows_near.add(rows().row(graph_.op(op).outputs[0], 0));
    }
    for (const std::size_t row : pending_.rows_near.list) {
        if (tensors_[row].tasks != nullptr) add_tensor(*tensors_[row].tasks, -1);
    }
}

void IncrementalLowering::look_up() {
    for (const std::size_t row : pending_.rows_near.list) {
        const bool any = !layouts_.events()[row].events.empty();
        pending_.looked_up.push_back(any ? &layouts_.tasks(row) : nullptr);
        if (!any) continue;
        const TensorTasks& tasks = *pending_.looked_up.back();
        add_tensor(tasks, 1);
        if (tasks.most_tasks >= limits_.messages) pending_.has_keys = false;
    }
}

void IncrementalLowering::add_parts(OpId op, std::int64_t sign) {
    for (int m = 0; m < rows().micro_batches() && rows().runs_in(op, m); ++m) {
        const OpLayouts& layouts = layouts_.of(op, m);
        for (const Pass pass : rows().passes()) {
            if (!exists({op, m, pass})) continue;
            for (const std::int32_t device : layouts.devices) {
                const auto c = static_cast<std::size_t>(problem_.prices().device_class(device));
                const std::int64_t time = layouts.time(pass, c).raw();
                add_load(static_cast<std::size_t>(compute_row(device)), sign * time);
                work_ += Int128{sign} * time;
            }
        }
        const auto& given = graph_.op(op).given;
        if (!given) continue;
        for (const std::int32_t device : layouts.devices) {
            most_bytes_[static_cast<std::size_t>(device)] += sign * given->memory;
        }
    }
}

/// What leaves the range comes back when it is taken away again, and is not looked at (has_room()).
void IncrementalLowering::add_load(std::size_t resource, std::int64_t load) {
    least_loads_[resource] = static_cast<std::int64_t>(
        static_cast<std::uint64_t>(least_loads_[resource]) + static_cast<std::uint64_t>(load));
}

void IncrementalLowering::add_tensor(const TensorTasks& tasks, std::int64_t sign) {
    for (const auto& [resource, load] : tasks.loads) {
        add_load(static_cast<std::size_t>(resource), sign * load);
    }
    work_ += Int128{sign} * tasks.work;
    for (const auto& [device, bytes] : tasks.most_bytes) {
        most_bytes_[static_cast<std::size_t>(device)] += sign * bytes;
    }
}

void IncrementalLowering::change_op(OpId op) {
    const Op& of = graph_.op(op);
    if (!further_rows_.empty()) {
        for (const std::size_t row : further_rows_[op.index()]) pending_.rows_near.add(row);
    }
    for (int m = 0; m < rows().micro_batches(); ++m) {
        for (const TensorId t : of.inputs) {
            if (t.valid()) pending_.rows_near.add(rows().row(t, m));
        }
        for (const TensorId t : of.outputs) pending_.rows_near.add(rows().row(t, m));
        if (!rows().runs_in(op, m)) continue;
        for (const Pass pass : rows().passes()) pending_.blocks.add(block_row({op, m, pass}));
    }
}

std::span<const SlotTask> IncrementalLowering::slots() {
    list_.clear();
    schedule_keys_.clear();
    for (std::size_t i = 0; i < pending_.rows_near.list.size(); ++i) {
        const TensorTasks* tasks = pending_.looked_up[i];
        const std::size_t row = pending_.rows_near.list[i];
        if (tasks != tensors_[row].tasks) renew(row, *tasks);
    }
    // Fusions touch further tensors, but no further fusions.
    for (std::size_t i = 0; i < pending_.fusion_places.list.size(); ++i) {
        find_fused_at(pending_.fusion_places.list[i]);
    }
    find_waits();
    touch_first_members();
    for (std::size_t i = 0; i < pending_.touched.list.size(); ++i) {
        const std::size_t row = pending_.touched.list[i];
        emit_tensor(row);
        const std::vector<Slot>& before = pending_.touched_before[i].own;
        for (std::size_t j = tensors_[row].own.size(); j < before.size(); ++j) {
            emit_empty(before[j]);
        }
    }
    emit_clip();
    find_moved_blocks();
    for (const std::size_t block : pending_.blocks.list) emit_block(block);
    const std::span<const SlotTask> tasks = list_.tasks();
    return is_scheduled() ? slot_order_.change(tasks, schedule_keys_) : tasks;
}

/// Gives the tensor other tasks.
void IncrementalLowering::renew(std::size_t row, const TensorTasks& tasks) {
    if (tensors_[row].tasks != nullptr) touch_fused(row, *tensors_[row].tasks);
    touch_fused(row, tasks);
    Tensor& tensor = touch(row);
    pending_.renewed.add(row);
    tensor.tasks = &tasks;
    tensor.own.resize(std::min(tensor.own.size(), tasks.tasks.size()));
    while (tensor.own.size() < tasks.tasks.size()) tensor.own.push_back(new_slot());
    tensor.targets = tensor.own;
}

/// Before its tasks, or where they are, change.
IncrementalLowering::Tensor& IncrementalLowering::touch(std::size_t row) {
    if (pending_.touched.add(row)) {
        pending_.touched_before.push_back(tensors_[row]);
        for (const PartBlock& block : layouts_.events()[row].blocks)
            pending_.blocks.add(block_row(block));
    }
    return tensors_[row];
}

Slot IncrementalLowering::new_slot() {
    if (free_.empty()) return slot_count_++;
    const Slot slot = free_.back();
    free_.pop_back();
    return slot;
}

/// The slots that a tensor's tasks do not need where it stays `kept`.
void IncrementalLowering::free_further(const Tensor& left, const Tensor& kept) {
    for (std::size_t i = kept.own.size(); i < left.own.size(); ++i) free_.push_back(left.own[i]);
}

void IncrementalLowering::accept() {
    for (std::size_t i = 0; i < pending_.touched_before.size(); ++i) {
        free_further(pending_.touched_before[i], tensors_[pending_.touched.list[i]]);
    }
    for (const std::size_t block : pending_.blocks.list) parts_[block] = parts_of(block);
    layouts_.accept();
    if (pending_.next_order) block_order_ = std::move(*pending_.next_order);
    slot_order_.accept();
    pending_.clear();
}

void IncrementalLowering::reject() {
    for (std::size_t i = 0; i < pending_.touched_before.size(); ++i) {
        Tensor& tensor = tensors_[pending_.touched.list[i]];
        free_further(tensor, pending_.touched_before[i]);
        std::swap(tensor, pending_.touched_before[i]);
    }
    for (auto it = pending_.fused_before.rbegin(); it != pending_.fused_before.rend(); ++it) {
        fused_[it->first] = std::move(it->second);
    }
    if (pending_.waits_before) std::swap(waits_, *pending_.waits_before);
    layouts_.reject();
    std::swap(least_loads_, pending_.least_loads_before);
    std::swap(most_bytes_, pending_.most_bytes_before);
    work_ = pending_.work_before;
    slot_order_.reject();
    pending_.clear();
}

IncrementalLowering::PendingChange::PendingChange(std::size_t row_count, std::size_t block_count,
                                                  std::size_t place_count)
    : rows_near(row_count),
      renewed(row_count),
      touched(row_count),
      blocks(block_count),
      fusion_places(place_count) {}

void IncrementalLowering::PendingChange::clear() {
    rows_near.clear();
    looked_up.clear();
    has_keys = true;
    renewed.clear();
    touched.clear();
    touched_before.clear();
    blocks.clear();
    fusion_places.clear();
    fused_before.clear();
    waits_before.reset();
    stages_differ = false;
    next_order.reset();
}

}  // namespace partita::plan
