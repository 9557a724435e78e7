// SPDX-License-Identifier: Apache-2.0
#include "search/max_load/exact/load_milp.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "search/coarsening/group_graph.h"
#include "search/max_load/exact/highs.h"
#include "search/max_load/exact/milp_bound.h"
#include "search/max_load/model/load_state.h"
#include "tests/plan/small_problems.h"
#include "tests/search/max_load/contiguous/contiguous_cases.h"
#include "tests/support/random_graph.h"

namespace partita::search {
namespace {

using Devices = std::vector<std::int32_t>;

LoadProblem load_problem_of(const plan::Problem& problem) {
    return make_load_problem(GroupGraph(problem, make_groups(problem, Grouping::all)));
}

LoadProblem small_load_problem(Random& random) {
    const SmallWorkload small = small_workload(random);
    return load_problem_of(throughput_of(small));
}

/// Calls visit(devices, largest load) for every assignment that fits.
template <class Visit>
void for_assignments(const LoadProblem& problem, Visit visit) {
    LoadState state(problem.graph, problem.devices);
    Devices devices(problem.graph.size, 0);
    for (bool more = true; more;) {
        bool allowed = true;
        for (std::size_t v = 0; v < devices.size(); ++v) {
            allowed = allowed && state.allowed(v, static_cast<std::size_t>(devices[v]));
        }
        state.assign(devices);
        if (allowed && state.score().overflow == 0) visit(devices, state.score().load);
        more = false;
        for (std::int32_t& device : devices) {
            more = ++device < static_cast<std::int32_t>(problem.devices.size());
            if (more) break;
            device = 0;
        }
    }
}

std::optional<std::int64_t> best_of(const LoadProblem& problem) {
    std::optional<std::int64_t> best;
    for_assignments(problem, [&](const Devices& /*devices*/, std::int64_t load) {
        best = std::min(best.value_or(load), load);
    });
    return best;
}

/// A program with its whole numbers fixed: what is left are columns that each row bounds by itself,
/// and the last one, which is the cost.
class Fixed {
public:
    Fixed(const Milp& program, const LoadProblem& problem, const Devices& devices)
        : program_(program), low_(program.lower), high_(program.upper) {
        for (std::size_t v = 0; v < devices.size(); ++v) {
            for (std::size_t d = 0; d < problem.devices.size(); ++d) {
                const std::size_t x = v * problem.devices.size() + d;
                const double value = devices[v] == static_cast<std::int32_t>(d) ? 1 : 0;
                allowed_ = allowed_ && value <= program.upper[x];
                low_[x] = high_[x] = value;
            }
        }
        for (std::size_t row = 0; row < program.rows(); ++row) tighten(row);
    }

    /// Nullopt: no point of the program has these whole numbers.
    std::optional<double> cost() {
        const std::size_t last = program_.columns() - 1;
        for (std::size_t row = 0; row < program_.rows(); ++row) {
            double least = 0;  // of the row, without the cost
            bool has_cost = false;
            for_entries(row, [&](std::size_t column, double factor) {
                has_cost = has_cost || column == last;
                if (column == last) return;
                least += factor * (factor > 0 ? low_[column] : high_[column]);
            });
            if (has_cost) low_[last] = std::max(low_[last], least);
            if (!has_cost && least > program_.row_upper[row] + kRounding) allowed_ = false;
        }
        if (!allowed_ || low_[last] > high_[last] + kRounding) return std::nullopt;
        return low_[last];
    }

private:
    static constexpr double kRounding = 1e-9;

    template <class Visit>
    void for_entries(std::size_t row, Visit visit) const {
        for (auto e = static_cast<std::size_t>(program_.start[row]);
             e < static_cast<std::size_t>(program_.start[row + 1]); ++e) {
            visit(static_cast<std::size_t>(program_.index[e]), program_.value[e]);
        }
    }

    /// Where one column of the row is still open, and it is not the cost.
    void tighten(std::size_t row) {
        int open = 0;
        std::size_t column = 0;
        double factor = 0;
        double rest = 0;
        for_entries(row, [&](std::size_t c, double by) {
            if (program_.integral[c] != 0) {
                rest += by * low_[c];
                return;
            }
            ++open;
            column = c;
            factor = by;
        });
        if (open != 1 || column == program_.columns() - 1) return;
        const double below = (program_.row_lower[row] - rest) / factor;
        const double above = (program_.row_upper[row] - rest) / factor;
        low_[column] = std::max(low_[column], std::min(below, above));
        high_[column] = std::min(high_[column], std::max(below, above));
    }

