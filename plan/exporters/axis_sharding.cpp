// SPDX-License-Identifier: Apache-2.0
#include "plan/exporters/axis_sharding.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cassert>
#include <numeric>
#include <set>

#include "plan/layout/axis_role.h"
#include "plan/problem/micro_batches.h"

namespace partita::plan {

using graph::Box;
using graph::DimRule;
using graph::OpRule;
using graph::Positions;

namespace {

std::size_t factor_place(const DimRule& dim, const Axis& axis) {
    const auto at = std::find(dim.factors.begin(), dim.factors.end(), axis.factor);
    return static_cast<std::size_t>(at - dim.factors.begin());
}

/// One dim of a tensor under the axes that cut it, major to minor.
class DimSplit {
public:
    DimSplit(const OpRule& rule, const DimRule& dim, std::int64_t extent,
             const std::vector<Axis>& axes, const std::vector<std::size_t>& cutting)
        : rule_(rule), dim_(dim), extent_(extent) {
        for (const std::size_t a : cutting) {
            axes_.push_back(axes[a]);
            parts_ *= axes_.back().degree;
        }
        // The op splits in the order of its config.
        turns_.resize(cutting.size());
        std::iota(turns_.begin(), turns_.end(), std::size_t{0});
        std::sort(turns_.begin(), turns_.end(),
                  [&](std::size_t i, std::size_t j) { return cutting[i] < cutting[j]; });
    }

    /// What an even cut gets wrong for some part; "": nothing.
    [[nodiscard]] std::string find_fault(const Box& base, bool is_whole, Cut cut) const {
        const Positions all =
            dim_.window || is_whole ? graph::all_positions(extent_) : needed(base);
        for (int part = 0; part < parts_; ++part) {
            const Positions even = even_part(all, part, cut);
            const Positions own = needed(box_of(base, part));
            if (dim_.window ? graph::contains(even, own) : even == own) continue;
            if (dim_.window) return "parts read beyond an even share (a halo)";
            if (own.size() > even.size()) return "parts are strided";
            return fmt::format("parts begin at {}, those of an even cut at {}",
                               begins([&](int p) { return needed(box_of(base, p)); }),
                               begins([&](int p) { return even_part(all, p, cut); }));
        }
        return {};
    }

private:
    [[nodiscard]] int digit(int part, std::size_t axis) const {
        for (std::size_t i = axes_.size() - 1; i > axis; --i) part /= axes_[i].degree;
        return part % axes_[axis].degree;
    }

    [[nodiscard]] Box box_of(Box box, int part) const {
        for (const std::size_t a : turns_) {
            const auto f = static_cast<std::size_t>(axes_[a].factor);
            box[f] = part_along(axes_[a], box[f], rule_.factors[f].extent, digit(part, a));
        }
        return box;
    }

    [[nodiscard]] Positions needed(const Box& box) const {
        return graph::region_of(rule_, {.dims = {dim_}}, {extent_}, box).dims[0];
    }

    [[nodiscard]] Positions even_part(Positions positions, int part, Cut cut) const {
        if (cut == Cut::at_once) return graph::part_of(positions, parts_, part);
        for (std::size_t a = 0; a < axes_.size(); ++a) {
            positions = graph::part_of(positions, axes_[a].degree, digit(part, a));
        }
        return positions;
    }

    template <class PositionsOf>
    [[nodiscard]] std::string begins(PositionsOf positions_of) const {
        constexpr int kMost = 4;
        std::vector<std::string> found;
        for (int part = 0; part < std::min(parts_, kMost); ++part) {
            const Positions positions = positions_of(part);
            found.push_back(positions.empty() ? "nothing" : std::to_string(positions[0].begin));
        }
        if (parts_ > kMost) found.emplace_back("...");
        return fmt::format("{}", fmt::join(found, " "));
    }

