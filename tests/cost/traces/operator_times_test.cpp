// SPDX-License-Identifier: Apache-2.0
#include "cost/traces/operator_times.h"

#include <algorithm>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace partita::cost {
namespace {

using graph::DType;
using graph::Shape;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const OperatorCalls* find(const OperatorTimes& times, std::string_view name) {
    const auto found = std::ranges::find(times.calls, name, &OperatorCalls::name);
    return found == times.calls.end() ? nullptr : &*found;
}

std::string fault_of(std::string_view text) {
    try {
        (void)read_operator_times(text, "trace.json");
    } catch (const InputError& error) {
        return error.what();
    }
    return "none";
}

// A linear layer calls addmm, whose kernels are on the GPU; a relu is beside it, on another thread
// the backward.
constexpr std::string_view kGpuTrace = R"({"schemaVersion": 1,
"deviceProperties": [{"id": 0, "name": "NVIDIA H200"}, {"id": 1, "name": "NVIDIA H200"}],
"traceEvents": [
{"ph": "X", "cat": "cpu_op", "name": "aten::addmm", "pid": 1, "tid": 1, "ts": 12.0, "dur": 5.0, "args":
  {"External id": 2, "Input type": ["c10::BFloat16", "c10::BFloat16"], "Input Dims": [[32], [8, 64], [64, 32], [], []]}},
{"ph": "X", "cat": "cpu_op", "name": "aten::linear", "pid": 1, "tid": 1, "ts": 10.0, "dur": 9.0, "args":
  {"External id": 1, "Input type": ["c10::BFloat16"], "Input Dims": [[8, 64], [32, 64], [32]]}},
{"ph": "X", "cat": "cpu_op", "name": "aten::relu", "pid": 1, "tid": 1, "ts": 20.0, "dur": 1.0, "args":
  {"External id": 3, "Input type": ["c10::BFloat16"], "Input Dims": [[8, 32]]}},
{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 2, "ts": 15.0, "dur": 100.0, "args":
  {"External id": 4, "Input type": ["", "c10::BFloat16"], "Input Dims": [[8, 32], [32, 64]]}},
{"ph": "X", "cat": "cpu_op", "name": "aten::view", "pid": 1, "tid": 2, "ts": 16.0, "dur": 1.0, "args":
  {"External id": 5, "Input Dims": [[8, 32], []]}},
{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 30.0, "dur": 100.5, "args": {"External id": 2}},
{"ph": "X", "cat": "kernel", "name": "splitk", "pid": 0, "tid": 7, "ts": 140.0, "dur": 2.5, "args": {"External id": 2}},
{"ph": "X", "cat": "kernel", "name": "relu", "pid": 0, "tid": 7, "ts": 150.0, "dur": 4, "args": {"External id": 3}},
{"ph": "X", "cat": "gpu_memset", "name": "Memset", "pid": 0, "tid": 7, "ts": 160.0, "dur": 1, "args": {"External id": 4}},
{"ph": "X", "cat": "kernel", "name": "other", "pid": 0, "tid": 7, "ts": 170.0, "dur": 50, "args": {"stream": 7}},
{"ph": "i", "name": "Record Window End", "ts": 200.0}, 17
]})";

TEST(Kineto, GivesOperatorsTheKernelsThatTheyLaunched) {
    const OperatorTimes times = read_operator_times(kGpuTrace, "trace.json");
    EXPECT_EQ(times.device, "NVIDIA H200");
    const OperatorCalls* linear = find(times, "aten::linear");
    ASSERT_NE(linear, nullptr);
    EXPECT_THAT(linear->times, ElementsAre(microseconds(103)));
    EXPECT_THAT(linear->shapes, ElementsAre(Shape{8, 64}, Shape{32, 64}, Shape{32}));
    EXPECT_EQ(linear->dtype, DType::bfloat16);
    EXPECT_EQ(find(times, "aten::addmm"), nullptr) << "it is inside of linear";
    EXPECT_THAT(find(times, "aten::relu")->times, ElementsAre(microseconds(4)));
    EXPECT_THAT(find(times, "aten::mm")->times, ElementsAre(microseconds(1)));
    EXPECT_EQ(find(times, "aten::view"), nullptr) << "it launched nothing";
}

TEST(Kineto, GivesTheHostsTimeWithoutKernels) {
    std::string trace(kGpuTrace);
    for (std::size_t at = 0; (at = trace.find("\"kernel\"")) != std::string::npos;) {
        trace.replace(at, 8, "\"python\"");
    }
    trace.replace(trace.find("gpu_memset"), 10, "python_set");
    const OperatorTimes times = read_operator_times(trace, "trace.json");
    EXPECT_THAT(find(times, "aten::linear")->times, ElementsAre(microseconds(9)));
    EXPECT_THAT(find(times, "aten::mm")->times, ElementsAre(microseconds(100)));
}

TEST(Kineto, SaysWhatATraceLacks) {
    EXPECT_THAT(fault_of("{\"traceEvents\": [{]}"), HasSubstr("trace.json: not JSON"));
    EXPECT_THAT(fault_of("{\"events\": []}"), HasSubstr("no \"traceEvents\""));
    EXPECT_THAT(fault_of("{\"traceEvents\": []}"), HasSubstr("no operators"));
    EXPECT_THAT(
        fault_of(R"({"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1,
                             "dur": 2, "args": {"External id": 1}}]})"),
        HasSubstr("record_shapes=True"));
    EXPECT_THAT(fault_of("\x1F\x8B\x08"), HasSubstr("gunzip"));
}

