// SPDX-License-Identifier: Apache-2.0
//
// The tasks and buffers of a tensor, and what follows from them once all are there.
#include <algorithm>
#include <utility>

#include "plan/tensors/tensor_lowering.h"

namespace partita::plan {

Task TensorLowering::task_of(TaskKind kind, const Subject& subject) const {
    return {.kind = kind,
            .gradient = subject.gradient,
            .updated = subject.updated,
            .micro_batch = subject.micro_batch};
}

/// Communication has its resource set.
TaskRef TensorLowering::add_task(Task& task) {
    if (!is_communication(task.kind)) task.resource_set = task.device;
    number(task);
    given_.tasks.push_back(task);
    given_.in_block.push_back(0);
    return static_cast<TaskRef>(given_.tasks.size()) - 1;
}

std::int32_t TensorLowering::group_of(std::span<const int> devices) {
    auto group = std::find_if(
        given_.groups.begin(), given_.groups.end(), [&](const std::vector<int>& known) {
            return std::equal(known.begin(), known.end(), devices.begin(), devices.end());
        });
    if (group == given_.groups.end()) {
        group = given_.groups.insert(group, {devices.begin(), devices.end()});
    }
    return static_cast<std::int32_t>(group - given_.groups.begin());
}

namespace {

/// Tasks of one name have equal ones.
std::size_t bucket_of_name(const Task& task) {
    const std::int32_t resource_set = task.kind == TaskKind::copy ? task.resource_set : task.device;
    constexpr std::size_t kMultiplier = 0x9E3779B1;
    return static_cast<std::size_t>(resource_set) +
           static_cast<std::size_t>(task.micro_batch + 1) * kMultiplier;
}

}  // namespace

/// Only what belongs to reshards and sums can happen several times to one tensor on one device.
void TensorLowering::number(Task& task) {
    Bucket& bucket = buckets_[bucket_of_name(task) % buckets_.size()];
    if (bucket.run != run_) bucket = {.run = run_, .latest = -1};
    before_in_bucket_.push_back(
        std::exchange(bucket.latest, static_cast<TaskRef>(given_.tasks.size())));
    if (!is_communication(task.kind) && !is_local_move(task.kind)) return;
    for (TaskRef i = before_in_bucket_.back(); i >= 0;
         i = before_in_bucket_[static_cast<std::size_t>(i)]) {
        const Task& other = given_.tasks[static_cast<std::size_t>(i)];
        if (!have_one_name(other, task)) continue;
        task.ordinal = other.ordinal + 1;
        return;
    }
}

void TensorLowering::add_edge(TaskRef before, TaskRef after) {
    if (before != -1) edges_.emplace_back(after, before);
}

/// The task comes after the locations' tasks and reads what lies there.
void TensorLowering::add_work(TaskRef task, Locations locations) {
    for (std::uint32_t i = locations.begin; i < locations.end; ++i) {
        const Location& location = locations_[i];
        add_edge(location.task, task);
        add_read(task, location.buffer);
        add_reader(task, location.buffer);
    }
}

/// Of a parameter, whose own buffers come first.
void TensorLowering::add_reader(TaskRef task, std::int32_t buffer) {
    const auto b = static_cast<std::size_t>(buffer);
    if (buffer < 0 || b >= first_readers_.size()) return;
    readers_.push_back({task, first_readers_[b]});
    first_readers_[b] = static_cast<std::int32_t>(readers_.size()) - 1;
}

/// Reading a view keeps its root alive.
void TensorLowering::add_read(TaskRef task, std::int32_t id) {
    if (id >= 0) reads_.emplace_back(task, id);
    for (; id >= 0; id = buffer(id).root) is_read_[static_cast<std::size_t>(id)] = 1;
}

std::int32_t TensorLowering::add_value(const Subject& subject, const Location& location,
                                       const Piece& piece, Bytes bytes, std::int32_t root,
                                       bool message) {
    given_.buffers.push_back({.device = location.device,
                              .writer = location.task,
                              .bytes = bytes,
                              .tensor = {},
                              .gradient = subject.gradient,
                              .message = message,
                              .micro_batch = subject.micro_batch,
                              .region = piece.region,
                              .summand = piece.summand,
                              .operand = subject.operand,
                              .root = root});
    is_read_.push_back(0);
    return static_cast<std::int32_t>(given_.buffers.size()) - 1;
}

/// Buffers of a workload are part of the memory it gives for the node.
Bytes TensorLowering::buffer_bytes(std::int32_t region) const {
    if (region < 0 || problem_.graph().op(producer_).given) return Bytes{0};
    return bytes_.of(regions_.volume(region));
}

void TensorLowering::finish() {
    to_csr(edges_, given_.tasks.size(), csr_, given_.predecessors);
    to_csr(reads_, given_.tasks.size(), csr_, given_.reads);
    find_fusible();
    count_work();
    add_loads();
    add_most_bytes();
}

namespace {

/// Adds to the sum of that number. What `rows` says of it counts only if it is found in that row,
/// so it need not be reset (Briggs, Torczon 1993).
template <class Number, class Sum>
void add_to(std::vector<std::pair<Number, Sum>>& sums, std::vector<std::uint32_t>& rows,
            Number number, Sum sum) {
    const auto at = static_cast<std::size_t>(number);
    if (at >= rows.size()) rows.resize(at + 1, 0);
    if (rows[at] >= sums.size() || sums[rows[at]].first != number) {
        rows[at] = static_cast<std::uint32_t>(sums.size());
        sums.emplace_back(number, Sum{});
    }
    sums[rows[at]].second += sum;
}

}  // namespace

void TensorLowering::count_work() {
    Int128 work = 0;
    for (const Task& task : given_.tasks) work += task.duration.raw();
    given_.work = static_cast<std::int64_t>(std::min<Int128>(work, kMostWork));
    given_.most_tasks = 0;
    std::size_t begin = 0;
    for (const TensorStep& step : given_.steps) {
        given_.most_tasks = std::max(given_.most_tasks, step.tasks - begin);
        begin = step.tasks;
    }
}

void TensorLowering::add_loads() {
    set_loads_.clear();
    given_.loads.clear();
    if (given_.work == kMostWork) return;
    for (std::size_t i = 0; i < given_.tasks.size(); ++i) {
        if (given_.fusion_blocks[i] >= 0) continue;
        const Task& task = given_.tasks[i];
        add_to(set_loads_, rows_, task.resource_set, task.duration.raw());
    }
    for (const auto& [resource_set, load] : set_loads_) {
        for (const std::int32_t resource :
             resource_sets_.resources()[static_cast<std::size_t>(resource_set)]) {
            add_to(given_.loads, rows_, resource, load);
        }
    }
}

void TensorLowering::add_most_bytes() {
    given_.most_bytes.clear();
    for (const Buffer& buffer : given_.buffers) {
        if (buffer.bytes != Bytes{0}) add_to(given_.most_bytes, rows_, buffer.device, buffer.bytes);
    }
    for (const auto& [device, bytes] : given_.persistent) {
        add_to(given_.most_bytes, rows_, device, bytes);
    }
}

/// The one block of parts before a collective that moves a gradient, after one that moves a value.
void TensorLowering::find_fusible() {
    given_.fusion_blocks.assign(given_.tasks.size(), -1);
    given_.fusible.clear();
    if (!has_collective_) return;
    constexpr std::int32_t kUnknown = -2;
    before_.assign(given_.tasks.size(), kUnknown);
    after_.assign(given_.tasks.size(), kUnknown);
    const auto meet = [](std::int32_t& block, std::int32_t other) {
        block = block == kUnknown || block == other ? other : -1;
    };
    for (std::size_t e = 0; e < given_.steps.size(); ++e) {
        if (!given_.steps[e].waits) continue;
        const std::size_t begin = given_.steps[e].sources;
        const std::size_t end = begin + given_.steps[e].parts;
        for (std::size_t i = given_.sources.offsets[begin]; i < given_.sources.offsets[end]; ++i) {
            const TaskRef task = given_.sources.items[i].task;
            if (task >= 0) meet(after_[static_cast<std::size_t>(task)], events_->events[e].block);
        }
    }
    for (std::size_t i = 0; i < given_.tasks.size(); ++i) {
        for (const TaskRef ref : given_.predecessors[i]) {
            meet(before_[i], is_part(ref) ? block_of(ref) : -1);
            if (!is_part(ref)) meet(after_[static_cast<std::size_t>(ref)], -1);
        }
    }
    for (std::size_t i = 0; i < given_.tasks.size(); ++i) {
        const Task& task = given_.tasks[i];
        if (task.kind != TaskKind::collective || task.updated) continue;
        given_.fusion_blocks[i] = std::max(-1, task.gradient ? before_[i] : after_[i]);
        if (given_.fusion_blocks[i] >= 0) given_.fusible.push_back(static_cast<std::uint32_t>(i));
    }
}

}  // namespace partita::plan
