// SPDX-License-Identifier: Apache-2.0
#include "plan/layout/overlap_index.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace partita::plan {

using graph::Positions;
using graph::Range;

namespace {

Range hull(const Positions& positions) {
    if (positions.empty()) return {};
    return {positions.front().begin, positions.back().end};
}

/// What regions cover of a dim.
class Cover {
public:
    void add(const Range& range) {
        hull_.begin = std::min(hull_.begin, range.begin);
        hull_.end = std::max(hull_.end, range.end);
        length_ += static_cast<double>(range.end - range.begin);
        ++count_;
    }
    [[nodiscard]] double mean_length() const { return length_ / count_; }
    [[nodiscard]] const Range& hull() const { return hull_; }

private:
    Range hull_{std::numeric_limits<std::int64_t>::max(), 0};
    double length_ = 0;
    double count_ = 0;
};

Cover cover_of(std::span<const std::int32_t> regions, std::size_t dim, const RegionTable& table) {
    Cover cover;
    for (const std::int32_t region : regions) cover.add(hull(table[region].dims[dim]));
    return cover;
}

}  // namespace

/// A tensor without dims has one element, which all regions hold.
Range OverlapIndex::range_of(std::int32_t region, const RegionTable& table) const {
    const std::vector<Positions>& dims = table[region].dims;
    return dims.empty() ? Range{0, 1} : hull(dims[dim_]);
}

/// The dim along which two of them are least likely to overlap, if they lay anywhere in the tensor.
void OverlapIndex::choose_dim(std::span<const std::int32_t> regions,
                              std::span<const std::int32_t> others, const RegionTable& table) {
    dim_ = 0;
    if (regions.size() < 2 || others.empty()) return;
    double least = std::numeric_limits<double>::max();
    for (std::size_t d = 0; d < table[regions[0]].dims.size(); ++d) {
        const Cover a = cover_of(regions, d, table);
        const Cover b = cover_of(others, d, table);
        const auto extent = static_cast<double>(std::max(a.hull().end, b.hull().end) -
                                                std::min(a.hull().begin, b.hull().begin));
        const double share = (a.mean_length() + b.mean_length()) / extent;
        if (share >= least) continue;
        least = share;
        dim_ = d;
    }
}

void OverlapIndex::build(std::span<const std::int32_t> regions,
                         std::span<const std::int32_t> others, const RegionTable& table) {
    choose_dim(regions, others, table);
    entries_.clear();
    for (std::size_t i = 0; i < regions.size(); ++i) {
        entries_.push_back({range_of(regions[i], table), static_cast<std::int32_t>(i)});
    }
    std::ranges::sort(entries_, {}, [](const Entry& entry) {
        return std::tuple(entry.range.begin, entry.index);
    });
    latest_ends_.clear();
    for (const Entry& entry : entries_) {
        const std::int64_t before = latest_ends_.empty() ? entry.range.end : latest_ends_.back();
        latest_ends_.push_back(std::max(before, entry.range.end));
    }
}

std::span<const std::int32_t> OverlapIndex::near(std::int32_t region, const RegionTable& table) {
    near_.clear();
    const Range range = range_of(region, table);
    // Those before the first end too early, those from the last on begin too late.
    const auto first = std::ranges::upper_bound(latest_ends_, range.begin) - latest_ends_.begin();
    const auto last =
        std::ranges::lower_bound(entries_, range.end, {},
                                 [](const Entry& entry) { return entry.range.begin; }) -
        entries_.begin();
    for (auto i = first; i < last; ++i) {
        const Entry& entry = entries_[static_cast<std::size_t>(i)];
        if (entry.range.end > range.begin) near_.push_back(entry.index);
    }
    if (!std::ranges::is_sorted(near_)) std::ranges::sort(near_);
    return near_;
}

}  // namespace partita::plan
