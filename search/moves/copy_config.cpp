// SPDX-License-Identifier: Apache-2.0
#include "search/moves/copy_config.h"

#include <vector>

#include "search/follow.h"

namespace partita::search {

using graph::OpId;

namespace {

/// Links from an op to computing ops behind it, or in front of it.
std::vector<Link> steps(const plan::Problem& problem, OpId op, bool forward) {
    std::vector<Link> steps;
    for (const Link& link : links_of(problem, op)) {
        const OpId next = forward ? link.reader : link.producer;
        if (next != op && problem.has_forward(next)) steps.push_back(link);
    }
    return steps;
}

}  // namespace

std::optional<double> copy_config(SearchSpace& space, Random& random, Draft& draft) {
    const plan::Problem& problem = space.problem();
    const bool forward = random.below(2) == 0;
    OpId op = space.draw_op(random);
    bool any = false;
    do {
        const std::vector<Link> ways = steps(problem, op, forward);
        if (ways.empty()) break;
        const Link& link = ways[random.below(ways.size())];
        const OpId next = forward ? link.reader : link.producer;
        draft.set(next, follow(problem, link, op, draft.config(op), draft.micro_batches()));
        op = next;
        any = true;
    } while (random.below(4) != 0);
    if (!any) return std::nullopt;
    return 0.0;
}

}  // namespace partita::search
