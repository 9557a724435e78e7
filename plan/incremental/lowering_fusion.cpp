// SPDX-License-Identifier: Apache-2.0
//
// Fused collectives of an incremental lowering. A collective may be fused at one place only, around a
// block of parts or in a bucket, so what differs at a place concerns no other place's fusions.
#include <algorithm>
#include <utility>

#include "plan/incremental/lowering.h"

namespace partita::plan {

void IncrementalLowering::touch_fused(std::size_t row, const TensorTasks& tasks) {
    for (const std::uint32_t i : tasks.fusible)
        pending_.fusion_places.add(fusion_place(row, tasks, i));
}

namespace {

/// What moves together: gradients and new values, what forwards fetch, what backwards do.
constexpr std::size_t kBucketKinds = 3;

}  // namespace

/// By micro-batch, kind and depth.
std::size_t IncrementalLowering::places_of_bucket() const {
    return static_cast<std::size_t>(rows().micro_batches()) * kBucketKinds * kBucketDepths;
}

/// Blocks, and behind these buckets.
std::size_t IncrementalLowering::fusion_place(std::size_t row, const TensorTasks& tasks,
                                              std::size_t task) const {
    const std::int32_t fusion_block = tasks.fusion_blocks[task];
    if (!in_bucket(fusion_block)) return block_row(row, fusion_block);
    const TensorEvents& of = layouts_.events()[row];
    const TensorEvent& event = of.events[event_of(tasks, task)];
    const GradientBuckets& buckets = problem_.facts().buckets();
    const graph::OpId parameter = graph_.tensor(of.tensor).producer;
    std::int32_t bucket = buckets.of(parameter);
    std::int32_t micro_batch = event.micro_batch;
    std::size_t kind = 0;
    if (is_bucket_fetch(fusion_block)) {
        bucket = buckets.of_fetches(parameter);
        micro_batch = of.blocks[static_cast<std::size_t>(event.block)].micro_batch;
        kind = event.pass == Pass::forward ? 1 : 2;
    }
    const auto of_bucket = static_cast<std::size_t>(micro_batch) * kBucketKinds + kind;
    return finds_.size() + static_cast<std::size_t>(bucket) * places_of_bucket() +
           of_bucket * kBucketDepths + static_cast<std::size_t>(bucket_depth(fusion_block));
}

/// Rows of tensors that may have collectives there.
std::vector<std::size_t> IncrementalLowering::rows_around(std::size_t place) const {
    std::vector<std::size_t> around;
    if (place >= finds_.size()) {
        const GradientBuckets& buckets = problem_.facts().buckets();
        const std::size_t bucket = (place - finds_.size()) / places_of_bucket();
        const bool fetches = (place - finds_.size()) / kBucketDepths % kBucketKinds > 0;
        for (const graph::OpId op : fetches ? buckets.fetched(bucket) : buckets.members(bucket)) {
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
    std::vector<std::pair<std::uint64_t, Member>> found;
    for (const std::size_t row : rows_around(place)) {
        const TensorTasks& tasks = *tensors_[row].tasks;
        for (const std::uint32_t i : tasks.fusible) {
            if (fusion_place(row, tasks, i) != place) continue;
            const std::uint64_t event = event_places_[row][event_of(tasks, i)];
            found.push_back({(event << 32U) | i, {row, i}});
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

/// Of what fetches: the device of the first part that reads (FetchUnit::device); else -1.
std::int32_t IncrementalLowering::first_reader(const Member& member) const {
    const TensorTasks& tasks = *tensors_[member.row].tasks;
    if (!is_bucket_fetch(tasks.fusion_blocks[member.task])) return -1;
    const TensorEvents& of = layouts_.events()[member.row];
    const TensorEvent& event = of.events[event_of(tasks, member.task)];
    return fetch_limits_.unit_of(of.tensor, of.blocks[static_cast<std::size_t>(event.block)])
        .device;
}

void IncrementalLowering::find_fused_at(std::size_t place) {
    std::vector<Member> members = members_at(place);
    std::vector<Fused> all;
    if (place < finds_.size()) {
        add_fused(members, FusionPlace::block, all);
    } else {
        const auto reader = [this](const Member& member) { return first_reader(member); };
        std::ranges::stable_sort(members, {}, reader);
        for (auto begin = members.begin(); begin != members.end();) {
            const auto end = std::find_if(begin, members.end(), [&](const Member& member) {
                return reader(member) != reader(*begin);
            });
            add_fused({begin, end}, FusionPlace::bucket, all);
            begin = end;
        }
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
