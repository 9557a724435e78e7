// SPDX-License-Identifier: Apache-2.0
//
// What a policy chooses among. First how an iteration goes (micro-batches, their order, where
// parameters are kept, as far as the search may choose), then for every decision (decisions.h) a
// block of devices and a kind of split:
//
//     block   device 2     devices 0..3     every other one         the config table's sets
//     kind    sample x 4   parameter x 4    sample x 2, reduction x 2    classes of graph/operators/soap.h
//
// A kind says nothing about factors' names, so a policy that learned on one graph can name it on
// another. What that means for each op: option_configs.h.
//
// Every combination of choices is a legal strategy (plan/legality/config_legality.h); whether it
// fits the memory, or is a pipeline, is the evaluator's matter.
//
// Extends: Mirhoseini et al. 2017 and 2018, which choose a device per group.
// Threads: fills itself, one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "plan/strategy/strategy.h"
#include "rl/decisions.h"
#include "rl/option_configs.h"
#include "rl/split_kind.h"
#include "search/coarsening/group_graph.h"
#include "search/configs/parameter_sharding.h"
#include "search/configs/search_space.h"
#include "search/configs/state_change.h"

namespace partita::rl {

/// Devices that one decision may use together.
struct Block {
    search::DevicesId id = 0;
    plan::DeviceSet set;
    std::vector<int> devices;  ///< of the set

    [[nodiscard]] int size() const { return static_cast<int>(devices.size()); }
};

/// How an iteration goes.
struct Iteration {
    plan::Policy policy;
    /// Of the trained parameters: whole where they are read, updated in shards (ZeRO-1), or kept in
    /// shards (ZeRO-3), as far as copies of them allow.
    search::ParameterSharding sharding = search::ParameterSharding::as_read;
    friend bool operator==(const Iteration&, const Iteration&) = default;
};

struct Option {
    std::int32_t block = 0;  ///< of blocks()
    Kind kind;
    search::DegreesId degrees = 0;  ///< of the decision's lead op
    std::uint64_t legal = 0;        ///< bit i: in iterations()[i]
};

/// The options of a decision on one block: [begin, end).
struct Place {
    std::int32_t block = 0;
    std::int32_t begin = 0;
    std::int32_t end = 0;
};

struct ActionSpaceOptions {
    std::size_t most_decisions = 256;
    std::size_t most_blocks = 128;  ///< of a decision
    std::size_t most_kinds = 16;    ///< on a block
};

class ActionSpace {
public:
    /// `groups` must outlive it.
    explicit ActionSpace(const search::GroupGraph& groups, ActionSpaceOptions options = {});
    ActionSpace(const ActionSpace&) = delete;
    ActionSpace& operator=(const ActionSpace&) = delete;

    [[nodiscard]] const plan::Problem& problem() const { return space_.problem(); }
    [[nodiscard]] search::SearchSpace& space() { return space_; }
    [[nodiscard]] const search::GroupGraph& groups() const { return space_.groups(); }
    [[nodiscard]] const Decisions& decisions() const { return decisions_; }
    [[nodiscard]] std::size_t size() const { return decisions_.size(); }
    [[nodiscard]] std::span<const Block> blocks() const { return blocks_; }
    [[nodiscard]] const Block& block_of(std::size_t decision, std::size_t option) const {
        return blocks_[static_cast<std::size_t>(of_[decision].options[option].block)];
    }
    [[nodiscard]] std::span<const Place> places(std::size_t decision) const {
        return of_[decision].places;
    }
    /// Number of the place that an option is on.
    [[nodiscard]] std::size_t place_of(std::size_t decision, std::int32_t option) const;
    [[nodiscard]] std::span<const Option> options(std::size_t decision) const {
        return of_[decision].options;
    }
    [[nodiscard]] std::span<const graph::OpId> ops(std::size_t decision) const {
        return decisions_.ops[decision];
    }
    /// The op whose degrees the options name; invalid: nothing of the decision computes.
    [[nodiscard]] graph::OpId lead(std::size_t decision) const { return of_[decision].lead; }
    /// The problem's own first.
    [[nodiscard]] std::span<const Iteration> iterations() const { return iterations_; }
    [[nodiscard]] bool is_legal(std::size_t decision, std::size_t option,
                                std::size_t iteration) const {
        return (of_[decision].options[option].legal >> iteration & 1U) != 0;
    }

    /// The configs of all ops of the decision, by op, rising. The reference stays valid.
    const std::vector<OptionConfig>& configs(std::size_t decision, std::size_t option,
                                             std::size_t iteration);
    /// `options`: one per decision, legal in that iteration.
    plan::Strategy strategy(std::size_t iteration, std::span<const std::int32_t> options);

    /// The choices whose strategy is most like a given one: exactly it, if it can be chosen.
    struct Choices {
        std::size_t iteration = 0;
        std::vector<std::int32_t> options;  ///< per decision
    };
    Choices nearest(const plan::Strategy& strategy);
    /// Of the decision's legal options the one most like that: number of devices, then devices,
    /// then degrees, then kind count. `degrees`: of its lead op, or -1.
    [[nodiscard]] std::int32_t option_like(std::size_t decision, const plan::DeviceSet& devices,
                                           const Kind& kind, search::DegreesId degrees,
                                           std::size_t iteration) const;

private:
    struct OfDecision {
        graph::OpId lead;
        std::vector<std::int32_t> sets;  ///< blocks that it may have
        std::vector<Option> options;     ///< by block
        std::vector<Place> places;
        /// By option and number of micro-batches; empty: not found yet.
        std::vector<std::vector<OptionConfig>> configs;
    };

    void find_iterations();
    void keep_parameters(const Iteration& iteration, plan::Strategy& strategy);
    void find_lead(std::size_t decision);
    void find_options(std::size_t decision);
    std::size_t nearest_iteration(const plan::Strategy& strategy,
                                  std::span<const std::int32_t> options);
    [[nodiscard]] std::vector<plan::DeviceSet> device_sets(std::size_t decision);
    std::int32_t block(const plan::DeviceSet& devices);
    void add_place(OfDecision& of, std::int32_t block);
    [[nodiscard]] std::vector<Option> kinds(graph::OpId op, int size, std::int32_t block);
    [[nodiscard]] std::uint64_t legal_iterations(graph::OpId op, search::DegreesId degrees);

    search::SearchSpace space_;
    ActionSpaceOptions limits_;
    Decisions decisions_;
    OptionConfigs option_configs_;
    std::vector<Iteration> iterations_;
    std::vector<search::MicroBatchesId> micro_batches_ids_;  ///< per iteration
    std::size_t micro_batches_id_count_ = 1;
    std::vector<Block> blocks_;
    std::vector<std::int32_t> block_of_;  ///< by DevicesId; -1: none
    std::vector<OfDecision> of_;
};

}  // namespace partita::rl
