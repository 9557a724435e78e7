// SPDX-License-Identifier: Apache-2.0
//
// Fused collectives of an incremental lowering. A collective may be fused at one place only, around a
// block of parts or in a bucket, so what differs at a place concerns no other place's fusions.
#include <algorithm>
#include <tuple>
#include <utility>

#include "plan/incremental/lowering.h"

namespace partita::plan {

void IncrementalLowering::touch_fused(std::size_t row, const TensorTasks& tasks) {
    for (const std::uint32_t i : tasks.fusible)
        pending_.fusion_places.add(fusion_place(row, tasks, i));
}

/// Blocks, and behind these the depths of buckets in each micro-batch.
std::size_t IncrementalLowering::fusion_place(std::size_t row, const TensorTasks& tasks,
                                              std::size_t task) const {
    const std::int32_t fusion_block = tasks.fusion_blocks[task];
    if (!in_bucket(fusion_block)) return block_row(row, fusion_block);
    const TensorEvents& of = layouts_.events()[row];
    const std::int32_t bucket = problem_.facts().buckets().of(graph_.tensor(of.tensor).producer);
    const std::int32_t micro_batch = of.events[event_of(tasks, task)].micro_batch;
    const std::int32_t in_micro_batch = bucket * rows().micro_batches() + micro_batch;
    return finds_.size() +
           static_cast<std::size_t>(in_micro_batch * kBucketDepths + bucket_depth(fusion_block));
}

/// Rows of tensors that may have collectives there.
std::vector<std::size_t> IncrementalLowering::rows_around(std::size_t place) const {
    std::vector<std::size_t> around;
    if (place >= finds_.size()) {
        const std::size_t bucket = (place - finds_.size()) / kBucketDepths /
                                   static_cast<std::size_t>(rows().micro_batches());
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
    using Number = std::tuple<bool, std::uint64_t, std::int64_t, Pass, std::uint64_t>;
    std::vector<std::pair<Number, Member>> found;
    for (const std::size_t row : rows_around(place)) {
        const TensorTasks& tasks = *tensors_[row].tasks;
        for (const std::uint32_t i : tasks.fusible) {
            if (fusion_place(row, tasks, i) != place) continue;
            const std::size_t e = event_of(tasks, i);
            const TensorEvent& event = layouts_.events()[row].events[e];
            const std::uint64_t key = event_keys_[row][e] + i;
            // What runs again fetches around one block alone: its place among the others is none.
            const bool backward = is_backward(event.pass);
            const auto op = static_cast<std::int64_t>(event.op.index());
            found.push_back({{backward, keys_.micro_batch(key), backward ? -op : op, event.pass,
                              keys_.without_priority(key)},
                             {row, i}});
        }
    }
    std::sort(found.begin(), found.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<Member> members;
    for (const auto& [number, member] : found) members.push_back(member);
    return members;
}

std::vector<IncrementalLowering::Fused> IncrementalLowering::fused_of(
    const std::vector<Member>& members, FusionPlace place) {
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
    std::vector<Fused> all;
    for (const FusedCollective& found : find_fused(problem_, around, place)) {
        Fused& fused = all.emplace_back();
        fused.resource_set = resource_sets_.of_ranks(found.devices).resource_set;
        fused.duration = found.price.time.raw();
        for (const std::size_t i : found.members) fused.members.push_back(members[i]);
    }
    return all;
}

void IncrementalLowering::find_fused_at(std::size_t place) {
    const std::vector<Member> members = members_at(place);
    const FusionPlace kind = place < finds_.size() ? FusionPlace::block : FusionPlace::bucket;
    put_fused(place, members.size() > 1 ? fused_of(members, kind) : std::vector<Fused>{});
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
