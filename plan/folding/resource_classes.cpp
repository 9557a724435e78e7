// SPDX-License-Identifier: Apache-2.0
#include "plan/folding/resource_classes.h"

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
