// SPDX-License-Identifier: Apache-2.0
//
// Each exit code that this version can give, by the mistakes that lead to it. A failed run leaves
// nothing behind: no plan, no half of one, no temporary file.
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/program.h"
#include "tests/support/paths.h"

namespace partita::tests {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// A file of tests/data that has something wrong with it.
std::string bad(const std::string& path) {
    return (tests::repository() / ("tests/data/bad_" + path)).string();
}

class ExitCode : public ProgramTest {
protected:
    void expect(int code, const std::string& message, const std::vector<std::string>& arguments) {
        const auto before = files();
        const Outcome result = run(arguments);
        EXPECT_EQ(result.code, code) << result.err;
        EXPECT_THAT(result.err, HasSubstr(message));
        EXPECT_THAT(result.out, IsEmpty());
        EXPECT_EQ(files(), before);
    }
};

TEST_F(ExitCode, IsZeroForAPlan) {
    const Outcome result = run(plan_mlp());
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(files(), ElementsAre("plan.json"));
}

TEST_F(ExitCode, IsZeroForHelpAndVersion) {
    EXPECT_EQ(run({"--help"}).code, 0);
    EXPECT_EQ(run({"--version"}).code, 0);
    EXPECT_EQ(run({"plan", "--help"}).code, 0);
}

TEST_F(ExitCode, IsTwoForACommandThatDoesNotExist) {
    expect(2, "There is: plan, execute, profile, simulate, verify", {"frobnicate", "plan.json"});
    expect(2, "A subcommand is required", {});
}

TEST_F(ExitCode, IsTwoForAnOptionThatDoesNotExist) {
    expect(2, "See `partita plan --help`", plan_mlp({"--fast"}));
}

TEST_F(ExitCode, IsTwoForOptionsOfLearningWhereNothingLearns) {
    const std::string remedy = ": none of the searchers learns. Add --searcher rl";
    expect(2, "--zero-shot" + remedy, plan_mlp({"--zero-shot"}));
    expect(2, "--save-policy" + remedy, plan_mlp({"--save-policy", "policy"}));
    expect(2, "--load-policy" + remedy, plan_mlp({"--load-policy", "policy"}));
    expect(2, "--learning-curve" + remedy, plan_mlp({"--learning-curve", "curve.csv"}));
}

/// Before any library is loaded, so without one too.
TEST_F(ExitCode, IsTwoForOptionsOfLearningThatDoNotFitTogether) {
    const auto learn = [](std::vector<std::string> more) {
        more.insert(more.begin(), {"--searcher", "rl"});
        return plan_mlp(more);
    };
    expect(2, "Add --load-policy", learn({"--zero-shot"}));
    expect(2, "Leave --save-policy out",
           learn({"--zero-shot", "--load-policy", "old", "--save-policy", "new"}));
    expect(2, "expected a name that ends in .csv", learn({"--learning-curve", "curve.svg"}));
    expect(2, "--learning-curve nowhere/c.csv", learn({"--learning-curve", "nowhere/c.csv"}));
    expect(2, "--save-policy nowhere/policy", learn({"--save-policy", "nowhere/policy"}));
    expect(2, "--save-policy plan.json: is also the file of -o",
           learn({"--save-policy", "plan.json"}));
    expect(2, "-o policy: is an input", learn({"--load-policy", "policy", "-o", "policy"}));
    expect(2, "--learning-curve c.svg: is also the file of --report",
           learn({"--report", "c.svg", "--learning-curve", "c.csv"}));
}

TEST_F(ExitCode, IsTwoForContiguousPiecesWithoutThroughput) {
    expect(2, "Add --objective throughput", plan_mlp({"--contiguous", "--searcher", "contiguous"}));
    expect(2, "searcher critical-path places ops anywhere",
           plan_mlp({"--contiguous", "--objective", "throughput"}));
    expect(2, "Leave --import-plan out",
           plan_mlp({"--contiguous", "--objective", "throughput", "--searcher", "contiguous",
                     "--import-plan", "plan.json"}));
}

TEST_F(ExitCode, IsTwoForAFlagWithAValueThatIsNone) {
    for (const std::string flag : {"--contiguous", "--no-groups", "--zero-shot"}) {
        expect(2, flag + " abc: expected true or false", plan_mlp({flag + "=abc"}));
    }
}

TEST_F(ExitCode, IsTwoForAnEngineThatDoesNotExist) {
    expect(2, "--engine scip: expected own, highs or both", plan_mlp({"--engine", "scip"}));
}

TEST_F(ExitCode, IsTwoForTimesAndRatesThatAreNoNumbersOrOutOfRange) {
    ASSERT_EQ(run(plan_mlp()).code, 0);
    const std::string model = example("runnable/mlp/model.onnx");
    for (const char* value : {"nan", "inf", "-1", "1e300"}) {
        for (const std::string option : {"--timeout", "--learning-rate"}) {
            expect(2, option + ": expected a number from",
                   {"execute", "plan.json", model, option + "=" + value});
        }
        expect(2, "expected seconds", plan_mlp({std::string("--time-limit=") + value}));
    }
}

TEST_F(ExitCode, ControlCharactersOfAnArgumentDoNotReachTheTerminal) {
    const Outcome result = run({"inspect", "\x1b[31mred.onnx"});
    EXPECT_EQ(result.code, 3);
    EXPECT_THAT(result.err, HasSubstr("\\x1b[31mred.onnx"));
    EXPECT_THAT(result.err, testing::Not(HasSubstr("\x1b")));
}

TEST_F(ExitCode, IsTwoForSplitsAndMicroBatchesThatCannotBe) {
    expect(2, "Add O", plan_mlp({"--dims", "S,P"}));
    expect(2, "separated by commas, got 'SO'", plan_mlp({"--dims", "SO"}));
    expect(2, "separated by commas, got 'P'", plan_mlp({"--dims", "O,P,P"}));
    expect(2, "--micro-batches 0: expected a whole number from 1 to 4096",
           plan_mlp({"--micro-batches", "0"}));
    expect(2, "a batch of 8 cannot be cut into 9 micro-batches",
           plan_mlp({"--micro-batches", "9"}));
    expect(2, "--gradient-sync: says how to train, but nothing is trained",
           plan_mlp({"--gradient-sync", "parameter-server"}));
}

TEST_F(ExitCode, IsTwoForASimulationThatThePlanCannotKeep) {
    ASSERT_EQ(run(plan_mlp({"--mode", "training", "--searcher", "random", "--evaluations", "5",
                            "--machine", "cpu:4"}))
                  .code,
              0);
    const auto simulate = [](std::vector<std::string> more) {
        more.insert(more.begin(), {"simulate", "plan.json", example("runnable/mlp/model.onnx")});
        return more;
    };
    for (const char* schedule : {"interleaved:2", "interleaved:50"}) {
        for (const char* micro_batches : {"2", "8"}) {
            expect(2, "plan.json cannot run that way: ",
                   simulate({"--micro-batches", micro_batches, "--schedule", schedule}));
        }
    }
    expect(2, "--gradient-sync parameter-server: the plan was made for all-reduce",
           simulate({"--gradient-sync", "parameter-server"}));
    for (const std::vector<std::string>& other :
         std::vector<std::vector<std::string>>{{"--micro-batches", "4"},
                                               {"--clip-norm", "1"},
                                               {"--bucket-bytes", "all"},
                                               {"--frozen", "*bias*"}}) {
        SCOPED_TRACE(testing::PrintToString(other));
        const Outcome more = run(simulate(other));
        EXPECT_EQ(more.code, 0) << more.err;
        EXPECT_THAT(more.err, HasSubstr("its tasks are ordered anew"));
    }
}

TEST_F(ExitCode, IsThreeForAPlanFileWhosePolicyCannotBe) {
    ASSERT_EQ(run(plan_mlp()).code, 0);
    std::string text = read("plan.json");
    const std::string one = "\"micro_batches\": 1";
    text.replace(text.find(one), one.size(), "\"micro_batches\": 9");
    write("nine.json", text);
    const std::string model = example("runnable/mlp/model.onnx");
    expect(3, "nine.json: --micro-batches: a batch of 8 cannot be cut into 9",
           {"verify", "nine.json", model});
}

TEST_F(ExitCode, IsSixForSplitsWhereOpsStayWhole) {
    ASSERT_EQ(run(plan_mlp({"--machine", "dgx-a100", "--searcher", "data-parallel"})).code, 0);
    const std::string model = example("runnable/mlp/model.onnx");
    EXPECT_EQ(run({"verify", "plan.json", model}).code, 0);
    const Outcome whole = run({"verify", "plan.json", model, "--dims", "O"});
    EXPECT_EQ(whole.code, 6) << whole.err;
    EXPECT_THAT(whole.out, HasSubstr("is split, but ops stay whole here (--dims O)"));
}

TEST_F(ExitCode, IsTwoForAWorkloadWithASchedule) {
    const std::string workload = example("workloads/throughput/layer_gnmt_training.json");
    expect(2, "--schedule 1f1b: nothing in the model depends on a batch",
           {"plan", workload, "--schedule", "1f1b"});
    expect(2, "--micro-batches: nothing in it depends on a batch",
           {"plan", workload, "--micro-batches", "4"});
    expect(2, "--seed -1: expected a whole number >= 0", plan_mlp({"--seed", "-1"}));
}

TEST_F(ExitCode, IsTwoForAScheduleThatDoesNotExist) {
    for (const char* schedule : {"2f2b", "interleaved", "interleaved:1", "1f1b:2", ""}) {
        expect(2, "unknown. There is: none, gpipe, 1f1b, eager-1f1b, interleaved:V",
               plan_mlp({"--schedule", schedule}));
    }
}

TEST_F(ExitCode, IsTwoForAMissingBindingAndNamesAllThatAreMissing) {
    const std::string model = example("models/bert-base.onnx");
    const Outcome result = run({"plan", model, "--machine", "cpu:2"});
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.err, HasSubstr("batch"));
    EXPECT_THAT(result.err, HasSubstr("sequence"));
    EXPECT_THAT(files(), IsEmpty());
}

