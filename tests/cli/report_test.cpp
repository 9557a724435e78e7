// SPDX-License-Identifier: Apache-2.0
//
// plan --report and execute --report: every device's row holds what the plan gives to that device,
// and what was measured there.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace partita::tests {
namespace {

using nlohmann::json;

/// Three devices with different work, a fourth without any.
class Report : public ProgramTest {
protected:
    void SetUp() override {
        write("layers.json", R"({"ops": [{"match": "/0/*", "devices": [2]},
                                         {"match": "/2/*", "devices": [0]},
                                         {"match": "/4/*", "devices": [3]}]})");
        const Outcome result = run({"plan", example("runnable/mlp/model.onnx"), "--batch", "64",
                                    "--machine", "cpu:4", "--searcher", "critical-path", "--fix",
                                    "layers.json", "--report", "report.html", "--json"});
        ASSERT_EQ(result.code, 0) << result.err;
        summary_ = json::parse(result.out);
        read_data("report.html");
    }

    void read_data(const std::string& file) {
        constexpr std::string_view kBegin = R"(<script type="application/json" id="data">)";
        const std::string page = read(file);
        const auto begin = page.find(kBegin);
        ASSERT_NE(begin, std::string::npos);
        const auto from = begin + kBegin.size();
        data_ = json::parse(page.substr(from, page.find("</script>", from) - from));
    }

    /// Runs the page's scripts; "": there is no node on this host.
    std::string drawn(const std::string& file) {
        const std::string script = (tests::repository() / "tests/cli/report_page_test.js").string();
        Process node({"/usr/bin/env", "node", script, (folder() / file).string()});
        const Ended ended = node.end(Process::Clock::now() + std::chrono::minutes(1));
        constexpr int kNotFound = 127;
        if (ended.exit_code == kNotFound) return "";
        EXPECT_EQ(ended.exit_code, 0) << ended.output;
        return ended.output;
    }

    json summary_;
    json data_;
};

TEST_F(Report, SaysOfEachDeviceWhatThePlanSays) {
    const json& devices = summary_["devices"];
    ASSERT_EQ(data_["devices"].size(), devices.size());
    std::vector<std::int64_t> busy(devices.size(), 0);
    for (const json& task : data_["tasks"]) {
        const auto device = task[2].get<std::size_t>();
        if (task[3] < 0) busy[device] += task[5].get<std::int64_t>();
    }
    std::vector<std::int64_t> different;
    for (std::size_t d = 0; d < devices.size(); ++d) {
        const json& row = data_["devices"][d];
        EXPECT_EQ(row["name"], devices[d]["name"]);
        EXPECT_EQ(row["busy"], devices[d]["busy_ps"]) << d;
        EXPECT_EQ(row["peak"], devices[d]["memory_bytes"]) << d;
        for (std::size_t k = 0; k < data_["memoryKinds"].size(); ++k) {
            const std::string kind = data_["memoryKinds"][k];
            EXPECT_EQ(row["held"][k], devices[d]["memory"][kind]) << d << ' ' << kind;
        }
        EXPECT_GE(row["busy"].get<std::int64_t>(), busy[d]) << d;
        EXPECT_EQ(busy[d] > 0, row["busy"].get<std::int64_t>() > 0) << d;
        std::int64_t peak = 0;
        const json& course = data_["memory"][d];
        for (std::size_t i = 1; i < course.size(); i += 2) {
            peak = std::max(peak, course[i].get<std::int64_t>());
        }
        EXPECT_EQ(row["peak"], peak) << d;
        different.push_back(row["busy"].get<std::int64_t>());
    }
    std::ranges::sort(different);
    EXPECT_EQ(std::ranges::adjacent_find(different), different.end())
        << "devices with equal work tell nothing";
}

// Of a style sheet a browser passes over what it cannot read, without a word.
TEST_F(Report, HasAStyleThatBrowsersRead) {
    const std::string page = read("report.html");
    const auto begin = page.find("<style>");
    ASSERT_NE(begin, std::string::npos);
    std::string style = page.substr(begin + 7, page.find("</style>") - begin - 7);
    style = std::regex_replace(style, std::regex(R"(/\*[^*]*\*/)"), "");
    const std::regex declaration(R"(\s*(--)?[a-z]+(-[a-z]+)*: [^:;{}]+)");
    const std::regex odd(R"(# | %|[a-z] - [a-z])");  // "# 1c2430", "100 %", "system - ui"
    std::int64_t declarations = 0;
    for (std::size_t end = style.find('}'); end != std::string::npos;
         end = style.find('}', end + 1)) {
        const std::size_t open = style.rfind('{', end);
        const std::string body = style.substr(open + 1, end - open - 1);
        if (body.find_first_not_of(" \n") == std::string::npos ||
            body.find('}') != std::string::npos)
            continue;  // the end of @media
        std::istringstream parts(body);
        for (std::string each; std::getline(parts, each, ';');) {
            if (each.find_first_not_of(" \n") == std::string::npos) continue;
            EXPECT_TRUE(std::regex_match(each, declaration)) << each;
            EXPECT_FALSE(std::regex_search(each, odd)) << each;
            ++declarations;
        }
    }
    EXPECT_GT(declarations, 100);
    // What the scripts ask for by name.
    for (const char* name : {"--ink", "--quiet", "--line", "--row", "--thin-row", "--memory"}) {
        EXPECT_THAT(style, testing::HasSubstr(std::string(name) + ": #")) << name;
        EXPECT_THAT(page, testing::HasSubstr(fmt::format("\"{}\"", name)));
    }
    EXPECT_THAT(style, testing::HasSubstr("prefers-color-scheme: dark"));
}

TEST_F(Report, DrawsTheTasksOfADeviceInItsRow) {
    const std::string output = drawn("report.html");
    if (output.empty()) GTEST_SKIP() << "no node on this host to run the page's scripts";
    EXPECT_THAT(output, testing::HasSubstr("3 rows, 0 measured tasks"));
}

TEST_F(Report, FramesTheStagesOfItsGraph) {
    const Outcome planned = run({"plan",
                                 example("runnable/encoder-layer/model.onnx"),
                                 "--bind",
                                 "batch=4",
                                 "--bind",
                                 "sequence=16",
                                 "--mode",
                                 "training",
                                 "--machine",
                                 "cpu:4",
                                 "--strategy",
                                 "pp=2,tp=2",
                                 "--micro-batches",
                                 "2",
                                 "--schedule",
                                 "1f1b",
                                 "--report",
                                 "stages.html",
                                 "-o",
                                 "stages.json"});
    ASSERT_EQ(planned.code, 0) << planned.err;
    read_data("stages.html");
    EXPECT_EQ(data_["devices"][3]["stage"], 1);
    const std::string output = drawn("stages.html");
    if (output.empty()) GTEST_SKIP() << "no node on this host to run the page's scripts";
    EXPECT_THAT(output, testing::HasSubstr("4 rows, 0 measured tasks"));
}

TEST_F(Report, OfAnExecutionHasWhatWasMeasured) {
    if (!has_runtime()) GTEST_SKIP() << "built without LibTorch";
    const std::string model = example("runnable/encoder-layer/model.onnx");
    const Outcome planned =
        run({"plan", model, "--bind", "batch=4", "--bind", "sequence=16", "--mode", "training",
             "--machine", "cpu:2", "--strategy", "dp=2", "-o", "plan.json"});
    ASSERT_EQ(planned.code, 0) << planned.err;
    const Outcome executed = run({"execute", "plan.json", model, "--iterations", "2", "--warmup",
                                  "1", "--report", "executed.html"});
    ASSERT_EQ(executed.code, 0) << executed.err;
    EXPECT_THAT(executed.out, testing::HasSubstr("wrote executed.html"));
    read_data("executed.html");
    EXPECT_EQ(data_["compared"]["heading"], "Largest errors");
    std::vector<char> ran(data_["tasks"].size(), 0);
    std::int64_t latest = 0;
    for (const json& of : data_["measured"]) {
        const json& task = data_["tasks"][of[0].get<std::size_t>()];
        ran[of[0].get<std::size_t>()] = 1;
        EXPECT_GE(of[2].get<std::int64_t>(), latest);
        latest = of[2].get<std::int64_t>();
        if (task[3].is_array()) {
            EXPECT_THAT(task[3], testing::Contains(of[1]));
        } else {
            EXPECT_TRUE(of[1] == task[2] || of[1] == task[3]);
        }
    }
    EXPECT_THAT(ran, testing::Each(1));
    for (const json& device : data_["devices"]) {
        EXPECT_GT(device["measuredBusy"].get<std::int64_t>(), 0);
        EXPECT_GT(device["measuredPeak"].get<std::int64_t>(), 0);
    }
    const std::string output = drawn("executed.html");
    if (output.empty()) return;
    EXPECT_THAT(output, testing::HasSubstr(
                            fmt::format("2 rows, {} measured tasks", data_["measured"].size())));
}

}  // namespace
}  // namespace partita::tests
