// SPDX-License-Identifier: Apache-2.0
#include "plan/incremental/ready_queues.h"

namespace partita::plan {

void ReadyQueues::clear() {
    if (queues_.size() != graph_.resource_sets()) know_resource_sets();
    for (const std::int32_t number : used_) {
        Queue& queue = queues_[at(number)];
        queue.tasks.clear();
        queue.parked = kIdle;
        queue.is_listed = false;
    }
    for (std::size_t w = 0; w < words_; ++w) {
        for (std::uint64_t bits = has_parked_[w]; bits != 0; bits &= bits - 1) {
            parked_[64 * w + static_cast<std::size_t>(std::countr_zero(bits))].clear();
        }
        has_parked_[w] = busy_[w] = 0;
    }
    used_.clear();
    released_.clear();
    free_alone_.clear();
    candidates_.clear();
}

void ReadyQueues::know_resource_sets() {
    const std::size_t rows = graph_.resource_count() + graph_.host_count();
    words_ = (rows + 63) / 64;
    busy_.resize(words_);
    hosts_.assign(words_, 0);
    for (std::size_t r = graph_.resource_count(); r < rows; ++r) {
        hosts_[r / 64] |= std::uint64_t{1} << (r % 64);
    }
    has_parked_.resize(words_);
    parked_.resize(rows);
    only_set_.resize(rows, -1);
    masks_.resize(graph_.resource_sets() * words_);
    for (std::size_t i = queues_.size(); i < graph_.resource_sets(); ++i) {
        const auto number = static_cast<std::int32_t>(i);
        const auto resources = graph_.resources(number);
        const auto hosts = graph_.hosts(number);
        bool is_alone = resources.size() == 1 && hosts.empty();
        for (const std::int32_t device : hosts) {
            const std::int32_t row = row_of_host(device);
            masks_[i * words_ + at(row) / 64] |= std::uint64_t{1} << (at(row) % 64);
        }
        for (const std::int32_t r : resources) {
            masks_[i * words_ + at(r) / 64] |= std::uint64_t{1} << (at(r) % 64);
            std::int32_t& only = only_set_[at(r)];
            if (only >= 0) queues_[at(only)].is_alone = false;
            is_alone = is_alone && only == -1;
            only = only == -1 ? number : -2;
        }
        queues_.emplace_back().is_alone = is_alone;
    }
}

void ReadyQueues::release(std::int32_t number) {
    const std::uint64_t* const of = mask(number);
    for (std::size_t w = 0; w < words_; ++w) {
        const std::uint64_t rows = of[w] & ~hosts_[w];
        busy_[w] &= ~rows;
        for (std::uint64_t bits = rows & has_parked_[w]; bits != 0; bits &= bits - 1) {
            released_.push_back(static_cast<std::int32_t>(64 * w) + std::countr_zero(bits));
        }
    }
    Queue& queue = queues_[at(number)];
    if (!queue.is_alone || queue.tasks.empty() || queue.is_listed) return;
    queue.is_listed = true;
    free_alone_.push_back(number);
}

void ReadyQueues::close_host(std::int32_t device) {
    const std::size_t row = at(row_of_host(device));
    busy_[row / 64] |= std::uint64_t{1} << (row % 64);
}

void ReadyQueues::open_host(std::int32_t device) {
    const std::int32_t row = row_of_host(device);
    const std::uint64_t bit = std::uint64_t{1} << (at(row) % 64);
    busy_[at(row) / 64] &= ~bit;
    if ((has_parked_[at(row) / 64] & bit) != 0) released_.push_back(row);
}

void ReadyQueues::add(Slot slot) {
    const SlotGraph::Node& node = graph_[slot];
    Queue& queue = queues_[at(node.resource_set)];
    if (queue.tasks.empty()) used_.push_back(node.resource_set);
    queue.tasks.push_back({node.key, slot});
    std::push_heap(queue.tasks.begin(), queue.tasks.end(), std::greater<>{});
    if (queue.is_alone) {
        if (queue.is_listed || busy_resource(node.resource_set) >= 0) return;
        queue.is_listed = true;
        free_alone_.push_back(node.resource_set);
    } else if (queue.tasks.front().slot == slot) {
        if (queue.parked >= 0) {
            park(node.resource_set, queue.parked);
        } else {
            queue.parked = kCandidate;
            push(candidates_, {node.key, node.resource_set, kCandidate});
        }
    }
}

Slot ReadyQueues::pop(Queue& queue) {
    const Slot slot = queue.tasks.front().slot;
    std::pop_heap(queue.tasks.begin(), queue.tasks.end(), std::greater<>{});
    queue.tasks.pop_back();
    return slot;
}

void ReadyQueues::park(std::int32_t resource_set, std::int32_t resource) {
    queues_[at(resource_set)].parked = resource;
    push(parked_[at(resource)], {first_key(resource_set), resource_set, resource});
    has_parked_[at(resource) / 64] |= std::uint64_t{1} << (at(resource) % 64);
}

/// Makes a candidate of what is first there, which stays until it is taken up.
void ReadyQueues::push_first_parked(std::int32_t resource) {
    const Heap& parked = parked_[at(resource)];
    if (!parked.empty()) {
        push(candidates_, parked.front());
    } else {
        has_parked_[at(resource) / 64] &= ~(std::uint64_t{1} << (at(resource) % 64));
    }
}

}  // namespace partita::plan
