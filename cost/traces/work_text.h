// SPDX-License-Identifier: Apache-2.0
//
// The text of a work (cost/work_signature.h), read back: what its operands are.
//
//     backward 11 MatMul.13 (float32[8,64], float32[64,32]) -> (float32[8,32])
//     accumulate float32 4096
//
// Pure; any number of threads. Errors: none; nullopt for other texts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost/cost_model.h"
#include "graph/dtype.h"
#include "graph/op_graph.h"

namespace partita::cost {

struct WorkText {
    struct Tensor {
        graph::DType dtype = graph::DType::undefined;
        graph::Shape shape;
    };
    Phase phase = Phase::forward;
    std::string wanted;                           ///< "11"; "" where nothing is
    std::string type;                             ///< "MatMul"; "" of work on elements alone
    std::string attributes;                       ///< as they stand there
    std::vector<std::optional<Tensor>> operands;  ///< nullopt: left out
    std::vector<std::optional<Tensor>> results;
    // Of work on elements alone.
    graph::DType dtype = graph::DType::undefined;
    std::int64_t elements = 0;

    /// Of an attribute that is one integer.
    [[nodiscard]] std::optional<std::int64_t> integer(std::string_view attribute) const;
    [[nodiscard]] bool wants(std::size_t operand) const {
        return operand < wanted.size() && wanted[operand] == '1';
    }
    /// Null: it has none.
    [[nodiscard]] const Tensor* operand(std::size_t i) const {
        return i < operands.size() && operands[i] ? &*operands[i] : nullptr;
    }
};

std::optional<WorkText> parse_work_text(std::string_view text);

}  // namespace partita::cost
