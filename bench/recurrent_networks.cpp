// SPDX-License-Identifier: Apache-2.0
//
// A language model (Zaremba et al. 2014) and translators (Wu et al. 2016 with Luong's attention) as
// FlexFlow sizes them. `block` steps of a layer are one op:
//
//     words ─▶ Gather ─▶ LSTM ─▶ LSTM ─▶ ... encoder states ─┐          for each block of steps
//     words ─▶ Gather ─▶ LSTM ─▶ LSTM ─▶ Attention ◀─────────┘
//                                  └──────────▶ Concat ─▶ MatMul ─▶ MatMul ─▶ output
#include <array>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/network_builder.h"
#include "bench/networks.h"

namespace partita::bench {

using graph::OpGraph;
using graph::TensorId;

namespace {

constexpr std::int64_t kSteps = 40;
constexpr int kLayers = 2;

/// Embedding and LSTM layers on top of each other, run block by block.
class Stack {
public:
    Stack(NetworkBuilder& net, std::string name, std::int64_t vocabulary, std::int64_t units)
        : net_(net), name_(std::move(name)) {
        table_ = net.parameter(name_ + ".embedding", {vocabulary, units});
        for (std::size_t layer = 0; layer < kLayers; ++layer) {
            weights_[layer] =
                net.lstm_weights(fmt::format("{}.lstm{}", name_, layer), units, units);
        }
    }

    /// The result of the last layer for the next `steps` words.
    TensorId advance(std::int64_t batch, std::int64_t steps) {
        net_.enter(name_ + ".embedding");
        const TensorId words = net_.words(fmt::format("{}.words{}", name_, count_++), batch, steps);
        TensorId x = net_.embed(words, table_);
        for (std::size_t layer = 0; layer < kLayers; ++layer) {
            net_.enter(fmt::format("{}.lstm{}", name_, layer));
            LstmState& state = states_[layer];
            if (steps > 1) {
                x = net_.lstm_steps(x, weights_[layer], state);
            } else {
                state = net_.lstm_step(x, weights_[layer], state);
                x = state.hidden;
            }
        }
        return x;
    }

    /// The other stack goes on where this one ends.
    void hand_over(Stack& next) const { next.states_ = states_; }

private:
    NetworkBuilder& net_;
    std::string name_;
    TensorId table_;
    std::array<LstmWeights, kLayers> weights_;
    std::array<LstmState, kLayers> states_;
    int count_ = 0;
};

OpGraph translator(std::string_view name, std::int64_t batch, std::int64_t block) {
    constexpr std::int64_t kUnits = 1'024;
    constexpr std::int64_t kVocabulary = 32'320;
    NetworkBuilder net(name);
    Stack encoder(net, "encoder", kVocabulary, kUnits);
    Stack decoder(net, "decoder", kVocabulary, kUnits);
    const TensorId combine = net.parameter("combine", {2 * kUnits, kUnits});
    const TensorId words = net.parameter("words", {kUnits, kVocabulary});
    std::vector<TensorId> encoded;
    for (std::int64_t at = 0; at < kSteps; at += block) {
        encoded.push_back(encoder.advance(batch, block));
    }
    const TensorId keys = net.concat(encoded, 1);
    encoder.hand_over(decoder);
    for (std::int64_t at = 0; at < kSteps; at += block) {
        const TensorId state = decoder.advance(batch, block);
        net.enter("attention");
        const TensorId context = net.attend(state, keys);
        const TensorId joined = net.multiply(net.concat({context, state}, 2), combine);
        net.enter("head");
        net.output(net.multiply(joined, words));
    }
    return net.finish();
}

}  // namespace

OpGraph make_nmt(std::int64_t batch) {
    return translator("nmt", batch, /*block=*/10);
}

OpGraph make_translator(std::int64_t batch) {
    return translator("translator", batch, /*block=*/1);
}

OpGraph make_language_model(std::int64_t batch) {
    constexpr std::int64_t kUnits = 2'048;
    constexpr std::int64_t kVocabulary = 10'000;
    NetworkBuilder net("language-model");
    Stack stack(net, "model", kVocabulary, kUnits);
    const TensorId words = net.parameter("words", {kUnits, kVocabulary});
    for (std::int64_t step = 0; step < kSteps; ++step) {
        const TensorId state = stack.advance(batch, 1);
        net.enter("head");
        net.output(net.multiply(state, words));
    }
    return net.finish();
}

}  // namespace partita::bench