// Fields of other types than they should have are no operators, and never a crash.
TEST(Kineto, SurvivesOddEvents) {
    for (const std::string_view args :
         {R"("a")", R"([1])", R"({"Input Dims": 3})", R"({"Input Dims": [["a"], [[1]], null]})",
          R"({"Input type": [3], "Input Dims": []})",
          R"({"External id": "x", "Input Dims": []})"}) {
        const std::string trace =
            R"({"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": "a", "ts": 1,
                "dur": 2, "args": )" +
            std::string(args) +
            R"(}, {"ph": "X", "cat": "cpu_op", "name": "aten::relu", "ts": 5, "dur": 1,
                "args": {"Input Dims": [[4]]}}]})";
        EXPECT_NE(find(read_operator_times(trace, "trace.json"), "aten::relu"), nullptr) << args;
    }
    EXPECT_THAT(fault_of(R"({"traceEvents": [{"ph": 3, "cat": [], "name": 7, "ts": "x", "dur": "y"},
                             {"ph": "X", "cat": [], "name": 7, "ts": "x", "dur": "y"}]})"),
                HasSubstr("no operators"));
}

TEST(OperatorTable, ReadsSumsOfCalls) {
    const OperatorTimes times = read_operator_times(
        "type,operator,shapes,calls,device_us\n"
        "bfloat16,aten::mm,8x64 64x32,4,100\n"
        "float32,aten::_fused_adamw_,,1,3.5\r\n"
        "\n"
        "int7,\"aten::add_\",8,2,0\n",
        "table.csv");
    ASSERT_EQ(times.calls.size(), 2U);
    EXPECT_TRUE(times.is_flat);
    EXPECT_EQ(times.calls[0].dtype, DType::bfloat16);
    EXPECT_THAT(times.calls[0].shapes, ElementsAre(Shape{8, 64}, Shape{64, 32}));
    EXPECT_THAT(times.calls[0].times,
                testing::AllOf(testing::SizeIs(4), testing::Each(microseconds(25))));
    EXPECT_THAT(times.calls[1].shapes, IsEmpty());
}

TEST(OperatorTable, ReadsRangesOfNsys) {
    const OperatorTimes times = read_operator_times(
        "Processing [run.sqlite] with [nvtx_gpu_proj_trace.py]... \n\n"
        "Name,Projected Start (ns),Projected Duration (ns),RangeId,ParentId\n"
        "\":aten::linear, seq = 3, op_id = 1, sizes = [[8, 64], [32, 64], [32]]\",5,103000,1,\n"
        "\":aten::addmm, op_id = 2, sizes = [[32], [8, 64], [64, 32], [], []], input_op_ids = "
        "[(1,0), (2,0)]\",5,103000,2,1\n"
        "\":aten::cat, op_id = 3, sizes = [[[8, 64], [8, 64]], []]\",9,2000,3,\n"
        ":step,0,200000,4,\n",
        "nvtx.csv");
    const OperatorCalls* linear = find(times, "aten::linear");
    ASSERT_NE(linear, nullptr);
    EXPECT_THAT(linear->shapes, ElementsAre(Shape{8, 64}, Shape{32, 64}, Shape{32}));
    EXPECT_THAT(linear->times, ElementsAre(microseconds(103)));
    EXPECT_EQ(find(times, "aten::addmm"), nullptr) << "it is inside of linear";
}

// Equal ranges are calls of one row, and ranges inside of each other end nowhere.
TEST(OperatorTable, PutsEqualRangesTogether) {
    const OperatorTimes times = read_operator_times(
        "Name,Projected Duration (ns),RangeId,ParentId\n"
        "\":aten::mm, sizes = [[8, 64], [64, 32]]\",3000,1,9\n"
        "\":aten::mm, sizes = [[8, 64], [64, 32]]\",5000,2,9\n"
        ":step,9000,9,\n"
        "\":aten::relu, sizes = [[8]]\",1000,3,4\n"
        "one,1000,4,5\n"
        "other,1000,5,4\n",
        "nvtx.csv");
    ASSERT_EQ(times.calls.size(), 2U) << "step is around of mm";
    EXPECT_THAT(find(times, "aten::mm")->times, ElementsAre(microseconds(3), microseconds(5)));
    EXPECT_NE(find(times, "aten::relu"), nullptr);
}

TEST(OperatorTable, SaysWhatATableLacks) {
    EXPECT_THAT(fault_of("Name,Total Time (ns)\ngemm,100\n"), HasSubstr("nvtx_gpu_proj_trace"));
    EXPECT_THAT(fault_of("operator,device_us\naten::mm,3\n"), HasSubstr("no column 'shapes'"));
    EXPECT_THAT(fault_of("operator,shapes,device_us\naten::mm,8,three\n"),
                HasSubstr("line 2: device_us: expected a number >= 0, got 'three'"));
    EXPECT_THAT(fault_of("operator,shapes,device_us\n\naten::mm,8\n"),
                HasSubstr("line 3: has 2 fields"));
    EXPECT_THAT(fault_of("operator,shapes,device_us\n\"aten::mm,8,3\n"),
                HasSubstr("line 2: a quote does not end"));
    for (const char* const calls : {"0", "1e18"}) {
        EXPECT_THAT(
            fault_of(std::string("operator,shapes,calls,device_us\naten::mm,8,") + calls + ",3\n"),
            HasSubstr("calls: expected a number from 1 to"));
    }
    EXPECT_THAT(fault_of("Name,Projected Duration (ns)\na,1\n"), HasSubstr("'RangeId'"));
    EXPECT_THAT(fault_of("Name,Projected Duration (ns),RangeId,ParentId\nstep,1,1,\n"),
                HasSubstr("emit_nvtx"));
    EXPECT_THAT(fault_of(""), HasSubstr("neither"));
}

}  // namespace
}  // namespace partita::cost
