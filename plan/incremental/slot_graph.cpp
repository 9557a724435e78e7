// SPDX-License-Identifier: Apache-2.0
#include "plan/incremental/slot_graph.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace partita::plan {

SlotGraph::SlotGraph(int resource_count, Csr<std::int32_t> resource_sets, Csr<std::int32_t> hosts)
    : resource_sets_(std::move(resource_sets)),
      hosts_(std::move(hosts)),
      loads_(static_cast<std::size_t>(resource_count), 0) {
    while (hosts_.rows() < resource_sets_.rows()) hosts_.end_row();
    for (const std::int32_t device : hosts_.items) know_host(device);
}

void SlotGraph::know_host(std::int32_t device) {
    host_count_ = std::max(host_count_, static_cast<std::size_t>(device) + 1);
}

std::int32_t SlotGraph::add_resource_set(std::span<const std::int32_t> resources,
                                         std::span<const std::int32_t> hosts) {
    resource_sets_.add_row(resources);
    hosts_.add_row(hosts);
    for (const std::int32_t device : hosts) know_host(device);
    return static_cast<std::int32_t>(resource_sets_.rows()) - 1;
}

void SlotGraph::link(Slot slot) {
    for (const Slot p : (*this)[slot].predecessors) {
        successors_[static_cast<std::size_t>(p)].push_back(slot);
    }
}

void SlotGraph::unlink(Slot slot) {
    for (const Slot p : (*this)[slot].predecessors) {
        auto& list = successors_[static_cast<std::size_t>(p)];
        const auto at = std::find(list.begin(), list.end(), slot);
        assert(at != list.end());
        *at = list.back();
        list.pop_back();
    }
}

void SlotGraph::add_load(const Node& node, std::int64_t sign) {
    if (node.resource_set < 0) return;
    for (const std::int32_t r : resources(node.resource_set)) {
        loads_[static_cast<std::size_t>(r)] += sign * node.duration;
    }
    tasks_ = sign > 0 ? tasks_ + 1 : tasks_ - 1;
}

bool SlotGraph::holds(const SlotTask& task) const {
    const Node& node = (*this)[task.slot];
    if (!task.present) return node.resource_set < 0;
    const Predecessors& known = node.predecessors;
    return node.resource_set == task.resource_set && node.duration == task.duration &&
           node.launch == task.launch && node.key == task.key &&
           std::equal(known.begin(), known.end(), task.predecessors.begin(),
                      task.predecessors.end());
}

void SlotGraph::change(std::span<const SlotTask> tasks) {
    count_ = 0;
    if (changed_.size() < tasks.size()) {
        changed_.resize(tasks.size());
        before_.resize(tasks.size());
    }
    for (const SlotTask& task : tasks) {
        const auto slot = static_cast<std::size_t>(task.slot);
        if (slot < nodes_.size()) continue;
        nodes_.resize(slot + 1);
        successors_.resize(slot + 1);
    }
    for (const SlotTask& task : tasks) {
        if (!holds(task)) put(task);
    }
}

void SlotGraph::put(const SlotTask& task) {
    Node& node = nodes_[static_cast<std::size_t>(task.slot)];
    Predecessors& now = node.predecessors;
    Before& before = before_[count_];
    changed_[count_++] = task.slot;
    before.duration = node.duration;
    before.key = node.key;
    before.resource_set = node.resource_set;
    before.launch = node.launch;
    add_load(node, -1);
    unlink(task.slot);
    before.predecessors.assign(now.begin(), now.end());
    now.clear();
    node.duration = task.duration;
    node.key = task.key;
    node.resource_set = task.present ? task.resource_set : -1;
    node.launch = task.launch;
    assert(!task.present || task.duration > 0);
    if (task.present) now.assign(task.predecessors.begin(), task.predecessors.end());
    add_load(node, 1);
    link(task.slot);
}

void SlotGraph::reject() {
    for (std::size_t i = count_; i-- > 0;) {
        Node& node = nodes_[static_cast<std::size_t>(changed_[i])];
        const Before& before = before_[i];
        add_load(node, -1);
        unlink(changed_[i]);
        node.predecessors.assign(before.predecessors.begin(), before.predecessors.end());
        node.duration = before.duration;
        node.key = before.key;
        node.resource_set = before.resource_set;
        node.launch = before.launch;
        add_load(node, 1);
        link(changed_[i]);
    }
    count_ = 0;
}

}  // namespace partita::plan
