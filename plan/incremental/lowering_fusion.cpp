// SPDX-License-Identifier: Apache-2.0
//
// Fused collectives of an incremental lowering. A collective may be fused at one place only, around a
// block of parts or in a bucket, so what differs at a place concerns no other place's fusions: only
// what these wait for.
#include <algorithm>
#include <cassert>
#include <tuple>
#include <utility>

#include "plan/incremental/lowering.h"

namespace partita::plan {

void IncrementalLowering::touch_fused(std::size_t row, const TensorTasks& tasks) {
    for (const std::uint32_t i : tasks.fusible)
        pending_.fusion_places.add(fusion_place(row, tasks, i));
}

namespace {

/// Of a bucket in a micro-batch: gradients and new values, what forwards fetch, what backwards do.
constexpr std::size_t kBucketKinds = 3;

std::size_t kind_of(const FusionUnit& unit) {
    if (unit.device < 0) return 0;
    return unit.backward ? 2 : 1;
}

}  // namespace

std::size_t bucket_places(const Problem& problem, const Policy& policy) {
    return problem.facts().buckets().count() * static_cast<std::size_t>(policy.micro_batches) *
           kBucketKinds * kBucketDepths;
}

/// Blocks, and behind these buckets. What different devices fetch with one bucket is at one place.
std::size_t IncrementalLowering::fusion_place(std::size_t row, const TensorTasks& tasks,
                                              std::size_t task) const {
    const FusionUnit unit = fusion_unit(problem_, layouts_, row, tasks, task);
    if (unit.bucket < 0) return block_row(unit.block);
    const std::size_t of_bucket =
        static_cast<std::size_t>(unit.bucket) * static_cast<std::size_t>(rows().micro_batches()) +
        static_cast<std::size_t>(unit.micro_batch);
    return finds_.size() + (of_bucket * kBucketKinds + kind_of(unit)) * kBucketDepths +
           static_cast<std::size_t>(bucket_depth(tasks.fusion_blocks[task]));
}

/// Rows of tensors that may have collectives there.
std::vector<std::size_t> IncrementalLowering::rows_around(std::size_t place) const {
    std::vector<std::size_t> around;
    if (place >= finds_.size()) {
        const std::size_t in_micro_batch = (place - finds_.size()) / kBucketDepths / kBucketKinds;
        const std::size_t bucket =
            in_micro_batch / static_cast<std::size_t>(rows().micro_batches());
        for (const graph::OpId op : problem_.facts().buckets().members(bucket)) {
            around.push_back(rows().row(graph_.op(op).outputs[0], 0));
        }
        return around;
    }
    const PartBlock of = block_at(place);
    for (const std::vector<graph::TensorId>* const tensors :
         {&graph_.op(of.op).inputs, &graph_.op(of.op).outputs}) {
        for (const graph::TensorId t : *tensors) {
            if (t.valid()) around.push_back(rows().row(t, of.micro_batch));
        }
    }
    std::sort(around.begin(), around.end());
    around.erase(std::unique(around.begin(), around.end()), around.end());
    return around;
}

/// All that may be fused there, in the order in which lower() numbers it.
std::vector<IncrementalLowering::Member> IncrementalLowering::members_at(std::size_t place) const {
    using Number = std::tuple<std::uint32_t, std::uint64_t, std::uint32_t>;
    std::vector<std::pair<Number, Member>> found;
    for (const std::size_t row : rows_around(place)) {
        const TensorTasks& tasks = *tensors_[row].tasks;
        for (const std::uint32_t i : tasks.fusible) {
            if (fusion_place(row, tasks, i) != place) continue;
            const std::size_t e = event_of(tasks, i);
            const std::uint32_t step = layouts_.events()[row].events[e].step;
            found.push_back({{step, event_keys_[row][e], i}, {row, i}});
        }
    }
    std::sort(found.begin(), found.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<Member> members;
    for (const auto& [number, member] : found) members.push_back(member);
    return members;
}

void IncrementalLowering::add_fused(std::span<const Member> members, FusionPlace place,
                                    std::vector<Fused>& all) {
    if (members.size() < 2) return;
    std::vector<Task> tasks;
    for (const Member& member : members) {
        tasks.push_back(tensors_[member.row].tasks->tasks[member.task]);
        tasks.back().tensor = layouts_.events()[member.row].tensor;
    }
    std::vector<FusibleCollective> around;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
        const auto group = static_cast<std::size_t>(tasks[i].ranks);
        around.push_back({&tasks[i], tensors_[members[i].row].tasks->groups[group]});
    }
    for (const FusedCollective& found : find_fused(problem_, around, place)) {
        Fused& fused = all.emplace_back();
        fused.resource_set = resource_sets_.of_ranks(found.devices).resource_set;
        fused.duration = found.price.time.raw();
        for (const std::size_t i : found.members) fused.members.push_back(members[i]);
    }
}

void IncrementalLowering::find_fused_at(std::size_t place) {
    std::vector<Member> members = members_at(place);
    std::vector<Fused> all;
    const auto device_of = [this](const Member& member) {
        return fusion_unit(problem_, layouts_, member.row, *tensors_[member.row].tasks, member.task)
            .device;
    };
    std::ranges::stable_sort(members, {}, device_of);
    for (auto begin = members.begin(); begin != members.end();) {
        const auto end = std::find_if(begin, members.end(), [&](const Member& member) {
            return device_of(member) != device_of(*begin);
        });
        add_fused({begin, end}, place < finds_.size() ? FusionPlace::block : FusionPlace::bucket,
                  all);
        begin = end;
    }
    put_fused(place, std::move(all));
}

void IncrementalLowering::put_fused(std::size_t place, std::vector<Fused> all) {
    if (all.empty() && fused_[place].empty()) return;
    for (const Fused& fused : fused_[place]) {
        for (const Member& member : fused.members) {
            // Of other tasks the numbers before mean nothing.
            if (pending_.renewed.has[member.row] != 0) continue;
            Tensor& tensor = touch(member.row);
            tensor.targets[member.task] = tensor.own[member.task];
        }
    }
    for (Fused& fused : all) {
        fused.slot = tensors_[fused.members[0].row].own[fused.members[0].task];
        for (const Member& member : fused.members) {
            touch(member.row).targets[member.task] = fused.slot;
        }
    }
    pending_.fused_before.emplace_back(place, std::move(fused_[place]));
    fused_[place] = std::move(all);
}

/// A fused collective waits for what its members wait for, so it is emitted, by its first member,
/// when any of them is.
void IncrementalLowering::touch_first_members() {
    for (std::size_t i = 0; i < pending_.touched.list.size(); ++i) {
        const std::size_t row = pending_.touched.list[i];
        const Tensor& tensor = tensors_[row];
        for (const std::uint32_t task : tensor.tasks->fusible) {
            if (tensor.targets[task] == tensor.own[task]) continue;
            const std::vector<Fused>& all = fused_[fusion_place(row, *tensor.tasks, task)];
            const auto moved = std::ranges::find(all, tensor.targets[task], &Fused::slot);
            assert(moved != all.end());
            touch(moved->members[0].row);
        }
    }
}

/// The fused collective whose first member it is; null: none.
const IncrementalLowering::Fused* IncrementalLowering::fused_at(std::size_t row,
                                                                std::size_t task) const {
    const TensorTasks& tasks = *tensors_[row].tasks;
    if (tasks.fusion_blocks[task] == kNoFusion) return nullptr;
    const Slot slot = tensors_[row].own[task];
    const std::vector<Fused>& all = fused_[fusion_place(row, tasks, task)];
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&](const Fused& fused) { return fused.slot == slot; });
    return found == all.end() ? nullptr : &*found;
}

}  // namespace partita::plan
