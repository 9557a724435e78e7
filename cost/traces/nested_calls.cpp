// SPDX-License-Identifier: Apache-2.0
#include "cost/traces/nested_calls.h"

#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "cost/traces/aten_operators.h"

namespace partita::cost {

namespace {

class Nesting {
public:
    explicit Nesting(std::span<const NestedCall> calls)
        : calls_(calls), calls_class_(calls.size(), 0) {
        for (const NestedCall& call : calls) {
            if (class_of(call).empty()) continue;
            // Files may say that calls are inside of each other: nobody is marked twice.
            for (std::ptrdiff_t at = call.outer; at >= 0 && !calls_class(at);) {
                calls_class_[static_cast<std::size_t>(at)] = 1;
                at = call_at(at).outer;
            }
        }
    }

    [[nodiscard]] bool is_listed(std::size_t i) const {
        const std::string_view own = class_of(calls_[i]);
        if (own.empty() && calls_class_[i] != 0) return false;
        std::size_t left = calls_.size();  // as above
        for (std::ptrdiff_t at = calls_[i].outer; at >= 0 && left > 0; --left) {
            const std::string_view outer = class_of(call_at(at));
            const bool hides = own.empty() ? !outer.empty() || !calls_class(at) : outer == own;
            if (hides) return false;
            at = call_at(at).outer;
        }
        return true;
    }

private:
    static std::string_view class_of(const NestedCall& call) { return operator_class(call.name); }
    [[nodiscard]] const NestedCall& call_at(std::ptrdiff_t at) const {
        return calls_[static_cast<std::size_t>(at)];
    }
    [[nodiscard]] bool calls_class(std::ptrdiff_t at) const {
        return calls_class_[static_cast<std::size_t>(at)] != 0;
    }

    std::span<const NestedCall> calls_;
    std::vector<char> calls_class_;  ///< has something of a class inside
};

}  // namespace

std::vector<OperatorCalls> listed_calls(std::span<const NestedCall> calls) {
    const Nesting nesting(calls);
    std::map<std::tuple<std::string, std::vector<graph::Shape>, std::optional<graph::DType>>,
             std::vector<Time>>
        alike;
    for (std::size_t i = 0; i < calls.size(); ++i) {
        const NestedCall& call = calls[i];
        if (call.microseconds <= 0 || !nesting.is_listed(i)) continue;
        alike[{call.name, call.shapes, call.dtype}].push_back(
            time_from_milliseconds(1e-3 * call.microseconds));
    }
    std::vector<OperatorCalls> listed;
    for (auto& [key, times] : alike) {
        const auto& [name, shapes, dtype] = key;
        listed.push_back(
            {.name = name, .shapes = shapes, .dtype = dtype, .times = std::move(times)});
    }
    return listed;
}

}  // namespace partita::cost
