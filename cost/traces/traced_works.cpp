// SPDX-License-Identifier: Apache-2.0
#include "cost/traces/traced_works.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/statistics.h"
#include "cost/traces/aten_calls.h"
#include "cost/traces/aten_operators.h"
#include "cost/traces/work_text.h"

namespace partita::cost {

namespace {

struct Known {
    std::vector<Time> times;         ///< rising
    std::vector<std::size_t> calls;  ///< numbers in OperatorTimes::calls
};

/// What was measured, by type of elements and key; undefined: of a type that is not known.
class Lookup {
public:
    explicit Lookup(const OperatorTimes& times) : is_flat_(times.is_flat) {
        for (std::size_t i = 0; i < times.calls.size(); ++i) {
            const OperatorCalls& calls = times.calls[i];
            if (calls.times.empty() || !has_extents(calls)) continue;
            const auto key = operator_key(calls.name, calls.shapes);
            if (!key) continue;
            Known& known = known_[{calls.dtype.value_or(graph::DType::undefined), *key}];
            known.calls.push_back(i);
            if (!times.is_flat) {
                known.times.insert(known.times.end(), calls.times.begin(), calls.times.end());
            } else if (known.times.empty() || longest(calls.times) > longest(known.times)) {
                known.times = calls.times;
            }
        }
        for (auto& [key, known] : known_) std::ranges::sort(known.times);
    }

    [[nodiscard]] bool is_flat() const { return is_flat_; }
    [[nodiscard]] const Known* find(graph::DType dtype, const std::string& key) const {
        for (const graph::DType each : {dtype, graph::DType::undefined}) {
            const auto found = known_.find({each, key});
            if (found != known_.end()) return &found->second;
        }
        return nullptr;
    }

private:
    static bool has_extents(const OperatorCalls& calls) {
        return std::ranges::all_of(calls.shapes, [](const graph::Shape& shape) {
            return std::ranges::all_of(shape, [](std::int64_t extent) { return extent >= 0; });
        });
    }
    static Time longest(const std::vector<Time>& times) { return *std::ranges::max_element(times); }

    std::map<std::pair<graph::DType, std::string>, Known> known_;
    bool is_flat_ = false;
};

struct Sum {
    Measurement time;
    std::vector<std::size_t> calls;
};

/// nullopt: some call was not measured.
std::optional<Sum> sum_of(const AtenCalls& work, const Lookup& lookup) {
    Sum sum;
    for (const AtenCall& call : work.calls) {
        if (call.is_inner && !lookup.is_flat()) continue;
        const Known* known = nullptr;
        for (const std::string& key : call.keys) {
            if (known == nullptr) known = lookup.find(work.dtype, key);
        }
        if (known == nullptr && call.may_lack) continue;
        if (known == nullptr) return std::nullopt;
        constexpr double kQuarter = 0.25;
        sum.time.lower += quantile(known->times, kQuarter);
        sum.time.median += median(known->times);
        sum.time.upper += quantile(known->times, 1 - kQuarter);
        const std::int64_t count = std::ssize(known->times);
        sum.time.repetitions = sum.calls.empty() ? count : std::min(sum.time.repetitions, count);
        sum.calls.insert(sum.calls.end(), known->calls.begin(), known->calls.end());
    }
    if (sum.calls.empty()) return std::nullopt;
    return sum;
}

/// Keys of works that differ in what these do not say.
std::set<std::string> ambiguous_keys(const std::vector<AtenCalls>& works) {
    std::map<std::string, std::set<std::string>> unsaid;
    for (const AtenCalls& work : works) {
        if (work.unsaid.empty() || work.calls.empty()) continue;
        unsaid[work.calls[0].keys[0]].insert(work.unsaid);
    }
    std::set<std::string> keys;
    for (const auto& [key, texts] : unsaid) {
        if (texts.size() > 1) keys.insert(key);
    }
    return keys;
}

}  // namespace

TracedWorks traced_works(std::span<const MeasuredWork> works, const OperatorTimes& times) {
    using Finding = TracedWorks::Finding;
    const Lookup lookup(times);
    std::vector<AtenCalls> calls;
    for (const MeasuredWork& work : works) {
        const auto text = parse_work_text(work.signature.text);
        calls.push_back(text ? aten_calls(*text) : AtenCalls{});
    }
    const std::set<std::string> ambiguous = ambiguous_keys(calls);
    TracedWorks traced;
    traced.used.resize(times.calls.size(), 0);
    for (std::size_t i = 0; i < works.size(); ++i) {
        Finding& finding = traced.findings.emplace_back(Finding::no_rule);
        if (calls[i].calls.empty()) continue;
        finding = Finding::not_called;
        const auto sum = sum_of(calls[i], lookup);
        if (!sum) continue;
        finding = Finding::ambiguous;
        if (ambiguous.contains(calls[i].calls[0].keys[0])) continue;
        finding = Finding::found;
        for (const std::size_t call : sum->calls) traced.used[call] = 1;
        MeasuredWork row = works[i];
        row.time.median = sum->time.median;
        row.time.lower = sum->time.lower;
        row.time.upper = sum->time.upper;
        row.time.repetitions = sum->time.repetitions;
        traced.rows.push_back(std::move(row));
    }
    return traced;
}

std::string text_of(const OperatorCalls& calls) {
    std::string text = calls.name;
    for (const graph::Shape& shape : calls.shapes) {
        if (!shape.empty()) text += fmt::format(" [{}]", fmt::join(shape, ","));
    }
    return text;
}

}  // namespace partita::cost
