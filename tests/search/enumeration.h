// SPDX-License-Identifier: Apache-2.0
//
// All strategies of a tiny network: every config of the table for every computing op, sources and
// outputs as these need them. And two tiny networks.
#pragma once

#include <cstdint>

#include "graph/op_graph.h"
#include "plan/evaluation/evaluator.h"
#include "search/configs/search_space.h"

namespace partita::search {

struct Enumerated {
    std::int64_t strategies = 0;
    plan::Evaluation best;
};

/// Evaluates all of them, in training and inference alike.
Enumerated enumerate(SearchSpace& space);

/// x [8 1 28 28] -> Conv -> MaxPool -> Conv -> MaxPool -> two fully connected layers, as
/// convolutions of all positions; without Relu.
graph::OpGraph lenet();

/// Two steps of a recurrent layer with a shared weight: word -> Gather -> Add(MatMul(state)) ->
/// ..., then the product with the dictionary. Hidden size 64, 512 words, a batch of 16.
graph::OpGraph two_step_rnn();

}  // namespace partita::search
