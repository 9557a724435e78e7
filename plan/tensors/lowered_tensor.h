// SPDX-License-Identifier: Apache-2.0
//
// The tensor at hand while its tasks are found: what happens to it, in which layouts, and how large
// its regions are. Private to plan/tensors.
#pragma once

#include <cstdint>
#include <span>

#include "base/units.h"
#include "graph/ids.h"
#include "plan/layout/layout.h"
#include "plan/problem/problem.h"
#include "plan/tensors/lowering_cache.h"
#include "plan/tensors/tensor_events.h"
#include "plan/tensors/tensor_prices.h"

namespace partita::plan {

class LoweredTensor {
public:
    /// All must outlive it.
    LoweredTensor(const Problem& problem, LayoutTable& layouts, RegionTable& regions)
        : problem_(problem), layouts_(layouts), regions_(regions) {}

    /// Both must stay until the next call.
    void start(const TensorEvents& events, const TensorKey& key) {
        events_ = &events;
        key_ = &key;
        producer_ = problem_.graph().tensor(events.tensor).producer;
        bytes_ = TensorBytes(problem_.graph().tensor(events.tensor));
    }

    [[nodiscard]] const Problem& problem() const { return problem_; }
    [[nodiscard]] LayoutTable& layouts() const { return layouts_; }
    [[nodiscard]] RegionTable& regions() const { return regions_; }

    [[nodiscard]] graph::TensorId id() const { return events_->tensor; }
    [[nodiscard]] graph::OpId producer() const { return producer_; }
    [[nodiscard]] const TensorKey& key() const { return *key_; }
    /// The micro-batch in names of its tasks.
    [[nodiscard]] int label() const { return events_->label; }
    [[nodiscard]] bool is_resident() const { return problem_.facts().is_resident(id()); }
    [[nodiscard]] bool is_parameter() const {
        return problem_.graph().op(producer_).kind == graph::OpKind::parameter;
    }

    [[nodiscard]] std::span<const Piece> pieces(std::int32_t layout) const {
        return layouts_[layout].pieces;
    }
    [[nodiscard]] std::int64_t elements(std::int32_t region) const {
        return regions_.volume(region);
    }
    /// Of so many elements, or of their gradient.
    [[nodiscard]] Bytes bytes(std::int64_t elements, bool gradient) const {
        return bytes_.of(elements, gradient);
    }
    /// Buffers of a workload are part of the memory it gives for the node.
    [[nodiscard]] Bytes buffer_bytes(std::int32_t region, bool gradient) const {
        if (region < 0 || problem_.graph().op(producer_).given) return Bytes{0};
        return bytes(elements(region), gradient);
    }

private:
    const Problem& problem_;
    LayoutTable& layouts_;
    RegionTable& regions_;
    const TensorEvents* events_ = nullptr;
    const TensorKey* key_ = nullptr;
    graph::OpId producer_;
    TensorBytes bytes_;
};

}  // namespace partita::plan
