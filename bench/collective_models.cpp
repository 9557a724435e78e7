// SPDX-License-Identifier: Apache-2.0
#include "bench/collective_models.h"

#include <algorithm>
#include <cstddef>
#include <set>

#include <fmt/format.h>

#include "cost/collectives/collective_table.h"
#include "cost/collectives/nccl_model.h"

namespace partita::bench {

using cost::Collective;

namespace {

int both_ways(Collective kind) {
    return kind == Collective::all_reduce ? 2 : 1;
}

cost::NcclFit fit_of(std::span<const double> x) {
    cost::NcclFit fit;
    for (std::size_t i = 0; i < x.size(); ++i) fit.*cost::kNcclFitFields[i].value = x[i];
    return fit;
}

/// Before anything is measured: NCCL's own constants, the data sheet's bandwidths, one access to
/// memory per byte. Ours: 3 us to start a rank, 1.5 us to start a channel, and how far the measured
/// constants may lie from these.
Prior nccl_prior(const Series& series) {
    const MachineRow& machine = *series.machine;
    const double nic = series.tuning.topology().nic_bandwidth;
    return {{3, 1.5, 1, 1, 1, 1, 1, 1, 0.92, machine.node_rate, nic, 1 / machine.memory_rate},
            {0.5, 0.7, 0.2, 0.3, 0.5, 0.5, 0.5, 0.4, 0.15, 0.07, 0.4, 0.7}};
}

}  // namespace

PointModel alpha_beta(Collective kind) {
    return [kind](std::span<const double> x, const Point& p) {
        const double steps = both_ways(kind) * (p.ranks - 1);
        return steps * (x[0] + static_cast<double>(p.bytes.raw()) / p.ranks * x[1]);
    };
}
Prior alpha_beta_prior() {
    return {{5, 1e-5}, {100, 100}};
}

PointModel five(Collective kind) {
    return [kind](std::span<const double> x, const Point& p) {
        const double share = both_ways(kind) * (p.ranks - 1.0) / p.ranks;
        const double rate = p.nodes == 1 ? x[3] : x[4];
        return x[0] + x[1] * std::log2(p.ranks) + x[2] * std::log2(p.nodes) +
               share * static_cast<double>(p.bytes.raw()) * rate;
    };
}
Prior five_prior() {
    return {{10, 5, 10, 5e-6, 1e-5}, {100, 100, 100, 100, 100}};
}

PointModel nccl_like(const Series& series) {
    return [&series](std::span<const double> x, const Point& p) {
        return cost::nccl_time(fit_of(x), series.tuning, series.kind, p.bytes, p.ranks, p.nodes)
            .microseconds;
    };
}

std::vector<double> fit_nccl(const Series& series, std::span<const Point> points) {
    const Prior prior = nccl_prior(series);
    std::vector<std::vector<double>> starts(4, prior.values);
    starts[1][3] *= 1.6;
    for (std::size_t i = 4; i < 7; ++i) starts[1][i] *= 2;
    starts[2][1] *= 0.5;
    starts[3][1] *= 2;
    return fit(nccl_like(series), points, prior, starts);
}

void Errors::add(double predicted, const Point& point) {
    const double error = std::abs(predicted / point.microseconds - 1);
    sum += error;
    ++count;
    if (point.bytes.raw() < (1 << 20)) return;
    sum_large += error;
    ++count_large;
}

void Errors::add(const Errors& other) {
    sum += other.sum;
    sum_large += other.sum_large;
    count += other.count;
    count_large += other.count_large;
}

std::string Errors::text() const {
    return fmt::format("{:>6.1f} {:>6.1f}", 100 * mean(), 100 * mean_large());
}

Errors leave_ranks_out(const Series& series, const PointModel& model, const Fitter& fit_to) {
    Errors errors;
    const std::set<int> counts = series.rank_counts();
    for (const int left_out : counts) {
        std::vector<Point> rest;
        for (const Point& point : series.points) {
            if (point.ranks != left_out || counts.size() == 1) rest.push_back(point);
        }
        const std::vector<double> parameters = fit_to(rest);
        for (const Point& point : series.points) {
            if (point.ranks == left_out) errors.add(model(parameters, point), point);
        }
    }
    return errors;
}

Errors leave_sizes_out(const Series& series) {
    Errors errors;
    for (std::size_t i = 1; i + 1 < series.points.size(); ++i) {
        const auto same_curve = [&](const Point& other) {
            return other.ranks == series.points[i].ranks && other.nodes == series.points[i].nodes;
        };
        const Point& point = series.points[i];
        if (!same_curve(series.points[i - 1]) || !same_curve(series.points[i + 1])) continue;
        std::vector<cost::MeasuredCollective> rest;
        for (const auto& row : series.rows) {
            if (row.ranks == point.ranks && row.nodes == point.nodes && row.bytes != point.bytes) {
                rest.push_back(row);
            }
        }
        const cost::CollectiveTable table(rest, "rest");
        const auto price = table.time_of(series.kind, point.bytes, point.ranks, point.nodes);
        errors.add(to_milliseconds(price->time) * 1e3, point);
    }
    return errors;
}

Errors leave_ranks_out_nccl(const Series& series) {
    return leave_ranks_out(series, nccl_like(series),
                           [&](std::span<const Point> points) { return fit_nccl(series, points); });
}

}  // namespace partita::bench
