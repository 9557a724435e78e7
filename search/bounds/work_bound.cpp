// SPDX-License-Identifier: Apache-2.0
#include "search/bounds/work_bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

#include "base/union_find.h"
#include "graph/op_graph.h"
#include "plan/problem/op_costs.h"

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
std::vector<const std::vector<int>*> fixed_sets(const plan::OpConstraints& constraints) {
    std::map<std::vector<int>, std::size_t> known;
    std::vector<const std::vector<int>*> sets;
    for (const auto& devices : constraints.allowed()) {
        if (devices.empty() || !known.try_emplace(devices, known.size()).second) continue;
        sets.push_back(&devices);
        if (sets.size() > kMostClasses) break;
    }
    return sets;
}

/// Has every part as large a share of the operand as of the work, or a larger one? Through windows
/// parts may read nothing (padding) or less (gaps), and an operand that is applied once is read by
/// some parts alone.
bool reads_in_proportion(const plan::GraphFacts& facts, graph::Use use) {
    const graph::TensorRule& operand = facts.rule(use.op).operands[use.operand];
    return !operand.apply_once && std::ranges::none_of(operand.dims, [](const graph::DimRule& dim) {
        return dim.window.has_value();
    });
}

/// Of a resident operand by all parts of its reader, in sum.
Bytes least_read_bytes(const Problem& problem, graph::Use use) {
    const graph::Op& reader = problem.graph().op(use.op);
    const plan::PartSize least =
        plan::least_size(problem.graph(), use.op, problem.facts().rule(use.op));
    return plan::bytes_of(problem.graph().tensor(reader.inputs[use.operand]),
                          least.operands[use.operand]);
}

/// Does the gradient have all elements, so that accumulators of all of it are kept?
bool has_whole_gradient(const Problem& problem, TensorId t) {
    return std::ranges::any_of(problem.graph().uses(t), [&](graph::Use use) {
        return problem.facts().has_backward(use.op) && reads_in_proportion(problem.facts(), use);
    });
}

}  // namespace

WorkBound::WorkBound(const Problem& problem, const MicroBatchCosts& times) : times_(times) {
    classify(problem);
    table_ = {.classes = classes_.count(), .devices = classes_.size, .capacity = classes_.capacity};
    join_ops(problem);
    add_ops(problem);
    add_updates(problem);
    find_shortage(problem);
    close_small_classes();
    add_additions(problem);
    bound_units();
    round_weights(dual_prices(table_));
    work_ = exact_bound();
}

void WorkBound::classify(const Problem& problem) {
    using Key = std::tuple<int, Bytes, std::vector<bool>>;
    const auto sets = fixed_sets(problem.constraints());
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
            classes_.capacity[c] += problem.constraints().memory_capacity(d);
            classes_.largest[c] =
                std::max(classes_.largest[c], problem.constraints().memory_capacity(d));
        }
    };
    group_by([&](int d) {
        std::vector<bool> member;
        member.reserve(sets.size());
        for (const auto* set : sets) {
            member.push_back(std::binary_search(set->begin(), set->end(), d));
        }
        return Key{problem.prices().device_class(d), problem.constraints().memory_capacity(d),
                   member};
    });
    if (classes_.count() <= kMostClasses && sets.size() <= kMostClasses) return;
    group_by([&](int d) { return Key{problem.prices().device_class(d), Bytes{0}, {}}; });
}

std::uint32_t WorkBound::add_unit(Unit unit) {
    const auto added = static_cast<std::uint32_t>(units_.size());
    units_.push_back(unit);
    table_.time.resize(units_.size() * table_.classes);
    table_.bytes.resize(units_.size() * table_.classes);
    table_.open.resize(units_.size() * table_.classes, 1);
    return added;
}

