// SPDX-License-Identifier: Apache-2.0
#include "search/work_bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

#include "graph/op_graph.h"

namespace partita::search {

using graph::OpId;
using graph::OpKind;
using graph::TensorId;
using plan::Problem;

namespace {

/// More classes than this, and devices that price alike share one whatever is fixed to them.
constexpr std::size_t kMostClasses = 64;
constexpr double kWeightScale = 0x1.0p40;

/// The distinct sets of --fix, in order of first use.
std::vector<const std::vector<int>*> fixed_sets(const Problem& problem) {
    std::map<std::vector<int>, std::size_t> known;
    std::vector<const std::vector<int>*> sets;
    for (const auto& devices : problem.constraints().allowed) {
        if (devices.empty() || !known.try_emplace(devices, known.size()).second) continue;
        sets.push_back(&devices);
        if (sets.size() > kMostClasses) break;
    }
    return sets;
}

}  // namespace

WorkBound::WorkBound(const Problem& problem, const BatchTimes& times) : times_(times) {
    classify(problem);
    find_units(problem);
    sum_units(problem);
    find_shortage(problem);
    exclude_small_devices();
    add_accumulations(problem);
    bound_units();
    round_weights(choose_weights(table_));
    work_ = exact_bound();
}

void WorkBound::classify(const Problem& problem) {
    using Key = std::tuple<int, Bytes, std::vector<bool>>;
    const auto sets = fixed_sets(problem);
    const auto group_by = [&](auto key_of) {
        classes_ = {};
        std::map<Key, int> known;
        for (int d = 0; d < problem.device_count(); ++d) {
            const auto [at, added] =
                known.try_emplace(key_of(d), static_cast<int>(classes_.count()));
            if (added) {
                classes_.device.push_back(d);
                classes_.size.push_back(0);
                classes_.capacity.emplace_back();
                classes_.largest.emplace_back();
            }
            const auto c = static_cast<std::size_t>(at->second);
            classes_.of.push_back(at->second);
            ++classes_.size[c];
            classes_.capacity[c] += problem.memory_capacity(d);
            classes_.largest[c] = std::max(classes_.largest[c], problem.memory_capacity(d));
        }
    };
    group_by([&](int d) {
        std::vector<bool> member;
        member.reserve(sets.size());
        for (const auto* set : sets) {
            member.push_back(std::binary_search(set->begin(), set->end(), d));
        }
        return Key{problem.device_class(d), problem.memory_capacity(d), member};
    });
    if (classes_.count() <= kMostClasses && sets.size() <= kMostClasses) return;
    group_by([&](int d) { return Key{problem.device_class(d), Bytes{0}, {}}; });
}

void WorkBound::find_units(const Problem& problem) {
    const std::size_t ops = problem.graph().op_count();
    std::vector<std::uint32_t> parent(ops);
    std::iota(parent.begin(), parent.end(), 0U);
    const auto root = [&](std::size_t op) {
        auto r = static_cast<std::uint32_t>(op);
        while (parent[r] != r) r = parent[r] = parent[parent[r]];
        return r;
    };
    for (const auto& together : problem.constraints().together) {
        for (const OpId op : together) {
            const std::uint32_t a = root(op.index());
            const std::uint32_t b = root(together[0].index());
            parent[std::max(a, b)] = std::min(a, b);
        }
    }
    unit_of_.resize(ops);
    for (std::size_t i = 0; i < ops; ++i) {
        if (root(i) == i) {
            unit_of_[i] = static_cast<std::uint32_t>(units());
            first_op_.emplace_back(i);
        } else {
            unit_of_[i] = unit_of_[root(i)];
        }
    }
}

void WorkBound::sum_units(const Problem& problem) {
    const graph::OpGraph& graph = problem.graph();
    const std::size_t classes = classes_.count();
    table_ = {.classes = classes, .devices = classes_.size, .capacity = classes_.capacity};
    table_.time.resize(units() * classes);
    table_.bytes.resize(units() * classes);
    table_.open.assign(units() * classes, 1);
    const auto keep = [&](OpId op, Bytes bytes, bool given) {
        for (std::size_t c = 0; c < classes; ++c) {
            const bool cpu =
                problem.machine().device(classes_.device[c]).kind == cost::DeviceKind::cpu;
            // A workload's memory is that on an accelerator.
            if (!given || !cpu) table_.bytes[table_.at(unit_of_[op.index()], c)] += bytes;
        }
    };
    limit_.assign(units(), 1);
    members_.assign(units(), 0);
    std::vector<char> usable(classes);
    const std::vector<int>* last = nullptr;
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        const OpId op(i);
        ++members_[unit_of_[i]];
        std::int64_t& limit = limit_[unit_of_[i]];
        limit = std::max(limit, problem.split_limit(op));
        const std::vector<int>* allowed = &problem.allowed_devices(op);
        if (allowed != last) {
            std::fill(usable.begin(), usable.end(), char{0});
            for (const int d : *allowed) {
                usable[static_cast<std::size_t>(classes_.of[static_cast<std::size_t>(d)])] = 1;
            }
            last = allowed;
        }
        for (std::size_t c = 0; c < classes; ++c) {
            const std::size_t k = table_.at(unit_of_[i], c);
            if (usable[c] == 0) table_.open[k] = 0;
            table_.time[k] += times_.total(op, classes_.device[c]);
        }
        const graph::Op& facts = graph.op(op);
        const bool source = facts.kind != OpKind::compute && facts.kind != OpKind::output;
        if (!source || !problem.is_resident(facts.outputs[0])) {
            keep(op, problem.persistent_bytes(op), facts.given.has_value());
        } else if (!graph.uses(facts.outputs[0]).empty()) {
            const graph::Use reader = graph.uses(facts.outputs[0])[0];
            keep(reader.op, problem.read_bytes(reader), false);
        }
    }
}

