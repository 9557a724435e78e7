// SPDX-License-Identifier: Apache-2.0
//
// What other tools read: traces, Graphviz files and the report page.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace partita::tests {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

std::size_t count_of(const std::string& text, const std::string& part) {
    std::size_t count = 0;
    for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
    return count;
}

/// Microseconds with six decimals, as whole picoseconds.
std::int64_t picoseconds(const json& microseconds) {
    return std::llround(microseconds.get<double>() * 1e6);
}

class Export : public ProgramTest {
protected:
    /// A plan on eight devices of two kinds, spread by `hash`, in training: copies and gradients.
    void plan_spread(const std::vector<std::string>& more) {
        std::vector<std::string> arguments = {
            "plan",       example("runnable/encoder-layer/model.onnx"),
            "--bind",     "batch=4",
            "--bind",     "sequence=16",
            "--machine",  "a100-t4",
            "--mode",     "training",
            "--searcher", "hash"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        const Outcome result = run(arguments);
        ASSERT_EQ(result.code, 0) << result.err;
    }
    /// The batch over four GPUs, in training: collectives.
    void plan_split(const std::vector<std::string>& more) {
        std::vector<std::string> arguments = plan_mlp(
            {"--machine", "p100-cluster:1x4", "--mode", "training", "--searcher", "data-parallel"});
        arguments.insert(arguments.end(), more.begin(), more.end());
        const Outcome result = run(arguments);
        ASSERT_EQ(result.code, 0) << result.err;
    }
    std::map<std::string, std::vector<json>> trace_events(const std::string& file) {
        std::map<std::string, std::vector<json>> by_phase;
        const json trace = json::parse(read(file));
        for (const json& event : trace["traceEvents"]) {
            by_phase[event["ph"]].push_back(event);
        }
        return by_phase;
    }
};

TEST_F(Export, TraceRowsDoNotOverlap) {
    plan_spread({"--trace", "trace.json"});
    std::map<std::int64_t, std::vector<std::pair<std::int64_t, std::int64_t>>> rows;
    auto events = trace_events("trace.json");
    for (const json& slice : events["X"]) {
        const std::int64_t start = picoseconds(slice["ts"]);
        rows[slice["tid"]].emplace_back(start, start + picoseconds(slice["dur"]));
    }
    EXPECT_GT(rows.size(), 8);
    for (auto& [tid, slices] : rows) {
        std::ranges::sort(slices);
        for (std::size_t i = 1; i < slices.size(); ++i) {
            EXPECT_LE(slices[i - 1].second, slices[i].first) << "row " << tid;
        }
    }
}

TEST_F(Export, TraceNamesEveryRowItUses) {
    plan_spread({"--trace", "trace.json"});
    auto events = trace_events("trace.json");
    std::set<std::int64_t> named;
    for (const json& meta : events["M"]) {
        if (meta["name"] == "thread_name") named.insert(meta["tid"].get<std::int64_t>());
    }
    for (const char* phase : {"X", "s", "t", "f"}) {
        for (const json& event : events[phase]) {
            EXPECT_TRUE(named.contains(event["tid"].get<std::int64_t>())) << event;
        }
    }
}

TEST_F(Export, TraceEndsWhenThePlanSays) {
    plan_spread({"--trace", "trace.json"});
    std::int64_t end = 0;
    auto events = trace_events("trace.json");
    for (const json& slice : events["X"]) {
        end = std::max(end, picoseconds(slice["ts"]) + picoseconds(slice["dur"]));
    }
    EXPECT_EQ(end, json::parse(read("plan.json"))["prediction"]["value_ps"]);
}

TEST_F(Export, TraceArrowsStartInsideASliceAndEndLater) {
    plan_spread({"--trace", "trace.json"});
    auto events = trace_events("trace.json");
    std::map<std::int64_t, std::int64_t> starts;
    for (const json& flow : events["s"]) starts[flow["id"]] = picoseconds(flow["ts"]);
    EXPECT_FALSE(starts.empty());
    EXPECT_EQ(events["s"].size(), events["f"].size());
    for (const json& flow : events["f"]) {
        ASSERT_TRUE(starts.contains(flow["id"].get<std::int64_t>()));
        EXPECT_LE(starts[flow["id"]], picoseconds(flow["ts"]));
        EXPECT_EQ(flow["bp"], "e");
    }
}

// Every rank of a gradient's all-reduce waits for its own backward task and feeds its own update.
TEST_F(Export, TraceCollectivesHaveOneArrowPerRankEachWay) {
    plan_split({"--trace", "trace.json"});
    auto events = trace_events("trace.json");
    std::map<std::int64_t, std::set<std::int64_t>> rows;  // per collective
    std::map<std::int64_t, std::pair<std::int64_t, std::int64_t>> times;
    for (const json& slice : events["X"]) {
        const std::int64_t task = slice["args"]["task"];
        const std::int64_t start = picoseconds(slice["ts"]);
        times[task] = {start, start + picoseconds(slice["dur"])};
        if (slice["cat"] == "collective") rows[task].insert(slice["tid"].get<std::int64_t>());
    }
    ASSERT_FALSE(rows.empty());
    std::map<std::int64_t, json> begins;
    for (const json& flow : events["s"]) {
        if (flow["cat"] == "collective") begins[flow["id"]] = flow;
    }
    // Where the arrows touch a collective: its rows, at its start or in its last moment.
    std::map<std::int64_t, std::size_t> in;
    std::map<std::int64_t, std::size_t> out;
    for (const json& flow : events["f"]) {
        if (flow["cat"] != "collective") continue;
        const json& begin = begins.at(flow["id"]);
        bool touches = false;
        for (const auto& [task, own] : rows) {
            const bool ends = own.contains(flow["tid"].get<std::int64_t>()) &&
                              picoseconds(flow["ts"]) == times[task].first;
            const bool starts = own.contains(begin["tid"].get<std::int64_t>()) &&
                                picoseconds(begin["ts"]) == times[task].second - 1;
            in[task] += ends ? 1 : 0;
            out[task] += starts ? 1 : 0;
            touches = touches || ends || starts;
        }
        EXPECT_TRUE(touches) << flow;
        // What goes between devices is the collective's business: compute, send and receive rows.
        EXPECT_EQ(begin["tid"].get<std::int64_t>() / 3, flow["tid"].get<std::int64_t>() / 3);
    }
    constexpr std::size_t kRanks = 4;
    for (const auto& [task, own] : rows) {
        EXPECT_EQ(in[task], kRanks) << task;
        EXPECT_EQ(out[task], kRanks) << task;
    }
}

TEST_F(Export, TraceCountsMemoryUpToThePredictedPeak) {
    plan_spread({"--trace", "trace.json"});
    std::map<std::string, std::int64_t> peaks;
    auto events = trace_events("trace.json");
    for (const json& counter : events["C"]) {
        auto& peak = peaks[counter["name"]];
        peak = std::max(peak, counter["args"]["bytes"].get<std::int64_t>());
    }
    const json plan = json::parse(read("plan.json"));
    for (std::size_t d = 0; d < plan["machine"]["devices"].size(); ++d) {
        const std::string name = plan["machine"]["devices"][d]["name"];
        EXPECT_EQ(peaks["memory " + name], plan["prediction"]["devices"][d]["memory_bytes"]);
    }
}

TEST_F(Export, TraceOfThePlanCommandAndOfExportAreTheSame) {
    plan_spread({"--trace", "trace.json"});
    const Outcome result = run({"export", "plan.json", example("runnable/encoder-layer/model.onnx"),
                                "--format", "chrome-trace", "-o", "exported.json"});
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(read("trace.json"), read("exported.json"));
}

TEST_F(Export, DotDrawsEveryOpAndBalancesItsBraces) {
    plan_spread({});
    const std::string model = example("runnable/encoder-layer/model.onnx");
    ASSERT_EQ(run({"export", "plan.json", model, "--format", "dot", "-o", "graph.dot"}).code, 0);
    const std::string dot = read("graph.dot");
    EXPECT_EQ(count_of(dot, "{"), count_of(dot, "}"));
    std::size_t drawn = 0;
    const json plan = json::parse(read("plan.json"));
    for (const json& op : plan["ops"]) {
        drawn += op["type"] != "Parameter" && op["type"] != "Constant" ? 1 : 0;
    }
    EXPECT_EQ(count_of(dot, "shape=box, fillcolor") + count_of(dot, "shape=ellipse"),
              drawn + count_of(dot, "    device"));
}

TEST_F(Export, DotStripesWhatIsSplit) {
    plan_split({});
    const std::string model = example("runnable/mlp/model.onnx");
    ASSERT_EQ(run({"export", "plan.json", model, "--format", "dot", "-o", "graph.dot"}).code, 0);
    const std::string dot = read("graph.dot");
    EXPECT_THAT(dot, HasSubstr("style=striped"));
    EXPECT_THAT(dot, HasSubstr("split m 4 on 4 devices: gpu0 gpu1 gpu2 gpu3"));
}

TEST_F(Export, DTensorNamesMeshAndPlacementsOfASplitPlan) {
    plan_split({});
    const std::string model = example("runnable/mlp/model.onnx");
    const Outcome result =
        run({"export", "plan.json", model, "--format", "dtensor", "-o", "dtensor.json"});
    ASSERT_EQ(result.code, 0) << result.err;
    const json file = json::parse(read("dtensor.json"));
    const json plan = json::parse(read("plan.json"));
    ASSERT_EQ(file["ops"].size(), plan["ops"].size());
    int sharded = 0;
    for (std::size_t i = 0; i < file["ops"].size(); ++i) {
        const json& op = file["ops"][i];
        EXPECT_EQ(op["name"], plan["ops"][i]["name"]);
        const json& mesh = file["meshes"].at(op["mesh"].get<std::size_t>());
        for (const json& result_tensor : op["results"]) {
            EXPECT_EQ(result_tensor["placements"].size(), mesh["shape"].size());
            sharded += result_tensor["placements"][0] == "Shard(0)" ? 1 : 0;
        }
    }
    EXPECT_GT(sharded, 0);
}

TEST_F(Export, ShardyNamesMeshAndShardingsOfASplitPlan) {
    plan_split({});
    const std::string model = example("runnable/mlp/model.onnx");
    const Outcome result =
        run({"export", "plan.json", model, "--format", "shardy", "-o", "plan.mlir"});
    ASSERT_EQ(result.code, 0) << result.err;
    const std::string text = read("plan.mlir");
    EXPECT_THAT(text, HasSubstr("  sdy.mesh @mesh_0 = <[\"a\"=4]>\n"));
    EXPECT_THAT(text, HasSubstr("#sdy.sharding_per_value<[<@mesh_0, [{\"a\"}, {}]>]>"));
    EXPECT_EQ(count_of(text, "{"), count_of(text, "}"));
}

TEST_F(Export, NcclTunerPinsTheCollectivesThatNcclsModelChose) {
    // Nobody measured this machine, so NCCL's model prices the all-reduces of its four A100.
    const Outcome planned =
        run(plan_mlp({"--machine", "a100-t4", "--mode", "training", "--searcher", "grids",
                      "--strategy", "dp=4,tp=1,pp=1,zero=0"}));
    ASSERT_EQ(planned.code, 0) << planned.err;
    const Outcome result = run({"export", "plan.json", example("runnable/mlp/model.onnx"),
                                "--format", "nccl-tuner", "-o", "tuner.csv"});
    ASSERT_EQ(result.code, 0) << result.err;
    const std::string text = read("tuner.csv");
    std::set<std::string> expected;
    const json plan = json::parse(read("plan.json"));
    for (const json& collective : plan["collectives"]) {
        ASSERT_NE(collective["protocol"], "") << collective;
        expected.insert(collective["algorithm"].get<std::string>() + ',' +
                        collective["protocol"].get<std::string>() + ",-1,1,4,-1,-1");
    }
    ASSERT_FALSE(expected.empty());
    for (const std::string& row : expected) EXPECT_THAT(text, HasSubstr(row));
    EXPECT_THAT(text, Not(HasSubstr("left out")));
    EXPECT_GE(count_of(text, "allreduce,"), 1);
}

TEST_F(Export, FrameworksAreToldARegularGrid) {
    const std::string model = example("runnable/mlp/model.onnx");
    const Outcome planned =
        run(plan_mlp({"--machine", "dgx-a100", "--mode", "training", "--searcher", "grids",
                      "--strategy", "dp=4,tp=1,pp=1,zero=1"}));
    ASSERT_EQ(planned.code, 0) << planned.err;
    const Outcome result =
        run({"export", "plan.json", model, "--format", "megatron", "-o", "plan.args"});
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(read("plan.args"), HasSubstr("--use-distributed-optimizer\n"));
    const Outcome refused =
        run({"export", "plan.json", model, "--format", "torchtitan", "-o", "plan.toml"});
    EXPECT_EQ(refused.code, 0) << refused.err;  // one micro-batch: ZeRO-1 is ZeRO-2
    EXPECT_THAT(read("plan.toml"), HasSubstr("fsdp_reshard_after_forward = \"never\"\n"));
}

TEST_F(Export, ShardingsStayBesideWhatTheModelNames) {
    const std::string model = example("models/alexnet.onnx");
    ASSERT_EQ(run({"plan", model, "--machine", "dgx-a100", "--batch", "8", "--strategy", "dp=8",
                   "-o", "plan.json"})
                  .code,
              0);
    const Outcome result =
        run({"export", "plan.json", model, "--format", "onnx-sharding", "-o", "sharded.onnx"});
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.err, HasSubstr("keeps weights in other files"));
    EXPECT_THAT(result.err, HasSubstr("examples/models/sharded.onnx"));
    EXPECT_THAT(files(), testing::ElementsAre("plan.json"));
}

