// SPDX-License-Identifier: Apache-2.0
//
// How learning went: a point per batch, written as a table (CSV) and drawn (SVG).
//
//     ms │╲  mean of a batch
//        │ ╲╱╲___ what is expected (baseline)
//        │- - - - - - - - - - - - - - heft, critical-path, ...
//        │   ╰──────── best so far
//        └──────────────────────── placements
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace partita::rl {

struct CurvePoint {
    std::int64_t samples = 0;  ///< placements so far
    double seconds = 0;        ///< since the searcher began
    double best = 0;           ///< value of the best plan so far, s; 0: none fits
    double mean = 0;           ///< of this batch's plans that fit, s; 0: none does
    double baseline = 0;       ///< the reward expected, as a value, s
    double entropy = 0;        ///< nats per decision
};

/// What a searcher that does not learn finds: a horizontal line.
struct CurveReference {
    std::string name;
    double value = 0;  ///< s
};

struct LearningCurve {
    std::vector<CurvePoint> points;
    std::vector<CurveReference> references;
};

/// "samples,seconds,best_ms,mean_ms,baseline_ms,entropy", then a line per point; what is not known
/// is empty.
std::string to_csv(const LearningCurve& curve);
/// A picture of 860 x 460; points are thinned out to what can be seen.
std::string to_svg(const LearningCurve& curve, const std::string& title);

}  // namespace partita::rl
