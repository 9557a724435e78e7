// SPDX-License-Identifier: Apache-2.0
//
// A proposal builder (search/mcmc/moves/proposal_builder.h) written down literally: configs instead
// of numbers, everything asked anew. For comparison.
#pragma once

#include <map>
#include <optional>
#include <utility>

#include "plan/strategy/strategy.h"
#include "search/configs/search_space.h"

namespace partita::search {

class LiteralProposal {
public:
    /// Both must outlive it; `base` is legal.
    LiteralProposal(const SearchSpace& space, const plan::Strategy& base);

    [[nodiscard]] const plan::Strategy& base() const { return base_; }
    /// As set so far.
    [[nodiscard]] const plan::OpConfig& config(graph::OpId op) const;
    [[nodiscard]] int micro_batches() const;

    void set(graph::OpId op, plan::OpConfig config);
    void set_update(graph::OpId op, plan::UpdateConfig update);
    void set_policy(plan::Policy policy) { policy_ = std::move(policy); }

    /// Gives the op's config to the computing ops of its group, from neighbour to neighbour.
    void spread(graph::OpId op);
    /// Does to the twins of every changed op what was done to it. One that lies on other devices
    /// stays there if it has as many, and else as it is.
    void repeat();

    /// The base with all changes; nullopt: there are none, or it cannot be legal.
    [[nodiscard]] std::optional<plan::Strategy> finish();

private:
    void move_sources(graph::OpId reader);
    void move_outputs(graph::OpId producer);
    void move_partners();
    [[nodiscard]] plan::Strategy applied() const;
    [[nodiscard]] bool is_legal() const;
    [[nodiscard]] bool meets_summands(graph::OpId op) const;

    const SearchSpace& space_;
    const plan::Problem& problem_;
    const plan::Strategy& base_;
    std::map<graph::OpId, plan::OpConfig> configs_;
    std::map<graph::OpId, plan::UpdateConfig> updates_;
    std::optional<plan::Policy> policy_;
};

}  // namespace partita::search
