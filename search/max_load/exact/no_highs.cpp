// SPDX-License-Identifier: Apache-2.0
//
// For builds without HiGHS. Twin: highs.cpp.
#include "search/max_load/exact/highs.h"

namespace partita::search {

const HighsVersion& highs_version() {
    static const HighsVersion kNone{
        .text = "",
        .missing = "this build has no HiGHS. Install it with scripts/setup and build again"};
    return kNone;
}

MilpResult solve_with_highs(const Milp& /*program*/, const MilpOptions& /*options*/) {
    return {};
}

}  // namespace partita::search
