// SPDX-License-Identifier: Apache-2.0
#include "plan/problem/transfer_prices.h"

#include <algorithm>
#include <cassert>
#include <utility>
#include <vector>

#include "plan/problem/shortest_task.h"

namespace partita::plan {

using graph::TensorId;

TransferPrices::TransferPrices(const graph::OpGraph& graph, const cost::Machine& machine,
                               std::shared_ptr<const cost::CollectiveModel> measured)
    : graph_(graph),
      machine_(machine),
      measures_copies_(measured != nullptr),
      collectives_(cost::collective_model_of(machine)) {
    if (!measured) return;
    collectives_ = std::make_shared<cost::FirstCollectiveMatch>(
        std::vector{std::move(measured), std::move(collectives_)});
}

cost::Price TransferPrices::copy_price(TensorId t, Bytes bytes, int from, int to) const {
    assert(from != to);
    const auto& given = graph_.op(graph_.tensor(t).producer).given;
    if (given) {
        return {.time = std::max(given->communication_time, kShortestTask),
                .source = cost::CostSource::given};
    }
    if (measures_copies_) {
        if (auto price = collectives_->copy_price(from, to, bytes, machine_)) {
            price->time = std::max(price->time, kShortestTask);
            return *price;
        }
    }
    return {.time = std::max({machine_.copy_time(from, to, bytes),
                              machine_.device(from).launch_interval, kShortestTask})};
}

cost::CollectivePrice TransferPrices::collective_price(const cost::CollectiveCall& call) const {
    cost::CollectivePrice price = *collectives_->price(call, machine_);
    price.time =
        std::max({price.time, machine_.device(call.devices[0]).launch_interval, kShortestTask});
    return price;
}

}  // namespace partita::plan
