// SPDX-License-Identifier: Apache-2.0
#include "search/variable_elimination/variable_elimination.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "search/variable_elimination/cost_terms.h"
#include "search/variable_elimination/dominated_choices.h"

namespace partita::search {

namespace {

using Cost = std::int64_t;

/// How a variable's choice follows from others'.
struct Step {
    int variable = 0;
    std::vector<int> scope;
    std::vector<std::uint16_t> choices;  ///< per combination of theirs
};

/// Sizes of tables are compared by logarithms, in 1024ths of a bit, so that they never overflow.
std::int64_t log_of(std::size_t choices) {
    std::int64_t log = 0;
    // ceil(1024 log2(n)) by squaring: the bits behind the point, one by one.
    double x = static_cast<double>(choices);
    while (x >= 2) {
        x /= 2;
        log += 1024;
    }
    for (std::int64_t bit = 512; bit > 0; bit /= 2) {
        x *= x;
        if (x < 2) continue;
        x /= 2;
        log += bit;
    }
    return log;
}

class Eliminating {
public:
    Eliminating(const CostGraph& graph, const EliminationLimits& limits)
        : graph_(graph),
          limits_(limits),
          kept_(undominated_choices(graph)),
          nodes_(graph.nodes.size()),
          terms_of_(graph.nodes.size()),
          neighbours_(graph.nodes.size()),
          weights_(graph.nodes.size(), 0) {
        for (std::size_t v = 0; v < nodes_.size(); ++v) {
            for (const int k : kept_[v]) nodes_[v].push_back(graph.nodes[v][at(k)]);
            counts_.push_back(nodes_[v].size());
            logs_.push_back(log_of(nodes_[v].size()));
        }
        for (const CostGraph::Edge& edge : graph.edges) add_edge(edge);
        for (std::size_t v = 0; v < nodes_.size(); ++v) queue_.insert(key_of(static_cast<int>(v)));
    }

    Elimination run() {
        while (!queue_.empty()) {
            const auto [weight, degree, v] = *queue_.begin();
            if (weight > most_weight()) {
                fix(widest());
            } else {
                remove(v);
            }
        }
        return go_back();
    }

private:
    using Key = std::tuple<std::int64_t, std::size_t, int>;

    [[nodiscard]] static std::size_t at(int v) { return static_cast<std::size_t>(v); }
    [[nodiscard]] std::size_t count(int v) const { return counts_[at(v)]; }
    [[nodiscard]] Key key_of(int v) const {
        return {weights_[at(v)], neighbours_[at(v)].size(), v};
    }
    /// Tables become small when the work is spent.
    [[nodiscard]] std::int64_t most_weight() const {
        constexpr std::int64_t kFew = 1 << 12;
        const std::int64_t most =
            work_ < limits_.most_work ? limits_.most_entries : std::min(kFew, limits_.most_entries);
        return log_of(static_cast<std::size_t>(std::max<std::int64_t>(most, 1)));
    }

    void join(int a, int b) {
        if (!neighbours_[at(a)].insert(b).second) return;
        neighbours_[at(b)].insert(a);
        weights_[at(a)] += logs_[at(b)];
        weights_[at(b)] += logs_[at(a)];
    }

    void part(int gone, int from) {
        neighbours_[at(from)].erase(gone);
        weights_[at(from)] -= logs_[at(gone)];
    }

    /// The table of the choices that are left, the lower variable first.
    void add_edge(const CostGraph::Edge& edge) {
        assert(edge.a != edge.b);
        const std::size_t columns = graph_.nodes[at(edge.b)].size();
        const auto cost = [&](int of_a, int of_b) {
            return (*edge.costs)[at(of_a) * columns + at(of_b)];
        };
        const bool in_order = edge.a < edge.b;
        const int low = in_order ? edge.a : edge.b;
        const int high = in_order ? edge.b : edge.a;
        std::vector<Cost> costs;
        costs.reserve(count(low) * count(high));
        for (const int i : kept_[at(low)]) {
            for (const int j : kept_[at(high)]) {
                costs.push_back(in_order ? cost(i, j) : cost(j, i));
            }
        }
        if (count(low) > 1 && count(high) > 1) {
            add_pair(low, high, std::move(costs));
        } else {
            add_result({count(low) > 1 ? low : high}, std::move(costs));
        }
    }

    void add_pair(int a, int b, std::vector<Cost> costs) {
        join(a, b);
        const auto [known, is_new] = pairs_.try_emplace({a, b}, terms_.size());
        if (!is_new) {
            std::vector<Cost>& sums = terms_[known->second].costs;
            for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += costs[i];
            return;
        }
        add_term({{a, b}, std::move(costs)});
    }

    void add_term(CostTerm term) {
        for (const int v : term.scope) terms_of_[at(v)].insert(terms_.size());
        terms_.push_back(std::move(term));
    }

    /// A term of no variable is part of the value, which is summed up at the end.
    void add_result(const std::vector<int>& scope, std::vector<Cost> costs) {
        if (scope.empty()) return;
        if (scope.size() == 1) {
            std::vector<Cost>& node = nodes_[at(scope[0])];
            for (std::size_t k = 0; k < node.size(); ++k) node[k] += costs[k];
        } else if (scope.size() == 2) {
            add_pair(scope[0], scope[1], std::move(costs));
        } else {
            for (std::size_t i = 0; i < scope.size(); ++i) {
                for (std::size_t j = i + 1; j < scope.size(); ++j) join(scope[i], scope[j]);
            }
            add_term({scope, std::move(costs)});
        }
    }

