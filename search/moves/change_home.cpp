// SPDX-License-Identifier: Apache-2.0
#include "search/moves/change_home.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "search/parameter_homes.h"

namespace partita::search {

using graph::OpId;

namespace {

/// Parameters whose leading readers are twins of this one's, as the same operand.
std::vector<OpId> twins_of(const SearchSpace& space, OpId parameter) {
    const graph::OpGraph& graph = space.problem().graph();
    const graph::Use use = graph.uses(graph.op(parameter).outputs[0]).front();
    std::vector<OpId> twins;
    for (const OpId reader : space.repeats().twins(use.op)) {
        const OpId twin = graph.tensor(graph.op(reader).inputs[use.operand]).producer;
        const auto& all = space.parameters();
        if (std::binary_search(all.begin(), all.end(), twin)) twins.push_back(twin);
    }
    return twins;
}

void set_home(const plan::Problem& problem, OpId parameter, Home home, Draft& draft) {
    const OpId reader = leading_reader(problem, parameter);
    const int micro_batches = draft.micro_batches();
    const plan::OpConfig read = as_read(problem, parameter, draft.config(reader), micro_batches);
    auto kept = keep(problem, parameter, read, home, micro_batches);
    if (!kept) return;
    draft.set(parameter, std::move(kept->config));
    draft.set_update(parameter, std::move(kept->update));
}

}  // namespace

std::optional<double> change_home(SearchSpace& space, Random& random, Draft& draft) {
    const std::vector<OpId>& all = space.parameters();
    if (all.empty()) return std::nullopt;
    constexpr std::array kHomes = {Home::as_read, Home::updates_in_shards, Home::in_shards,
                                   Home::on_one_device};
    const OpId first = all[random.below(all.size())];
    const Home home = kHomes[random.below(kHomes.size())];
    const std::uint64_t scope = random.below(3);
    const std::vector<OpId> chosen = scope == 0   ? std::vector{first}
                                     : scope == 1 ? twins_of(space, first)
                                                  : all;
    for (const OpId parameter : chosen) set_home(space.problem(), parameter, home, draft);
    return 0.0;
}

}  // namespace partita::search
