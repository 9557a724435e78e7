// SPDX-License-Identifier: Apache-2.0
//
// A function per format of operator_times.h; `context` names the file.
#pragma once

#include <string>
#include <string_view>

#include "cost/traces/operator_times.h"

namespace partita::cost {

OperatorTimes read_kineto(std::string_view json, const std::string& context);
/// Both tables, told apart by their columns.
OperatorTimes read_operator_table(std::string_view csv, const std::string& context);

}  // namespace partita::cost
