// SPDX-License-Identifier: Apache-2.0
#include "rl/decisions.h"

#include <algorithm>
#include <utility>

#include "base/csr.h"

namespace partita::rl {

using graph::OpId;
using graph::OpKind;
using search::SearchSpace;

namespace {

/// Does the group decide anything: has it something to compute, or ops that must share a device?
bool decides(const SearchSpace& space, std::size_t group) {
    const auto members = space.groups().groups().members[group];
    return std::ranges::any_of(members, [&](OpId op) {
        return space.problem().facts().has_forward(op) || !space.partners(op).empty();
    });
}

/// Work, and a little for being there, so that runs of groups that take no time end too.
double weight(const SearchSpace& space, std::size_t group) {
    constexpr double kPresence = 1e-6;
    return to_seconds(space.groups().mean_time(group)) + kPresence;
}

void add(Decisions& decisions, std::size_t group, bool opens) {
    if (opens) decisions.groups.offsets.push_back(decisions.groups.offsets.back());
    decisions.groups.items.push_back(static_cast<std::uint32_t>(group));
    ++decisions.groups.offsets.back();
    decisions.of_group[group] = static_cast<std::int32_t>(decisions.size()) - 1;
}

/// Does the op read so much of all trained parameters that it should be decided by itself?
bool is_weighty(const SearchSpace& space, OpId op, double all) {
    constexpr double kMuch = 1e-3;
    const plan::Problem& problem = space.problem();
    if (!problem.facts().has_forward(op)) return false;
    const std::vector<graph::TensorId>& inputs = problem.graph().op(op).inputs;
    return std::ranges::any_of(inputs, [&](graph::TensorId t) {
        if (!t.valid() || !space.is_parameter(problem.graph().tensor(t).producer)) return false;
        return static_cast<double>(problem.facts().tensor_bytes(t).raw()) >= kMuch * all;
    });
}

/// Ops of a group, beside its leader, that are decisions of their own.
std::vector<OpId> lone_ops(const SearchSpace& space, std::size_t group, double all) {
    std::vector<OpId> lone;
    const auto members = space.groups().groups().members[group];
    const OpId leader = space.leader(members.front());
    const bool tied =
        std::ranges::any_of(members, [&](OpId op) { return !space.partners(op).empty(); });
    if (tied || space.problem().constraints().whole_ops()) return lone;
    for (const OpId op : members) {
        if (op != leader && is_weighty(space, op, all)) lone.push_back(op);
    }
    return lone;
}

double trained_bytes(const SearchSpace& space) {
    double sum = 0;
    for (const OpId op : space.parameters()) {
        const graph::TensorId t = space.problem().graph().op(op).outputs[0];
        sum += static_cast<double>(space.problem().facts().tensor_bytes(t).raw());
    }
    return sum;
}

/// Before the rest of their group, where most of them read what the network begins with.
void add_lone_ops(const SearchSpace& space, std::size_t group, double all, Decisions& decisions) {
    for (const OpId op : lone_ops(space, group, all)) {
        add(decisions, group, /*opens=*/true);
        decisions.of_op[op.index()] = decisions.of_group[group];
    }
}

void share_out(const SearchSpace& space, std::size_t most, Decisions& decisions) {
    const search::OpGroups& groups = space.groups().groups();
    std::vector<std::uint32_t> deciding;
    double total = 0;
    for (std::size_t g = 0; g < groups.size(); ++g) {
        if (!decides(space, g)) continue;
        deciding.push_back(static_cast<std::uint32_t>(g));
        total += weight(space, g);
    }
    const bool each = deciding.size() <= most;
    const double all = trained_bytes(space);
    double before = 0;
    std::size_t opened = 0;
    for (std::size_t i = 0; i < deciding.size(); ++i) {
        const std::uint32_t g = deciding[i];
        // The next one opens when the work before it has passed its share.
        const double share = total * static_cast<double>(opened) / static_cast<double>(most);
        const bool other = i == 0 || groups.allowed[g] != groups.allowed[deciding[i - 1]];
        const bool opens = each || other || before >= share;
        opened += opens ? 1 : 0;
        before += weight(space, g);
        if (each) {
            add_lone_ops(space, g, all, decisions);
        }
        add(decisions, g, opens);
    }
}

/// Sources go with their leading reader, outputs with what they show, unless they must share a
/// device.
std::int32_t decision_of(SearchSpace& space, const Decisions& decisions, OpId op) {
    const search::OpGroups& groups = space.groups().groups();
    const auto of = [&](OpId id) {
        const std::int32_t lone = decisions.of_op[id.index()];
        return lone >= 0 ? lone
                         : decisions.of_group[static_cast<std::size_t>(groups.of[id.index()])];
    };
    if (space.problem().facts().has_forward(op) || !space.partners(op).empty()) return of(op);
    const auto reader = space.propagation().leading_end(op);
    if (reader) {
        const search::End& end = space.propagation().end(*reader);
        return of(end.from == op ? end.to : end.from);
    }
    const graph::Op& node = space.problem().graph().op(op);
    if (node.kind == OpKind::output) {
        return of(space.problem().graph().tensor(node.inputs[0]).producer);
    }
    return of(op);
}

}  // namespace

Decisions make_decisions(SearchSpace& space, std::size_t most) {
    const search::OpGroups& groups = space.groups().groups();
    Decisions decisions;
    const std::size_t ops = space.problem().graph().op_count();
    decisions.of_group.assign(groups.size(), -1);
    decisions.of_op.assign(ops, -1);
    share_out(space, most, decisions);
    decisions.whole.assign(decisions.size(), 0);
    std::vector<std::int32_t> of_op;
    std::vector<std::pair<std::int32_t, OpId>> placed;
    for (std::size_t i = 0; i < ops; ++i) {
        const std::int32_t decision = decision_of(space, decisions, OpId(i));
        of_op.push_back(decision);
        if (decision < 0) continue;
        placed.emplace_back(decision, OpId(i));
        if (!space.partners(OpId(i)).empty())
            decisions.whole[static_cast<std::size_t>(decision)] = 1;
    }
    decisions.of_op = std::move(of_op);
    decisions.ops = to_csr(placed, decisions.size());
    return decisions;
}

}  // namespace partita::rl
