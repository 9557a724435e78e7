// SPDX-License-Identifier: Apache-2.0
//
// Least squares for models of measured collectives, in logarithms: an error of 10 % weighs the same
// at 1 KiB and at 1 GiB.
//
//     minimise  sum rho(((ln model - ln time) / 0.1) weight) + sum rho((ln x - ln prior) / sigma)
//
// rho(r) = 2 (sqrt(1 + r^2) - 1), so that outliers pull with constant force. Every configuration of
// ranks and nodes weighs as much as 25 points, however many it has. Levenberg-Marquardt from fixed
// starts; the best one wins, the first among equals. Deterministic. Optimal: a local minimum.
// Source: Levenberg 1944, Marquardt 1963; Charbonnier et al., IEEE TIP 6(2), 1997 (rho).
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "cost/collectives/collective.h"

namespace partita::bench {

struct Point {
    int ranks = 0;
    int nodes = 0;
    Bytes bytes;
    double microseconds = 0;
};

/// Microseconds of a point for parameters > 0.
using PointModel = std::function<double(std::span<const double> parameters, const Point& point)>;

struct Prior {
    std::vector<double> values;  ///< > 0
    std::vector<double> sigmas;  ///< in natural logarithms
};

/// The parameters that fit best, from each of `starts` (the prior's values when empty).
std::vector<double> fit(const PointModel& model, std::span<const Point> points, const Prior& prior,
                        std::span<const std::vector<double>> starts = {});

}  // namespace partita::bench
