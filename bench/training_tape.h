// SPDX-License-Identifier: Apache-2.0
//
// Builds training graphs at the level of ops, as TensorFlow 1 does: forward, backward and update
// are nodes of one graph, and a variable shares a device with its update.
//
//     x ─▶ MatMul ─▶ Sigmoid ─▶ ... ─▶ loss         every forward op leaves on the tape how its
//     w ───▲ ▲                           │          gradient is made; backward() plays it in
//     └─together─ Sub ◀─ Gemm ◀─ Mul ◀───┘          reverse order
//
// Sizes are those of real ops, so that their rules price them; Problem sees an inference graph.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/op_graph.h"
#include "plan/problem/problem.h"

namespace partita::bench {

struct GeneratedModel {
    std::string name;
    graph::OpGraph graph;
    plan::Constraints constraints;
};

class TrainingTape {
public:
    using TensorId = graph::TensorId;

    explicit TrainingTape(std::string name) { model_.name = std::move(name); }

    TensorId input(std::string_view name, graph::Shape shape);
    TensorId variable(std::string_view name, graph::Shape shape);

    TensorId matmul(TensorId a, TensorId b);       ///< [m k] [k n]
    TensorId add(TensorId a, TensorId b);          ///< equal shapes, or `b` a bias of the last dim
    TensorId multiply(TensorId a, TensorId b);     ///< equal shapes
    TensorId unary(const char* type, TensorId a);  ///< Relu, Sigmoid, Tanh
    TensorId concat(TensorId a, TensorId b);       ///< [b m] [b n] on dim 1
    std::vector<TensorId> split(TensorId a, int parts);  ///< equal parts of dim 1
    TensorId convolve(TensorId x, TensorId w);  ///< [b c h w] [f c k k], padded to the same size
    TensorId add_channel_bias(TensorId x, TensorId bias);  ///< [b c h w] [c 1 1]
    TensorId max_pool(TensorId x);                         ///< windows of 2, halves h and w
    TensorId flatten(TensorId x);                          ///< [b ...] to [b n]
    /// mask * fresh + (1 - mask) * old; the mask [b 1] has no gradient.
    TensorId select(TensorId mask, TensorId fresh, TensorId old);

    /// Softmax, cross entropy with labels of the same shape, backward and updates.
    GeneratedModel finish(TensorId logits);

private:
    TensorId emit(const char* type, std::vector<TensorId> operands, graph::Shape shape,
                  graph::Attributes attributes = {});
    std::vector<TensorId> emit_all(const char* type, std::vector<TensorId> operands,
                                   std::vector<graph::Shape> shapes, graph::Attributes attributes);
    TensorId sum_over(TensorId a, const std::vector<std::int64_t>& axes, graph::Shape shape);
    TensorId transpose_first_two(TensorId a);
    TensorId reshape(TensorId a, graph::Shape shape);
    /// Adds `make()` to the gradient of `of`, unless that is an input, whose gradient nobody needs.
    void contribute(TensorId of, const std::function<TensorId()>& make);
    void on_backward(TensorId result, std::function<void(TensorId gradient)> make);
    [[nodiscard]] const graph::Shape& shape(TensorId t) const {
        return model_.graph.tensor(t).shape;
    }

    struct Record {
        TensorId result;
        std::function<void(TensorId)> make;
    };
    GeneratedModel model_;
    std::vector<TensorId> variables_;
    std::vector<TensorId> inputs_;
    std::vector<Record> tape_;
    std::vector<TensorId> gradient_;  ///< per tensor; invalid: none yet
    int count_ = 0;
};

}  // namespace partita::bench
