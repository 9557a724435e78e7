// SPDX-License-Identifier: Apache-2.0
#include "tests/search/mcmc/moves/literal_proposal.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "plan/legality/config_legality.h"
#include "search/configs/layout_propagation.h"
#include "search/configs/parameter_sharding.h"

namespace partita::search {

using graph::OpId;
using graph::OpKind;
using plan::OpConfig;

namespace {

bool is_source(const graph::Op& op) {
    return op.kind != OpKind::compute && op.kind != OpKind::output;
}

}  // namespace

LiteralProposal::LiteralProposal(const SearchSpace& space, const plan::Strategy& base)
    : space_(space), problem_(space.problem()), base_(base) {}

const OpConfig& LiteralProposal::config(OpId op) const {
    const auto changed = configs_.find(op);
    return changed != configs_.end() ? changed->second : base_.config(op);
}

int LiteralProposal::micro_batches() const {
    return policy_ ? policy_->micro_batches : base_.policy.micro_batches;
}

void LiteralProposal::set(OpId op, OpConfig config) {
    configs_[op] = std::move(config);
}

void LiteralProposal::set_update(OpId op, plan::UpdateConfig update) {
    updates_[op] = std::move(update);
}

void LiteralProposal::spread(OpId op) {
    std::vector<OpId> reached{op};
    for (std::size_t i = 0; i < reached.size(); ++i) {
        const OpId from = reached[i];
        for (const Link& link : links_of(problem_, from)) {
            const OpId to = link.producer == from ? link.reader : link.producer;
            const bool known = std::find(reached.begin(), reached.end(), to) != reached.end();
            if (known || !problem_.facts().has_forward(to) || !space_.same_group(op, to)) continue;
            set(to, propagate(problem_, link, from, config(from), micro_batches()));
            reached.push_back(to);
        }
    }
}

void LiteralProposal::repeat() {
    std::vector<std::pair<OpId, OpConfig>> more;
    for (const auto& [op, config] : configs_) {
        for (const OpId twin : space_.repeats().twins(op)) {
            if (configs_.contains(twin)) continue;
            const OpConfig& own = base_.config(twin);
            OpConfig changed = config;
            if (own.devices != base_.config(op).devices) changed.devices = own.devices;
            if (changed.devices.size() == config.devices.size()) {
                more.emplace_back(twin, std::move(changed));
            }
        }
    }
    for (auto& [op, config] : more) set(op, std::move(config));
}

/// Sources that lie as this op needed them, or in a known way relative to that, stay so.
void LiteralProposal::move_sources(OpId reader) {
    for (const graph::TensorId t : problem_.graph().op(reader).inputs) {
        if (!t.valid()) continue;
        const OpId source = problem_.graph().tensor(t).producer;
        if (!is_source(problem_.graph().op(source)) || configs_.contains(source) ||
            leading_reader(problem_, source) != reader) {
            continue;
        }
        const auto sharding = sharding_of(problem_, source, base_);
        if (!sharding) continue;
        const OpConfig read = as_read(problem_, source, config(reader), micro_batches());
        auto decision = sharded(problem_, source, read, *sharding, micro_batches());
        if (!decision)
            decision = sharded(problem_, source, read, ParameterSharding::as_read, micro_batches());
        if (*sharding == ParameterSharding::as_read) {
            decision->update.accumulate_locally = base_.update(source).accumulate_locally;
        }
        set(source, std::move(decision->config));
        set_update(source, std::move(decision->update));
    }
}

/// Outputs lie as they are made.
void LiteralProposal::move_outputs(OpId producer) {
    for (const Link& link : links_of(problem_, producer)) {
        if (link.producer != producer || problem_.graph().op(link.reader).kind != OpKind::output) {
            continue;
        }
        set(link.reader, propagate(problem_, link, producer, config(producer), micro_batches()));
    }
}

/// What must share the devices of a changed op goes onto them: split as it is where it has as many
/// parts, and repeated otherwise.
void LiteralProposal::move_partners() {
    for (const auto& group : problem_.constraints().together()) {
        const auto changed = std::find_if(group.begin(), group.end(),
                                          [&](OpId op) { return configs_.contains(op); });
        if (changed == group.end()) continue;
        const plan::DeviceSet devices = config(*changed).devices;
        for (const OpId op : group) {
            if (config(op).devices == devices) continue;
            OpConfig moved{.axes = config(op).axes, .devices = devices};
            if (config(op).devices.size() != devices.size()) {
                moved.axes.clear();
                if (devices.size() > 1) moved.axes = {plan::Axis::replicas(devices.size())};
            }
            set(op, std::move(moved));
        }
    }
}

/// Does the op, or one that reads it, take partial sums as they are?
bool LiteralProposal::meets_summands(OpId op) const {
    const auto takes = [&](OpId id) {
        return std::ranges::any_of(config(id).axes, &plan::Axis::is_summand);
    };
    if (takes(op)) return true;
    const std::vector<OpId> readers = problem_.graph().successors(op);
    return std::any_of(readers.begin(), readers.end(), takes);
}

plan::Strategy LiteralProposal::applied() const {
    plan::Strategy strategy = base_;
    for (const auto& [op, config] : configs_) strategy.ops[op.index()].config = config;
    for (const auto& [op, update] : updates_) strategy.ops[op.index()].update = update;
    if (policy_) strategy.policy = *policy_;
    return strategy;
}

bool LiteralProposal::is_legal() const {
    const bool whole_check = policy_ || std::any_of(configs_.begin(), configs_.end(), [&](auto& c) {
                                 return meets_summands(c.first);
                             });
    if (whole_check) {
        plan::Strategy strategy = applied();
        strategy.policy.schedule = {};  // what breaks a schedule is worse, not illegal
        return !find_fault(problem_, strategy);
    }
    for (const auto& [op, config] : configs_) {
        if (find_fault(problem_, op, config, micro_batches())) return false;
    }
    for (const auto& [op, update] : updates_) {
        if (update.update.devices.empty()) continue;
        if (find_fault(problem_, op, update.update, micro_batches())) return false;
    }
    for (const auto& group : problem_.constraints().together()) {
        for (const OpId op : group) {
            if (!(config(op).devices == config(group.front()).devices)) return false;
        }
    }
    return true;
}

std::optional<plan::Strategy> LiteralProposal::finish() {
    move_partners();
    std::vector<OpId> changed;
    for (const auto& [op, config] : configs_) {
        if (problem_.facts().has_forward(op)) changed.push_back(op);
    }
    for (const OpId op : changed) {
        move_sources(op);
        move_outputs(op);
    }
    move_partners();  // sources may have partners too
    std::erase_if(configs_, [&](const auto& c) { return c.second == base_.config(c.first); });
    std::erase_if(updates_, [&](const auto& u) { return u.second == base_.update(u.first); });
    if (policy_ && *policy_ == base_.policy) policy_.reset();
    if ((configs_.empty() && updates_.empty() && !policy_) || !is_legal()) return std::nullopt;
    return applied();
}

}  // namespace partita::search