    void forget(std::size_t term) {
        const std::vector<int>& scope = terms_[term].scope;
        for (const int v : scope) terms_of_[at(v)].erase(term);
        if (scope.size() == 2) {
            const auto known = pairs_.find({scope[0], scope[1]});
            if (known != pairs_.end() && known->second == term) pairs_.erase(known);
        }
        terms_[term] = {};
    }

    [[nodiscard]] std::vector<const CostTerm*> terms_of(int v) const {
        std::vector<const CostTerm*> terms;
        for (const std::size_t t : terms_of_[at(v)]) terms.push_back(&terms_[t]);
        return terms;
    }

    /// The variable's best choice for every combination of its neighbours'.
    void remove(int v) {
        const std::vector<int> scope(neighbours_[at(v)].begin(), neighbours_[at(v)].end());
        const std::vector<const CostTerm*> terms = terms_of(v);
        TermSum sum(v, scope, terms, counts_);
        const std::vector<Cost>& node = nodes_[at(v)];
        Step step{.variable = v, .scope = scope, .choices = {}};
        std::vector<Cost> table;
        std::vector<Cost> sums(node.size());
        do {
            sums = node;
            sum.add_to(sums);
            const auto best = std::ranges::min_element(sums);
            table.push_back(*best);
            step.choices.push_back(static_cast<std::uint16_t>(best - sums.begin()));
        } while (sum.advance());
        work_ += static_cast<std::int64_t>(table.size() * node.size() * (terms.size() + 1));
        result_.width = std::max(result_.width, static_cast<int>(scope.size()));
        leave(v, scope, [&] { add_result(scope, std::move(table)); });
        steps_.push_back(std::move(step));
    }

    /// Takes the variable and its terms out; `then` may add terms of its neighbours.
    template <class Then>
    void leave(int v, const std::vector<int>& scope, Then then) {
        queue_.erase(key_of(v));
        for (const int other : scope) queue_.erase(key_of(other));
        const std::vector<std::size_t> gone(terms_of_[at(v)].begin(), terms_of_[at(v)].end());
        for (const int other : scope) part(v, other);
        neighbours_[at(v)].clear();
        weights_[at(v)] = 0;
        then();
        for (const std::size_t term : gone) forget(term);
        for (const int other : scope) queue_.insert(key_of(other));
    }

    [[nodiscard]] int widest() const {
        int widest = -1;
        for (const auto& [weight, degree, v] : queue_) {
            if (widest < 0 || weight > weights_[at(widest)]) widest = v;
        }
        return widest;
    }

    /// By the least that each term could then be.
    [[nodiscard]] std::size_t promising_choice(int v) const {
        std::vector<Cost> least = nodes_[at(v)];
        for (const CostTerm* const term : terms_of(v)) {
            const std::vector<Cost> own = least_by_choice(*term, v, counts_);
            for (std::size_t k = 0; k < own.size(); ++k) least[k] += own[k];
        }
        return static_cast<std::size_t>(std::ranges::min_element(least) - least.begin());
    }

    void fix(int v) {
        const std::size_t choice = promising_choice(v);
        ++result_.fixed;
        result_.exact = false;
        const std::vector<int> scope(neighbours_[at(v)].begin(), neighbours_[at(v)].end());
        std::vector<CostTerm> slices;
        for (const CostTerm* const term : terms_of(v)) {
            slices.push_back(slice(*term, v, choice, counts_));
        }
        leave(v, scope, [&] {
            for (CostTerm& of : slices) add_result(of.scope, std::move(of.costs));
        });
        steps_.push_back({v, {}, {static_cast<std::uint16_t>(choice)}});
    }

    Elimination go_back() {
        result_.choices.assign(nodes_.size(), 0);
        for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
            std::size_t row = 0;
            for (const int other : step->scope) {
                row = row * count(other) + at(result_.choices[at(other)]);
            }
            result_.choices[at(step->variable)] = step->choices[row];
        }
        for (std::size_t v = 0; v < nodes_.size(); ++v) {
            result_.choices[v] = kept_[v][at(result_.choices[v])];
        }
        if (!result_.exact) descend(graph_, result_.choices);
        result_.value = value_of(graph_, result_.choices);
        return std::move(result_);
    }

    const CostGraph& graph_;
    const EliminationLimits& limits_;
    std::vector<std::vector<int>> kept_;    ///< per variable: choices that are not dominated
    std::vector<std::vector<Cost>> nodes_;  ///< of these, with what leaves have become
    ChoiceCounts counts_;                   ///< of these
    std::vector<CostTerm> terms_;           ///< of two variables and more
    std::vector<std::set<std::size_t>> terms_of_;
    std::map<std::pair<int, int>, std::size_t> pairs_;  ///< their terms
    std::vector<std::set<int>> neighbours_;
    std::vector<std::int64_t> logs_;     ///< of numbers of choices
    std::vector<std::int64_t> weights_;  ///< of the table that would stay
    std::set<Key> queue_;
    std::vector<Step> steps_;
    std::int64_t work_ = 0;
    Elimination result_;
};

}  // namespace

Elimination eliminate(const CostGraph& graph, const EliminationLimits& limits) {
    return Eliminating(graph, limits).run();
}

}  // namespace partita::search
