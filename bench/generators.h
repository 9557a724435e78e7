// SPDX-License-Identifier: Apache-2.0
//
// The graphs of REFERENCES 5, and a large one: deterministic, so that tables can be compared.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/training_tape.h"
#include "plan/tasks/task_graph.h"

namespace partita::bench {

/// Training graph of an MNIST-size network: 2 convolutions of 5 x 5 (32 and 64 channels) with
/// pooling, fully connected layers of 1024 and 10.
GeneratedModel conv_net(std::int64_t batch);

/// Training graph of an LSTM of `hidden` units over 28 rows of 28 pixels, unrolled; with
/// `length_masks` every step keeps the old state of samples that have ended ("dynamic RNN").
GeneratedModel lstm(std::int64_t batch, std::int64_t hidden, bool length_masks);

/// An ONNX model of about `nodes` nodes: 16 towers of dense layers with residual connections, their
/// outputs added at the end. Weights are external and absent, batch is symbolic.
std::string large_onnx_model(int nodes);

/// A workload file of `nodes` nodes: 64 chains side by side that exchange results now and then.
std::string large_workload_json(int nodes, std::uint64_t seed);

}  // namespace partita::bench
