// SPDX-License-Identifier: Apache-2.0
#include "rl/learning_curve.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace partita::rl {
namespace {

using testing::HasSubstr;
using testing::Not;

LearningCurve sample() {
    LearningCurve curve;
    curve.points = {{.samples = 16, .seconds = 0.5, .mean = 0, .baseline = 0.03, .entropy = 1.5},
                    {.samples = 32, .seconds = 1, .best = 0.02, .mean = 0.025, .baseline = 0.028}};
    curve.references = {{"heft", 0.021}, {"a<b", 0.5}};
    return curve;
}

TEST(LearningCurve, IsATableWithALinePerPointAndEmptyFieldsForTheUnknown) {
    EXPECT_EQ(to_csv(sample()),
              "samples,seconds,best_ms,mean_ms,baseline_ms,entropy\n"
              "16,0.5,,,30,1.5\n"
              "32,1,20,25,28,0\n");
}

TEST(LearningCurve, CountsPlacementsInWholeNumbers) {
    LearningCurve curve = sample();
    curve.points.back().samples = 8'320;
    EXPECT_THAT(to_svg(curve, "rl"), HasSubstr(">6656</text>"));
}

TEST(LearningCurve, IsAPictureWithReferences) {
    const std::string svg = to_svg(sample(), "rl & more");
    EXPECT_THAT(svg, HasSubstr("rl &amp; more"));
    EXPECT_THAT(svg, HasSubstr("heft  21"));
    EXPECT_THAT(svg, HasSubstr("a&lt;b  500 (above)"));
    EXPECT_THAT(svg, Not(HasSubstr("nan")));
    EXPECT_EQ(std::count(svg.begin(), svg.end(), '<'), std::count(svg.begin(), svg.end(), '>'));
}

TEST(LearningCurve, WithoutPointsIsAPictureToo) {
    const std::string svg = to_svg({}, "nothing");
    EXPECT_THAT(svg, HasSubstr("</svg>"));
    EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace partita::rl
