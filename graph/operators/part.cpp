// SPDX-License-Identifier: Apache-2.0
#include "graph/operators/part.h"

#include <algorithm>
#include <cassert>

namespace partita::graph {

namespace {

/// Appends a range that begins at or after the last one; joins what touches or overlaps.
void append(Positions& positions, Range range) {
    if (range.begin >= range.end) return;
    if (!positions.empty() && range.begin <= positions.back().end) {
        positions.back().end = std::max(positions.back().end, range.end);
    } else {
        positions.push_back(range);
    }
}

/// Each position p as (p + by) mod extent.
Positions rotated(const Positions& positions, std::int64_t by, std::int64_t extent) {
    Positions wrapped;
    Positions moved;
    for (const Range range : positions) {
        const Range to{range.begin + by, range.end + by};
        append(wrapped, {std::max(to.begin, extent) - extent, to.end - extent});
        append(moved, {to.begin, std::min(to.end, extent)});
    }
    for (const Range range : moved) append(wrapped, range);
    return wrapped;
}

/// Positions of a dim made of the factors, major to minor: digit by digit from the minor end.
Positions merged_positions(const OpRule& rule, const DimRule& dim, const Box& box) {
    Positions merged{{0, 1}};
    std::int64_t width = 1;
    for (std::size_t i = dim.factors.size(); i-- > 0;) {
        const auto f = static_cast<std::size_t>(dim.factors[i]);
        Positions wider;
        const bool is_full = merged == all_positions(width);
        const std::int64_t rotation = i == 0 ? dim.rotation.value_or(0) : 0;
        const bool is_rotated = rotation != 0;
        Positions moved;
        if (is_rotated) moved = rotated(box[f], rotation, rule.factors[f].extent);
        for (const Range range : is_rotated ? moved : box[f]) {
            if (is_full) {
                append(wider, {range.begin * width, range.end * width});
                continue;
            }
            for (std::int64_t digit = range.begin; digit < range.end; ++digit) {
                for (const Range part : merged) {
                    append(wider, {digit * width + part.begin, digit * width + part.end});
                }
            }
        }
        merged = std::move(wider);
        width *= rule.factors[f].extent;
    }
    return merged;
}

Positions windowed_positions(const Window& window, const Positions& outputs, std::int64_t extent) {
    Positions positions;
    for (const Range range : outputs) append(positions, operand_range(window, range, extent));
    return positions;
}

}  // namespace

Positions all_positions(std::int64_t extent) {
    return extent > 0 ? Positions{{0, extent}} : Positions{};
}

std::int64_t count(const Positions& positions) {
    std::int64_t sum = 0;
    for (const Range range : positions) sum += range.end - range.begin;
    return sum;
}

Positions intersection(const Positions& a, const Positions& b) {
    Positions common;
    for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
        append(common, {std::max(a[i].begin, b[j].begin), std::min(a[i].end, b[j].end)});
        a[i].end < b[j].end ? ++i : ++j;
    }
    return common;
}

bool contains(const Positions& outer, const Positions& inner) {
    std::size_t i = 0;
    for (const Range range : inner) {
        while (i < outer.size() && outer[i].end < range.end) ++i;
        if (i == outer.size() || range.begin < outer[i].begin) return false;
    }
    return true;
}

bool is_legal_degree(std::int64_t extent, std::int64_t degree) {
    if (degree < 1 || degree > extent) return false;
    return (degree - 1) * ((extent + degree - 1) / degree) < extent;
}

Positions part_of(const Positions& positions, std::int64_t degree, std::int64_t index) {
    const std::int64_t size = (count(positions) + degree - 1) / degree;
    std::int64_t skip = index * size;
    std::int64_t take = size;
    Positions part;
    for (const Range range : positions) {
        const std::int64_t length = range.end - range.begin;
        const std::int64_t begin = range.begin + std::min(skip, length);
        const std::int64_t end = std::min(range.end, begin + take);
        append(part, {begin, end});
        skip -= begin - range.begin;
        take -= end - begin;
    }
    return part;
}

Positions part_of_blocks(std::int64_t extent, std::int64_t blocks, std::int64_t degree,
                         std::int64_t index) {
    const std::int64_t size = extent / blocks;
    Positions part;
    for (std::int64_t begin = 0; begin < extent; begin += size) {
        for (const Range range : part_of({{begin, begin + size}}, degree, index)) {
            append(part, range);
        }
    }
    return part;
}

std::int64_t Region::volume() const {
    std::int64_t product = 1;
    for (const Positions& positions : dims) product *= count(positions);
    return product;
}

bool Region::empty() const {
    return std::any_of(dims.begin(), dims.end(), [](const Positions& p) { return p.empty(); });
}

Shape extents_of(const Region& region) {
    Shape extents;
    for (const Positions& positions : region.dims) extents.push_back(count(positions));
    return extents;
}

Region whole_region(const Shape& shape) {
    Region region;
    for (const std::int64_t extent : shape) region.dims.push_back(all_positions(extent));
    return region;
}

Region intersection(const Region& a, const Region& b) {
    assert(a.dims.size() == b.dims.size());
    Region common;
    common.dims.reserve(a.dims.size());
    for (std::size_t i = 0; i < a.dims.size(); ++i) {
        common.dims.push_back(intersection(a.dims[i], b.dims[i]));
    }
    return common;
}

bool contains(const Region& outer, const Region& inner) {
    if (inner.empty()) return true;
    for (std::size_t i = 0; i < inner.dims.size(); ++i) {
        if (!contains(outer.dims[i], inner.dims[i])) return false;
    }
    return true;
}

namespace {

/// Are there none of `outer` between those of `inner`?
bool is_run(const Positions& outer, const Positions& inner) {
    if (inner.empty()) return true;
    return count(intersection(outer, {{inner.front().begin, inner.back().end}})) == count(inner);
}

}  // namespace

bool is_contiguous(const Region& outer, const Region& inner) {
    bool whole = true;  // all dims so far
    for (std::size_t i = inner.dims.size(); i-- > 0;) {
        if (whole ? !is_run(outer.dims[i], inner.dims[i]) : count(inner.dims[i]) > 1) return false;
        whole = whole && inner.dims[i] == outer.dims[i];
    }
    return true;
}

Box whole_box(const OpRule& rule) {
    Box box;
    for (const Factor& factor : rule.factors) box.push_back(all_positions(factor.extent));
    return box;
}

Positions positions_of(const OpRule& rule, const DimRule& dim, std::int64_t extent,
                       const Box& box) {
    if (dim.factors.empty()) return all_positions(extent);
    if (!dim.window) return merged_positions(rule, dim, box);
    return windowed_positions(*dim.window, box[static_cast<std::size_t>(dim.factors[0])], extent);
}

Region region_of(const OpRule& rule, const TensorRule& tensor, const Shape& shape, const Box& box) {
    assert(tensor.dims.size() == shape.size() && box.size() == rule.factors.size());
    Region region;
    region.dims.reserve(shape.size());
    for (std::size_t i = 0; i < shape.size(); ++i) {
        region.dims.push_back(positions_of(rule, tensor.dims[i], shape[i], box));
    }
    return region;
}

}  // namespace partita::graph
