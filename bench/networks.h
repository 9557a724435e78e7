// SPDX-License-Identifier: Apache-2.0
//
// The networks that FlexFlow's measurements are about (REFERENCES.md 6), with real operators and
// sizes. Elementwise layers are part of the op before them, as in the simulator of 2018 whose rates
// are published; the loss is the planner's, so no Softmax ends a network.
//
//     lenet-5              8 ops   2 Conv, 2 AveragePool, Flatten, 3 Gemm
//     alexnet             12 ops   5 Conv, 3 MaxPool, Flatten, 3 Gemm; the widths of torchvision's
//     vgg-16              22 ops   13 Conv, 5 MaxPool, Flatten, 3 Gemm
//     resnet-50, -101              with projections and shortcut adds
//     resnet-101-chain   104 ops   without both, as it was measured in 2018
//     inception-v3       121 ops   94 Conv, 14 pools, 11 Concat, Flatten, Gemm; without auxiliary head
//     densenet-121       185 ops   120 Conv, 58 Concat, 5 pools, Flatten, Gemm
//     nmt                 41 ops   2 + 2 LSTM layers of 1024 in blocks of 10 steps, attention
//     language-model               2 LSTM layers of 2048, one op per step and layer
//     translator                   nmt with one op per step and layer
//
// The recurrent ones have 40 steps. The paper does not give their vocabularies: 10,000 words for
// the language model (Penn Treebank), 32,320 on both sides of a translation, as in examples/models.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "graph/op_graph.h"

namespace partita::bench {

struct NetworkRow {
    std::string_view name;
    std::int64_t samples_per_gpu;  ///< as in the paper's experiments
    graph::OpGraph (*make)(std::int64_t batch);
};

std::span<const NetworkRow> network_table();

/// The row of that name; throws UsageError naming the known ones when there is none.
const NetworkRow& find_network(std::string_view name);

/// `batch`: samples of one iteration on all devices together, >= 1.
graph::OpGraph make_network(std::string_view name, std::int64_t batch);

/// Ops that compute: neither sources, outputs nor the views (Squeeze) that ONNX needs after an
/// LSTM.
int computing_ops(const graph::OpGraph& graph);

graph::OpGraph make_lenet_5(std::int64_t batch);
graph::OpGraph make_alexnet(std::int64_t batch);
graph::OpGraph make_vgg_16(std::int64_t batch);
graph::OpGraph make_resnet_50(std::int64_t batch);
graph::OpGraph make_resnet_101(std::int64_t batch);
graph::OpGraph make_resnet_101_chain(std::int64_t batch);
graph::OpGraph make_inception_v3(std::int64_t batch);
graph::OpGraph make_densenet_121(std::int64_t batch);
graph::OpGraph make_nmt(std::int64_t batch);
graph::OpGraph make_language_model(std::int64_t batch);
graph::OpGraph make_translator(std::int64_t batch);

}  // namespace partita::bench
