// SPDX-License-Identifier: Apache-2.0
//
// What fusion asks of a model's constants: patterns hold for some numbers alone.
#pragma once

#include <functional>
#include <optional>

#include "graph/ids.h"

namespace partita::graph {

/// The value of a tensor of one element; nullopt: it is not known.
using NumberOf = std::function<std::optional<double>(TensorId)>;

}  // namespace partita::graph
