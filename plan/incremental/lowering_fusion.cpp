// SPDX-License-Identifier: Apache-2.0
//
// Joins of an incremental lowering. A collective may be joined around one block of parts only, so what
// differs around a block concerns no other block's joins.
#include <algorithm>
#include <tuple>
#include <utility>

#include "plan/incremental/lowering.h"

namespace partita::plan {

void IncrementalLowering::touch_joins(std::size_t row, const TensorTasks& tasks) {
    for (const std::uint32_t i : tasks.joinable) join_blocks_.add(block_row(row, tasks.joins[i]));
}

/// All that may be joined around the block, in the order in which lower() numbers it.
std::vector<IncrementalLowering::Member> IncrementalLowering::members_around(
    std::size_t block) const {
    const PartBlock of = block_at(block);
    std::vector<graph::TensorId> around = graph_.op(of.op).inputs;
    const auto& outputs = graph_.op(of.op).outputs;
    around.insert(around.end(), outputs.begin(), outputs.end());
    std::sort(around.begin(), around.end());
    around.erase(std::unique(around.begin(), around.end()), around.end());
    std::vector<std::pair<std::tuple<bool, std::uint64_t, std::int64_t, std::uint64_t>, Member>>
        found;
    for (const graph::TensorId t : around) {
        if (!t.valid()) continue;
        const std::size_t row = rows().row(t, of.micro_batch);
        const TensorTasks& tasks = *tensors_[row].tasks;
        for (const std::uint32_t i : tasks.joinable) {
            if (block_row(row, tasks.joins[i]) != block) continue;
            const std::size_t e = event_of(tasks, i);
            const TensorEvent& event = layouts_.events()[row].events[e];
            const std::uint64_t key = event_keys_[row][e] + i;
            const bool backward = pass_of(event) == Pass::backward;
            const auto op = static_cast<std::int64_t>(event.op.index());
            found.push_back({{backward, keys_.micro_batch(key), backward ? -op : op,
                              keys_.without_priority(key)},
                             {row, i}});
        }
    }
    std::sort(found.begin(), found.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<Member> members;
    for (const auto& [place, member] : found) members.push_back(member);
    return members;
}

std::vector<IncrementalLowering::Joined> IncrementalLowering::joins_of(
    const std::vector<Member>& members) {
    std::vector<Task> tasks;
    for (const Member& member : members) {
        tasks.push_back(tensors_[member.row].tasks->tasks[member.task]);
        tasks.back().tensor = layouts_.events()[member.row].tensor;
    }
    std::vector<Joinable> around;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
        const auto group = static_cast<std::size_t>(tasks[i].ranks);
        around.push_back({&tasks[i], tensors_[members[i].row].tasks->groups[group]});
    }
    std::vector<Joined> joins;
    for (const Join& join : find_joins(problem_, around)) {
        Joined& joined = joins.emplace_back();
        joined.lane = lanes_.of_ranks(join.devices).lane;
        joined.duration = join.price.time.raw();
        for (const std::size_t i : join.members) joined.members.push_back(members[i]);
    }
    return joins;
}

void IncrementalLowering::find_joins_around(std::size_t block) {
    const std::vector<Member> members = members_around(block);
    put_joins(block, members.size() > 1 ? joins_of(members) : std::vector<Joined>{});
}

void IncrementalLowering::put_joins(std::size_t block, std::vector<Joined> joins) {
    if (joins.empty() && joined_[block].empty()) return;
    for (const Joined& joined : joined_[block]) {
        for (const Member& member : joined.members) {
            // Of other tasks the numbers before mean nothing.
            if (renewed_.has[member.row] != 0) continue;
            Tensor& tensor = touch(member.row);
            tensor.targets[member.task] = tensor.own[member.task];
        }
    }
    for (Joined& joined : joins) {
        joined.slot = tensors_[joined.members[0].row].own[joined.members[0].task];
        for (const Member& member : joined.members) {
            touch(member.row).targets[member.task] = joined.slot;
        }
    }
    joined_before_.emplace_back(block, std::move(joined_[block]));
    joined_[block] = std::move(joins);
}

/// The join whose first member it is; null: none.
const IncrementalLowering::Joined* IncrementalLowering::join_at(std::size_t row,
                                                                std::size_t task) const {
    const std::int32_t block = tensors_[row].tasks->joins[task];
    if (block < 0) return nullptr;
    const Slot slot = tensors_[row].own[task];
    const std::vector<Joined>& joins = joined_[block_row(row, block)];
    const auto found = std::find_if(joins.begin(), joins.end(),
                                    [&](const Joined& joined) { return joined.slot == slot; });
    return found == joins.end() ? nullptr : &*found;
}

}  // namespace partita::plan
