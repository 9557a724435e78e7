// SPDX-License-Identifier: Apache-2.0
#include "plan/lowering/lower.h"

#include <algorithm>
#include <cassert>
#include <optional>
#include <utility>
#include <vector>

#include "plan/lowering/fetch_limits.h"
#include "plan/lowering/fused_collectives.h"
#include "plan/lowering/fusion_unit.h"
#include "plan/lowering/gradient_clipping.h"
#include "plan/lowering/planned_collectives.h"
#include "plan/lowering/reduction_limits.h"
#include "plan/lowering/whole_lowering.h"

namespace partita::plan {

using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::TensorId;

Lowering::Lowering(const Problem& problem, const Strategy& strategy, LoweringCache& cache,
                   const PlannedCollectives* planned)
    : problem_(problem),
      graph_(problem.graph()),
      strategy_(strategy),
      planned_(planned),
      rows_(problem.facts(), strategy.policy.micro_batches),
      block_order_(problem, strategy),
      layouts_(problem, strategy, cache),
      build_(problem, cache.regions()),
      tensors_(layouts_.events().size()),
      first_parts_(rows_.blocks()) {
    for (std::size_t row = 0; row < tensors_.size(); ++row) {
        if (layouts_.events()[row].events.empty()) continue;
        const std::size_t alike = layouts_.row_alike(row);
        tensors_[row].events = &layouts_.events()[row];
        tensors_[row].tasks = alike < row ? tensors_[alike].tasks : &layouts_.tasks(row);
    }
}

void Lowering::fold(const LoweringCache& cache) {
    folding_ = Folding::find(problem_, layouts_, cache.resource_sets());
    if (!folding_) return;
    build_.fold(folding_->representatives());
    for (std::size_t row = 0; row < tensors_.size(); ++row) {
        if (tensors_[row].tasks != nullptr) tensors_[row].tasks = &folding_->tasks(row);
    }
}

TaskGraph Lowering::run() {
    for (const ScriptStep& step : layouts_.script().steps) lower(step);
    for (const Tensor& tensor : tensors_) {
        if (tensor.tasks == nullptr) continue;
        for (const PersistentBytes& kept : tensor.tasks->persistent) build_.add_persistent(kept);
    }
    limit_communication();
    clip_gradients();
    fuse_collectives();
    TaskGraph tasks = build_.finish();
    if (planned_ != nullptr) planned_->choose_algorithms(tasks);
    return tasks;
}

void Lowering::lower(const ScriptStep& step) {
    if (step.choice != layouts_.recompute(step.op) && step.pass == Pass::recompute) return;
    const IterationScript& script = layouts_.script();
    std::vector<Found> found;
    for (const EventId event : script.before_parts(step)) found.push_back(lower(event));
    if (step.has_parts)
        add_parts({step.op, rows_.own(step.op, step.micro_batch), step.pass}, found);
    const Op& op = graph_.op(step.op);
    const bool views = !is_backward(step.pass) && problem_.facts().rule(step.op).alias &&
                       !op.inputs.empty() && op.inputs[0].valid();
    for (const EventId event : script.after_parts(step)) {
        const Found after = lower(event);
        if (views) make_views(found[0], after);
    }
}

/// A view keeps its operand's buffer alive instead of allocating one of its own.
void Lowering::make_views(const Found& viewed, const Found& result) {
    for (std::size_t part = 0; part < viewed.step->parts; ++part) {
        const auto sources = sources_of(*viewed.tensor->tasks, *viewed.step, part);
        if (sources.size() != 1 || sources[0].buffer < 0) continue;
        const BufferId root = viewed.tensor->buffers[static_cast<std::size_t>(sources[0].buffer)];
        if (build_.buffer(root).writer.valid())
            build_.make_view(result.tensor->buffers[result.first_buffer + part], root);
    }
}

namespace {

TaskKind kind_of(const Op& op, Pass pass) {
    if (pass == Pass::forward) return TaskKind::forward;
    if (pass == Pass::recompute) return TaskKind::recompute;
    if (pass == Pass::weights) return TaskKind::weights;
    return op.kind == OpKind::output ? TaskKind::loss : TaskKind::backward;
}

}  // namespace

std::vector<TaskId> Lowering::add_parts(const PartBlock& block, const std::vector<Found>& found) {
    const Op& op = graph_.op(block.op);
    const TaskKind kind = kind_of(op, block.pass);
    const bool backward = is_backward(block.pass);
    const OpLayouts& layouts = layouts_.of(block.op, block.micro_batch);
    first_parts_[rows_.row(block)] = TaskId(build_.task_count());
    const std::optional<PartBlock> before = layouts_.before(block);
    std::vector<TaskId> tasks;
    const FoldedParts* const folded = folding_ ? &folding_->parts(layouts) : nullptr;
    const int places = folded != nullptr ? static_cast<int>(folded->kept.size()) : layouts.parts;
    for (int place = 0; place < places; ++place) {
        const auto at = static_cast<std::size_t>(place);
        const int part = folded != nullptr ? folded->kept[at] : place;
        const int device = layouts.devices[static_cast<std::size_t>(part)];
        const auto device_class = static_cast<std::size_t>(problem_.prices().device_class(device));
        const auto& sources = backward ? layouts.backward_sources : layouts.forward_sources;
        const TaskId task = build_.add_task(
            {.kind = kind,
             .source = sources.empty() ? problem_.prices().cost_source(block.op, device)
                                       : sources[device_class],
             .op = block.op,
             .tensor = {},
             .device = device,
             .part = layouts.parts > 1 ? part : -1,
             .micro_batch = rows_.label(block.op, block.micro_batch),
             .schedule_key = block_order_.of(block.op, block.micro_batch, block.pass),
             .priority = problem_.priority(block.op, block.pass),
             .duration = layouts.time(block.pass, device_class)});
        if (folded != nullptr) build_.set_copies(task, folded->copies[at]);
        if (before) build_.add_edge(task_of(*before, place), task);
        for (const Found& each : found) connect(task, at, each);
        if (op.given && kind == TaskKind::forward) {
            build_.add_persistent({device, MemoryKind::weights, op.given->memory});
        }
        tasks.push_back(task);
    }
    return tasks;
}

void Lowering::connect(TaskId task, std::size_t part, const Found& found) {
    if (part >= found.step->parts) return;  // nothing for parts
    for (const Source& source : sources_of(*found.tensor->tasks, *found.step, part)) {
        if (found.step->waits) build_.add_edge(resolved(*found.tensor, source.task), task);
        if (source.buffer < 0) continue;
        build_.add_read(task, found.tensor->buffers[static_cast<std::size_t>(source.buffer)]);
    }
}

/// Lowers what the tensor needs for the event; its events come in their order.
Lowering::Found Lowering::lower(EventId id) {
    Tensor& tensor = tensors_[id.row];
    const TensorEvent& event = tensor.events->events[id.event];
    const TensorStep& step = tensor.tasks->steps[id.event];
    const std::size_t first = tensor.ids.size();
    for (std::size_t i = first; i < step.tasks; ++i) add_local_task(tensor, i, event);
    const std::size_t first_buffer = tensor.buffers.size();
    for (std::size_t i = first_buffer; i < step.buffers; ++i) add_local_buffer(tensor, i);
    for (std::size_t i = first; i < step.tasks; ++i) {
        for (const std::int32_t buffer : tensor.tasks->reads[i]) {
            build_.add_read(tensor.ids[i], tensor.buffers[static_cast<std::size_t>(buffer)]);
        }
    }
    return {&tensor, &step, first_buffer};
}

void Lowering::add_local_task(Tensor& tensor, std::size_t index, const TensorEvent& event) {
    Task task = tensor.tasks->tasks[index];
    task.tensor = tensor.events->tensor;
    task.op = graph_.tensor(task.tensor).producer;
    task.priority = problem_.priority(event.op, event.pass);
    if (tensor.events->label >= 0) task.micro_batch = tensor.events->label;
    if (tensor.tasks->in_block[index] != 0) task.schedule_key = schedule_key_of(tensor, index);
    const TaskId id = task.kind == TaskKind::collective
                          ? build_.add_group_task(
                                task, tensor.tasks->groups[static_cast<std::size_t>(task.ranks)])
                          : build_.add_task(task);
    tensor.ids.push_back(id);
    if (folding_) {
        const auto row = static_cast<std::size_t>(&tensor - tensors_.data());
        build_.set_copies(id, folding_->copies(row)[index]);
    }
    for (const TaskRef before : tensor.tasks->predecessors[index]) {
        build_.add_edge(resolved(tensor, before), id);
    }
}

/// The latest schedule key of what it waits for, if all of that has one.
std::int32_t Lowering::schedule_key_of(const Tensor& tensor, std::size_t index) const {
    std::int32_t schedule_key = -1;
    for (const TaskRef before : tensor.tasks->predecessors[index]) {
        const std::int32_t of = build_.task(resolved(tensor, before)).schedule_key;
        if (of < 0) return -1;
        schedule_key = std::max(schedule_key, of);
    }
    return schedule_key;
}

namespace {

MemoryKind kind_of(const graph::Tensor& tensor, const BufferValue& value) {
    if (value.message) return MemoryKind::buffers;
    if (value.recomputed) return MemoryKind::recomputation;
    if (tensor.role == graph::TensorRole::constant) return MemoryKind::weights;
    if (tensor.role != graph::TensorRole::parameter) return MemoryKind::activations;
    return value.gradient ? MemoryKind::gradients : MemoryKind::weights;
}

}  // namespace

void Lowering::add_local_buffer(Tensor& tensor, std::size_t index) {
    const TensorBuffer& local = tensor.tasks->buffers[index];
    Buffer buffer{local, resolved(tensor, local.writer)};
    buffer.tensor = tensor.events->tensor;
    if (tensor.events->label >= 0) buffer.micro_batch = tensor.events->label;
    buffer.kind = kind_of(graph_.tensor(buffer.tensor), local);
    if (local.root >= 0) buffer.root = tensor.buffers[static_cast<std::size_t>(local.root)];
    tensor.buffers.push_back(build_.add_buffer(buffer));
}

TaskId Lowering::resolved(const Tensor& tensor, TaskRef ref) const {
    if (ref == -1) return {};
    if (!is_part(ref)) return tensor.ids[static_cast<std::size_t>(ref)];
    return task_of(tensor.events->blocks[static_cast<std::size_t>(block_of(ref))], part_of(ref));
}

/// Those of a block follow each other.
TaskId Lowering::task_of(const PartBlock& block, int part) const {
    const TaskId first = first_parts_[rows_.row(block)];
    assert(first.valid());
    return TaskId(first.index() + static_cast<std::size_t>(part));
}

void Lowering::limit_communication() {
    const FetchLimits limits(problem_, layouts_);
    const auto tasks_of = [this](std::size_t row) { return tensors_[row].tasks; };
    const auto add = [this](const std::vector<RowEdge>& edges) {
        for (const RowEdge& edge : edges) {
            build_.add_edge(resolved(tensors_[edge.before_row], edge.before),
                            tensors_[edge.row].ids[edge.task]);
        }
    };
    add(limits.find(block_order_, tasks_of));
    add(ReductionLimits(problem_, layouts_).find(tasks_of));
}

void Lowering::clip_gradients() {
    const GradientClipping clipping(problem_, layouts_, build_.regions());
    if (!clipping.any()) return;
    // Of all devices, where tensors_ has those of one of each class.
    const GradientClip clip =
        clipping.find([this](std::size_t row) { return &layouts_.tasks(row); });
    const TaskId task = build_.add_group_task(clip.task, clip.devices);
    for (const std::size_t row : clipping.rows()) {
        const Tensor& tensor = tensors_[row];
        for_each_update(*tensor.tasks, [&](std::size_t update) {
            for (const TaskRef before : tensor.tasks->predecessors[update])
                build_.add_edge(resolved(tensor, before), task);
            build_.add_edge(task, tensor.ids[update]);
        });
    }
}

void Lowering::fuse_collectives() {
    struct Fusible {
        FusionUnit unit;
        std::int32_t depth = 0;  ///< in a bucket
        TaskId task;
        auto operator<=>(const Fusible&) const = default;
    };
    std::vector<Fusible> found;
    for (std::size_t row = 0; row < tensors_.size(); ++row) {
        const TensorTasks* const tasks = tensors_[row].tasks;
        if (tasks == nullptr) continue;
        for (const std::uint32_t i : tasks->fusible) {
            const FusionUnit unit = fusion_unit(problem_, layouts_, row, *tasks, i);
            const std::int32_t depth = unit.bucket < 0 ? 0 : bucket_depth(tasks->fusion_blocks[i]);
            found.push_back({unit, depth, tensors_[row].ids[i]});
        }
    }
    std::sort(found.begin(), found.end());
    for (std::size_t begin = 0; begin < found.size();) {
        std::vector<TaskId> members;
        std::vector<FusibleCollective> around;
        const FusionUnit unit = found[begin].unit;
        const std::int32_t depth = found[begin].depth;
        std::size_t end = begin;
        for (; end < found.size(); ++end) {
            if (found[end].unit != unit || found[end].depth != depth) break;
            members.push_back(found[end].task);
            around.push_back({&build_.task(members.back()), build_.ranks(members.back())});
        }
        if (around.size() > 1) {
            const FusionPlace place = unit.bucket < 0 ? FusionPlace::block : FusionPlace::bucket;
            for (const FusedCollective& fused : find_fused(problem_, around, place, planned_)) {
                build_.add_fused(members, fused);
            }
        }
        begin = end;
    }
}

TaskGraph lower(const Problem& problem, const Strategy& strategy, LoweringCache& cache) {
    assert(strategy.ops.size() == problem.graph().op_count());
    cache.forget_if_large();
    return Lowering(problem, strategy, cache).run();
}

TaskGraph lower_folded(const Problem& problem, const Strategy& strategy, LoweringCache& cache) {
    assert(strategy.ops.size() == problem.graph().op_count());
    cache.forget_if_large();
    Lowering lowering(problem, strategy, cache);
    lowering.fold(cache);
    return lowering.run();
}

TaskGraph lower_folded(const Problem& problem, const Strategy& strategy) {
    LoweringCache cache(problem);
    return lower_folded(problem, strategy, cache);
}

bool folds(const Problem& problem, const Strategy& strategy) {
    LoweringCache cache(problem);
    Lowering lowering(problem, strategy, cache);
    lowering.fold(cache);
    return lowering.is_folded();
}

TaskGraph lower(const Problem& problem, const Strategy& strategy) {
    assert(strategy.ops.size() == problem.graph().op_count());
    LoweringCache cache(problem, LoweringCache::MicroBatches::apart);
    return Lowering(problem, strategy, cache).run();
}

TaskGraph lower(const Problem& problem, const Strategy& strategy,
                const PlannedCollectives& planned) {
    assert(strategy.ops.size() == problem.graph().op_count());
    LoweringCache cache(problem, LoweringCache::MicroBatches::apart);
    return Lowering(problem, strategy, cache, &planned).run();
}

}  // namespace partita::plan
