// SPDX-License-Identifier: Apache-2.0
#include "search/coarsening/op_traits.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace partita::search {

using graph::OpId;
using graph::TensorId;
using plan::Problem;

namespace {

/// Numbers and texts in a row.
class Traits {
public:
    void add(std::int64_t value) { values_.push_back(value); }
    void add(std::string_view text) {
        add(static_cast<std::int64_t>(text.size()));
        values_.insert(values_.end(), text.begin(), text.end());
    }
    template <class T>
    void add(const std::vector<T>& values) {
        add(static_cast<std::int64_t>(values.size()));
        for (const T& value : values) add(value);
    }
    void add(double value) { add(std::to_string(value)); }
    void add(const graph::DimRule& dim) {
        add(dim.factors);
        add(dim.rotation.value_or(-1));
        if (!dim.window) return add(std::int64_t{-1});
        for (const std::int64_t value :
             {dim.window->stride, dim.window->before, dim.window->after, dim.window->divisor}) {
            add(value);
        }
    }
    void add(const graph::TensorRule& rule) {
        add((rule.linear ? std::int64_t{2} : 0) + (rule.apply_once ? 1 : 0));
        add(rule.dims);
    }
    void add(int value) { add(std::int64_t{value}); }
    void add(const graph::Factor& factor) {
        add(factor.name);
        add(factor.extent);
        add((factor.splittable ? std::int64_t{2} : 0) + (factor.reduction ? 1 : 0));
        add(static_cast<std::int64_t>(factor.combine));
    }
    void add(const graph::OpRule& rule) {
        add(rule.factors);
        add(rule.operands);
        add(rule.results);
        add(static_cast<std::int64_t>(rule.flops.raw()));
        add(rule.bytes_moved ? rule.bytes_moved->raw() : -1);
        add(static_cast<std::int64_t>(rule.saves_operands));
        add(static_cast<std::int64_t>(rule.saves_results));
        add((rule.additive ? std::int64_t{8} : 0) + (rule.matrix_product ? 4 : 0) +
            (rule.conservative ? 2 : 0) + (rule.alias ? 1 : 0));
    }
    [[nodiscard]] std::vector<std::int64_t> take() { return std::move(values_); }

private:
    std::vector<std::int64_t> values_;
};

/// Empty: any.
std::vector<int> devices_of(const Problem& problem, OpId op) {
    const std::vector<int>& allowed = problem.constraints().allowed_devices(op);
    const bool any = allowed.size() == static_cast<std::size_t>(problem.device_count());
    return any ? std::vector<int>{} : allowed;
}

void add_operand(const Problem& problem, TensorId t, Traits& traits) {
    if (!t.valid()) {
        traits.add(-1);
        return;
    }
    const graph::Tensor& tensor = problem.graph().tensor(t);
    traits.add((problem.facts().has_gradient(t) ? 4 : 0) +
               (problem.facts().is_resident(t) ? 2 : 0) + (problem.facts().is_batched(t) ? 1 : 0));
    traits.add(static_cast<int>(problem.graph().op(tensor.producer).kind));
    traits.add(devices_of(problem, tensor.producer));
    traits.add(tensor.known_integers.value_or(std::vector<std::int64_t>{}));
}

}  // namespace

std::vector<std::int64_t> op_traits(const Problem& problem, OpId id) {
    const graph::Op& op = problem.graph().op(id);
    Traits traits;
    const bool alone = op.given.has_value() || !op.bodies.empty();
    traits.add(alone ? std::int64_t{id.value} : -1);
    traits.add(static_cast<int>(op.kind));
    traits.add(op.type);
    traits.add(op.domain);
    traits.add(op.opset);
    traits.add(op.trip_count.value_or(-1));
    for (const auto& [name, value] : op.attributes.entries()) {
        traits.add(name);
        std::visit([&](const auto& of) { traits.add(of); }, value);
    }
    traits.add(problem.facts().rule(id));
    traits.add((problem.facts().is_batched(id) ? 2 : 0) +
               (problem.facts().has_backward(id) ? 1 : 0));
    for (const graph::BatchDigit& digit : problem.facts().batch_digits(id))
        traits.add(digit.extent);
    traits.add(devices_of(problem, id));
    for (const TensorId t : op.inputs) add_operand(problem, t, traits);
    return traits.take();
}

}  // namespace partita::search
