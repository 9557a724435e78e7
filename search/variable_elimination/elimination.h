// SPDX-License-Identifier: Apache-2.0
//
// Elimination: the best split of every op if nothing overlapped, found by dynamic programming
// instead of by trying. In the additive evaluator (plan/evaluation/additive.h) every term is about
// one op or two neighbours, so ops are eliminated one after the other (variable_elimination.h) from
// a graph of their configs (elimination_space.h), in any shape of graph and exactly while its
// treewidth is small.
//
//     x ─▶ conv ─▶ conv ─┬▶ conv ─▶ conv ─┐
//                        └▶ pool ─────────┴▶ concat ─▶ ...      two neighbours at a time are enough
//
// Proposed are the optimum, and those with the reshards of parameters and their gradients at half
// of their time and for nothing, because these overlap with the backward; each as the timeline
// prices it. Where none fits the memory, bytes of a device get a price, and the least price at
// which a plan fits is looked for by bisection; then single ops are moved (memory_repair.h).
//
// Devices: those of the fastest kind, which are taken to be equally near one another; a note says
// which are left out. The number of micro-batches is the policy's.
//
// Optimal: for the additive evaluator over the configs of elimination_space.h, without regard to
// memory; a note says where the graph is too wide for that. Not for the timeline.
// Ends: after a dozen evaluations. Random: none. Threads: one.
// Source: Jia, Lin, Qi, Aiken, Exploring Hidden Dimensions in Parallelizing Convolutional Neural
// Networks, ICML 2018 (OptCNN); REFERENCES.md 6.9.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "plan/strategy/strategy.h"
#include "search/core/searcher.h"
#include "search/variable_elimination/elimination_space.h"

namespace partita::search {

struct EliminationOptions {
    /// Two axes per op on so many devices at most; more have one.
    std::size_t most_devices_of_two_axes = 8;
    /// Single ops are moved where no price of bytes makes the optimum fit.
    bool repair = true;
};

class EliminationSearch final : public Searcher {
public:
    explicit EliminationSearch(EliminationOptions options = {});
    ~EliminationSearch() override;

    [[nodiscard]] Status step(Engine& engine) override;

private:
    struct Proposal {
        plan::Strategy strategy;
        bool fits = false;
    };

    void open(Engine& engine);
    /// Whether the optimum under these weights fits; nullopt: the budget is spent.
    std::optional<bool> propose(Engine& engine, const CostWeights& weights);
    [[nodiscard]] Status fit(Engine& engine);
    void note_devices(Engine& engine, const std::vector<int>& devices) const;

    EliminationOptions options_;
    std::unique_ptr<EliminationSpace> space_;
    std::vector<Proposal> proposed_;
    bool fits_ = false;
    bool noted_width_ = false;
};

}  // namespace partita::search
