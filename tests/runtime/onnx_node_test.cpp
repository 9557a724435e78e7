// SPDX-License-Identifier: Apache-2.0
//
// The ONNX conformance node tests on our kernels. A test that is not passed names an operator
// without a kernel, a type that ATen does not have, or stands in a short list with its reason.
#include <algorithm>
#include <array>
#include <iostream>
#include <map>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "tests/runtime/node_test.h"
#include "tests/support/paths.h"

namespace partita::runtime {
namespace {

constexpr std::size_t kFloor = 1755;

struct Known {
    std::string_view part;  ///< of the test's name
    std::string_view reason;
};
constexpr std::array kKnown = {
    Known{"FLOAT4E2M1", "ATen has no 4-bit floats"},
    Known{"float4e2m1", "ATen has no 4-bit floats"},
    Known{"test_dft_inverse", "zeros that rounding makes 2e-7"},
    Known{"test_bernoulli", "random: values cannot be compared"},
    Known{"test_equal_string", "strings"},
    Known{"test_identity_opt", "an optional, no tensor"},
    Known{"test_identity_sequence", "a sequence, no tensor"},
    Known{"test_training_dropout", "random: values cannot be compared"},
};

bool is_known(std::string_view test) {
    return std::ranges::any_of(kKnown, [&](const Known& known) {
        return test.find(known.part) != std::string_view::npos;
    });
}

std::string_view name_of(Outcome outcome) {
    switch (outcome) {
    case Outcome::passed: return "passed";
    case Outcome::unsupported: return "without a kernel";
    case Outcome::not_imported: return "not imported";
    case Outcome::failed: return "failed to run";
    case Outcome::wrong: return "wrong";
    }
    return "";
}

TEST(OnnxNodeTest, EveryResultIsRightOrItsReasonIsKnown) {
    const auto folders = node_test_folders();
    ASSERT_FALSE(folders.empty()) << "no conformance node tests in " << tests::node_tests()
                                  << "; run scripts/setup";
    std::map<Outcome, std::size_t> counts;
    std::map<std::pair<Outcome, std::string>, std::string> rest;
    for (const auto& folder : folders) {
        const std::string test = folder.filename();
        const NodeTestResult result = run_node_test(folder);
        ++counts[result.outcome];
        if (result.outcome == Outcome::passed) continue;
        rest[{result.outcome, test}] = result.reason;
        if (result.outcome == Outcome::wrong || result.outcome == Outcome::failed) {
            EXPECT_TRUE(is_known(test)) << test << ": " << result.reason;
        }
    }
    for (const auto& [key, reason] : rest) {
        std::cout << name_of(key.first) << ": " << key.second << ": " << reason << "\n";
    }
    for (const auto& [outcome, count] : counts) {
        std::cout << count << " of " << folders.size() << " " << name_of(outcome) << "\n";
    }
    EXPECT_GE(counts[Outcome::passed], kFloor);
}

}  // namespace
}  // namespace partita::runtime
