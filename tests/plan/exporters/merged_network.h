// SPDX-License-Identifier: Apache-2.0
//
// A small network with everything that exported shardings must tell apart:
//
//     x [3 4 6] -> flat [12 6] -> mul w [6 8] --> sum -> fc u [8 5] + c [5] -> y [12 5]
//                     |  (b s)       |             |        (n: 5)
//                     '-> other v [6 8] -----------'  '-> most [12]   (the maximum of each row)
#pragma once

#include <string>
#include <vector>

#include "cost/machine/machine.h"
#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"
#include "tests/plan/named_axes.h"

namespace partita::plan {

/// What an export says of layouts, over many of them.
struct ExportCounts {
    int said = 0;
    int partial = 0;
    int unsaid = 0;
};

/// Holds an export to what the layouts are.
using ExpectFaithful = void (*)(const Problem&, const Strategy&, ExportCounts&);

/// 200 random programs (random_programs.h), of which neither all are said nor none.
void expect_faithful_to_random_splits(ExpectFaithful expect);

class MergedNetwork {
public:
    MergedNetwork();

    [[nodiscard]] const Problem& problem() const { return problem_; }

    /// Sums that stay partial through `sum`, a bias applied once, a maximum, devices out of order.
    [[nodiscard]] Strategy reviewed() const;

    /// The one above, and one for each way to cut a dim that is merged or uneven.
    [[nodiscard]] std::vector<Strategy> strategies() const;

    /// All of strategies(), some of which cannot be said.
    void expect_faithful(ExpectFaithful expect) const;

    /// Compares with a file of tests/data/exports; PARTITA_REWRITE_GOLDEN writes it anew.
    static void expect_golden(const std::string& file, const std::string& text);

private:
    /// The factor at `place` of what dim `dim` of the op's result is made of.
    [[nodiscard]] std::string factor(const std::string& op, std::size_t dim,
                                     std::size_t place = 0) const;
    void split(Strategy& strategy, const std::string& op, const AxisNames& axes,
               std::vector<int> devices = {}) const;

    graph::OpGraph graph_;
    cost::Machine machine_;
    Problem problem_;
};

}  // namespace partita::plan
