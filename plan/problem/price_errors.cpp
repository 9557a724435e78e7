// SPDX-License-Identifier: Apache-2.0
#include "plan/problem/price_errors.h"

#include <cstddef>

#include "plan/problem/op_costs.h"

namespace partita::plan {

PriceErrors price_errors(const GraphFacts& facts, const Prices& prices, const Strategy& strategy) {
    double all = 0.0;
    double fitted = 0.0;
    double off = 0.0;
    const auto add = [&](const cost::Price& price, const cost::Work& work, const cost::Device& on) {
        const auto time = static_cast<double>(price.time.raw());
        all += time;
        if (price.source != cost::CostSource::fitted) return;
        fitted += time;
        off += time * cost::curve_error(work, on).value_or(0.0);
    };
    for (std::size_t i = 0; i < facts.graph().op_count(); ++i) {
        const graph::OpId op(i);
        const int device = strategy.device_of(op);
        const cost::Device& on = prices.machine().device(device);
        const OpWorks& works = facts.works();
        if (facts.has_forward(op)) {
            add(prices.forward_price(op, device), works.forward(op), on);
        }
        if (facts.has_backward(op)) {
            add(prices.backward_price(op, device), works.backward(op), on);
        }
        if (works.is_updated(op)) add(prices.update_price(op, device), works.update(op), on);
    }
    return {.fitted = all > 0.0 ? fitted / all : 0.0, .error = fitted > 0.0 ? off / fitted : 0.0};
}

}  // namespace partita::plan
