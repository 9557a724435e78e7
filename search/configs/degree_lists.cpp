// SPDX-License-Identifier: Apache-2.0
#include "search/configs/degree_lists.h"

#include <algorithm>
#include <map>
#include <string>

namespace partita::search {

using graph::OpId;

DegreeLists::DegreeLists(const plan::Problem& problem) : device_count_(problem.device_count()) {
    std::map<std::vector<std::string>, std::uint32_t> lists;
    for (std::size_t i = 0; i < problem.graph().op_count(); ++i) {
        std::vector<std::string> names;
        for (const graph::Factor& factor : problem.facts().rule(OpId(i)).factors) {
            names.push_back(factor.name);
        }
        const auto next = static_cast<std::uint32_t>(lists.size());
        list_of_.push_back(lists.try_emplace(std::move(names), next).first->second);
    }
    lists_.resize(lists.size());
    for (std::deque<Entry>& list : lists_) list.emplace_back();
}

DegreesId DegreeLists::id(OpId op, const Degrees& degrees) {
    std::deque<Entry>& list = lists_[list_of_[op.index()]];
    const int size = size_of(degrees);
    const auto known = std::find_if(list.begin(), list.end(), [&](const Entry& entry) {
        return entry.size == size && entry.degrees == degrees;
    });
    const auto id = static_cast<DegreesId>(known - list.begin());
    if (known != list.end()) return id;
    const bool summands = std::ranges::any_of(degrees, &plan::Axis::is_summand);
    list.push_back({degrees, size, summands});
    any_summands_ = any_summands_ || summands;
    return id;
}

int DegreeLists::size_of(const Degrees& degrees) const {
    std::int64_t size = 1;
    for (const plan::Axis& axis : degrees) {
        size = std::min<std::int64_t>(size * axis.degree, device_count_ + 1);
    }
    return static_cast<int>(size);
}

}  // namespace partita::search
