// SPDX-License-Identifier: Apache-2.0
#include "runtime/execute/patch.h"

#include <algorithm>
#include <cassert>

#include <ATen/Functions.h>

namespace partita::runtime {

namespace {

/// Both are sorted.
std::vector<Segment> common_segments(const graph::Positions& from, const graph::Positions& to) {
    std::vector<Segment> segments;
    std::int64_t from_at = 0;
    std::int64_t to_at = 0;
    auto a = from.begin();
    auto b = to.begin();
    while (a != from.end() && b != to.end()) {
        const std::int64_t begin = std::max(a->begin, b->begin);
        const std::int64_t end = std::min(a->end, b->end);
        if (begin < end) {
            segments.push_back({from_at + begin - a->begin, to_at + begin - b->begin, end - begin});
        }
        if (a->end < b->end) {
            from_at += a->end - a->begin;
            ++a;
        } else {
            to_at += b->end - b->begin;
            ++b;
        }
    }
    return segments;
}

at::Tensor part_of(const at::Tensor& tensor, std::size_t dim, std::int64_t at,
                   std::int64_t length) {
    const auto d = static_cast<std::int64_t>(dim);
    if (at == 0 && tensor.size(d) == length) return tensor;
    return tensor.narrow(d, at, length);
}

}  // namespace

Patch::Patch(const graph::Region& from, const graph::Region& to) {
    assert(from.dims.size() == to.dims.size());
    for (std::size_t d = 0; d < from.dims.size(); ++d) {
        dims_.push_back(common_segments(from.dims[d], to.dims[d]));
    }
}

bool Patch::empty() const {
    return std::ranges::any_of(dims_, [](const auto& segments) { return segments.empty(); });
}

std::int64_t Patch::volume() const {
    std::int64_t volume = 1;
    for (const auto& segments : dims_) {
        std::int64_t length = 0;
        for (const Segment& segment : segments) length += segment.length;
        volume *= length;
    }
    return volume;
}

bool Patch::is_box() const {
    return std::ranges::all_of(dims_, [](const auto& segments) { return segments.size() == 1; });
}

at::Tensor Patch::view_of(const at::Tensor& from) const {
    assert(is_box());
    at::Tensor view = from;
    for (std::size_t d = 0; d < dims_.size(); ++d) {
        view = part_of(view, d, dims_[d][0].from, dims_[d][0].length);
    }
    return view;
}

template <class Then>
void Patch::visit(std::size_t dim, const at::Tensor& to, const at::Tensor& from, Then then) const {
    if (dim == dims_.size()) return then(to, from);
    for (const Segment& segment : dims_[dim]) {
        visit(dim + 1, part_of(to, dim, segment.to, segment.length),
              part_of(from, dim, segment.from, segment.length), then);
    }
}

void Patch::copy(const at::Tensor& to, const at::Tensor& from) const {
    visit(0, to, from, [](const at::Tensor& t, const at::Tensor& f) { t.copy_(f); });
}

void Patch::combine(const at::Tensor& to, const at::Tensor& from, graph::Combine combine) const {
    visit(0, to, from,
          [combine](const at::Tensor& t, const at::Tensor& f) { combine_into(t, f, combine); });
}

void combine_into(const at::Tensor& to, const at::Tensor& from, graph::Combine combine) {
    at::Tensor result = to;  // the out variants want an lvalue
    const at::Tensor here = from.device() == to.device() ? from : from.to(to.device());
    switch (combine) {
    case graph::Combine::none: to.copy_(here); break;
    case graph::Combine::sum: to.add_(here); break;
    case graph::Combine::max: at::maximum_out(result, to, here); break;
    case graph::Combine::min: at::minimum_out(result, to, here); break;
    case graph::Combine::product: to.mul_(here); break;
    case graph::Combine::log_sum_exp: at::logaddexp_out(result, to, here); break;
    }
}

}  // namespace partita::runtime
