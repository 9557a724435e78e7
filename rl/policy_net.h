// SPDX-License-Identifier: Apache-2.0
//
// The policy: a network that reads the graph and writes probabilities of choices, decision by
// decision.
//
//     rows, types ──▶ embedding ──▶ bidirectional LSTM ──▶ encoding [steps, hidden]
//     encoding of d, what was chosen for d - 1 ──▶ LSTM ──▶ attention over the encoding ──▶ z
//     head "how to iterate": once, from the mean of the encoding
//     head "block":          z and each block's features    ──▶ a logit per block
//     head "kind":           z and each option's features   ──▶ a logit per option on the chosen block
//
// Hierarchical: a feed-forward grouper puts every decision into one of a fixed number of groups,
// and what is placed step by step are groups, embedded as the sum of their members' rows, their
// size, and what they send each other. The probability of a placement is that of its groups times
// that of what was chosen for them, so both are learned together.
//
// Heads score features, so a policy fits graphs and machines of any size. A logit u becomes
// C tanh(u / C) / temperature.
//
// The same weights give the probabilities of one step after the other (to sample) and of all steps
// at once (to learn); both agree to rounding.
//
// Source: Mirhoseini et al. 2017, section 3 (sequence, attention, device fed back); Bello et al.
// 2017 (tanh constant, temperature). REFERENCES.md 7.
// Differs: attention after the LSTM (Luong et al. 2015), so that learning needs no loop over steps;
// choices by features.
#pragma once

#include <cstdint>
#include <memory>

#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/rnn.h>

#include "rl/episodes.h"
#include "rl/graph_features.h"
#include "rl/learner_options.h"

namespace partita::rl {

/// GraphFeatures as tensors.
struct GraphTensors {
    explicit GraphTensors(const GraphFeatures& features);

    torch::Tensor types;
    torch::Tensor rows;
    torch::Tensor neighbours;    ///< [steps, 2 * kNeighbours]
    torch::Tensor is_neighbour;  ///< the same
    torch::Tensor iterations;    ///< [iterations, kIterationFeatures]
};

class PolicyNet final : public torch::nn::Module {
public:
    explicit PolicyNet(NetOptions options = {});
    /// Of the same shape and weights, which from then on change apart.
    [[nodiscard]] std::shared_ptr<PolicyNet> copy() const;

    [[nodiscard]] std::int64_t groups() const { return options_.groups; }
    /// Log-probabilities of groups, [decisions, groups].
    torch::Tensor grouping(const GraphTensors& graph);

    /// [steps, 1, hidden], or of groups, which differ between episodes, [steps, count, hidden].
    torch::Tensor encode(const GraphTensors& graph, const Episodes& episodes);

    /// Log-probabilities over the iterations, [1 or count, iterations].
    torch::Tensor iteration_head(const GraphTensors& graph, const torch::Tensor& encoding);

    // Step by step, for `count` episodes at once.
    struct State {
        torch::Tensor hidden;  ///< [1, count, hidden]
        torch::Tensor cell;
        torch::Tensor before;  ///< [count, kChoice]: what was chosen before
    };
    State start(const torch::Tensor& encoding, const torch::Tensor& iteration_rows);
    /// z of the next step, [count, hidden].
    torch::Tensor step(State& state, const torch::Tensor& encoding, std::int64_t step);
    /// `rows` [..., n, features], `open` [..., n] -> log-probabilities [..., n].
    /// `whim`: added before the tanh, of the same shape; undefined: nothing.
    torch::Tensor block_head(const torch::Tensor& z, const torch::Tensor& rows,
                             const torch::Tensor& open, const torch::Tensor& whim = {});
    torch::Tensor kind_head(const torch::Tensor& z, const torch::Tensor& rows,
                            const torch::Tensor& open, const torch::Tensor& whim = {});
    /// What is fed back: number of the block, its features, those of the option. [..., kChoice]
    torch::Tensor choice(const torch::Tensor& block, const torch::Tensor& block_row,
                         const torch::Tensor& kind_row);

    /// All steps at once.
    struct Scores {
        torch::Tensor log_probability;  ///< [count], of everything that was chosen
        torch::Tensor entropy;          ///< [], mean over steps and episodes
    };
    Scores score(const GraphTensors& graph, Episodes& episodes);

    [[nodiscard]] const NetOptions& options() const { return options_; }

private:
    torch::Tensor embed(const GraphTensors& graph);
    torch::Tensor embed_groups(const GraphTensors& graph, const torch::Tensor& x,
                               const Episodes& episodes);
    /// `output` [n, count, hidden].
    torch::Tensor attend(const torch::Tensor& output, const torch::Tensor& encoding);
    torch::Tensor start_row(const torch::Tensor& encoding, const torch::Tensor& iteration_rows);
    torch::Tensor head(torch::nn::Linear& of_z, torch::nn::Linear& of_row, torch::nn::Linear& join,
                       torch::nn::Linear& direct, const torch::Tensor& z, const torch::Tensor& rows,
                       const torch::Tensor& open, const torch::Tensor& whim);
    void set_prior();

    NetOptions options_;
    torch::nn::Embedding types_{nullptr};
    torch::nn::Embedding devices_{nullptr};
    torch::nn::Linear input_{nullptr};
    torch::nn::Linear grouper_hidden_{nullptr};
    torch::nn::Linear grouper_{nullptr};
    torch::nn::Linear group_input_{nullptr};
    torch::nn::LSTM encoder_{nullptr};
    torch::nn::Linear fed_back_{nullptr};
    torch::nn::Linear iteration_row_{nullptr};
    torch::nn::Linear iteration_score_{nullptr};
    torch::nn::Linear iteration_direct_{nullptr};
    torch::nn::LSTM decoder_{nullptr};
    torch::nn::Linear attention_{nullptr};
    torch::nn::Linear context_{nullptr};
    torch::nn::Linear block_z_{nullptr};
    torch::nn::Linear block_row_{nullptr};
    torch::nn::Linear block_join_{nullptr};
    torch::nn::Linear block_direct_{nullptr};
    torch::nn::Linear kind_z_{nullptr};
    torch::nn::Linear kind_row_{nullptr};
    torch::nn::Linear kind_join_{nullptr};
    torch::nn::Linear kind_direct_{nullptr};
};

/// Blocks with larger numbers share embeddings.
inline constexpr std::int64_t kBlockNumbers = 128;

}  // namespace partita::rl
