// SPDX-License-Identifier: Apache-2.0
#include "runtime/execute/fetch.h"

#include <algorithm>

#include <ATen/Functions.h>

namespace partita::runtime {

using plan::Buffer;
using plan::BufferId;
using plan::TaskGraph;

namespace {

/// Another one that is listed is a sum that uses its memory.
bool is_overwritten(const TaskGraph& tasks, std::span<const BufferId> listed, BufferId id) {
    return std::ranges::any_of(listed, [&](BufferId other) {
        const Buffer& view = buffer_of(tasks, other);
        return view.root == id && view.tensor == buffer_of(tasks, id).tensor;
    });
}

}  // namespace

std::vector<BufferId> buffers_of(const TaskGraph& tasks, plan::TaskId task, graph::TensorId tensor,
                                 bool gradient) {
    const auto listed = tasks.reads[task.index()];
    std::vector<BufferId> found;
    for (const BufferId id : listed) {
        const Buffer& buffer = buffer_of(tasks, id);
        if (buffer.tensor != tensor || buffer.gradient != gradient || buffer.region < 0) continue;
        if (!is_overwritten(tasks, listed, id)) found.push_back(id);
    }
    return found;
}

Fetch::Fetch(const TaskGraph& tasks, std::span<const BufferId> buffers, const graph::Region& region,
             at::TensorOptions as)
    : kind_(Kind::zeros), extents_(extents_of(region)), as_(as) {
    std::int64_t found = 0;
    for (const BufferId id : buffers) {
        const graph::Region& held = (*tasks.regions)[buffer_of(tasks, id).region];
        if (held == region) {
            kind_ = Kind::same;
            sources_ = {{id, {}}};
            return;
        }
        Patch patch(held, region);
        if (patch.empty()) continue;
        if (kind_ == Kind::view) continue;  // unless there is one that is the same
        found += patch.volume();
        if (contains(held, region) && patch.is_box()) {
            kind_ = Kind::view;
            sources_ = {{id, std::move(patch)}};
            continue;
        }
        kind_ = Kind::pieces;
        sources_.push_back({id, std::move(patch)});
    }
    has_gaps_ = found < region.volume();
}

at::Tensor Fetch::get(const Store& store) const {
    switch (kind_) {
    case Kind::none: return {};
    case Kind::same: return store[sources_[0].buffer];
    case Kind::view: return sources_[0].patch.view_of(store[sources_[0].buffer]);
    case Kind::zeros: return at::zeros(extents_, as_);
    case Kind::pieces: break;
    }
    const at::Tensor whole = has_gaps_ ? at::zeros(extents_, as_) : at::empty(extents_, as_);
    for (const Source& source : sources_) source.patch.copy(whole, store[source.buffer]);
    return whole;
}

}  // namespace partita::runtime
