// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cassert>

#include "plan/layout/layout.h"

namespace partita::plan {

using graph::Positions;
using graph::Range;
using graph::Region;

namespace {

/// Few numbers: a loop is quicker than std::equal, which calls memcmp.
bool are_equal(DimNumbers a, DimNumbers b) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i) {
        if (a[i] != b[i]) return false;
    }
    return true;
}

}  // namespace

std::int32_t RegionTable::intern(const Positions& positions) {
    Hash hash;
    for (const Range range : positions) {
        hash.add(range.begin);
        hash.add(range.end);
    }
    const std::int32_t known = line_index_.find(
        hash.value(), [&](std::int32_t id) { return line(id).positions == positions; });
    if (known >= 0) return known;
    const auto id = static_cast<std::int32_t>(lines_.size());
    const Range hull =
        positions.empty() ? Range{} : Range{positions.front().begin, positions.back().end};
    lines_.push_back({hull, graph::count(positions), positions});
    line_index_.add(hash.value(), id);
    return id;
}

std::int32_t RegionTable::intern(const Region& region) {
    SmallVector<std::int32_t, 8> dims;
    for (const Positions& positions : region.dims) dims.push_back(intern(positions));
    return intern(DimNumbers{dims.data(), dims.size()});
}

std::int32_t RegionTable::intern(DimNumbers dims) {
    Hash hash;
    for (std::size_t i = 0; i + 1 < dims.size(); i += 2) {
        hash.add((std::int64_t{dims[i]} << 32U) | dims[i + 1]);
    }
    if (dims.size() % 2 != 0) hash.add(dims.back());
    const std::int32_t known = region_index_.find(
        hash.value(), [&](std::int32_t id) { return are_equal(dims, this->dims(id)); });
    if (known >= 0) return known;
    const auto id = static_cast<std::int32_t>(regions_.size());
    Region region;
    region.dims.reserve(dims.size());
    for (const std::int32_t dim : dims) region.dims.push_back(line(dim).positions);
    volumes_.push_back(region.volume());
    regions_.push_back(std::move(region));
    dims_.insert(dims_.end(), dims.begin(), dims.end());
    first_dims_.push_back(dims_.size());
    region_index_.add(hash.value(), id);
    return id;
}

/// False: they surely share nothing.
bool RegionTable::hulls_overlap(DimNumbers a, DimNumbers b) const {
    assert(a.size() == b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
        const Range& x = line(a[i]).hull;
        const Range& y = line(b[i]).hull;
        if (std::max(x.begin, y.begin) >= std::min(x.end, y.end)) return false;
    }
    return true;
}

/// -1: there are none.
std::int32_t RegionTable::common_positions(std::int32_t a, std::int32_t b) {
    if (a == b) return line(a).count > 0 ? a : -1;
    const Range& x = line(a).hull;
    const Range& y = line(b).hull;
    if (!line(a).is_range() || !line(b).is_range()) return common_of_holed(a, b);
    const Range common{std::max(x.begin, y.begin), std::min(x.end, y.end)};
    if (common.begin >= common.end) return -1;
    if (common == x) return a;
    if (common == y) return b;
    return intern(Positions{common});
}

/// Known once found: where dims are merged, lines consist of hundreds of ranges.
std::int32_t RegionTable::common_of_holed(std::int32_t a, std::int32_t b) {
    Hash hash;
    hash.add((std::int64_t{a} << 32U) | b);
    const std::int32_t known = common_index_.find(hash.value(), [&](std::int32_t i) {
        const Common& of = commons_[static_cast<std::size_t>(i)];
        return of.a == a && of.b == b;
    });
    if (known >= 0) return commons_[static_cast<std::size_t>(known)].line;
    const Positions common = graph::intersection(line(a).positions, line(b).positions);
    common_index_.add(hash.value(), static_cast<std::int32_t>(commons_.size()));
    commons_.push_back({a, b, common.empty() ? -1 : intern(common)});
    return commons_.back().line;
}

std::int32_t RegionTable::intersection(std::int32_t a, std::int32_t b) {
    if (a == b) return volume(a) > 0 ? a : -1;
    if (!hulls_overlap(dims(a), dims(b))) return -1;
    shared_.clear();
    for (std::size_t i = 0; i < dims(a).size(); ++i) {
        const std::int32_t common = common_positions(dims(a)[i], dims(b)[i]);
        if (common < 0) return -1;
        shared_.push_back(common);
    }
    if (are_equal(shared_, dims(a))) return a;
    if (are_equal(shared_, dims(b))) return b;
    return intern(DimNumbers{shared_});
}

bool RegionTable::overlap(std::int32_t a, std::int32_t b) const {
    if (!hulls_overlap(dims(a), dims(b))) return false;
    for (std::size_t i = 0; i < dims(a).size(); ++i) {
        const Line& x = line(dims(a)[i]);
        const Line& y = line(dims(b)[i]);
        if (x.is_range() && y.is_range()) continue;
        if (graph::intersection(x.positions, y.positions).empty()) return false;
    }
    return true;
}

bool RegionTable::contains(std::int32_t outer, std::int32_t inner) const {
    if (outer == inner || volume(inner) == 0) return true;
    for (std::size_t i = 0; i < dims(inner).size(); ++i) {
        const std::int32_t a = dims(outer)[i];
        const std::int32_t b = dims(inner)[i];
        if (a != b && !graph::contains(line(a).positions, line(b).positions)) return false;
    }
    return true;
}

/// Are there none of `outer` between those of `inner`, which has holes?
bool RegionTable::is_run(const Line& outer, const Line& inner) {
    std::int64_t between = 0;
    for (const Range range : outer.positions) {
        const std::int64_t begin = std::max(range.begin, inner.hull.begin);
        between += std::max<std::int64_t>(0, std::min(range.end, inner.hull.end) - begin);
    }
    return between == inner.count;
}

bool RegionTable::is_contiguous(std::int32_t outer, std::int32_t inner) const {
    if (outer == inner) return true;
    const DimNumbers all = dims(outer);
    const DimNumbers some = dims(inner);
    bool whole = true;  // all dims so far
    for (std::size_t i = some.size(); i-- > 0;) {
        const Line& of = line(some[i]);
        const bool runs = whole ? of.is_range() || is_run(line(all[i]), of) : of.count <= 1;
        if (!runs) return false;
        whole = whole && some[i] == all[i];
    }
    return true;
}

}  // namespace partita::plan
