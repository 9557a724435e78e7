// SPDX-License-Identifier: Apache-2.0
//
// Measured collectives that decide which of them are joined (plan/lowering/fused_collectives.h).
#pragma once

#include <filesystem>
#include <vector>

#include "cost/machine/machine.h"
#include "cost/profile/profile.h"

namespace partita::support {

enum class Joins {
    cheap,  ///< a collective takes the same for any number of bytes
    dear    ///< it takes four times as long for twice the bytes
};

/// Of all kinds, among 2 to 4 devices of one node.
std::vector<cost::MeasuredTransfer> join_prices(Joins joins);

/// These alone, on the machine's devices, which are all of one kind.
cost::Profile join_profile(Joins joins, const cost::Machine& machine);
/// The same as a database.
void write_join_profile(const std::filesystem::path& file, Joins joins,
                        const cost::Machine& machine);

}  // namespace partita::support
