// SPDX-License-Identifier: Apache-2.0
//
// Prices: what the phases of ops take on the devices of a machine, by a cost model. Of whole ops
// they are computed once, per class of devices; of parts, when asked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/units.h"
#include "cost/collectives/collective.h"
#include "cost/cost_model.h"
#include "cost/machine/machine.h"
#include "graph/op_graph.h"
#include "plan/problem/graph_facts.h"
#include "plan/problem/op_costs.h"

namespace partita::plan {

class Prices {
public:
    /// Facts and machine must outlive it. Throws InputError when the cost model knows no price of
    /// an op on some device.
    Prices(const GraphFacts& facts, const cost::Machine& machine,
           std::shared_ptr<const cost::CostModel> costs);

    [[nodiscard]] const cost::CostModel& costs() const { return *costs_; }
    [[nodiscard]] const cost::Machine& machine() const { return machine_; }
    /// Must PartSize::signature be set for prices of parts?
    [[nodiscard]] bool uses_signatures() const { return uses_signatures_; }

    /// Devices with equal figures share a class; prices differ by class only.
    [[nodiscard]] int device_class(int device) const {
        return device_class_[static_cast<std::size_t>(device)];
    }
    [[nodiscard]] int device_class_count() const { return static_cast<int>(class_device_.size()); }
    /// The place of an op on a device in a list by ops and classes of devices.
    [[nodiscard]] std::size_t index(graph::OpId op, int device) const {
        return op.index() * class_device_.size() + static_cast<std::size_t>(device_class(device));
    }
    /// The first device of each class.
    [[nodiscard]] const std::vector<int>& class_devices() const { return class_device_; }

    /// Time of one phase of an op on a device; Time{0} when the op has no such phase.
    [[nodiscard]] Time forward_time(graph::OpId op, int device) const {
        return forward_[index(op, device)].time;
    }
    /// In all its passes (GraphFacts::splits_backward).
    [[nodiscard]] Time backward_time(graph::OpId op, int device) const {
        return backward_[index(op, device)].time;
    }
    /// Of it, what the gradients of weights take in a pass of their own.
    [[nodiscard]] Time weights_time(graph::OpId op, int device) const {
        return weights_.empty() ? Time{0} : weights_[index(op, device)].time;
    }
    /// Of the parameter that a Parameter op holds; Time{0} for other ops.
    [[nodiscard]] Time update_time(graph::OpId op, int device) const {
        return update_[index(op, device)].time;
    }
    /// Everything an op makes a device compute in one iteration.
    [[nodiscard]] Time total_time(graph::OpId op, int device) const {
        return forward_time(op, device) + backward_time(op, device) + update_time(op, device);
    }
    [[nodiscard]] cost::CostSource cost_source(graph::OpId op, int device) const {
        return forward_[index(op, device)].source;
    }

    /// Of one phase of a whole op.
    [[nodiscard]] cost::Price forward_price(graph::OpId op, int device) const {
        return forward_[index(op, device)];
    }
    [[nodiscard]] cost::Price backward_price(graph::OpId op, int device) const {
        return backward_[index(op, device)];
    }
    [[nodiscard]] cost::Price weights_price(graph::OpId op, int device) const {
        return weights_.empty() ? cost::Price{.time = Time{0}} : weights_[index(op, device)];
    }
    [[nodiscard]] cost::Price update_price(graph::OpId op, int device) const {
        return update_[index(op, device)];
    }
    /// Of one phase of a part of that size.
    [[nodiscard]] cost::Price forward_price(graph::OpId op, const PartSize& size, int device) const;
    [[nodiscard]] cost::Price backward_price(graph::OpId op, const PartSize& size,
                                             int device) const;
    [[nodiscard]] cost::Price weights_price(graph::OpId op, const PartSize& size, int device) const;
    /// Of updating that many elements of a parameter.
    [[nodiscard]] cost::Price update_price(graph::OpId op, std::int64_t elements, int device) const;
    /// Of adding one more contribution to that many elements of the gradient of `t`.
    [[nodiscard]] cost::Price accumulate_price(graph::TensorId t, std::int64_t elements,
                                               int device) const;
    /// Of bringing that many elements of `t`, or of its gradient, into the order of a message, or
    /// back.
    [[nodiscard]] cost::Price pack_price(graph::TensorId t, std::int64_t elements, bool gradient,
                                         int device) const;

    /// Of reading so many bytes of gradients for their norm.
    [[nodiscard]] cost::Price norm_price(Bytes gradients, int device) const;

    /// SHA-256 over the times of whole ops and the names of both models: where two digests are
    /// equal, all is priced alike.
    [[nodiscard]] std::string digest(const cost::CollectiveModel& collectives) const;

private:
    void classify_devices();
    void price_op(graph::OpId op, int device);
    [[nodiscard]] cost::Price price(const cost::Work& work, int device) const;
    [[nodiscard]] cost::Price pass_price(graph::OpId op, const PartSize& size, Pass pass,
                                         int device) const;
    [[nodiscard]] PartSize whole_size(graph::OpId op) const;

    const GraphFacts& facts_;
    const cost::Machine& machine_;
    std::shared_ptr<const cost::CostModel> costs_;  ///< shared with the caller's other problems
    bool uses_signatures_;
    std::vector<int> device_class_;
    std::vector<int> class_device_;
    std::vector<cost::Price> forward_;  ///< by index()
    std::vector<cost::Price> backward_;
    std::vector<cost::Price> weights_;  ///< part of backward_; empty: nothing is split
    std::vector<cost::Price> update_;
};

}  // namespace partita::plan
