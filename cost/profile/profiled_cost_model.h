// SPDX-License-Identifier: Apache-2.0
//
// Measured times as a cost model, for the devices of one machine:
//
//     measured        a row has the text of the work: its median
//     interpolated    rows of its family are near: what the roofline says, times the weighted mean
//                     of what it said wrong about them
//
//         time = roofline(work) exp( sum_i w_i ln(median_i / roofline(i)) / sum_i w_i ),
//         w_i = 1 / d_i^2,   d_i = |(ln flops/flops_i, ln bytes/bytes_i)|
//
//         over the kNeighbours nearest of those that differ by no more than kGap in FLOPs and in
//         bytes. Where none of these is smaller, or none larger, the nearest must lie within kReach
//     not known       nothing near: the next model answers
//
// Interpolating the ratio keeps what the roofline knows of growth, and has no extreme of its own:
// no time is outside of what the neighbours say. Made-up products of matrices, with an overhead and
// an efficiency that grows with each extent, are predicted from all others to 5 % in the median; by
// the roofline alone to 37 % (tests/cost/profile/profiled_cost_model_test.cpp).
//
// least_share() is the least ratio of any row of that operator and phase, so that bounds hold
// whatever sizes are asked for.
//
// A work without a signature is known only if it is on elements alone. Threads: const.
// Errors: none. Source of the weights: Shepard, Proc. 23rd ACM National Conference, 1968.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cost/cost_model.h"
#include "cost/machine/machine.h"
#include "cost/profile/profile.h"

namespace partita::cost {

class ProfiledCostModel final : public CostModel {
public:
    static constexpr int kNeighbours = 4;
    static constexpr double kGap = 16;
    static constexpr double kReach = 4;

    ProfiledCostModel(const Profile& profile, const Machine& machine);

    [[nodiscard]] std::optional<Price> price(const Work& work, const Device& device) const override;
    /// By content: "profile 0123456789abcdef".
    [[nodiscard]] std::string name() const override { return name_; }
    [[nodiscard]] bool uses_signatures() const override { return true; }
    [[nodiscard]] Share least_share(const Work& work, const Device& device) const override;

private:
    struct Point {
        double log_flops = 0;
        double log_bytes = 0;
        double log_ratio = 0;
    };
    struct Family {
        std::string name;
        std::vector<Point> points;
    };
    struct Known {
        std::string text;
        Time time;
    };
    struct Least {
        Phase phase = Phase::forward;
        std::string type;
        Share share;
    };
    /// Rows as one device sees them; all lists are sorted by what they are searched for.
    struct Table {
        Device device;
        std::vector<Known> rows;
        std::vector<Family> families;
        std::vector<Least> shares;
    };

    static Table table_of(const Device& device, const DeviceProfile& profile);
    [[nodiscard]] const Table* find(const Device& device) const;
    static std::optional<double> log_ratio(const Table& table, const std::string& family,
                                           const Work& work);

    std::vector<Table> tables_;
    std::string name_;
};

}  // namespace partita::cost
