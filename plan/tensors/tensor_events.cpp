// SPDX-License-Identifier: Apache-2.0
#include "plan/tensors/tensor_events.h"

namespace partita::plan {

bool saves_operand(const graph::OpRule& rule, std::size_t operand) {
    return operand >= 64 || ((rule.saves_operands >> operand) & 1U) != 0;
}

bool saves_result(const graph::OpRule& rule, std::size_t result) {
    return result >= 64 || ((rule.saves_results >> result) & 1U) != 0;
}

}  // namespace partita::plan
