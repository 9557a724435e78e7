// SPDX-License-Identifier: Apache-2.0
//
// What `elimination` chooses among: a list of configs per op over nested sets of equal devices, and what
// every pair of neighbouring configs costs in the additive evaluator (plan/additive.h).
//
//     sets      all devices, and the first n / 2, n / 3, ... of them for divisors and powers of two: only
//               one set per size, because nothing overlaps and so nothing is gained elsewhere
//     degrees   none; one axis: any factor (in blocks too), reductions and replicas included; two axes:
//               two factors of the results, the first one major                 (detail::two_axes)
//     sources   with one reader, as it needs them; trained ones with their updates or themselves in shards
//               too (parameter_homes.h): the cheapest way is part of the reader's cost. With several
//               readers: an op of its own whose configs are all of these ways
//     together  ops that must share devices lie whole on one of the devices that all of them may use
//
// Ops that are alike (one rule, one attribute list, operands and results alike) share a list, and pairs
// of these share a table, so that repeated modules are priced once.
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

#include "plan/additive.h"
#include "plan/layout_cache.h"
#include "plan/problem.h"
#include "plan/strategy.h"
#include "search/factor_blocks.h"
#include "search/parameter_homes.h"
#include "search/variable_elimination.h"

namespace partita::search {

/// How many configs an op has: the larger a problem, the fewer.
enum class Detail : std::uint8_t {
    whole_or_batch,  ///< on one device, split along one factor over all, or repeated there
    one_axis,        ///< sets of all sizes, one axis
    two_axes,        ///< two as well
};

/// What the sum is to weigh.
struct CostWeights {
    /// Of reshards of parameters and their gradients, in halves: what will overlap costs less than its
    /// time.
    std::int64_t parameter_halves = 2;
    /// Picoseconds per MiB on the first device, which holds a part of everything that is split.
    std::int64_t per_mebibyte = 0;
};

class EliminationSpace {
public:
    /// Over these devices, which should be equal. Prices everything: its work is what takes time.
    EliminationSpace(const plan::Problem& problem, std::vector<int> devices, Detail detail);
    ~EliminationSpace();
    EliminationSpace(const EliminationSpace&) = delete;
    EliminationSpace& operator=(const EliminationSpace&) = delete;

    /// The detail that is worth its time.
    static Detail detail_for(const plan::Problem& problem, std::size_t devices);

    /// One variable per op, or per ops that must share a device; the cost of tables is shared.
    [[nodiscard]] CostGraph costs(const CostWeights& weights);
    /// The strategy of these choices of variables, under the weights they were found with.
    [[nodiscard]] plan::Strategy strategy(std::span<const int> choices,
                                          const CostWeights& weights) const;

    [[nodiscard]] std::size_t variables() const { return members_.size(); }
    [[nodiscard]] std::size_t most_choices() const;

private:
    /// A way to keep a source that only one op reads.
    struct Way {
        Home home = Home::as_read;
        std::int64_t time = 0;
        std::int64_t bytes = 0;
    };
    struct Choice {
        plan::OpConfig config;
        plan::UpdateConfig update;
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

    void find_sets();
    void find_variables();
    void find_lists();
    void find_edges();
    [[nodiscard]] bool is_folded(graph::TensorId t) const;
    [[nodiscard]] std::vector<std::int64_t> traits_of(graph::OpId op) const;
    std::size_t list_of_op(graph::OpId op);
    void list_source(graph::OpId source, ChoiceList& list);
    [[nodiscard]] std::vector<plan::OpConfig> configs_of(graph::OpId op) const;
    void add_degrees(graph::OpId op, const plan::DeviceSet& set,
                     std::vector<plan::OpConfig>& configs) const;
    [[nodiscard]] bool is_legal(graph::OpId op, const plan::OpConfig& config) const;
    void add_choice(graph::OpId op, plan::OpConfig config, ChoiceList& list);
    std::vector<Way> ways_of(graph::OpId op, std::uint32_t operand, const Choice& reader);
    [[nodiscard]] std::vector<Kept> kept_ways(graph::OpId source, const plan::OpConfig& read) const;
    [[nodiscard]] std::int64_t bytes_of(graph::OpId op, const plan::OpLayouts& layouts);
    [[nodiscard]] std::int64_t source_bytes(graph::TensorId t, const plan::OpLayouts& home,
                                            const plan::OpLayouts* updated);
    [[nodiscard]] std::int64_t piece_bytes(graph::TensorId t, std::int32_t layout);
    void add_edge(graph::TensorId t, graph::Use use);
    void fill(Table& table, graph::TensorId t, graph::Use use, const ChoiceList& from,
              const ChoiceList& to);
    const plan::OpLayouts& layouts(graph::OpId op, const plan::OpConfig& config);

    const plan::Problem& problem_;
    const plan::Policy policy_;
    const std::vector<int> devices_;
    const Detail detail_;
    plan::LayoutCache cache_;
    plan::AdditivePrices prices_;
    std::vector<std::vector<FactorBlocks>> blocks_;  ///< per op
    std::vector<plan::DeviceSet> sets_;              ///< most devices first
    std::vector<int> together_;             ///< per op: of Constraints::together, joined; or -1
    std::vector<std::vector<int>> common_;  ///< per joined group: devices that all may use
    std::vector<int> variable_of_;          ///< per op; -1: it has none
    std::vector<std::vector<graph::OpId>> members_;  ///< per variable
    std::deque<ChoiceList> lists_;
    std::vector<std::size_t> list_of_;  ///< per op that has a variable
    std::map<std::vector<std::int64_t>, std::size_t> known_lists_;
    std::vector<Edge> edges_;
    std::deque<Table> tables_;
    std::map<std::vector<std::int64_t>, std::size_t> known_tables_;
    std::deque<std::vector<std::int64_t>> scaled_;  ///< tables under the latest weights
};

}  // namespace partita::search