/// A unit for every op, and for those that must share a device, where none of them can be split.
void WorkBound::join_ops(const Problem& problem) {
    const std::size_t ops = problem.graph().op_count();
    UnionFind joined(ops);
    const auto whole = [&](OpId op) { return problem.constraints().split_limit(op) == 1; };
    for (const auto& together : problem.constraints().together()) {
        if (!std::ranges::all_of(together, whole)) continue;
        for (const OpId op : together) joined.unite(op.index(), together[0].index());
    }
    unit_of_.resize(ops);
    for (std::size_t i = 0; i < ops; ++i) {
        if (joined.root(i) == i) {
            unit_of_[i] = add_unit({OpId(i), problem.constraints().split_limit(OpId(i)), 0});
        } else {
            unit_of_[i] = unit_of_[joined.root(i)];
        }
        units_[unit_of_[i]].tasks += 2;
    }
    update_of_ = unit_of_;
}

void WorkBound::keep(std::uint32_t unit, Bytes bytes) {
    for (std::size_t c = 0; c < classes_.count(); ++c) table_.bytes[table_.at(unit, c)] += bytes;
}

void WorkBound::close_forbidden(std::uint32_t unit, const std::vector<int>& allowed) {
    std::vector<char> usable(classes_.count(), 0);
    for (const int d : allowed) {
        usable[static_cast<std::size_t>(classes_.of[static_cast<std::size_t>(d)])] = 1;
    }
    for (std::size_t c = 0; c < classes_.count(); ++c) {
        if (usable[c] == 0) table_.open[table_.at(unit, c)] = 0;
    }
}

void WorkBound::add_ops(const Problem& problem) {
    for (std::size_t i = 0; i < problem.graph().op_count(); ++i) {
        const OpId op(i);
        const std::uint32_t unit = unit_of_[i];
        const std::vector<int>& allowed = problem.constraints().allowed_devices(op);
        const bool anywhere = allowed.size() == classes_.of.size();
        if (!anywhere) close_forbidden(unit, allowed);
        for (std::size_t c = 0; c < classes_.count(); ++c) {
            table_.time[table_.at(unit, c)] += times_.all_passes(op, classes_.device[c]);
        }
        add_kept(problem, op);
    }
}

/// What an op, or the first that reads what never changes, keeps on its devices.
void WorkBound::add_kept(const Problem& problem, OpId op) {
    const graph::Op& facts = problem.graph().op(op);
    if (facts.given) {
        for (std::size_t c = 0; c < classes_.count(); ++c) {
            const cost::Device& device = problem.machine().device(classes_.device[c]);
            // A workload's memory is that on an accelerator.
            if (device.kind == cost::DeviceKind::cpu) continue;
            table_.bytes[table_.at(unit_of_[op.index()], c)] +=
                problem.facts().persistent_bytes(op);
        }
        return;
    }
    if (facts.kind == OpKind::compute || facts.kind == OpKind::output) return;
    const TensorId t = facts.outputs[0];
    if (!problem.facts().is_resident(t)) {
        keep(unit_of_[op.index()], problem.facts().tensor_bytes(t));
    } else if (!problem.graph().uses(t).empty()) {
        add_read(problem, problem.graph().uses(t)[0]);
    }
}

void WorkBound::add_read(const Problem& problem, graph::Use first) {
    if (reads_in_proportion(problem.facts(), first) ||
        problem.constraints().split_limit(first.op) == 1) {
        keep(unit_of_[first.op.index()], problem.facts().read_bytes(first));
        return;
    }
    const std::uint32_t unit =
        add_unit({first.op, static_cast<std::int64_t>(problem.device_count()), 0});
    keep(unit, least_read_bytes(problem, first));
    close_forbidden(unit, problem.constraints().allowed_devices(first.op));
}

