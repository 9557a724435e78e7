// SPDX-License-Identifier: Apache-2.0
//
// How learning went: a point per step, written as CSV and drawn as SVG.
#pragma once

#include <cstdint>
#include <vector>

namespace partita::rl {

struct CurvePoint {
    std::int64_t samples = 0;  ///< placements so far
    double seconds = 0;
    double best = 0;      ///< value of the best plan so far, s; 0: none fits
    double mean = 0;      ///< of this batch's plans that fit, s; 0: none does
    double baseline = 0;  ///< the reward expected, as a value, s
    double entropy = 0;   ///< nats per decision
};

using LearningCurve = std::vector<CurvePoint>;

}  // namespace partita::rl
