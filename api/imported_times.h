// SPDX-License-Identifier: Apache-2.0
//
// Times that somebody else measured, as rows of a profile database, and what there is to measure:
//
//     strategies ─▶ wanted_works ─┬─▶ works.csv (--export-works): a line per work, its time to be filled in
//                                 └─▶ + trace, table or works.csv (--import) ─▶ rows
//
// Threads: one. Errors: InputError of files (cost/traces/operator_times.h), UsageError for machines
// whose devices are of several kinds.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "cost/profile/profile.h"
#include "cost/traces/traced_works.h"
#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"

#include <partita/profile.h>

namespace partita::api {

struct WantedWork {
    cost::MeasuredWork work;  ///< its time is none yet
    Time predicted;           ///< of one, as the problem prices it
    std::int64_t tasks = 0;   ///< in a step of the first strategy; 0: of others alone
};

struct WantedWorks {
    cost::DeviceKey device;
    std::vector<WantedWork> works;  ///< different ones, those of the first strategy first
};

/// Of all tasks of the strategies, which must be legal. Throws UsageError if devices of the machine
/// are not of one key.
WantedWorks wanted_works(const plan::Problem& problem, std::span<const plan::Strategy> strategies);

/// For `--export-works`: the last column is to be filled in.
std::string works_table(const WantedWorks& wanted);

struct ImportedTimes {
    cost::TracedWorks traced;   ///< findings and rows; `used` by `calls`
    cost::OperatorTimes times;  ///< of a works table: none
    std::int64_t unknown = 0;   ///< filled lines of a works table that no wanted work has
};

/// Throws InputError. `seconds` since 1970-01-01: the date of the rows.
ImportedTimes import_times(const std::filesystem::path& file, const WantedWorks& wanted,
                           std::int64_t seconds);

/// Writes the rows. Throws MismatchError if there are none.
ImportReport add_to(const std::filesystem::path& database, const std::filesystem::path& file,
                    const WantedWorks& wanted, const ImportedTimes& imported);

}  // namespace partita::api