TEST_F(ExitCode, IsTwoForAnUnknownPresetAndNamesTheKnown) {
    expect(2, "dgx-a100",
           {"plan", example("runnable/mlp/model.onnx"), "--batch", "8", "--machine", "dgx-z9"});
}

TEST_F(ExitCode, IsTwoForAnUnknownSearcherAndNamesTheKnown) {
    expect(2, "multi-objective", plan_mlp({"--searcher", "oracle"}));
}

TEST_F(ExitCode, IsTwoForAValueThatIsNone) {
    expect(2, "--bind batch", plan_mlp({"--bind", "batch"}));
    expect(2, "--shape", plan_mlp({"--shape", "input:2xx3"}));
    expect(2, "--batch", {"plan", example("runnable/mlp/model.onnx"), "--batch", "0"});
    expect(2, "--memory-limit", plan_mlp({"--memory-limit", "lots"}));
    expect(2, "--mode", plan_mlp({"--mode", "sleeping"}));
    expect(2, "--optimizer", plan_mlp({"--optimizer", "adam"}));  // nothing is trained
    expect(2, "--objective step-time", plan_mlp({"--objective", "step-time"}));
}

TEST_F(ExitCode, IsTwoForAnOutputInNoFolderAndSaysSoBeforeSearching) {
    expect(2, "-o nowhere/plan.json", plan_mlp({"-o", "nowhere/plan.json"}));
    expect(2, "--trace nowhere/t.json", plan_mlp({"--trace", "nowhere/t.json"}));
    expect(2, "--report nowhere/r.html", plan_mlp({"--report", "nowhere/r.html"}));
}