void WorkBound::add_updates(const Problem& problem) {
    for (std::size_t i = 0; i < problem.graph().op_count(); ++i) {
        const OpId op(i);
        const graph::Op& facts = problem.graph().op(op);
        if (facts.kind != OpKind::parameter || !problem.facts().has_gradient(facts.outputs[0]))
            continue;
        const Bytes tensor = problem.facts().tensor_bytes(facts.outputs[0]);
        const std::uint32_t update = update_of_[i] =
            add_unit({op, problem.constraints().split_limit(op), 1});
        for (std::size_t c = 0; c < classes_.count(); ++c) {
            table_.time[table_.at(update, c)] =
                problem.bounds().least_update_time(op, classes_.device[c]);
        }
        keep(update, problem.facts().persistent_bytes(op) - 2 * tensor);
        close_forbidden(update, problem.constraints().allowed_devices(op));
        if (!has_whole_gradient(problem, facts.outputs[0])) continue;
        keep(add_unit({op, static_cast<std::int64_t>(problem.device_count()), 0}), tensor);
    }
}

/// The largest part of what a unit keeps is at least that.
Bytes WorkBound::smallest_part(std::size_t u, Bytes bytes) const {
    return Bytes(bytes.raw() / units_[u].parts);
}

void WorkBound::find_shortage(const Problem& problem) {
    Bytes needed;
    for (std::size_t u = 0; u < units_.size(); ++u) {
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
        const bool limited = problem.constraints().has_memory_limit();
        shortage_ = fmt::format(
            "op '{}' and what must lie with it keep {} ({} bytes), {} bytes more than the roomiest "
            "device they may use can hold. Use a device with more memory{}.",
            problem.graph().op(units_[u].op).name, to_text(least), least.raw(), shortest.raw(),
            limited ? ", or a higher --memory-limit" : "");
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

/// Only of what cannot be split: the last part of anything else may be as small as one element.
void WorkBound::close_small_classes() {
    for (std::size_t u = 0; u < units_.size(); ++u) {
        if (units_[u].parts > 1) continue;
        for (std::size_t c = 0; c < classes_.count(); ++c) {
            const std::size_t k = table_.at(u, c);
            if (table_.bytes[k] > classes_.largest[c]) table_.open[k] = 0;
        }
    }
}

void WorkBound::add_additions(const Problem& problem) {
    if (problem.mode() != plan::Mode::training) return;
    for (std::size_t i = 0; i < problem.graph().tensor_count(); ++i) {
        const TensorId t(i);
        const std::int64_t additions = times_.additions(t);
        if (additions == 0) continue;
        const std::uint32_t unit = add_unit({});
        for (std::size_t c = 0; c < classes_.count(); ++c) {
            table_.time[table_.at(unit, c)] =
                additions * problem.bounds().least_accumulate_time(t, classes_.device[c]);
        }
    }
}

void WorkBound::bound_units() {
    for (std::size_t u = 0; u < units_.size(); ++u) {
        const Unit& unit = units_[u];
        if (!unit.op.valid()) continue;  // its additions may be spread
        Time best = Time::max();
        for (std::size_t c = 0; c < classes_.count(); ++c) {
            if (table_.open[table_.at(u, c)] != 0)
                best = std::min(best, table_.time[table_.at(u, c)]);
        }
        if (best == Time::max()) continue;
        // Whole times are rounded up, those of parts may be less than a part of them.
        const std::int64_t rounded =
            std::min<std::int64_t>(best.raw(), unit.tasks * times_.micro_batches());
        const std::int64_t slack = unit.parts > 1 ? rounded : 0;
        const Time time((best.raw() - slack) / unit.parts);
        if (time <= unit_) continue;
        unit_ = time;
        longest_op_ = unit.op;
    }
}

int WorkBound::devices_short_of_memory() const {
    int devices = 0;
    for (std::size_t c = 0; c < classes_.count(); ++c) {
        if (byte_price_[c] > 0) devices += classes_.size[c];
    }
    return devices;
}

/// To integers. Rounding down is sound for any of them; a price of bytes beyond 2^60 would leave
/// the range of the sums.
void WorkBound::round_weights(const DualPrices& weights) {
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
    for (std::size_t u = 0; u < units_.size(); ++u) {
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

}  // namespace partita::search
