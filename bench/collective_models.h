// SPDX-License-Identifier: Apache-2.0
//
// The collective models that the benchmark compares, and how wrong they are.
#pragma once

#include <cmath>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "bench/collective_fit.h"
#include "bench/collective_series.h"
#include "cost/collectives/collective.h"

namespace partita::bench {

/// T = steps (alpha + S / n beta).
PointModel alpha_beta(cost::Collective kind);
Prior alpha_beta_prior();
/// T = a + b log2 n + c log2 m + K S (d in one node, e between nodes), K = steps / n.
PointModel five(cost::Collective kind);
Prior five_prior();
/// nccl_model.h. Refers to `series`.
PointModel nccl_like(const Series& series);
std::vector<double> fit_nccl(const Series& series, std::span<const Point> points);

/// Sums of |predicted / measured - 1|, of all points and of those from 1 MiB up.
struct Errors {
    double sum = 0;
    double sum_large = 0;
    int count = 0;
    int count_large = 0;

    void add(double predicted, const Point& point);
    void add(const Errors& other);
    [[nodiscard]] double mean() const { return sum / std::max(count, 1); }
    [[nodiscard]] double mean_large() const { return sum_large / std::max(count_large, 1); }
    [[nodiscard]] std::string text() const;  ///< both in percent
};

using Fitter = std::function<std::vector<double>(std::span<const Point>)>;

/// Of a model that is fitted without the number of ranks that it predicts. Where the series has but
/// one, nothing is left out.
Errors leave_ranks_out(const Series& series, const PointModel& model, const Fitter& fit_to);
Errors leave_ranks_out_nccl(const Series& series);

/// Of a table without the size that it predicts; the first and last sizes stay.
Errors leave_sizes_out(const Series& series);

}  // namespace partita::bench
