// SPDX-License-Identifier: Apache-2.0
#include "bench/collective_fit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

namespace partita::bench {

namespace {

constexpr int kIterations = 200;
constexpr double kTolerance = 0.1;  ///< of a measured time
constexpr double kPointsPerConfiguration = 25;

using Vector = std::vector<double>;

class Problem {
public:
    Problem(const PointModel& model, std::span<const Point> points, const Prior& prior)
        : model_(model), points_(points), prior_(prior) {
        std::map<std::pair<int, int>, double> count;
        for (const Point& point : points) ++count[{point.ranks, point.nodes}];
        for (const Point& point : points) {
            const double share = kPointsPerConfiguration / count[{point.ranks, point.nodes}];
            weights_.push_back(std::sqrt(share) / kTolerance);
        }
    }

    /// One residual per point, one per parameter. `logs` are logarithms of the parameters.
    [[nodiscard]] Vector residuals(const Vector& logs) const {
        Vector values(logs.size());
        std::ranges::transform(logs, values.begin(), [](double x) { return std::exp(x); });
        Vector result;
        for (std::size_t i = 0; i < points_.size(); ++i) {
            const double time = model_(values, points_[i]);
            result.push_back(std::log(time / points_[i].microseconds) * weights_[i]);
        }
        for (std::size_t k = 0; k < logs.size(); ++k) {
            result.push_back((logs[k] - std::log(prior_.values[k])) / prior_.sigmas[k]);
        }
        return result;
    }

    [[nodiscard]] static double loss(const Vector& residuals) {
        double sum = 0;
        for (const double r : residuals) sum += 2 * (std::sqrt(1 + r * r) - 1);
        return sum;
    }

private:
    const PointModel& model_;
    std::span<const Point> points_;
    const Prior& prior_;
    Vector weights_;
};

/// Solves a x = b for a symmetric positive matrix by Gaussian elimination.
Vector solve(std::vector<Vector> a, Vector b) {
    const std::size_t n = b.size();
    for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = i + 1; j < n; ++j) {
            const double factor = a[j][i] / a[i][i];
            for (std::size_t k = i; k < n; ++k) a[j][k] -= factor * a[i][k];
            b[j] -= factor * b[i];
        }
    }
    for (std::size_t i = n; i-- > 0;) {
        for (std::size_t k = i + 1; k < n; ++k) b[i] -= a[i][k] * b[k];
        b[i] /= a[i][i];
    }
    return b;
}

/// How each residual changes with each parameter, by a small step.
std::vector<Vector> slopes_of(const Problem& problem, const Vector& logs, const Vector& residuals) {
    constexpr double kStep = 1e-6;
    std::vector<Vector> slopes;
    for (std::size_t k = 0; k < logs.size(); ++k) {
        Vector moved = logs;
        moved[k] += kStep;
        slopes.push_back(problem.residuals(moved));
        for (std::size_t i = 0; i < residuals.size(); ++i) {
            slopes[k][i] = (slopes[k][i] - residuals[i]) / kStep;
        }
    }
    return slopes;
}

/// Gauss-Newton's step, damped; residuals far out weigh less, as rho wants it.
Vector damped_step(const std::vector<Vector>& slopes, const Vector& residuals, double damping) {
    std::vector<Vector> normal;
    Vector gradient;
    for (const Vector& slope : slopes) {
        double along = 0;
        Vector products;
        for (const Vector& other : slopes) {
            double sum = 0;
            for (std::size_t i = 0; i < residuals.size(); ++i) {
                sum += slope[i] * other[i] / std::sqrt(1 + residuals[i] * residuals[i]);
            }
            products.push_back(sum);
        }
        for (std::size_t i = 0; i < residuals.size(); ++i) {
            along -= slope[i] * residuals[i] / std::sqrt(1 + residuals[i] * residuals[i]);
        }
        products[normal.size()] *= 1 + damping;
        normal.push_back(std::move(products));
        gradient.push_back(along);
    }
    return solve(std::move(normal), std::move(gradient));
}

std::pair<Vector, double> descend(const Problem& problem, Vector logs) {
    Vector residuals = problem.residuals(logs);
    double loss = Problem::loss(residuals);
    double damping = 1e-2;
    std::vector<Vector> slopes = slopes_of(problem, logs, residuals);
    for (int iteration = 0; iteration < kIterations && damping < 1e9; ++iteration) {
        const Vector step = damped_step(slopes, residuals, damping);
        Vector next = logs;
        // A step of more than e^2 would leave what the slopes say anything about.
        for (std::size_t k = 0; k < next.size(); ++k) next[k] += std::clamp(step[k], -2.0, 2.0);
        Vector next_residuals = problem.residuals(next);
        const double next_loss = Problem::loss(next_residuals);
        if (!(next_loss < loss)) {
            damping *= 4;
            continue;
        }
        const bool done = loss - next_loss < 1e-9 * loss;
        logs = std::move(next);
        residuals = std::move(next_residuals);
        loss = next_loss;
        damping /= 4;
        if (done) break;
        slopes = slopes_of(problem, logs, residuals);
    }
    return {std::move(logs), loss};
}

}  // namespace

std::vector<double> fit(const PointModel& model, std::span<const Point> points, const Prior& prior,
                        std::span<const std::vector<double>> starts) {
    const Problem problem(model, points, prior);
    const std::vector<Vector> own = {prior.values};
    Vector best;
    double least = std::numeric_limits<double>::infinity();
    for (const Vector& start : starts.empty() ? std::span<const Vector>(own) : starts) {
        Vector logs(start.size());
        std::ranges::transform(start, logs.begin(), [](double x) { return std::log(x); });
        auto [found, loss] = descend(problem, std::move(logs));
        if (loss >= least) continue;
        least = loss;
        best = std::move(found);
    }
    for (double& value : best) value = std::exp(value);
    return best;
}

}  // namespace partita::bench