    const Milp& program_;
    std::vector<double> low_;
    std::vector<double> high_;
    bool allowed_ = true;
};

TEST(LoadMilp, CostsOfAnAssignmentItsLargestLoad) {
    int compared = 0;
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
        Random random(seed);
        const LoadProblem problem = small_load_problem(random);
        std::int64_t limit = 1;
        for_assignments(problem, [&](const Devices& /*devices*/, std::int64_t load) {
            limit = std::max(limit, load);
        });
        const LoadMilp milp(problem, limit);
        for_assignments(problem, [&](const Devices& devices, std::int64_t load) {
            const std::optional<double> cost = Fixed(milp.program(), problem, devices).cost();
            if (!cost) return;  // devices of a kind in another order
            ++compared;
            EXPECT_NEAR(milp.load(*cost), static_cast<double>(load), 1) << "seed " << seed;
        });
    }
    EXPECT_GT(compared, 3'000);
}

TEST(LoadMilp, KeepsABestAssignmentUnderSomeNamesOfEqualDevices) {
    int excluded = 0;
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
        Random random(seed);
        const LoadProblem problem = small_load_problem(random);
        const std::optional<std::int64_t> best = best_of(problem);
        if (!best || *best == 0) continue;
        const LoadMilp milp(problem, *best);
        bool kept = false;
        for_assignments(problem, [&](const Devices& devices, std::int64_t load) {
            if (load > *best) return;
            const bool here = Fixed(milp.program(), problem, devices).cost().has_value();
            kept = kept || here;
            excluded += here ? 0 : 1;
        });
        EXPECT_TRUE(kept) << "seed " << seed;
    }
    EXPECT_GT(excluded, 50);
}

TEST(LoadMilp, HasNoPointWhereTheMemoryIsShort) {
    // Two of two bytes on a device of three.
    LoadProblem problem;
    problem.graph.size = 2;
    problem.graph.kinds = 1;
    problem.graph.times.assign(2, 5);
    problem.graph.bytes.assign(2, 2);
    problem.graph.pins.offsets.assign(1, 0);
    problem.graph.nets.offsets.assign(3, 0);
    problem.devices.assign(2, {.kind = 0, .capacity = 3, .communicates = true});
    const LoadMilp milp(problem, 10);
    EXPECT_FALSE(Fixed(milp.program(), problem, {0, 0}).cost());
    EXPECT_EQ(Fixed(milp.program(), problem, {0, 1}).cost(), 0.5);
    EXPECT_FALSE(Fixed(milp.program(), problem, {1, 0}).cost());  // the same with other names
}

class MilpBoundTest : public testing::Test {
protected:
    void SetUp() override {
        if (highs_version().text.empty()) GTEST_SKIP() << "no HiGHS: " << highs_version().missing;
    }
};

/// What is said below a value must hold of all assignments.
TEST_F(MilpBoundTest, ClaimsNothingThatAnAssignmentRefutes) {
    int claimed = 0;
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        SCOPED_TRACE(seed);
        Random random(seed);
        const LoadProblem problem = small_load_problem(random);
        const std::optional<std::int64_t> best = best_of(problem);
        if (!best || *best == 0) continue;
        const MilpBound of_best = milp_bound(problem, 0, *best, {});
        EXPECT_EQ(of_best.result.status, MilpStatus::infeasible);
        EXPECT_FALSE(of_best.devices);
        EXPECT_LE(of_best.bound, *best);
        EXPECT_GE(of_best.bound, *best - 2 * (*best / kMilpMargin) - 2);

        const MilpBound of_more = milp_bound(problem, 0, *best + *best / 3 + 2, {});
        ASSERT_TRUE(of_more.devices);
        LoadState state(problem.graph, problem.devices);
        state.assign(*of_more.devices);
        EXPECT_EQ(state.score().overflow, 0);
        EXPECT_LE(state.score().load, *best + *best / kMilpMargin + 1);
        EXPECT_LE(of_more.bound, *best);
        ++claimed;
    }
    EXPECT_GT(claimed, 100);
}

/// Five accelerators, sixty ops: no end in a test's time.
LoadProblem large_load_problem() {
    Random random(7);
    const graph::OpGraph graph = support::random_workload(random, 60);
    const cost::Machine machine = plan::switched_machine(5);
    plan::ProblemOptions options;
    options.objective = plan::Objective::throughput;
    return load_problem_of(plan::make_problem(graph, machine, options));
}

std::int64_t on_one_device(const LoadProblem& problem) {
    LoadState state(problem.graph, problem.devices);
    return state.score().load;
}

TEST_F(MilpBoundTest, EndsAfterItsIterationsWithTheSameAnswer) {
    const LoadProblem problem = large_load_problem();
    const std::int64_t value = on_one_device(problem);
    MilpOptions options;
    options.iterations = 3'000;
    const MilpBound one = milp_bound(problem, 0, value, options);
    const MilpBound two = milp_bound(problem, 0, value, options);
    EXPECT_EQ(one.result.status, MilpStatus::stopped);
    EXPECT_LT(one.result.iterations, 50'000);
    EXPECT_GT(one.bound, 0);
    EXPECT_LT(one.bound, value);
    EXPECT_EQ(one.bound, two.bound);
    EXPECT_EQ(one.devices, two.devices);
    EXPECT_EQ(one.result.iterations, two.result.iterations);
    EXPECT_EQ(one.result.nodes, two.result.nodes);
}

TEST_F(MilpBoundTest, EndsWhenAsked) {
    const LoadProblem problem = large_load_problem();
    int asked = 0;
    MilpOptions options;
    options.stop = [&asked] { return ++asked > 3; };
    const MilpBound answer = milp_bound(problem, 5, on_one_device(problem), options);
    EXPECT_EQ(answer.result.status, MilpStatus::stopped);
    EXPECT_GE(answer.bound, 5);
}

TEST(MilpBound, LeavesOutWhatIsTooLarge) {
    LoadProblem problem;
    problem.graph.size = 100'000;
    problem.devices.resize(64);
    EXPECT_FALSE(fits_milp(problem));
    problem.graph.size = 1'000;
    EXPECT_TRUE(fits_milp(problem));
}

}  // namespace
}  // namespace partita::search
