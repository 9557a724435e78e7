// SPDX-License-Identifier: Apache-2.0
//
// A proposal builder collects what a move changes, and completes it to a legal strategy:
//
//     set(MatMul, (n 4))      the move itself
//     its parameter           follows its leading reader, kept in the same way as before (ZeRO, ...)
//     its input, its output   the same, while they lay as the op needed them
//     ops that must share its devices (Constraints::together)   go along
//
// What cannot be made legal that way is no proposal. One builder makes one proposal after the
// other, so that none allocates memory.
//
// Time: O(what changes and its neighbours), but where partial sums pass from op to op (a start may
// have them): then the whole strategy is checked.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/index_set.h"
#include "plan/strategy/strategy.h"
#include "search/configs/search_space.h"
#include "search/configs/state.h"
#include "search/configs/state_change.h"

namespace partita::search {

class ProposalBuilder {
public:
    /// `space` must outlive it.
    explicit ProposalBuilder(SearchSpace& space);

    /// Forgets what was set. `base` is legal and must not change until finish().
    void start(const State& base);

    [[nodiscard]] SearchSpace& space() { return space_; }
    [[nodiscard]] const State& base() const { return *base_; }
    /// As set so far.
    [[nodiscard]] ConfigId config(graph::OpId op) const {
        return changed_.contains(op.index()) ? decisions_[op.index()].config : base_->config(op);
    }
    [[nodiscard]] UpdateId update(graph::OpId op) const {
        return updated_.contains(op.index()) ? decisions_[op.index()].update : base_->update(op);
    }
    [[nodiscard]] plan::Recompute recompute(graph::OpId op) const {
        return recomputed_.contains(op.index()) ? decisions_[op.index()].recompute
                                                : base_->decision(op).recompute;
    }
    /// ConfigTable::micro_batches_id() of its number of micro-batches.
    [[nodiscard]] MicroBatchesId micro_batches_id() const { return micro_batches_id_; }

    void set(graph::OpId op, ConfigId config) {
        decisions_[op.index()].config = config;
        changed_.insert(op.index());
    }
    void set_update(graph::OpId op, UpdateId update) {
        decisions_[op.index()].update = update;
        updated_.insert(op.index());
    }
    /// All of a region, or none of a block: whoever sets it sees to that.
    void set_recompute(graph::OpId op, plan::Recompute choice) {
        decisions_[op.index()].recompute = choice;
        recomputed_.insert(op.index());
    }
    void set_policy(plan::Policy policy);

    /// Gives the op's config to the computing ops of its group, from neighbour to neighbour.
    void spread(graph::OpId op);
    /// Does to the twins of every changed op what was done to it. One that lies on other devices
    /// stays there if it has as many, and else as it is.
    void repeat();
    /// For moves that look for ops: a set, empty and to be left so, and a list.
    [[nodiscard]] IndexSet& marks() { return marks_; }
    [[nodiscard]] std::vector<graph::OpId>& reached() { return reached_; }

    /// Everything that differs from the base. False: nothing does, or it cannot be legal.
    [[nodiscard]] bool finish(Changes& changes);

private:
    void move_sources(graph::OpId reader);
    void move_outputs(graph::OpId producer);
    void move_partners();
    void move_partners(const std::vector<graph::OpId>& together);
    void mark_partners(graph::OpId op);
    void collect(Changes& changes) const;
    [[nodiscard]] bool is_legal(const Changes& changes);
    [[nodiscard]] bool is_legal_batch(const Changes& changes);
    [[nodiscard]] bool shares_devices(const Changes& changes);
    [[nodiscard]] bool meets_summands(graph::OpId op) const;
    /// Has the op another config than in the base? Else it is another update that changes.
    [[nodiscard]] bool has_other_config(const DecisionChange& change) const {
        return change.decision.config != base_->config(change.op);
    }
    [[nodiscard]] bool is_legal_strategy(const Changes& changes) const;

    SearchSpace& space_;
    const plan::Problem& problem_;
    ConfigTable& table_;
    const State* base_ = nullptr;
    MicroBatchesId micro_batches_id_ = 0;
    IndexSet changed_;     ///< ops with a config of their own
    IndexSet updated_;     ///< ops with an update of their own, which moves nothing else
    IndexSet recomputed_;  ///< ops with a choice of their own to run again or not, the same
    /// Per op: the config of the changed ones, the update of the updated ones, ...
    std::vector<DecisionId> decisions_;
    std::optional<plan::Policy> policy_;
    IndexSet marks_;
    std::vector<graph::OpId> reached_;
    IndexSet together_;  ///< of Constraints::together
    std::vector<std::pair<graph::OpId, ConfigId>> found_;
    std::vector<graph::OpId> computing_;
};

}  // namespace partita::search
