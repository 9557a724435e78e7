// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "graph/host_tensor.h"
#include "graph/tensor.h"

namespace partita::runtime {

/// Where the values of inputs, parameters and constants come from (runtime/execute/sources.h).
struct SourceOptions {
    const graph::TensorSource* model = nullptr;       ///< absent: nothing is in the model
    std::optional<std::uint64_t> random_weights;      ///< seed
    std::uint64_t input_seed = 1;                     ///< of inputs that are not given
    std::map<std::string, graph::HostTensor> inputs;  ///< by name of the tensor
};

}  // namespace partita::runtime
