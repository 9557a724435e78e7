// SPDX-License-Identifier: Apache-2.0
//
// What `elimination` chooses among: a list of configs per variable (elimination_variables.h), and
// what every pair of neighbouring configs costs in the additive evaluator
// (plan/evaluation/additive.h).
//
//     ops       config_lists.h
//     sources   with one reader, as it needs them; trained ones with their updates or themselves in shards
//               too (parameter_sharding.h): the cheapest way is part of the reader's cost. With several
//               readers: an op of its own whose configs are all of these ways
//     together  ops that must share devices lie whole on one of the devices that all of them may use
//
// Ops that are alike (one rule, one attribute list, operands and results alike) share a list, and
// pairs of these share a table, so that repeated modules are priced once.
//
// Threads: none shared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "plan/evaluation/additive.h"
#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"
#include "plan/tensors/lowering_cache.h"
#include "search/configs/config_lists.h"
#include "search/configs/parameter_sharding.h"
#include "search/variable_elimination/elimination_variables.h"
#include "search/variable_elimination/variable_elimination.h"

namespace partita::search {

/// What the sum is to weigh.
struct CostWeights {
    /// Of reshards of parameters and their gradients, in halves: what will overlap costs less than
    /// its time.
    std::int64_t parameter_halves = 2;
    /// Picoseconds per MiB on the first device, which holds a part of everything that is split.
    std::int64_t per_mebibyte = 0;
};

class EliminationSpace {
public:
    /// Over these devices, which should be equal. Prices everything: its work is what takes time.
    EliminationSpace(const plan::Problem& problem, const std::vector<int>& devices, Detail detail);
    ~EliminationSpace();
    EliminationSpace(const EliminationSpace&) = delete;
    EliminationSpace& operator=(const EliminationSpace&) = delete;

    /// One variable per op, or per ops that must share a device; the cost of tables is shared.
    [[nodiscard]] CostGraph costs(const CostWeights& weights);
    /// The strategy of these choices of variables, under the weights they were found with.
    [[nodiscard]] plan::Strategy strategy(std::span<const int> choices,
                                          const CostWeights& weights) const;

    [[nodiscard]] std::size_t variables() const { return variables_.members().size(); }
    [[nodiscard]] std::size_t most_choices() const;

private:
    /// A way to keep a source that only one op reads.
    struct Way {
        ParameterSharding sharding = ParameterSharding::as_read;
        std::int64_t time = 0;
        std::int64_t bytes = 0;
    };
    struct Choice {
        plan::OpDecision decision;
        const plan::OpLayouts* layouts = nullptr;
        const plan::OpLayouts* updated = nullptr;  ///< null but of trained parameters
        std::int64_t time = 0;
        std::int64_t bytes = 0;
        std::vector<std::vector<Way>> sources;  ///< per operand in `folded`
    };
    struct ChoiceList {
        std::vector<Choice> choices;
        std::vector<std::uint32_t> folded;  ///< operands with a source of their own
        bool parameter = false;             ///< a trained one, of several readers
    };
    struct Table {
        std::vector<std::int64_t> costs;
        bool parameter = false;
    };
    struct Edge {
        int a = 0;
        int b = 0;
        std::size_t table = 0;
    };

    void find_lists();
    void find_edges();
    [[nodiscard]] std::vector<std::int64_t> traits_of(graph::OpId op) const;
    std::size_t list_of_op(graph::OpId op);
    void list_source(graph::OpId source, ChoiceList& list);
    void add_choice(graph::OpId op, plan::OpConfig config, ChoiceList& list);
    std::vector<Way> ways_of(graph::OpId op, std::uint32_t operand, const Choice& reader);
    [[nodiscard]] std::vector<plan::OpDecision> shardings_of(graph::OpId source,
                                                             const plan::OpConfig& read) const;
    [[nodiscard]] std::int64_t bytes_of(graph::OpId op, const plan::OpLayouts& layouts);
    [[nodiscard]] std::int64_t source_bytes(graph::TensorId t, const plan::OpLayouts& home,
                                            const plan::OpLayouts* updated);
    /// Elements, and their bytes.
    [[nodiscard]] std::int64_t largest_piece(std::int32_t layout);
    [[nodiscard]] std::int64_t piece_bytes(graph::TensorId t, std::int32_t layout);
    void add_edge(graph::TensorId t, graph::Use use);
    void fill(Table& table, graph::TensorId t, graph::Use use, const ChoiceList& from,
              const ChoiceList& to);
    const plan::OpLayouts& layouts(graph::OpId op, const plan::OpConfig& config);

    const plan::Problem& problem_;
    const plan::Policy policy_;
    ConfigLists configs_;
    EliminationVariables variables_;
    plan::LoweringCache cache_;
    plan::AdditivePrices prices_;
    std::deque<ChoiceList> lists_;
    std::vector<std::size_t> list_of_;  ///< per op that has a variable
    std::map<std::vector<std::int64_t>, std::size_t> known_lists_;
    std::vector<Edge> edges_;
    std::deque<Table> tables_;
    std::map<std::vector<std::int64_t>, std::size_t> known_tables_;
    std::deque<std::vector<std::int64_t>> scaled_;  ///< tables under the latest weights
};

}  // namespace partita::search
