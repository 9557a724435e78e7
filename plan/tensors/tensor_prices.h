// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <vector>

#include "base/hash_index.h"
#include "base/small_vector.h"
#include "cost/collectives/collective.h"
#include "cost/machine/machine.h"
#include "plan/problem/op_costs.h"
#include "plan/problem/transfer_prices.h"
#include "plan/tasks/task_graph.h"

namespace partita::plan {

/// bytes_of() and gradient_bytes_of() a tensor whose own figures are found once.
class TensorBytes {
public:
    TensorBytes() = default;
    explicit TensorBytes(const graph::Tensor& tensor)
        : elements_(tensor.elements()),
          bytes_(tensor.bytes()),
          bits_(graph::bits_of(tensor.dtype)),
          gradient_bits_(graph::bits_of(tensor.type_of(/*gradient=*/true))) {}

    [[nodiscard]] Bytes of(std::int64_t elements, bool gradient) const {
        if (gradient && gradient_bits_ != bits_) return bytes_for(elements, gradient_bits_);
        return elements == elements_ ? bytes_ : bytes_for(elements, bits_);
    }

private:
    std::int64_t elements_ = 0;
    Bytes bytes_;
    int bits_ = 0;
    int gradient_bits_ = 0;
};

/// What work on one tensor costs, each figure asked for once: its parts are nearly all of one size.
class TensorPrices {
public:
    void clear() { known_.clear(); }

    /// Work of that kind and size where all places of one class are alike; price() is asked for
    /// what is not known.
    template <class Price>
    cost::Price of(TaskKind work, std::int64_t size, std::int32_t place_class, Price price) {
        for (const Known& known : known_) {
            if (known.size == size && known.work == work && known.place_class == place_class) {
                return {known.time, known.source};
            }
        }
        const cost::Price found = price();
        known_.push_back({size, found.time, place_class, work, found.source});
        return found;
    }

private:
    struct Known {
        std::int64_t size = 0;  ///< elements, or bytes of a copy
        Time time;
        std::int32_t place_class = 0;
        TaskKind work = TaskKind::pack;
        cost::CostSource source = cost::CostSource::analytic;
    };
    SmallVector<Known, 16> known_;
};

/// What collectives cost, each figure asked for once.
class CollectivePrices {
public:
    /// `group`: the number of its devices in their order.
    cost::CollectivePrice of(const TransferPrices& transfers, std::int32_t group,
                             const cost::CollectiveCall& call) {
        Hash hash;
        hash.add((std::int64_t{group} << 8U) | static_cast<std::int64_t>(call.kind));
        hash.add(call.bytes.raw());
        const std::int32_t known = index_.find(hash.value(), [&](std::int32_t i) {
            const Known& of = known_[static_cast<std::size_t>(i)];
            return of.group == group && of.kind == call.kind && of.bytes == call.bytes;
        });
        if (known >= 0) return known_[static_cast<std::size_t>(known)].price;
        known_.push_back({group, call.kind, call.bytes, transfers.collective_price(call)});
        index_.add(hash.value(), static_cast<std::int32_t>(known_.size()) - 1);
        return known_.back().price;
    }

private:
    struct Known {
        std::int32_t group = -1;
        cost::Collective kind = cost::Collective::all_reduce;
        Bytes bytes;
        cost::CollectivePrice price;
    };
    std::vector<Known> known_;
    HashIndex index_;
};

/// Pairs of devices between which copies cost the same, by class.
class CopyClasses {
public:
    /// `resource_set`: that of copies between them.
    std::int32_t of(const cost::Machine& machine, std::int32_t resource_set, int from, int to) {
        const auto at = static_cast<std::size_t>(resource_set);
        if (at >= classes_.size()) classes_.resize(at + 1, -1);
        if (classes_[at] < 0) classes_[at] = class_of(machine, from, to);
        return classes_[at];
    }

private:
    /// All that TransferPrices::copy_time() depends on, beside tensor and bytes.
    struct Pace {
        Time launch_interval;
        Time latency;
        std::int64_t bandwidth = 0;
        // What measured copies are found by.
        std::string_view from;
        std::string_view to;
        bool same_node = true;
        friend bool operator==(const Pace&, const Pace&) = default;
    };

    std::int32_t class_of(const cost::Machine& machine, int from, int to) {
        const cost::Route route = machine.route(from, to);
        const cost::Device& source = machine.device(from);
        const cost::Device& target = machine.device(to);
        const Pace pace{.launch_interval = source.launch_interval,
                        .latency = route.latency,
                        .bandwidth = route.bandwidth,
                        .from = source.model,
                        .to = target.model,
                        .same_node = source.node == target.node};
        const auto known = std::find(paces_.begin(), paces_.end(), pace) - paces_.begin();
        if (known == std::ssize(paces_)) paces_.push_back(pace);
        return static_cast<std::int32_t>(known);
    }

    std::vector<std::int32_t> classes_;  ///< by resource set; -1: not known yet
    std::vector<Pace> paces_;            ///< by class
};

}  // namespace partita::plan
