// SPDX-License-Identifier: Apache-2.0
#include "plan/tasks/distinct_resources.h"

#include <cstddef>
#include <span>
#include <vector>

namespace partita::plan {

namespace {

/// Partition refinement: each set parts its members from the others of their class.
std::vector<std::size_t> classes_of(const Csr<std::int32_t>& sets, const std::vector<char>& is_used,
                                    std::size_t members) {
    std::vector<std::size_t> class_of(members, 0);
    std::vector<std::size_t> parted_to{0};  // by class: that of those in the set
    std::vector<std::size_t> parted_by{0};  // by class: the latest set that parted it, from 1
    for (std::size_t set = 0; set < sets.rows(); ++set) {
        if (is_used[set] == 0) continue;
        for (const std::int32_t member : sets[set]) {
            std::size_t& of = class_of[static_cast<std::size_t>(member)];
            if (parted_by[of] != set + 1) {
                parted_by[of] = set + 1;
                parted_to[of] = parted_to.size();
                parted_to.push_back(0);
                parted_by.push_back(0);
            }
            of = parted_to[of];
        }
    }
    return class_of;
}

Csr<std::int32_t> without_twins(const Csr<std::int32_t>& sets, const std::vector<char>& is_used,
                                std::size_t members) {
    const std::vector<std::size_t> class_of = classes_of(sets, is_used, members);
    constexpr std::int32_t kNone = -1;
    std::vector<std::int32_t> first;  // by class
    Csr<std::int32_t> distinct;
    for (std::size_t set = 0; set < sets.rows(); ++set) {
        const auto members_of = is_used[set] == 0 ? std::span<const std::int32_t>{} : sets[set];
        for (const std::int32_t member : members_of) {
            const std::size_t of = class_of[static_cast<std::size_t>(member)];
            if (of >= first.size()) first.resize(of + 1, kNone);
            if (first[of] == kNone) first[of] = member;
            if (first[of] == member) distinct.items.push_back(member);
        }
        distinct.end_row();
    }
    return distinct;
}

}  // namespace

DistinctResources::DistinctResources(const TaskGraph& graph) {
    std::vector<char> is_used(graph.resource_sets.rows(), 0);
    for (const Task& task : graph.tasks) is_used[static_cast<std::size_t>(task.resource_set)] = 1;
    resources =
        without_twins(graph.resource_sets, is_used, static_cast<std::size_t>(graph.resource_count));
    if (graph.hosts.rows() > 0) {
        hosts = without_twins(graph.hosts, is_used, static_cast<std::size_t>(graph.device_count));
    } else {
        hosts.offsets.assign(graph.resource_sets.rows() + 1, 0);
    }
}

}  // namespace partita::plan
