// SPDX-License-Identifier: Apache-2.0
#include "search/variable_elimination.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "search/dominated_choices.h"

namespace partita::search {

namespace {

using Cost = std::int64_t;

/// A term of a few variables.
struct Term {
    std::vector<int> scope;   ///< rising
    std::vector<Cost> costs;  ///< the last variable fastest
};

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

/// A term and a place in it, in a loop over the combinations of a scope.
struct Cursor {
    std::vector<Cost> costs;           ///< the variable's choices fastest
    std::vector<std::size_t> strides;  ///< per variable of the scope; 0: not in the term
    std::size_t at = 0;
};

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
    [[nodiscard]] std::size_t count(int v) const { return nodes_[at(v)].size(); }
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

    void add_term(Term term) {
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

    /// The variable's terms, turned so that its own choices lie side by side.
    [[nodiscard]] std::vector<Cursor> cursors_of(int v, const std::vector<int>& scope) const {
        std::vector<Cursor> cursors;
        for (const std::size_t t : terms_of_[at(v)]) {
            const Term& term = terms_[t];
            Cursor& cursor = cursors.emplace_back();
            cursor.strides.assign(scope.size(), 0);
            std::size_t inner = 1;  // behind the variable
            std::size_t stride = count(v);
            bool behind = true;
            for (std::size_t i = term.scope.size(); i-- > 0;) {
                const int other = term.scope[i];
                if (other == v) {
                    behind = false;
                    continue;
                }
                const auto place = std::ranges::lower_bound(scope, other) - scope.begin();
                cursor.strides[static_cast<std::size_t>(place)] = stride;
                stride *= count(other);
                if (behind) inner *= count(other);
            }
            cursor.costs = turned(term.costs, count(v), inner);
        }
        return cursors;
    }

    /// [outer][own][inner] as [outer][inner][own].
    [[nodiscard]] static std::vector<Cost> turned(const std::vector<Cost>& costs, std::size_t own,
                                                  std::size_t inner) {
        if (inner == 1) return costs;
        std::vector<Cost> turned(costs.size());
        for (std::size_t block = 0; block < costs.size(); block += own * inner) {
            for (std::size_t k = 0; k < own; ++k) {
                for (std::size_t i = 0; i < inner; ++i) {
                    turned[block + i * own + k] = costs[block + k * inner + i];
                }
            }
        }
        return turned;
    }

    /// The next combination of the scope; false after the last.
    bool advance(const std::vector<int>& scope, std::vector<std::size_t>& digits,
                 std::vector<Cursor>& cursors) const {
        for (std::size_t i = scope.size(); i-- > 0;) {
            ++digits[i];
            for (Cursor& cursor : cursors) cursor.at += cursor.strides[i];
            if (digits[i] < count(scope[i])) return true;
            for (Cursor& cursor : cursors) cursor.at -= digits[i] * cursor.strides[i];
            digits[i] = 0;
        }
        return false;
    }

    /// The variable's best choice for every combination of its neighbours'.
    void remove(int v) {
        const std::vector<int> scope(neighbours_[at(v)].begin(), neighbours_[at(v)].end());
        std::vector<Cursor> cursors = cursors_of(v, scope);
        const std::vector<Cost>& node = nodes_[at(v)];
        Step step{.variable = v, .scope = scope, .choices = {}};
        std::vector<Cost> table;
        std::vector<std::size_t> digits(scope.size(), 0);
        std::vector<Cost> sums(node.size());
        do {
            sums = node;
            for (const Cursor& cursor : cursors) {
                const Cost* costs = cursor.costs.data() + cursor.at;
                for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += costs[k];
            }
            const auto best = std::ranges::min_element(sums);
            table.push_back(*best);
            step.choices.push_back(static_cast<std::uint16_t>(best - sums.begin()));
        } while (advance(scope, digits, cursors));
        work_ += static_cast<std::int64_t>(table.size() * node.size() * (cursors.size() + 1));
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
        for (const std::size_t t : terms_of_[at(v)]) {
            const Term& term = terms_[t];
            std::size_t stride = 1;
            for (std::size_t i = term.scope.size(); term.scope[--i] != v;) {
                stride *= count(term.scope[i]);
            }
            std::vector<Cost> own(least.size(), std::numeric_limits<Cost>::max());
            for (std::size_t i = 0; i < term.costs.size(); ++i) {
                Cost& of = own[i / stride % own.size()];
                of = std::min(of, term.costs[i]);
            }
            for (std::size_t k = 0; k < own.size(); ++k) least[k] += own[k];
        }
        return static_cast<std::size_t>(std::ranges::min_element(least) - least.begin());
    }

    void fix(int v) {
        const std::size_t choice = promising_choice(v);
        ++result_.fixed;
        result_.exact = false;
        const std::vector<int> scope(neighbours_[at(v)].begin(), neighbours_[at(v)].end());
        std::vector<std::pair<std::vector<int>, std::vector<Cost>>> slices;
        for (const std::size_t t : terms_of_[at(v)]) slices.push_back(slice(terms_[t], v, choice));
        leave(v, scope, [&] {
            for (auto& [of, costs] : slices) add_result(of, std::move(costs));
        });
        steps_.push_back({v, {}, {static_cast<std::uint16_t>(choice)}});
    }

    [[nodiscard]] std::pair<std::vector<int>, std::vector<Cost>> slice(const Term& term, int v,
                                                                       std::size_t choice) const {
        std::pair<std::vector<int>, std::vector<Cost>> of;
        std::size_t stride = 1;
        bool behind = true;
        for (std::size_t i = term.scope.size(); i-- > 0;) {
            if (term.scope[i] == v) behind = false;
            if (behind) stride *= count(term.scope[i]);
        }
        for (const int other : term.scope) {
            if (other != v) of.first.push_back(other);
        }
        for (std::size_t i = 0; i < term.costs.size(); ++i) {
            if (i / stride % count(v) == choice) of.second.push_back(term.costs[i]);
        }
        return of;
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
        if (!result_.exact) improve();
        result_.value = value_of(graph_, result_.choices);
        return std::move(result_);
    }

    /// One variable after the other, the others as they are, until no change is better.
    void improve() {
        constexpr int kMostRounds = 100;
        std::vector<std::vector<std::size_t>> edges_of(graph_.nodes.size());
        for (std::size_t e = 0; e < graph_.edges.size(); ++e) {
            edges_of[at(graph_.edges[e].a)].push_back(e);
            edges_of[at(graph_.edges[e].b)].push_back(e);
        }
        bool better = true;
        for (int round = 0; round < kMostRounds && better; ++round) {
            better = false;
            for (std::size_t v = 0; v < graph_.nodes.size(); ++v) {
                better |= improve(static_cast<int>(v), edges_of[v]);
            }
        }
    }

    bool improve(int v, const std::vector<std::size_t>& edges) {
        std::vector<Cost> sums = graph_.nodes[at(v)];
        for (const std::size_t e : edges) {
            const CostGraph::Edge& edge = graph_.edges[e];
            const bool first = edge.a == v;
            const std::size_t other = at(result_.choices[at(first ? edge.b : edge.a)]);
            const std::size_t columns = graph_.nodes[at(edge.b)].size();
            for (std::size_t k = 0; k < sums.size(); ++k) {
                sums[k] += (*edge.costs)[first ? k * columns + other : other * columns + k];
            }
        }
        int& choice = result_.choices[at(v)];
        const auto best = std::ranges::min_element(sums);
        if (*best == sums[at(choice)]) return false;
        choice = static_cast<int>(best - sums.begin());
        return true;
    }

    const CostGraph& graph_;
    const EliminationLimits& limits_;
    std::vector<std::vector<int>> kept_;    ///< per variable: choices that are not dominated
    std::vector<std::vector<Cost>> nodes_;  ///< of these, with what leaves have become
    std::vector<Term> terms_;               ///< of two variables and more
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

std::int64_t value_of(const CostGraph& graph, const std::vector<int>& choices) {
    std::int64_t value = 0;
    const auto choice = [&](int v) {
        return static_cast<std::size_t>(choices[static_cast<std::size_t>(v)]);
    };
    for (std::size_t v = 0; v < graph.nodes.size(); ++v) {
        value += graph.nodes[v][static_cast<std::size_t>(choices[v])];
    }
    for (const CostGraph::Edge& edge : graph.edges) {
        const std::size_t columns = graph.nodes[static_cast<std::size_t>(edge.b)].size();
        value += (*edge.costs)[choice(edge.a) * columns + choice(edge.b)];
    }
    return value;
}

}  // namespace partita::search
