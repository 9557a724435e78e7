// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace partita::bench {

/// The repository's folder, whose examples and data the benchmarks read.
std::filesystem::path repository();

}  // namespace partita::bench
