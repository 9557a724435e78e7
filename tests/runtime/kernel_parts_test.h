// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace partita::runtime {

/// Operators whose backward, if they have one, kernel_parts_test.cpp compares with autograd.
std::vector<std::string> types_in_parts();

}  // namespace partita::runtime
