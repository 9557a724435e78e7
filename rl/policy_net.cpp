// SPDX-License-Identifier: Apache-2.0
#include "rl/policy_net.h"

#include <cmath>

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/one_hot.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>
#include <torch/utils.h>

namespace partita::rl {

using torch::Tensor;

namespace {

constexpr std::int64_t kTypeWidth = 16;
constexpr std::int64_t kDeviceWidth = 8;
constexpr auto kBlockWidth = static_cast<std::int64_t>(kBlockFeatures);
constexpr auto kKindWidth = static_cast<std::int64_t>(kKindFeatures);
constexpr std::int64_t kChoice = kDeviceWidth + kBlockWidth + kKindWidth;
constexpr double kNever = -1e9;  ///< logit of what may not be chosen

Tensor over(const std::vector<float>& values, at::IntArrayRef shape) {
    // Never written through: tensors over arrays are operands only.
    return at::from_blob(const_cast<float*>(values.data()), shape, at::kFloat);
}

Tensor over(const std::vector<std::int64_t>& values, at::IntArrayRef shape) {
    return at::from_blob(const_cast<std::int64_t*>(values.data()), shape, at::kLong);
}

}  // namespace

GraphTensors::GraphTensors(const GraphFeatures& features) {
    const auto steps = static_cast<std::int64_t>(features.types.size());
    const auto near = static_cast<std::int64_t>(2 * kNeighbours);
    types = over(features.types, {steps}).clone();
    rows = over(features.rows, {steps, static_cast<std::int64_t>(kGraphFeatures)}).clone();
    neighbours = over(features.neighbours, {steps, near}).clone();
    is_neighbour = over(features.is_neighbour, {steps, near}).clone();
    const auto width = static_cast<std::int64_t>(kIterationFeatures);
    iterations = over(features.iterations,
                      {static_cast<std::int64_t>(features.iterations.size()) / width, width})
                     .clone();
}

PolicyNet::PolicyNet(NetOptions options) : options_(options) {
    using torch::nn::Embedding;
    using torch::nn::Linear;
    using torch::nn::LinearOptions;
    using torch::nn::LSTM;
    using torch::nn::LSTMOptions;
    const std::int64_t n = options.hidden;
    const auto linear = [&](const char* name, std::int64_t in, std::int64_t out, bool bias = true) {
        return register_module(name, Linear(LinearOptions(in, out).bias(bias)));
    };
    types_ = register_module("types", Embedding(kTypeNumbers, kTypeWidth));
    devices_ = register_module("devices", Embedding(kBlockNumbers, kDeviceWidth));
    input_ = linear("input", kTypeWidth + static_cast<std::int64_t>(kGraphFeatures), n);
    if (options.groups > 0) {
        grouper_hidden_ = linear("grouper_hidden", n, n);
        grouper_ = linear("grouper", n, options.groups);
        group_input_ = linear("group_input", n + 1 + options.groups, n);
    }
    encoder_ = register_module("encoder", LSTM(LSTMOptions(n, n / 2).bidirectional(true)));
    fed_back_ = linear("fed_back", kChoice, n);
    iteration_row_ = linear("iteration_row", static_cast<std::int64_t>(kIterationFeatures), n);
    iteration_score_ = linear("iteration_score", n, 1);
    iteration_direct_ =
        linear("iteration_direct", static_cast<std::int64_t>(kIterationFeatures), 1, false);
    decoder_ = register_module("decoder", LSTM(LSTMOptions(n, n)));
    attention_ = linear("attention", n, n, false);
    context_ = linear("context", 2 * n, n);
    block_z_ = linear("block_z", n, n);
    block_row_ = linear("block_row", kBlockWidth, n, false);
    block_join_ = linear("block_join", n, 1, false);
    block_direct_ = linear("block_direct", kBlockWidth, 1, false);
    kind_z_ = linear("kind_z", n, n);
    kind_row_ = linear("kind_row", kKindWidth, n, false);
    kind_join_ = linear("kind_join", n, 1, false);
    kind_direct_ = linear("kind_direct", kKindWidth, 1, false);
    set_prior();
}

std::shared_ptr<PolicyNet> PolicyNet::copy() const {
    const torch::NoGradGuard no_gradients;
    auto net = std::make_shared<PolicyNet>(options_);
    const std::vector<Tensor> from = parameters();
    const std::vector<Tensor> to = net->parameters();
    for (std::size_t i = 0; i < from.size(); ++i) to[i].copy_(from[i]);
    return net;
}

/// Nothing speaks for any block or option but, if wanted, that it finishes early.
void PolicyNet::set_prior() {
    const at::NoGradGuard no_grad;
    constexpr double kSmall = 0.1;
    for (const Tensor& weight :
         {block_join_->weight, kind_join_->weight, iteration_score_->weight}) {
        weight.mul_(kSmall);
    }
    block_direct_->weight.zero_();
    kind_direct_->weight.zero_();
    constexpr std::int64_t kEnd = 9;                            // of the block features
    constexpr std::int64_t kEndAndSync = 2 * kAxisClasses + 8;  // of the kind features
    iteration_direct_->weight.zero_();
    iteration_direct_->weight.select(1, 0).fill_(-options_.prior);
    block_direct_->weight.select(1, kEnd).fill_(-options_.prior);
    kind_direct_->weight.select(1, kEndAndSync).fill_(-options_.prior);
}

Tensor PolicyNet::embed(const GraphTensors& graph) {
    const Tensor x = at::cat({types_->forward(graph.types), graph.rows}, 1);
    return at::relu(input_->forward(x));
}

/// Begins with runs of neighbouring decisions, in probability: what is far from a group's middle is
/// unlikely.
Tensor PolicyNet::grouping(const GraphTensors& graph) {
    const Tensor x = at::tanh(grouper_hidden_->forward(embed(graph)));
    const auto groups = static_cast<double>(options_.groups);
    const std::int64_t decisions = x.size(0);
    const Tensor at = (at::arange(decisions, at::kFloat) + 0.5) / static_cast<double>(decisions);
    const Tensor middle = (at::arange(options_.groups, at::kFloat) + 0.5) / groups;
    const Tensor away = (at.unsqueeze(1) - middle.unsqueeze(0)).abs() * groups;
    return at::log_softmax(grouper_->forward(x) - options_.prior * away, 1);
}

/// Per episode: mean of the members' embeddings, their share of all decisions, and the groups of
/// what is next to them.
Tensor PolicyNet::embed_groups(const GraphTensors& graph, const Tensor& x,
                               const Episodes& episodes) {
    const std::int64_t decisions = x.size(0);
    const std::int64_t count = episodes.count;
    const std::int64_t groups = options_.groups;
    const Tensor order = over(episodes.order, {decisions, count});
    const Tensor member = at::one_hot(order, groups).to(at::kFloat).permute({1, 2, 0});
    const Tensor size = member.sum(2, true);
    const Tensor mean = at::matmul(member, x) / size.clamp_min(1);
    // Of each decision how many neighbours are in each group.
    Tensor near = at::one_hot(order.index_select(0, graph.neighbours.reshape({-1})), groups)
                      .to(at::kFloat)
                      .reshape({decisions, -1, count, groups});
    near = (near * graph.is_neighbour.reshape({decisions, -1, 1, 1})).sum(1).permute({1, 0, 2});
    const Tensor adjacency = at::matmul(member, near) / size.clamp_min(1);
    const Tensor rows = at::cat({mean, size / static_cast<double>(decisions), adjacency}, 2);
    return at::relu(group_input_->forward(rows)).permute({1, 0, 2});
}

Tensor PolicyNet::encode(const GraphTensors& graph, const Episodes& episodes) {
    Tensor x = embed(graph);
    x = options_.groups > 0 ? embed_groups(graph, x, episodes) : x.unsqueeze(1);
    return x + std::get<0>(encoder_->forward(x.contiguous()));
}

Tensor PolicyNet::iteration_head(const GraphTensors& graph, const Tensor& encoding) {
    const Tensor rows =
        iteration_row_->forward(graph.iterations).unsqueeze(0) + encoding.mean(0).unsqueeze(1);
    const Tensor raw = iteration_score_->forward(at::tanh(rows)) +
                       iteration_direct_->forward(graph.iterations).unsqueeze(0);
    return at::log_softmax(raw.squeeze(2), 1);
}

/// What stands for the choice before the first step: how the iteration goes.
Tensor PolicyNet::start_row(const Tensor& encoding, const Tensor& iteration_rows) {
    return iteration_row_->forward(iteration_rows) + encoding.mean(0);
}

PolicyNet::State PolicyNet::start(const Tensor& encoding, const Tensor& iteration_rows) {
    State state;
    const std::int64_t count = iteration_rows.size(0);
    state.hidden = at::tanh(start_row(encoding, iteration_rows)).unsqueeze(0);
    state.cell = at::zeros_like(state.hidden);
    state.before = at::zeros({count, kChoice});
    return state;
}

Tensor PolicyNet::attend(const Tensor& output, const Tensor& encoding) {
    const Tensor of_episode = encoding.permute({1, 0, 2});  // [1 or count, steps, hidden]
    const Tensor query = attention_->forward(output).permute({1, 0, 2});
    const Tensor score = at::matmul(query, of_episode.transpose(1, 2)) /
                         std::sqrt(static_cast<double>(options_.hidden));
    const Tensor context = at::matmul(at::softmax(score, -1), of_episode).permute({1, 0, 2});
    return at::tanh(context_->forward(at::cat({output, context}, -1)));
}

Tensor PolicyNet::step(State& state, const Tensor& encoding, std::int64_t step) {
    const Tensor input = fed_back_->forward(state.before) + encoding[step];
    auto [output, last] =
        decoder_->forward(input.unsqueeze(0), std::make_tuple(state.hidden, state.cell));
    std::tie(state.hidden, state.cell) = last;
    return attend(output, encoding).squeeze(0);
}

Tensor PolicyNet::head(torch::nn::Linear& of_z, torch::nn::Linear& of_row, torch::nn::Linear& join,
                       torch::nn::Linear& direct, const Tensor& z, const Tensor& rows,
                       const Tensor& open, const Tensor& whim) {
    const Tensor joined = at::tanh(of_z->forward(z).unsqueeze(-2) + of_row->forward(rows));
    Tensor raw = (join->forward(joined) + direct->forward(rows)).squeeze(-1);
    if (whim.defined()) raw = raw + whim;
    const double most = options_.tanh_constant;
    const Tensor logits = at::tanh(raw / most) * (most / options_.temperature);
    return at::log_softmax(logits + (open - 1) * -kNever, -1);
}

Tensor PolicyNet::block_head(const Tensor& z, const Tensor& rows, const Tensor& open,
                             const Tensor& whim) {
    return head(block_z_, block_row_, block_join_, block_direct_, z, rows, open, whim);
}

Tensor PolicyNet::kind_head(const Tensor& z, const Tensor& rows, const Tensor& open,
                            const Tensor& whim) {
    return head(kind_z_, kind_row_, kind_join_, kind_direct_, z, rows, open, whim);
}

Tensor PolicyNet::choice(const Tensor& block, const Tensor& block_row, const Tensor& kind_row) {
    return at::cat({devices_->forward(block.remainder(kBlockNumbers)), block_row, kind_row}, -1);
}

PolicyNet::Scores PolicyNet::score(const GraphTensors& graph, Episodes& episodes) {
    const std::int64_t steps = episodes.steps;
    const std::int64_t count = episodes.count;
    const Tensor encoding = encode(graph, episodes);
    const Tensor iteration = over(episodes.iteration, {count});
    const Tensor iteration_log = iteration_head(graph, encoding).expand({count, -1});
    Tensor log_probability = iteration_log.gather(1, iteration.unsqueeze(1)).squeeze(1);
    Tensor entropy =
        -(iteration_log.exp() * iteration_log).sum(1).mean() / static_cast<double>(steps);
    if (options_.groups > 0) {
        const Tensor log = grouping(graph);
        const Tensor assignment = over(episodes.assignment, {log.size(0), count});
        log_probability = log_probability + log.gather(1, assignment).sum(0);
        entropy = entropy - (log.exp() * log).sum(1).mean();
    }

    const Tensor block_rows =
        over(episodes.block_rows, {steps, count, episodes.places, kBlockWidth});
    const Tensor block_open = over(episodes.block_open, {steps, count, episodes.places});
    const Tensor place = over(episodes.place, {steps, count}).unsqueeze(2);
    const Tensor kind_rows = over(episodes.kind_rows, {steps, count, episodes.kinds, kKindWidth});
    const Tensor kind_open = over(episodes.kind_open, {steps, count, episodes.kinds});
    const Tensor kind = over(episodes.kind, {steps, count}).unsqueeze(2);
    const Tensor block = over(episodes.block, {steps, count});

    // Fed back: what was chosen one step before.
    const Tensor chosen_block =
        block_rows.gather(2, place.unsqueeze(3).expand({-1, -1, 1, kBlockWidth})).squeeze(2);
    const Tensor chosen_kind =
        kind_rows.gather(2, kind.unsqueeze(3).expand({-1, -1, 1, kKindWidth})).squeeze(2);
    const Tensor all = choice(block, chosen_block, chosen_kind);
    const Tensor before = at::cat({at::zeros({1, count, kChoice}), all.slice(0, 0, steps - 1)}, 0);
    const State state = start(encoding, graph.iterations.index_select(0, iteration));
    const Tensor input = fed_back_->forward(before) + encoding;
    const Tensor output =
        std::get<0>(decoder_->forward(input, std::make_tuple(state.hidden, state.cell)));
    const Tensor z = attend(output, encoding);

    const auto add = [&](const Tensor& log, const Tensor& chosen) {
        log_probability = log_probability + log.gather(2, chosen).squeeze(2).sum(0);
        entropy = entropy - (log.exp() * log.clamp_min(kNever / 2)).sum(2).mean();
    };
    add(block_head(z, block_rows, block_open), place);
    if (episodes.kinds > 1) add(kind_head(z, kind_rows, kind_open), kind);
    return {log_probability, entropy};
}

}  // namespace partita::rl