TEST_F(ExitCode, IsTwoForAnOutputThatIsADeviceOrAnInput) {
    expect(2, "no regular file", plan_mlp({"-o", "/dev/null"}));
    EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
    expect(2, "is an input", plan_mlp({"-o", example("runnable/mlp/model.onnx")}));
    expect(2, "is also the file of -o", plan_mlp({"-o", "a", "--trace", "a"}));
}

TEST_F(ExitCode, IsTwoForAFullDiskBehindStdout) {
    const Outcome result = run_into("/dev/full", {"machine", "list"});
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.err, HasSubstr("stdout"));
}

TEST_F(ExitCode, IsThreeForATruncatedModel) {
    const std::string whole = [&] {
        std::filesystem::copy(example("models/resnet50.onnx"), folder() / "resnet50.onnx");
        return read("resnet50.onnx");
    }();
    write("cut.onnx", std::string_view(whole).substr(0, whole.size() / 2));
    expect(3, "cut.onnx", {"plan", "cut.onnx", "--machine", "cpu:2"});
}

TEST_F(ExitCode, IsThreeForBytesThatAreNoModel) {
    for (const std::string name : {"random_bytes.onnx", "empty.onnx", "truncated.onnx"}) {
        expect(3, name, {"plan", bad("models/" + name), "--machine", "cpu:2"});
    }
    expect(3, "missing.onnx", {"plan", "missing.onnx", "--machine", "cpu:2"});
}

TEST_F(ExitCode, IsThreeForACyclicGraph) {
    expect(3, "cycle.onnx", {"plan", bad("models/cycle.onnx"), "--machine", "cpu:2"});
    expect(3, "cyclic.json", {"plan", bad("workloads/cyclic.json")});
}

TEST_F(ExitCode, IsThreeForABadMachineOrPlanFile) {
    write("machine.json", "{}");
    expect(
        3, "machine.json",
        {"plan", example("runnable/mlp/model.onnx"), "--batch", "8", "--machine", "machine.json"});
    write("plan.json", R"({"format": "partita-plan", "version": 99})");
    expect(3, "plan.json", {"verify", "plan.json", example("runnable/mlp/model.onnx")});
}

