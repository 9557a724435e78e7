// SPDX-License-Identifier: Apache-2.0
#include "tests/support/fusion_prices.h"

#include <cstdint>

#include "cost/profile/profile_database.h"

namespace partita::support {

std::vector<cost::MeasuredTransfer> fusion_prices(Fusions fusions) {
    constexpr int kMostRanks = 4;
    constexpr std::int64_t kMostBytes = 1 << 18;
    std::vector<cost::MeasuredTransfer> rows;
    for (int kind = 0; kind < cost::kCollectiveCount; ++kind) {
        for (int ranks = 2; ranks <= kMostRanks; ++ranks) {
            for (std::int64_t bytes = 1; bytes <= kMostBytes; bytes *= 2) {
                const Time time = microseconds(fusions == Fusions::dear ? bytes * bytes : 1000);
                rows.push_back({.kind = static_cast<cost::Collective>(kind),
                                .ranks = ranks,
                                .bytes = Bytes(bytes),
                                .variant = {},
                                .time = {.median = time,
                                         .lower = time,
                                         .upper = time,
                                         .versions = {},
                                         .date = "2026-11-22"}});
            }
        }
    }
    return rows;
}

cost::Profile fusion_profile(Fusions fusions, const cost::Machine& machine) {
    cost::Profile profile{
        .file = "fusions.sqlite", .date = "2026-11-22", .devices = {}, .keys = {}};
    profile.devices.push_back({.device = cost::device_key(machine.device(0)),
                               .works = {},
                               .transfers = fusion_prices(fusions)});
    return profile;
}

void write_fusion_profile(const std::filesystem::path& file, Fusions fusions,
                          const cost::Machine& machine) {
    cost::ProfileDatabase::create(file).add(cost::device_key(machine.device(0)),
                                            fusion_prices(fusions));
}

}  // namespace partita::support