/// The largest part of what a unit keeps is at least that.
Bytes WorkBound::smallest_part(std::size_t u, Bytes bytes) const {
    return Bytes(bytes.raw() / limit_[u]);
}

void WorkBound::find_shortage(const Problem& problem) {
    Bytes needed;
    for (std::size_t u = 0; u < units(); ++u) {
        Bytes least = Bytes::max();
        Bytes shortest = Bytes::max();  // what the unit lacks on the class that suits it best
        for (std::size_t c = 0; c < classes_.count(); ++c) {
            if (table_.open[table_.at(u, c)] == 0) continue;
            const Bytes bytes = table_.bytes[table_.at(u, c)];
            least = std::min(least, bytes);
            const Bytes part = smallest_part(u, bytes);
            shortest = std::min(shortest, part - std::min(part, classes_.largest[c]));
        }
        if (least == Bytes::max()) continue;  // nothing allowed: the groups say why
        needed += least;
        if (shortest == Bytes{0}) continue;
        shortage_ = fmt::format(
            "op '{}' and what must lie with it keep {} ({} bytes), {} bytes more than the roomiest "
            "device they may use can hold. Use a device with more memory, or a higher "
            "--memory-limit.",
            problem.graph().op(first_op_[u]).name, to_text(least), least.raw(), shortest.raw());
        return;
    }
    Bytes capacity;
    for (const Bytes of_class : classes_.capacity) capacity += of_class;
    if (needed <= capacity) return;
    shortage_ = fmt::format(
        "the model keeps {} ({} bytes), and all {} devices together hold {} ({} bytes): {} bytes "
        "short. Use more devices or devices with more memory.",
        to_text(needed), needed.raw(), problem.device_count(), to_text(capacity), capacity.raw(),
        (needed - capacity).raw());
}

void WorkBound::exclude_small_devices() {
    for (std::size_t u = 0; u < units(); ++u) {
        for (std::size_t c = 0; c < classes_.count(); ++c) {
            const Bytes bytes = table_.bytes[table_.at(u, c)];
            if (smallest_part(u, bytes) > classes_.largest[c]) table_.open[table_.at(u, c)] = 0;
        }
    }
}

