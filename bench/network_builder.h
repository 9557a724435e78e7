// SPDX-License-Identifier: Apache-2.0
//
// Builds inference graphs layer by layer, as an importer would leave them: real operators, weights
// as parameters, biases in the ops that have them. What follows a convolution elementwise (batch
// normalization, ReLU) is taken as part of it, as a fusing runtime does.
//
//     NetworkBuilder net("alexnet");
//     TensorId x = net.image(batch, 3, 224);
//     x = net.conv(x, 64, {.height = 11, .width = 11, .stride = 4, .rows = 2, .columns = 2});
//     return net.finish(x);
//
// Shapes: images are [batch channels height width], sequences [batch steps units].
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/op_graph.h"

namespace partita::bench {

/// What one result of a convolution or pooling reads; padding on both sides.
struct Kernel {
    std::int64_t height = 1;
    std::int64_t width = 1;
    std::int64_t stride = 1;
    std::int64_t rows = 0;     ///< of padding, above and below
    std::int64_t columns = 0;  ///< of padding, left and right
};

/// size x size; padding keeps the extents at stride 1.
Kernel square(std::int64_t size, std::int64_t stride = 1);
/// The same without padding.
Kernel unpadded(std::int64_t size, std::int64_t stride = 1);

/// The weights of one LSTM layer, which all of its steps share.
struct LstmWeights {
    graph::TensorId input;      ///< [1 4h i]
    graph::TensorId recurrent;  ///< [1 4h h]
    graph::TensorId bias;       ///< [1 8h]
};

struct LstmState {
    graph::TensorId hidden;  ///< [batch 1 h]; invalid: zeros
    graph::TensorId cell;
};

class NetworkBuilder {
public:
    using TensorId = graph::TensorId;

    explicit NetworkBuilder(std::string_view name);

    /// Ops from here on belong to this layer.
    void enter(std::string block) { block_ = std::move(block); }

    TensorId image(std::int64_t batch, std::int64_t channels, std::int64_t size);
    TensorId words(const std::string& name, std::int64_t batch, std::int64_t steps);
    TensorId parameter(const std::string& name, graph::Shape shape);

    TensorId conv(TensorId x, std::int64_t channels, const Kernel& kernel);
    TensorId pool(const char* type, TensorId x, const Kernel& kernel);  ///< MaxPool, AveragePool
    TensorId pool_globally(TensorId x);
    TensorId concat(std::vector<TensorId> parts, std::int64_t axis);
    TensorId add(TensorId a, TensorId b);
    TensorId flatten(TensorId x);
    TensorId dense(TensorId x, std::int64_t units);  ///< with a bias; [batch k]

    TensorId embed(TensorId words, TensorId table);
    TensorId multiply(TensorId x, TensorId weight);  ///< [... k] [k n]
    /// Every query attends to all keys, which are the values too; all [batch steps units].
    TensorId attend(TensorId queries, TensorId keys);
    LstmWeights lstm_weights(const std::string& name, std::int64_t from, std::int64_t units);
    /// One step [batch 1 i]: the new state, whose hidden part is the result of the step too.
    LstmState lstm_step(TensorId x, const LstmWeights& weights, const LstmState& state);
    /// Several steps at once [batch steps i] -> [batch steps h]; `state` becomes the last one.
    TensorId lstm_steps(TensorId x, const LstmWeights& weights, LstmState& state);

    void output(TensorId tensor);
    graph::OpGraph finish() { return std::move(graph_); }
    /// With that one output.
    graph::OpGraph finish(TensorId result);

private:
    [[nodiscard]] const graph::Shape& shape(TensorId t) const { return graph_.tensor(t).shape; }
    TensorId emit(const char* type, std::vector<TensorId> operands, graph::Shape result,
                  graph::Attributes attributes = {});
    std::vector<TensorId> emit_all(const char* type, std::vector<TensorId> operands,
                                   std::vector<graph::Shape> results, graph::Attributes attributes);
    /// All steps, the last hidden state, the last cell state.
    std::vector<TensorId> emit_lstm(TensorId x, const LstmWeights& weights, const LstmState& state);

    graph::OpGraph graph_;
    std::string block_;
    int count_ = 0;
    int outputs_ = 0;
};

}  // namespace partita::bench