TEST_F(Export, PartsAreAFolderOfOnnxFiles) {
    const std::string model = example("runnable/encoder-layer/model.onnx");
    plan_spread({"--dims", "O"});
    const Outcome result =
        run({"export", "plan.json", model, "--format", "parts", "-o", "parts", "--json"});
    ASSERT_EQ(result.code, 0) << result.err;
    const json parts = json::parse(read("parts/parts.json"))["parts"];
    EXPECT_EQ(json::parse(result.out)["files"].size(), parts.size() + 1);
    for (const json& part : parts) {
        const std::string file = "parts/" + part["file"].get<std::string>();
        EXPECT_EQ(run({"inspect", file, "--bind", "batch=4", "--bind", "sequence=16"}).code, 0);
    }
    const Outcome again = run({"export", "plan.json", model, "--format", "parts", "-o", "parts"});
    EXPECT_EQ(again.code, 2);
    EXPECT_THAT(again.err, HasSubstr("something already"));
}

TEST_F(Export, UnknownFormatsAreRefusedWithTheKnownOnes) {
    plan_spread({});
    const Outcome result = run({"export", "plan.json", example("runnable/encoder-layer/model.onnx"),
                                "--format", "gspmd", "-o", "out"});
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(
        result.err,
        HasSubstr("chrome-trace, deepspeed, dot, dtensor, megatron, nccl-tuner, onnx-sharding, "
                  "parts, shardy, torchtitan"));
}

