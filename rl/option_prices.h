// SPDX-License-Identifier: Apache-2.0
//
// What options cost, each by itself: the figures that a policy sees of them. They are features, not
// predictions: what a plan is worth the evaluator says.
//
//     compute    forward, backward and update of the decision's ops, slowest part    (plan/evaluation/additive.h)
//     sync       what copies of its parameters cost, if nothing hides it
//     transfer   of a tensor from the producer's option to this one: on one block as the additive evaluator has it,
//                between blocks a share of it from device to device, and its gradient back
//
// Seconds and bytes, under the problem's own policy. Threads: fills itself, one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "plan/evaluation/additive.h"
#include "plan/tensors/lowering_cache.h"
#include "rl/action_space.h"

namespace partita::rl {

struct OptionPrice {
    double compute = 0;
    double sync = 0;
    double bytes = 0;  ///< on each device of the block
};

/// A tensor that a decision reads and an earlier one makes.
struct DecisionEdge {
    std::uint32_t producer = 0;  ///< decision
    graph::TensorId tensor;
    graph::OpId from;
    graph::Use use;
    double bytes = 0;          ///< or what its communication costs where that is given; > 0
    std::uint32_t number = 0;  ///< of all edges
};

class OptionPrices {
public:
    explicit OptionPrices(ActionSpace& space);
    ~OptionPrices();
    OptionPrices(const OptionPrices&) = delete;
    OptionPrices& operator=(const OptionPrices&) = delete;

    [[nodiscard]] const OptionPrice& price(std::size_t decision, std::size_t option) {
        OfDecision& of = of_[decision];
        if (of.known[option] == 0) find_price(decision, option);
        return of.prices[option];
    }
    [[nodiscard]] std::span<const DecisionEdge> incoming(std::size_t decision) const {
        return incoming_[decision];
    }
    double transfer(const DecisionEdge& edge, std::size_t reader, std::size_t from, std::size_t to);

    /// Computation of a decision on the device that is quickest.
    [[nodiscard]] double least_compute(std::size_t decision) const { return of_[decision].least; }
    /// An even share of all that: a length of time to measure others by; > 0.
    [[nodiscard]] double even_share() const { return even_share_; }

private:
    struct OfDecision {
        std::vector<OptionPrice> prices;
        std::vector<char> known;
        double least = 0;
        double kept = 0;   ///< bytes of parameters and the like, whole
        double saved = 0;  ///< and of what is saved for backward
    };

    void find_edges();
    void find_price(std::size_t decision, std::size_t option);
    [[nodiscard]] OptionPrice price_whole(std::size_t decision, int device) const;
    OptionPrice price_split(std::size_t decision, std::size_t option);
    double sync_of(graph::OpId source, const plan::OpLayouts& home, std::size_t decision,
                   std::size_t option);
    double reshard(const DecisionEdge& edge, std::size_t reader, std::size_t from, std::size_t to);
    [[nodiscard]] double copy(const DecisionEdge& edge, const Block& from, const Block& to) const;
    const plan::OpLayouts& layouts(graph::OpId op, std::size_t decision, std::size_t option);
    void trim();

    ActionSpace& space_;
    const plan::Problem& problem_;
    std::unique_ptr<plan::LoweringCache> cache_;
    std::unique_ptr<plan::AdditivePrices> prices_;
    std::vector<OfDecision> of_;
    Csr<DecisionEdge> incoming_;
    double even_share_ = 0;
    std::unordered_map<std::uint64_t, float> transfers_;  ///< looked up only
};

}  // namespace partita::rl
