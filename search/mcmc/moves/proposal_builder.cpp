// SPDX-License-Identifier: Apache-2.0
#include "search/mcmc/moves/proposal_builder.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "plan/legality/config_legality.h"

namespace partita::search {

using graph::OpId;

ProposalBuilder::ProposalBuilder(SearchSpace& space)
    : space_(space),
      problem_(space.problem()),
      table_(space.table()),
      changed_(problem_.graph().op_count()),
      updated_(problem_.graph().op_count()),
      recomputed_(problem_.graph().op_count()),
      decisions_(problem_.graph().op_count()),
      marks_(problem_.graph().op_count()),
      together_(problem_.constraints().together().size()) {}

void ProposalBuilder::start(const State& base) {
    base_ = &base;
    micro_batches_id_ = base.micro_batches_id();
    changed_.clear();
    updated_.clear();
    recomputed_.clear();
    policy_.reset();
}

void ProposalBuilder::set_policy(plan::Policy policy) {
    micro_batches_id_ = table_.micro_batches_id(policy.micro_batches);
    policy_ = std::move(policy);
}

void ProposalBuilder::spread(OpId op) {
    PropagationTable& propagation = space_.propagation();
    for (const EndId id : propagation.way_through_group(op)) {
        const End& end = propagation.end(id);
        set(end.to, propagation.propagate(id, config(end.from), micro_batches_id_));
    }
}

void ProposalBuilder::repeat() {
    found_.clear();
    changed_.for_each([&](std::size_t i) {
        const OpId op(i);
        const ConfigId proposed = decisions_[i].config;
        const int size = table_.sets().size(proposed.devices);
        for (const OpId twin : space_.repeats().twins(op)) {
            if (changed_.contains(twin.index())) continue;
            const DevicesId own = base_->config(twin).devices;
            const bool elsewhere = own != base_->config(op).devices;
            const DevicesId devices = elsewhere ? own : proposed.devices;
            if (table_.sets().size(devices) != size) continue;
            assert(table_.degree_lists().share_list(op, twin));  // twins have the same factors
            found_.emplace_back(twin, ConfigId{proposed.degrees, devices});
        }
    });
    for (const auto& [op, config] : found_) set(op, config);
}

/// Sources that lie as this op needed them, or in a known way relative to that, stay so.
void ProposalBuilder::move_sources(OpId reader) {
    ParameterShardingTable& shardings = space_.parameter_shardings();
    for (const EndId end : space_.propagation().sources(reader)) {
        const OpId source = space_.propagation().end(end).to;
        if (changed_.contains(source.index())) continue;
        const auto sharding = shardings.sharding_of(end, *base_);
        if (!sharding) continue;
        const ConfigId read =
            space_.propagation().propagate(end, config(reader), micro_batches_id_);
        auto decision = shardings.sharded(source, read, *sharding, micro_batches_id_);
        if (!decision)
            decision =
                shardings.sharded(source, read, ParameterSharding::as_read, micro_batches_id_);
        if (*sharding == ParameterSharding::as_read) {
            decision->update.accumulate_locally = base_->update(source).accumulate_locally;
        }
        set(source, decision->config);
        set_update(source, decision->update);
    }
}

/// Outputs lie as they are made.
void ProposalBuilder::move_outputs(OpId producer) {
    PropagationTable& propagation = space_.propagation();
    for (const EndId end : propagation.outputs(producer)) {
        set(propagation.end(end).to,
            propagation.propagate(end, config(producer), micro_batches_id_));
    }
}

void ProposalBuilder::mark_partners(OpId op) {
    for (const std::uint32_t group : space_.partners(op)) together_.insert(group);
}

/// What must share the devices of a changed op goes onto them: split as it is where it has as many
/// parts, and repeated otherwise.
void ProposalBuilder::move_partners() {
    const auto& together = problem_.constraints().together();
    if (together.empty()) return;
    changed_.for_each([&](std::size_t i) { mark_partners(OpId(i)); });
    together_.for_each([&](std::size_t group) { move_partners(together[group]); });
    together_.clear();
}

void ProposalBuilder::move_partners(const std::vector<OpId>& together) {
    const auto changed = std::find_if(together.begin(), together.end(),
                                      [&](OpId op) { return changed_.contains(op.index()); });
    if (changed == together.end()) return;
    const DevicesId devices = config(*changed).devices;
    const int size = table_.sets().size(devices);
    for (const OpId op : together) {
        const ConfigId own = config(op);
        if (own.devices == devices) continue;
        ConfigId moved{own.degrees, devices};
        if (table_.sets().size(own.devices) != size) {
            moved.degrees =
                size > 1 ? table_.degree_lists().id(op, {plan::Axis::replicas(size)}) : 0;
        }
        set(op, moved);
        mark_partners(op);
    }
}

/// Does the op, or one that reads it, take partial sums as they are?
bool ProposalBuilder::meets_summands(OpId op) const {
    const auto takes = [&](OpId id) {
        return table_.degree_lists().takes_summands(id, config(id).degrees);
    };
    if (takes(op)) return true;
    const std::vector<OpId> readers = problem_.graph().successors(op);
    return std::any_of(readers.begin(), readers.end(), takes);
}

bool ProposalBuilder::is_legal_strategy(const Changes& changes) const {
    plan::Strategy strategy = base_->strategy();
    apply(changes, table_, strategy);
    strategy.policy.schedule = {};  // what breaks a schedule is worse, not illegal
    return !find_fault(problem_, strategy);
}

/// With another policy: everything, where there are no summands.
bool ProposalBuilder::is_legal_batch(const Changes& changes) {
    if (!table_.is_legal_batch(micro_batches_id_)) return false;
    const auto is_legal = [&](OpId op) {
        const ConfigId update = this->update(op).update;
        return table_.is_legal(op, config(op), micro_batches_id_) &&
               (update.devices == 0 || table_.is_legal(op, update, micro_batches_id_));
    };
    for (std::size_t i = 0; i < base_->op_count(); ++i) {
        if (!is_legal(OpId(i))) return false;
    }
    return shares_devices(changes);
}

bool ProposalBuilder::shares_devices(const Changes& changes) {
    const auto& together = problem_.constraints().together();
    if (together.empty()) return true;
    for (const DecisionChange& change : changes.ops) {
        if (has_other_config(change)) mark_partners(change.op);
    }
    bool all = true;
    together_.for_each([&](std::size_t group) {
        for (const OpId op : together[group]) {
            all = all && config(op).devices == config(together[group].front()).devices;
        }
    });
    together_.clear();
    return all;
}

bool ProposalBuilder::is_legal(const Changes& changes) {
    const bool summands =
        table_.degree_lists().any_summands() &&
        (policy_ || std::any_of(changes.ops.begin(), changes.ops.end(), [&](const auto& change) {
             return has_other_config(change) && meets_summands(change.op);
         }));
    if (summands) return is_legal_strategy(changes);
    if (policy_) return is_legal_batch(changes);
    for (const DecisionChange& change : changes.ops) {
        const auto& [config, update, recompute] = change.decision;
        if (has_other_config(change) && !table_.is_legal(change.op, config, micro_batches_id_))
            return false;
        if (update.update.devices == 0 || update == base_->update(change.op)) continue;
        if (!table_.is_legal(change.op, update.update, micro_batches_id_)) return false;
    }
    return shares_devices(changes);
}

void ProposalBuilder::collect(Changes& changes) const {
    changes.clear();
    const auto add = [&](std::size_t i) {
        const OpId op(i);
        const DecisionId decision{config(op), update(op), recompute(op)};
        if (decision != base_->decision(op)) changes.ops.push_back({op, decision});
    };
    // A move that changes what runs again changes nothing else.
    for_each_of_either(changed_, updated_, add);
    recomputed_.for_each(add);
    if (policy_ && *policy_ != base_->policy()) changes.policy = policy_;
}

bool ProposalBuilder::finish(Changes& changes) {
    move_partners();
    computing_.clear();
    changed_.for_each([&](std::size_t i) {
        if (problem_.facts().has_forward(OpId(i))) computing_.emplace_back(i);
    });
    for (const OpId op : computing_) {
        move_sources(op);
        move_outputs(op);
    }
    move_partners();  // sources may have partners too
    collect(changes);
    if (!changes.policy) policy_.reset();
    return !changes.empty() && is_legal(changes);
}

}  // namespace partita::search