TEST_F(Export, EveryFormatNeedsAFileToWriteAndAPlanOfTheModel) {
    plan_split({});
    const std::string model = example("runnable/mlp/model.onnx");
    const std::string other = example("runnable/encoder-layer/model.onnx");
    for (const char* format : {"chrome-trace", "deepspeed", "dot", "dtensor", "megatron",
                               "nccl-tuner", "onnx-sharding", "parts", "shardy", "torchtitan"}) {
        EXPECT_EQ(run({"export", "plan.json", model, "--format", format}).code, 2);
        EXPECT_EQ(run({"export", "plan.json", model, "--format", format, "-o", "plan.json"}).code,
                  2);
        EXPECT_EQ(run({"export", "missing.json", model, "--format", format, "-o", "out"}).code, 3);
        EXPECT_EQ(run({"export", "plan.json", other, "--bind", "batch=4", "--bind", "sequence=16",
                       "--format", format, "-o", "out"})
                      .code,
                  6);
    }
    EXPECT_THAT(files(), testing::ElementsAre("plan.json"));
}

TEST_F(Export, ReportLoadsNothingFromElsewhere) {
    plan_spread({"--report", "report.html"});
    std::string page = read("report.html");
    const std::string svg_name = "http://www.w3.org/2000/svg";  // a name, not an address
    for (auto at = page.find(svg_name); at != std::string::npos; at = page.find(svg_name)) {
        page.erase(at, svg_name.size());
    }
    for (const char* reference : {"http:", "https:", "src=", "url(", "@import", "<link"}) {
        EXPECT_THAT(page, Not(HasSubstr(reference)));
    }
}