void WorkBound::add_accumulations(const Problem& problem) {
    if (problem.mode() != plan::Mode::training) return;
    const graph::OpGraph& graph = problem.graph();
    for (std::size_t i = 0; i < graph.tensor_count(); ++i) {
        const TensorId t(i);
        const std::int64_t additions = times_.additions(t);
        if (additions == 0) continue;
        first_op_.emplace_back();
        for (std::size_t c = 0; c < classes_.count(); ++c) {
            table_.time.push_back(additions * problem.least_accumulate_time(t, classes_.device[c]));
            table_.bytes.emplace_back();
            table_.open.push_back(1);
        }
    }
}

void WorkBound::bound_units() {
    for (std::size_t u = 0; u < units(); ++u) {
        if (!first_op_[u].valid()) continue;  // its additions may be spread
        Time best = Time::max();
        for (std::size_t c = 0; c < classes_.count(); ++c) {
            if (table_.open[table_.at(u, c)] != 0)
                best = std::min(best, table_.time[table_.at(u, c)]);
        }
        if (best == Time::max()) continue;
        // Whole times are rounded up, those of parts may be less than a part of them.
        const std::int64_t rounded =
            std::min<std::int64_t>(best.raw(), members_[u] * (2 * times_.micro_batches() + 1));
        const std::int64_t slack = limit_[u] > 1 ? rounded : 0;
        const Time time((best.raw() - slack) / limit_[u]);
        if (time <= unit_) continue;
        unit_ = time;
        longest_op_ = first_op_[u];
    }
}

int WorkBound::devices_short_of_memory() const {
    int devices = 0;
    for (std::size_t c = 0; c < classes_.count(); ++c) {
        if (byte_price_[c] > 0) devices += classes_.size[c];
    }
    return devices;
}

/// To integers. Rounding down is sound for any of them; a price of bytes beyond 2^60 would leave the
/// range of the sums.
void WorkBound::round_weights(const WorkWeights& weights) {
    const double scale = kWeightScale / *std::max_element(weights.time.begin(), weights.time.end());
    for (std::size_t c = 0; c < classes_.count(); ++c) {
        assert(std::isfinite(weights.time[c]) && std::isfinite(weights.bytes[c]));
        weight_.push_back(static_cast<std::int64_t>(weights.time[c] * scale));
        byte_price_.push_back(
            static_cast<std::int64_t>(std::min(weights.bytes[c] * scale, 0x1.0p60)));
        speed_ += static_cast<Int128>(weight_[c]) * classes_.size[c];
    }
}

Time WorkBound::time_for(Int128 priced) const {
    if (priced <= 0 || speed_ <= 0) return Time{0};
    return Time(static_cast<std::int64_t>((priced + speed_ - 1) / speed_));
}

Time WorkBound::exact_bound() const {
    Int128 priced = 0;
    for (std::size_t c = 0; c < classes_.count(); ++c) {
        priced -= static_cast<Int128>(byte_price_[c]) * classes_.capacity[c].raw();
    }
    for (std::size_t u = 0; u < units(); ++u) {
        Int128 cheapest = -1;
        for (std::size_t c = 0; c < classes_.count(); ++c) {
            if (table_.open[table_.at(u, c)] == 0) continue;
            const Int128 price =
                static_cast<Int128>(weight_[c]) * table_.time[table_.at(u, c)].raw() +
                static_cast<Int128>(byte_price_[c]) * table_.bytes[table_.at(u, c)].raw();
            if (cheapest < 0 || price < cheapest) cheapest = price;
        }
        priced += std::max<Int128>(cheapest, 0);
    }
    return time_for(priced);
}

bool WorkBound::may_use(OpId op, std::size_t c) const {
    return table_.open[table_.at(unit_of_[op.index()], c)] != 0;
}

}  // namespace partita::search
