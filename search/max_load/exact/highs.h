// SPDX-License-Identifier: Apache-2.0
//
// HiGHS, opened when it is first asked for: neither program nor library is linked with it. Twin
// files: highs.cpp where CMake found it (cmake/FindHiGHS.cmake), else no_highs.cpp.
//
// One thread. With the same program, tolerance, seed and iterations the same answer, where no clock
// and no stop() ends it. It looks at limits between nodes and rounds of cuts, and at the clock more
// often.
// Source: Huangfu, Hall, Math. Prog. Comp. 10(1), 2018, doi:10.1007/s12532-017-0130-5;
// https://highs.dev.
#pragma once

#include <string>

#include "search/max_load/exact/milp.h"

namespace partita::search {

struct HighsVersion {
    std::string text;     ///< "1.15.1"; empty: there is none
    std::string missing;  ///< why there is none, and what to do
};

/// Opens it. Threads: any.
const HighsVersion& highs_version();

/// MilpStatus::failed without HiGHS.
MilpResult solve_with_highs(const Milp& program, const MilpOptions& options);

}  // namespace partita::search
