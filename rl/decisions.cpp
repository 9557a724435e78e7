// SPDX-License-Identifier: Apache-2.0
#include "rl/decisions.h"

#include <algorithm>

namespace partita::rl {

using graph::OpId;
using graph::OpKind;
using search::SearchSpace;

namespace {

/// Does the group decide anything: has it something to compute, or ops that must share a device?
bool decides(const SearchSpace& space, std::size_t group) {
    const auto members = space.groups().groups().members[group];
    return std::ranges::any_of(members, [&](OpId op) {
        return space.problem().has_forward(op) || !space.partners(op).empty();
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

void share_out(const SearchSpace& space, std::size_t most, Decisions& decisions) {
    const search::Groups& groups = space.groups().groups();
    std::vector<std::uint32_t> deciding;
    double total = 0;
    for (std::size_t g = 0; g < groups.size(); ++g) {
        if (!decides(space, g)) continue;
        deciding.push_back(static_cast<std::uint32_t>(g));
        total += weight(space, g);
    }
    const bool each = deciding.size() <= most;
    double before = 0;
    std::size_t opened = 0;
    for (std::size_t i = 0; i < deciding.size(); ++i) {
        const std::uint32_t g = deciding[i];
        // The next one opens when the work before it has passed its share.
        const double share = total * static_cast<double>(opened) / static_cast<double>(most);
        const bool other = i == 0 || groups.allowed[g] != groups.allowed[deciding[i - 1]];
        const bool opens = each || other || before >= share;
        opened += opens ? 1 : 0;
        add(decisions, g, opens);
        before += weight(space, g);
    }
}

/// Sources go with their leading reader, outputs with what they show, unless they must share a device.
std::int32_t decision_of(SearchSpace& space, const Decisions& decisions, OpId op) {
    const search::Groups& groups = space.groups().groups();
    const auto of = [&](OpId id) {
        return decisions.of_group[static_cast<std::size_t>(groups.of[id.index()])];
    };
    if (space.problem().has_forward(op) || !space.partners(op).empty()) return of(op);
    const auto reader = space.follow().leading_end(op);
    if (reader) {
        const search::End& end = space.follow().end(*reader);
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
    const search::Groups& groups = space.groups().groups();
    Decisions decisions;
    decisions.of_group.assign(groups.size(), -1);
    share_out(space, most, decisions);
    const std::size_t ops = space.problem().graph().op_count();
    decisions.of_op.reserve(ops);
    decisions.whole.assign(decisions.size(), 0);
    for (std::size_t i = 0; i < ops; ++i) {
        const std::int32_t decision = decision_of(space, decisions, OpId(i));
        decisions.of_op.push_back(decision);
        if (decision >= 0 && !space.partners(OpId(i)).empty()) {
            decisions.whole[static_cast<std::size_t>(decision)] = 1;
        }
    }
    return decisions;
}

}  // namespace partita::rl
