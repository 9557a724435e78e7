// SPDX-License-Identifier: Apache-2.0
#include "plan/folding/resource_classes.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

namespace partita::plan {

ResourceClasses::ResourceClasses(const Problem& problem) : devices_(problem.device_count()) {
    for (int d = 0; d < devices_; ++d) classes_.push_back(problem.prices().device_class(d));
    const std::int32_t channels = problem.prices().device_class_count();
    count_ = problem.machine().channels().empty() ? channels : channels + 1;
    classes_.insert(classes_.end(), problem.machine().channels().size(), channels);
    seen_.resize(classes_.size());
}

std::vector<std::int32_t> ResourceClasses::representatives() const {
    std::vector<std::int32_t> first(static_cast<std::size_t>(count_), -1);
    std::vector<std::int32_t> representatives;
    for (int d = 0; d < devices_; ++d) {
        std::int32_t& of = first[static_cast<std::size_t>(of_device(d))];
        if (of < 0) of = d;
        representatives.push_back(of);
    }
    return representatives;
}

std::uint64_t ResourceClasses::hash_of(std::span<const std::int32_t> resource_set) const {
    std::vector<std::int64_t> classes;
    for (const std::int32_t r : resource_set) classes.push_back(of(r));
    std::ranges::sort(classes);
    Hash hash;
    hash.add(std::ssize(classes));
    for (const std::int64_t each : classes) hash.add(each);
    return hash.value();
}

void ResourceClasses::saw_sets(const Csr<std::int32_t>& resource_sets,
                               std::span<const std::int32_t> sets) {
    std::vector<std::pair<std::uint64_t, std::int32_t>> by_hash;
    for (const std::int32_t set : sets) {
        by_hash.emplace_back(hash_of(resource_sets[static_cast<std::size_t>(set)]), set);
    }
    std::ranges::sort(by_hash);
    // Of the sets that are alike: which rows of each member are in any of them.
    std::vector<std::uint8_t> rows(classes_.size(), 0);
    std::vector<std::size_t> members;
    for (std::size_t i = 0; i < by_hash.size(); ++i) {
        for (const std::int32_t r : resource_sets[static_cast<std::size_t>(by_hash[i].second)]) {
            if (rows[member(r)] == 0) members.push_back(member(r));
            rows[member(r)] = static_cast<std::uint8_t>(rows[member(r)] | 1U << row(r));
        }
        const bool others = i + 1 < by_hash.size() && by_hash[i + 1].first == by_hash[i].first;
        if (others) continue;
        for (const std::size_t each : members) {
            seen_[each].add(static_cast<std::int64_t>(by_hash[i].first));
            seen_[each].add(rows[each]);
            rows[each] = 0;
        }
        members.clear();
    }
}

bool ResourceClasses::part() {
    std::map<std::pair<std::int32_t, std::uint64_t>, std::int32_t> parted;
    for (std::size_t i = 0; i < classes_.size(); ++i) {
        const auto next = static_cast<std::int32_t>(parted.size());
        classes_[i] = parted.emplace(std::pair(classes_[i], seen_[i].value()), next).first->second;
    }
    seen_.assign(seen_.size(), {});
    return std::exchange(count_, static_cast<std::int32_t>(parted.size())) != count_;
}

}  // namespace partita::plan
