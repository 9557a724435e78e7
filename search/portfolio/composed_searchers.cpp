// SPDX-License-Identifier: Apache-2.0
#include "search/portfolio/composed_searchers.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "search/call_latency/call_search.h"
#include "search/core/engine.h"
#include "search/max_load/contiguous/contiguous.h"
#include "search/max_load/exact/exact.h"
#include "search/max_load/local/load_search.h"
#include "search/portfolio/quick_searchers.h"
#include "search/portfolio/staged_search.h"

namespace partita::search {

namespace {

using Turns = std::vector<NamedSearcher>;

constexpr double kQuickShare = 0.5;  ///< of the budget, after which no other placer starts
constexpr int kShakes = 40;          ///< of local search
constexpr std::int64_t kExactMoves = 30'000'000;  ///< of the annealing before branch and bound

Turns one(std::string_view name, std::unique_ptr<Searcher> searcher) {
    Turns turns;
    turns.push_back({name, std::move(searcher)});
    return turns;
}

std::unique_ptr<Searcher> after_quick_searchers(Stage stage) {
    std::vector<Stage> stages = quick_stages(kQuickShare);
    stages.push_back(std::move(stage));
    return std::make_unique<StagedSearch>(std::move(stages));
}

/// What `auto` does with the rest of its budget.
class RestOfAuto {
public:
    explicit RestOfAuto(const AutoOptions& options) : options_(options) {}

    Turns operator()(Engine& engine, int round) {
        const bool asked = engine.spent().has_value();
        const bool given = LoadSearch::applies(engine) || CallSearch::applies(engine);
        if (round > 0 && (given || asked || !goes_on(engine))) return {};
        if (given) return of_given_costs(engine, asked);
        const std::optional<McmcOptions> mcmc = mcmc_options(engine);
        if (!mcmc) return {};
        round_begin_ = engine.evaluations();
        return one("mcmc", std::make_unique<Mcmc>(*mcmc));
    }

private:
    [[nodiscard]] Turns of_given_costs(const Engine& engine, bool asked) const {
        if (LoadSearch::applies(engine)) {
            return one("local-search", std::make_unique<LoadSearch>(LoadSearchOptions{
                                           .most_work = options_.most_moves,
                                           .work_per_pair = options_.moves_per_pair,
                                           .own_budget = !asked}));
        }
        return one("local-search",
                   std::make_unique<CallSearch>(CallSearchOptions{.own_budget = !asked}));
    }

    /// nullopt: mcmc is not worth its beginning.
    [[nodiscard]] std::optional<McmcOptions> mcmc_options(Engine& engine) const {
        McmcOptions mcmc;
        if (engine.spent()) return mcmc;
        const auto ops = static_cast<std::int64_t>(engine.problem().graph().op_count());
        std::int64_t tasks = engine.task_count(*engine.best());
        const bool ordered = engine.best()->policy.schedule != plan::Schedule{};
        if (ordered) tasks *= options_.ordered;
        mcmc.own_budget = true;
        mcmc.proposals = std::min(options_.most_proposals,
                                  options_.work / std::max({ops, tasks, std::int64_t{1}}));
        if (mcmc.proposals < options_.fewest_proposals) return std::nullopt;
        return mcmc;
    }

    /// The last round was still improving the best plan.
    [[nodiscard]] bool goes_on(const Engine& engine) const {
        const std::int64_t end = engine.evaluations();
        return engine.improved_since(end - (end - round_begin_) / 4);
    }

    AutoOptions options_;
    std::int64_t round_begin_ = 0;  ///< in evaluations
};

std::unique_ptr<Searcher> local_search_for(const Engine& engine) {
    if (LoadSearch::applies(engine)) return std::make_unique<LoadSearch>();
    if (CallSearch::applies(engine)) return std::make_unique<CallSearch>();
    return std::make_unique<Mcmc>(McmcOptions{.shakes = kShakes});
}

Turns local_search_round(Engine& engine, int /*round*/) {
    return one("local-search", local_search_for(engine));
}

Turns say_what_exact_leaves_out(Engine& engine, int /*round*/) {
    engine.note("exact: no proof beyond the lower bound for this objective.");
    return {};
}

std::vector<Stage> proving_stages(const ExactOptions& options) {
    const auto contiguous = [](Engine& /*engine*/, int /*round*/) {
        return one("exact", std::make_unique<Contiguous>());
    };
    const auto anneal = [](Engine& /*engine*/, int /*round*/) {
        return one("exact", std::make_unique<LoadSearch>(
                                LoadSearchOptions{.most_work = kExactMoves, .own_budget = true}));
    };
    const auto prove = [options](Engine& /*engine*/, int /*round*/) {
        return one("exact", std::make_unique<Exact>(options));
    };
    return {{.round = contiguous}, {.round = anneal}, {.round = prove}};
}

}  // namespace

std::unique_ptr<Searcher> make_auto(const AutoOptions& options) {
    return after_quick_searchers({.round = RestOfAuto(options), .rounds = options.most_rounds});
}

std::unique_ptr<Searcher> make_mcmc(const McmcOptions& options) {
    return after_quick_searchers({.round = [options](Engine& /*engine*/, int /*round*/) {
        return one("mcmc", std::make_unique<Mcmc>(options));
    }});
}

std::unique_ptr<Searcher> make_local_search() {
    return after_quick_searchers({.round = local_search_round});
}

std::unique_ptr<Searcher> make_exact(const Engine& engine, const ExactOptions& options) {
    check_exact_engine(engine.options().exact_engine);
    if (LoadSearch::applies(engine)) {
        return std::make_unique<StagedSearch>(proving_stages(options));
    }
    std::vector<Stage> stages = quick_stages(kQuickShare);
    stages.push_back({.round = local_search_round});
    stages.push_back({.round = say_what_exact_leaves_out});
    return std::make_unique<StagedSearch>(std::move(stages));
}

}  // namespace partita::search