/// The JSON that the page carries.
json page_data(const std::string& page) {
    const std::string begin = R"(id="data">)";
    const auto from = page.find(begin) + begin.size();
    return json::parse(page.substr(from, page.find("</script>", from) - from));
}

TEST_F(Export, ReportHoldsTheTimelineOfThePlan) {
    plan_spread({"--report", "report.html"});
    const json data = page_data(read("report.html"));
    const json plan = json::parse(read("plan.json"));
    EXPECT_EQ(data["whole"], plan["prediction"]["value_ps"]);
    EXPECT_EQ(data["tasks"].size(), plan["order"]["commit"].size());
    EXPECT_EQ(data["devices"].size(), plan["machine"]["devices"].size());
    EXPECT_EQ(data["ops"]["name"].size(), plan["ops"].size());
    EXPECT_EQ(data["compared"]["rows"].size(), 5);  // the plan, three baselines, the lower bound
}

TEST_F(Export, ReportKnowsTheDevicesOfSplitOps) {
    plan_split({"--report", "report.html"});
    const json ops = page_data(read("report.html"))["ops"];
    const json plan = json::parse(read("plan.json"));
    for (std::size_t i = 0; i < plan["ops"].size(); ++i) {
        const json& place = ops["places"][ops["place"][i].get<std::size_t>()];
        const std::string split = ops["splits"][ops["split"][i].get<std::size_t>()];
        std::string expected;
        std::size_t parts = 1;
        for (const json& degree : plan["ops"][i]["degrees"]) {
            const int count = degree[1];
            expected += (expected.empty() ? "" : ", ") + degree[0].get<std::string>() + ' ' +
                        std::to_string(count);
            parts *= static_cast<std::size_t>(count);
        }
        EXPECT_EQ(split, expected);
        EXPECT_EQ(place.is_array() ? place.size() : place["count"].get<std::size_t>(), parts);
    }
}

