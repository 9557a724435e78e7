// SPDX-License-Identifier: Apache-2.0
//
// Logs of measured collectives, data/collectives/*.csv (its README names the columns). Read
// strictly: errors name file and line. Threads: pure. Errors: InputError.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "cost/collectives/collective.h"

namespace partita::cost {

struct MeasuredCollective {
    std::string set;  ///< machine and measurement series
    /// send_recv, the message between two ranks, counts as broadcast to one other rank.
    Collective kind = Collective::all_reduce;
    int ranks = 0;  ///< >= 2
    int nodes = 0;  ///< >= 1, divides ranks
    Bytes bytes;    ///< as CollectiveCall counts
    Time time;      ///< > 0
};

/// `name` stands in front of every message. At most a million lines.
std::vector<MeasuredCollective> read_collective_log(std::string_view text, const std::string& name);

}  // namespace partita::cost
