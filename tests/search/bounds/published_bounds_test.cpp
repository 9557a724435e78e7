// SPDX-License-Identifier: Apache-2.0
//
// Lower bounds of the published workloads (REFERENCES 8) are those that were published.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "search/bounds/lower_bound.h"
#include "tests/plan/public_workload.h"
#include "tests/plan/small_problems.h"

namespace partita::search {
namespace {

using plan::Problem;
using testing::HasSubstr;

struct Published {
    const char* workload;
    double bound_ms;
};

// Column LB0: without communication and rounding, work that could be divided at will takes that
// long.
TEST(PublishedBounds, EqualsThePerfectBalanceOfThePublishedWorkloads) {
    const Published published[] = {
        {"layer_bert24_inference", 15.148525},   {"layer_bert24_training", 35.707049},
        {"layer_gnmt_inference", 29.928361},     {"layer_gnmt_training", 85.320164},
        {"layer_resnet50_inference", 33.024590}, {"layer_resnet50_training", 75.800164},
        {"op_bert_l-3_inference", 16.215844},    {"op_bert_l-3_training", 40.410088},
        {"op_resnet50_inference", 53.798818},    {"op_resnet50_training", 113.327214},
    };
    for (const auto& [workload, balance_ms] : published) {
        const plan::PublicWorkload of =
            plan::public_workload(std::string("throughput/") + workload);
        const Problem problem = plan::make_problem(of.graph, of.machine, of.options);
        EXPECT_NEAR(static_cast<double>(lower_bound(problem).work.raw()) / 1e9, balance_ms, 1e-6)
            << workload;
    }
}

// Column best non-contiguous: what must be sent counts, and nothing is above what is possible.
TEST(PublishedBounds, CountsWhatMustBeSentInThePublishedWorkloads) {
    struct Case {
        const char* workload;
        double share;  ///< of the best known, at least
        double best_ms;
    };
    for (const Case& of : {Case{"op_bert_l-3_inference", 0.95, 21.9083761057},
                           Case{"op_bert_l-3_training", 0.95, 54.2073991917},
                           Case{"layer_gnmt_training", 0.98, 88.4622421875},
                           Case{"op_resnet50_inference", 0.65, 124.3488497740}}) {
        const plan::PublicWorkload workload =
            plan::public_workload(std::string("throughput/") + of.workload);
        const LowerBound bound =
            lower_bound(plan::make_problem(workload.graph, workload.machine, workload.options));
        const double milliseconds = static_cast<double>(bound.value.raw()) / 1e9;
        EXPECT_GE(milliseconds, of.share * of.best_ms) << of.workload;
        EXPECT_LE(milliseconds, of.best_ms * (1 + 1e-9)) << of.workload;
        EXPECT_EQ(bound.cuts, bound.value);
        EXPECT_THAT(bound.limited_by, HasSubstr("work and communication of"));
    }
}

// Column CP bound of the latency objective.
TEST(PublishedBounds, CriticalPathIsThatOfThePublishedWorkloads) {
    const Published published[] = {{"bert24_inference", 92.406},
                                   {"gnmt_inference", 182.435},
                                   {"op_bert_l-3_inference", 47.8232},
                                   {"op_resnet50_inference", 289.8553}};
    for (const auto& [workload, path_ms] : published) {
        const plan::PublicWorkload of = plan::public_workload(std::string("latency/") + workload);
        const Problem problem = plan::make_problem(of.graph, of.machine, of.options);
        EXPECT_NEAR(static_cast<double>(lower_bound(problem).critical_path.raw()) / 1e9, path_ms,
                    1e-4)
            << workload;
    }
}

}  // namespace
}  // namespace partita::search