TEST_F(ExitCode, IsThreeForConstraintsThatNameNothing) {
    write("fix.json", R"({"ops": [{"match": "/nowhere/*", "devices": [0]}]})");
    expect(3, "ops[0].match", plan_mlp({"--fix", "fix.json"}));
    write("fix.json", R"({"ops": [{"match": "*", "devices": ["gpu9"]}]})");
    expect(3, "ops[0].devices[0]", plan_mlp({"--fix", "fix.json"}));
    write("fix.json", R"({"ops": [{"match": "*", "devices": [0], "degrees": {"n": 2}}]})");
    expect(3, "ops[0].degrees", plan_mlp({"--fix", "fix.json"}));
    write("fix.json", R"({"oops": []})");
    expect(3, "oops", plan_mlp({"--fix", "fix.json"}));
}

TEST_F(ExitCode, IsFourWhenMemoryIsTooSmallAndSaysWhatIsShort) {
    expect(4, "bytes more than", plan_mlp({"--memory-limit", "10000"}));
}

/// A workload for two accelerators of 100 bytes without a CPU; nodes 1 -> 2, the second as given.
std::string workload_with(const std::string& second) {
    return R"({"maxSizePerFPGA": 100, "maxFPGAs": 2, "maxCPUs": 0, "nodes": [
        {"id": 1, "cpuLatency": 1, "fpgaLatency": 1, "size": 60, "colorClass": 4}, )" +
           second + R"(], "edges": [{"sourceId": 1, "destId": 2, "cost": 1}]})";
}

TEST_F(ExitCode, NamesTheNodeOfAWorkloadThatFitsNoDevice) {
    const auto expect_of = [&](int code, const std::string& says, const std::string& second) {
        write("workload.json", workload_with(second));
        for (const std::string searcher : {"contiguous", "auto"}) {
            expect(code, says, {"plan", "workload.json", "--searcher", searcher});
        }
    };
    expect_of(3, "node '2' runs on CPUs alone",
              R"({"id": 2, "cpuLatency": 1, "supportedOnFpga": false})");
    expect_of(3, "node '2' runs on CPUs alone",
              R"({"id": 2, "cpuLatency": 1, "supportedOnFpga": false, "colorClass": 4})");
    expect_of(4, "op '2'", R"({"id": 2, "cpuLatency": 1, "fpgaLatency": 1, "size": 101})");
    expect_of(4, "op '1' and what must lie with it",
              R"({"id": 2, "cpuLatency": 1, "fpgaLatency": 1, "size": 60, "colorClass": 4})");
    expect_of(3, "node 2", R"({"id": 2, "cpuLatency": 6e8, "fpgaLatency": 6e8})");
}

TEST_F(ExitCode, IsFourLeavesAnOlderPlanAlone) {
    write("plan.json", "an older plan");
    EXPECT_EQ(run(plan_mlp({"--memory-limit", "10000", "-o", "plan.json"})).code, 4);
    EXPECT_EQ(read("plan.json"), "an older plan");
}

TEST_F(ExitCode, IsSixForAPlanOfAnotherModel) {
    ASSERT_EQ(run(plan_mlp()).code, 0);
    expect(6, "another model", {"verify", "plan.json", example("runnable/lstm/model.onnx")});
    expect(6, "made for", {"simulate", "plan.json", example("models/resnet50.onnx")});
}

TEST_F(ExitCode, IsSixForAPlanOfTheSameModelWithOtherBindingsUnlessIgnored) {
    ASSERT_EQ(run(plan_mlp()).code, 0);
    const std::string model = example("runnable/mlp/model.onnx");
    expect(6, "model.digest", {"simulate", "plan.json", model, "--bind", "batch=16"});
    const Outcome result =
        run({"simulate", "plan.json", model, "--bind", "batch=16", "--ignore-digest"});
    EXPECT_EQ(result.code, 0) << result.err;
}

TEST_F(ExitCode, IsSixWhenVerifySaysNo) {
    ASSERT_EQ(run(plan_mlp()).code, 0);
    const std::string model = example("runnable/mlp/model.onnx");
    EXPECT_EQ(run({"verify", "plan.json", model}).code, 0);
    std::string plan = read("plan.json");
    const std::string key = "\"value_ps\": ";
    plan.insert(plan.find(key) + key.size(), "9");
    write("plan.json", plan);
    const Outcome result = run({"verify", "plan.json", model});
    EXPECT_EQ(result.code, 6);
    EXPECT_THAT(result.out, HasSubstr("value_ps"));
    EXPECT_THAT(result.err, HasSubstr("not legal"));
}

TEST_F(ExitCode, IsSixForVerifyOnAnotherMachine) {
    ASSERT_EQ(run(plan_mlp()).code, 0);
    const Outcome result =
        run({"verify", "plan.json", example("runnable/mlp/model.onnx"), "--machine", "dgx-a100"});
    EXPECT_EQ(result.code, 6);
    EXPECT_THAT(result.out, HasSubstr("machine"));
}

}  // namespace
}  // namespace partita::tests
