// SPDX-License-Identifier: Apache-2.0
//
// Measured collectives that decide which of them are fused (plan/lowering/fused_collectives.h).
#pragma once

#include <filesystem>
#include <vector>

#include "cost/machine/machine.h"
#include "cost/profile/profile.h"

namespace partita::support {

enum class Fusions {
    cheap,  ///< a collective takes the same for any number of bytes
    dear    ///< it takes four times as long for twice the bytes
};

/// Of all kinds, among 2 to 4 devices of one node.
std::vector<cost::MeasuredTransfer> fusion_prices(Fusions fusions);

/// These alone, on the machine's devices, which are all of one kind.
cost::Profile fusion_profile(Fusions fusions, const cost::Machine& machine);
/// The same as a database.
void write_fusion_profile(const std::filesystem::path& file, Fusions fusions,
                          const cost::Machine& machine);

}  // namespace partita::support
