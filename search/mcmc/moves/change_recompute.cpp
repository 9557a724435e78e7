// SPDX-License-Identifier: Apache-2.0
#include "search/mcmc/moves/change_recompute.h"

#include <array>
#include <cstdint>
#include <vector>

#include "plan/problem/recompute_regions.h"

namespace partita::search {

using graph::OpId;
using plan::LayerBlock;
using plan::Recompute;

namespace {

constexpr std::array kChoices = {Recompute::none, Recompute::selective, Recompute::full};

void set_choice(const LayerBlock& block, Recompute choice, ProposalBuilder& builder) {
    const plan::RecomputeRegion* const region = block.region(choice);
    if (region == nullptr && choice != Recompute::none) return;
    for (const OpId op : block.ops) builder.set_recompute(op, Recompute::none);
    if (region == nullptr) return;
    for (const OpId op : region->ops) builder.set_recompute(op, choice);
}

}  // namespace

bool may_choose_recompute(const plan::Problem& problem) {
    return problem.policy().recompute == Recompute::automatic && problem.facts().recompute().any();
}

std::optional<double> change_recompute(SearchSpace& space, Random& random,
                                       ProposalBuilder& builder) {
    if (!may_choose_recompute(space.problem())) return std::nullopt;
    const std::vector<LayerBlock>& blocks = space.problem().facts().recompute().blocks();
    const LayerBlock& first = blocks[random.below(blocks.size())];
    const Recompute choice = kChoices[random.below(kChoices.size())];
    const std::uint64_t scope = random.below(3);
    const DevicesId devices = builder.config(first.ops.front()).devices;
    for (const LayerBlock& block : blocks) {
        const bool same_stage = builder.config(block.ops.front()).devices == devices;
        const bool meant = &block == &first || (scope == 1 && same_stage) || scope == 2;
        if (meant) set_choice(block, choice, builder);
    }
    return 0.0;
}

}  // namespace partita::search