TEST_F(Export, ReportIsNotEndedByTheNamesOfAModel) {
    onnx::ModelProto model;
    model.set_ir_version(8);
    model.add_opset_import()->set_version(17);
    onnx::GraphProto& graph = *model.mutable_graph();
    graph.set_name("</script><script>alert(1)</script>");
    for (auto* value : {graph.add_input(), graph.add_output()}) {
        auto& type = *value->mutable_type()->mutable_tensor_type();
        type.set_elem_type(onnx::TensorProto::FLOAT);
        type.mutable_shape()->add_dim()->set_dim_value(4);
    }
    graph.mutable_input(0)->set_name("x<!--");
    graph.mutable_output(0)->set_name("y");
    onnx::NodeProto& node = *graph.add_node();
    node.set_op_type("Relu");
    node.set_name("</script><b>@PARTITA_DATA@");
    node.add_input("x<!--");
    node.add_output("y");
    write("hostile.onnx", model.SerializeAsString());
    const Outcome result =
        run({"plan", "hostile.onnx", "--machine", "cpu:1", "--report", "report.html"});
    ASSERT_EQ(result.code, 0) << result.err;
    const std::string page = read("report.html");
    EXPECT_EQ(count_of(page, "</script"), count_of(page, "<script"));
    EXPECT_EQ(count_of(page, "</script><b>"), 0);
    EXPECT_THAT(page_data(page)["ops"]["name"].dump(), HasSubstr("</script><b>@PARTITA_DATA@"));
}

}  // namespace
}  // namespace partita::tests