    const OpRule& rule_;
    const DimRule& dim_;
    std::int64_t extent_;
    std::vector<Axis> axes_;
    std::vector<std::size_t> turns_;
    int parts_ = 1;
};

/// Adds an axis that leaves every part the same or cuts a dim.
void add_cut(Sharding& sharding, const graph::TensorRule& tensor, const Axis& axis, std::size_t a,
             const std::string& name) {
    if (!axis.is_factor()) return;
    int dims = 0;
    for (std::size_t d = 0; d < tensor.dims.size(); ++d) {
        if (factor_place(tensor.dims[d], axis) == tensor.dims[d].factors.size()) continue;
        sharding.dims[d].push_back(a);
        ++dims;
    }
    if (dims > 1) sharding.fault = fmt::format("'{}' cuts {} dims together", name, dims);
}

/// Per dim the axes that cut it, in the order of the config; partial axes.
Sharding name_axes(const OpRule& rule, const std::vector<Axis>& axes, Side side,
                   std::size_t index) {
    const graph::TensorRule& tensor =
        side == Side::result ? rule.results[index] : rule.operands[index];
    Sharding sharding;
    sharding.dims.resize(tensor.dims.size());
    for (std::size_t a = 0; a < axes.size(); ++a) {
        const std::string name = name_of(rule, axes[a]);
        switch (role_of(rule, axes[a], side, index)) {
        case Role::addend:
            sharding.partial.push_back(a);
            sharding.combine = combine_of(rule, axes[a], side);
            break;
        case Role::first_only:
            sharding.fault = fmt::format("only the first part along '{}' has it", name);
            break;
        case Role::shared: add_cut(sharding, tensor, axes[a], a, name); break;
        }
    }
    return sharding;
}

constexpr std::size_t kMostPermuted = 5;  // axes; 120 orders

/// What an even cut by these axes, major to minor, gets wrong; "": nothing.
std::string find_fault(const Problem& problem, graph::OpId op, int micro_batches,
                       const DimSplit& split, Cut cut) {
    // All micro-batches but the last are equal.
    for (const int micro_batch : std::set<int>{0, micro_batches - 1}) {
        const Box base = micro_batch_box(problem.facts(), op, micro_batches, micro_batch);
        std::string fault = split.find_fault(base, micro_batches == 1, cut);
        if (!fault.empty()) return fault;
    }
    return {};
}

/// Major to minor by what the dim is made of; splits of one factor stay in order.
void sort_by_factor(std::vector<std::size_t>& cutting, const DimRule& dim,
                    const std::vector<Axis>& axes) {
    std::stable_sort(cutting.begin(), cutting.end(), [&](std::size_t a, std::size_t b) {
        return factor_place(dim, axes[a]) < factor_place(dim, axes[b]);
    });
}

}  // namespace

Sharding sharding_of(const Problem& problem, graph::OpId op, const OpConfig& config,
                     int micro_batches, Side side, std::size_t index, Cut cut) {
    assert(side == Side::operand || side == Side::result);
    const OpRule& rule = problem.facts().rule(op);
    const graph::Op& node = problem.graph().op(op);
    const bool is_result = side == Side::result;
    const graph::TensorRule& tensor = is_result ? rule.results[index] : rule.operands[index];
    const graph::TensorId t = is_result ? node.outputs[index] : node.inputs[index];
    const graph::Shape& shape = problem.graph().tensor(t).shape;

    const std::vector<Axis>& axes = config.axes;
    Sharding sharding = name_axes(rule, axes, side, index);
    for (std::size_t d = 0; d < sharding.dims.size() && sharding.fault.empty(); ++d) {
        std::vector<std::size_t>& cutting = sharding.dims[d];
        if (cutting.empty()) continue;
        if (cut == Cut::at_once) sort_by_factor(cutting, tensor.dims[d], axes);
        const auto fault_of = [&](const std::vector<std::size_t>& order) {
            const DimSplit split(rule, tensor.dims[d], shape[d], axes, order);
            return find_fault(problem, op, micro_batches, split, cut);
        };
        const std::string fault = fault_of(cutting);
        if (fault.empty()) continue;
        // After a split in blocks the next one of that factor may be major to it.
        std::vector<std::size_t> order = cutting;
        std::sort(order.begin(), order.end());
        bool right = false;
        while (cut == Cut::at_once && order.size() <= kMostPermuted && !right) {
            right = fault_of(order).empty();
            if (right) cutting = order;
            if (!std::next_permutation(order.begin(), order.end())) break;
        }
        if (!right) sharding.fault = fmt::format("dim {}: {}", d, fault);
    }
    return sharding;
}

}  // namespace partita::plan
