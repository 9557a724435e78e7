// SPDX-License-Identifier: Apache-2.0
#include <partita/graph.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/impl.h"
#include "tests/api/networks.h"
#include "tests/cli/program.h"
#include "tests/support/temporary_folder.h"

#include <partita/partita.h>

namespace partita {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Of the op called `name`; "" when there is none.
std::string type_of(const Model& model, const std::string& name) {
    const auto ops = model.ops();
    const auto op = std::ranges::find(ops, name, &OpInfo::name);
    return op == ops.end() ? "" : op->type;
}

Time planned_value(const Model& model) {
    const PlanOptions options{.mode = Mode::training, .evaluations = 30, .threads = 1};
    return find_plan(model, Machine::load("cpu:4"), options).plan().value();
}

TEST(Graph, ByHandEqualsTheImportersForTheSameModel) {
    struct Case {
        std::string folder;
        Graph graph;
    };
    const Case cases[] = {{"mlp", tests::mlp(8)}, {"convnet", tests::convnet(8)}};
    for (const Case& each : cases) {
        const auto file = tests::example("runnable/" + each.folder + "/model.onnx");
        const Model imported = Model::load(file, {.batch = 8});
        const Model by_hand(each.graph);
        EXPECT_EQ(by_hand.digest(), imported.digest()) << each.folder;
        EXPECT_EQ(planned_value(by_hand), planned_value(imported)) << each.folder;
    }
}

TEST(Graph, AnotherBatchIsAnotherModel) {
    EXPECT_NE(Model(tests::mlp(8)).digest(), Model(tests::mlp(16)).digest());
}

TEST(Graph, SavedAsOnnxItIsTheSameModel) {
    const TemporaryFolder folder;
    const auto file = folder.path() / "model.onnx";
    Graph graph = tests::convnet(4);
    // Roles that an importer would guess otherwise: a weight of one element, no batch at all.
    const auto one = graph.parameter("one", {1});
    const auto other = graph.input("other", {4, 10}, {.batch_dim = -1});
    graph.output(graph.add("Mul", {graph.add("Add", {"y", other}), one}));
    graph.save_onnx(file);
    const Model saved = Model::load(file);
    EXPECT_EQ(saved.digest(), Model(graph).digest());
    EXPECT_EQ(planned_value(saved), planned_value(Model(graph)));
}

using SavedGraph = tests::ProgramTest;

TEST_F(SavedGraph, LetsTheProgramVerifyItsPlan) {
    const Graph graph = tests::mlp(8);
    graph.save_onnx(folder() / "mlp.onnx");
    find_plan(Model(graph), Machine::load("cpu:2"), {.evaluations = 20})
        .plan()
        .save(folder() / "plan.json");
    const tests::Outcome outcome = run({"verify", "plan.json", "mlp.onnx"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    tests::mlp(16).save_onnx(folder() / "other.onnx");
    EXPECT_EQ(run({"verify", "plan.json", "other.onnx"}).code, 6);
}

std::span<const std::byte> bytes_of(const std::vector<float>& values) {
    return std::as_bytes(std::span(values));
}

TEST(Graph, ValuesAreSavedBesideIt) {
    const TemporaryFolder folder;
    const auto file = folder.path() / "model.onnx";
    Graph graph("net");
    Tensor h = graph.input("x", {2, 2});
    h = graph.add("Mul", {h, graph.parameter("gain", {1, 2})});
    h = graph.add("Add", {h, graph.constant("mask", {2, 2})});
    graph.output(graph.add("Add", {h, graph.parameter("absent", {2})}));
    const std::vector<float> gain = {3.0F, 4.0F};
    const std::vector<float> mask = {5.0F, 6.0F, 7.0F, 8.0F};
    graph.save_onnx(file, {{"mask", bytes_of(mask)}, {"gain", bytes_of(gain)}});
    const Model model = Model::load(file);
    EXPECT_EQ(model.digest(), Model(graph).digest());
    const graph::TensorSource& source = *model.impl().loaded.source;
    std::vector<float> read(2);
    source.read("gain", Bytes{0}, std::as_writable_bytes(std::span(read)));
    EXPECT_EQ(read, gain);
    source.read("mask", Bytes{8}, std::as_writable_bytes(std::span(read)));
    EXPECT_THAT(read, ElementsAre(7.0F, 8.0F));
    EXPECT_THROW(source.read("absent", Bytes{0}, std::as_writable_bytes(std::span(read))),
                 InputError);
    for (const char* name : {"mask", "h", "x"}) {
        EXPECT_THAT(
            [&] {
                graph.save_onnx(file, {{name, bytes_of(gain)}});
            },
            testing::ThrowsMessage<UsageError>(testing::HasSubstr(name)));
    }
}

TEST(Graph, RolesAreAsTheyWereSaid) {
    Graph graph;
    auto h = graph.input("x", {4, 8});
    h = graph.add("Mul", {h, graph.parameter("gain", {1})});    // a guess would call it a constant
    h = graph.add("Add", {h, graph.constant("mask", {4, 8})});  // and this one trained
    graph.output(h);
    const Model model(graph);
    EXPECT_EQ(type_of(model, "gain"), "Parameter");
    EXPECT_EQ(type_of(model, "mask"), "Constant");
}

TEST(Graph, OpsMayNameTensorsThatAreMadeLater) {
    Graph forwards("g");
    forwards.input("x", {4, 8});
    forwards.add("Relu", {"x"}, {}, {.name = "first", .results = {"a"}});
    forwards.add("Tanh", {"a"}, {}, {.name = "second", .results = {"b"}});
    forwards.output("b");
    Graph backwards("g");
    backwards.output("b");
    backwards.add("Tanh", {"a"}, {}, {.name = "second", .results = {"b"}});
    backwards.add("Relu", {"x"}, {}, {.name = "first", .results = {"a"}});
    backwards.input("x", {4, 8});
    EXPECT_EQ(Model(backwards).digest(), Model(forwards).digest());
}

TEST(Graph, AttributesOfEveryKindArrive) {
    Graph graph;
    const auto x = graph.input("x", {2, 3, 10, 10});
    const auto w = graph.parameter("w", {5, 3, 3, 3});
    graph.output(graph.add("Conv", {x, w}, {{"strides", {2, 2}}}));         // list of integers
    graph.output(graph.add("Conv", {x, w}, {{"auto_pad", "SAME_UPPER"}}));  // text
    graph.output(graph.add("Softmax", {x}, {{"axis", 1}}));                 // integer
    graph.output(graph.add("Cast", {x}, {{"to", DType::float16}}));         // type
    graph.output(graph.add("LeakyRelu", {x}, {{"alpha", 0.25}}));           // real number
    graph.output(graph.add("TfIdfVectorizer", {graph.input("n", {7}, {.dtype = DType::int64})},
                           {{"max_gram_length", 1},
                            {"max_skip_count", 0},
                            {"min_gram_length", 1},
                            {"mode", "TF"},
                            {"ngram_counts", {0}},
                            {"ngram_indexes", {0, 1}},
                            {"pool_int64s", {2, 3}},
                            {"weights", {0.5, 1.5}}}));  // list of real numbers
    graph.output(graph.add("LabelEncoder", {graph.input("s", {7}, {.dtype = DType::string})},
                           {{"keys_strings", {"a", "b"}}, {"values_int64s", {1, 2}}},
                           {.domain = "ai.onnx.ml"}));  // list of texts
    const Model model(graph);
    EXPECT_THAT(model.tensor("Conv_0:0").shape, ElementsAre(2, 5, 4, 4));
    EXPECT_THAT(model.tensor("Conv_1:0").shape, ElementsAre(2, 5, 10, 10));
    EXPECT_EQ(model.tensor("Cast_3:0").dtype, DType::float16);
    EXPECT_EQ(model.tensor("Cast_3:0").bytes, Bytes(2 * 3 * 10 * 10 * 2));
    EXPECT_THAT(model.tensor("TfIdfVectorizer_5:0").shape, ElementsAre(2));
    EXPECT_EQ(model.tensor("LabelEncoder_6:0").dtype, DType::int64);
    Graph other;
    other.output(other.add("LeakyRelu", {other.input("x", {2})}, {{"alpha", 0.5}}));
    Graph another;
    another.output(another.add("LeakyRelu", {another.input("x", {2})}, {{"alpha", 0.25}}));
    EXPECT_NE(Model(other).digest(), Model(another).digest());
}

TEST(Graph, IntegersDecideShapes) {
    Graph graph;
    const auto x = graph.input("x", {4, 6, 10});
    graph.output(graph.add("Reshape", {x, graph.integers("target", {0, 3, -1})}, {},
                           {.results = {"reshaped"}}));
    graph.output(
        graph.add("Gather", {x, graph.integer("index", 2)}, {{"axis", 1}}, {.results = {"taken"}}));
    const Model model(graph);
    EXPECT_THAT(model.tensor("reshaped").shape, ElementsAre(4, 3, 20));
    EXPECT_THAT(model.tensor("taken").shape, ElementsAre(4, 10));
}

TEST(Graph, AnOpMayHaveSeveralResultsAndLeaveOperandsOut) {
    Graph graph;
    const auto x = graph.input("x", {4, 9});
    graph.add("Split", {x}, {{"axis", 1}, {"num_outputs", 3}}, {.results = {"q", "k", "v"}});
    graph.output(graph.add("Clip", {"k", {}, graph.constant("most", {})}));
    const Model model(graph);
    EXPECT_THAT(model.tensor("k").shape, ElementsAre(4, 3));
    const auto ops = model.ops();
    const auto clip = std::ranges::find(ops, "Clip", &OpInfo::type);
    EXPECT_THAT(clip->operands, ElementsAre("k", "", "most"));
}

TEST(Graph, AnUnknownOperatorWithShapesIsPlannedConservatively) {
    Graph graph;
    const auto x = graph.input("x", {4, 9});
    graph.output(graph.add("MyKernel", {x}, {}, {.results = {{"y", {4, 2}}}, .domain = "mine"}));
    const Model model(graph);
    EXPECT_THAT(model.notes(),
                ElementsAre("1 nodes use the operator 'MyKernel', which ONNX does not define."));
    const SearchResult result = find_plan(model, Machine::load("cpu:2"), {.evaluations = 20});
    EXPECT_THAT(result.plan().op("MyKernel_0").degrees, IsEmpty());
    EXPECT_THAT(result.plan().verify(model), IsEmpty());
}

// Columns, then rows: four devices share weights that none of them has to hold.
TEST(Graph, AnUnknownOperatorThatSaysItsRuleIsSplitByIt) {
    Graph graph("own");
    Tensor x = graph.input("x", {8, 16, 256});
    for (const char* const name : {"0", "1"}) {
        const Tensor w = graph.parameter("w" + std::string(name), {256, 256});
        x = graph.add("Dense", {x, w},
                      {{"partita_rule", "b m k, k n -> b m n"}, {"partita_linear", "all"}},
                      {.name = name, .domain = "com.mine"});
    }
    graph.output(x);
    const Model model(graph);
    std::vector<std::string> names;
    for (const FactorInfo& factor : model.factors("0")) names.push_back(factor.name);
    EXPECT_THAT(names, testing::UnorderedElementsAre("b", "m", "k", "n"));
    const Machine machine = Machine::load("dgx-a100:1x4");
    const Plan plan =
        find_plan(model, machine, PlanOptions::parse(R"({"mode": "training", "strategy": "tp=4"})"))
            .plan();
    EXPECT_THAT(plan.op("0").degrees, ElementsAre(FactorDegree{"n", 4}));
    EXPECT_THAT(plan.op("1").degrees, ElementsAre(FactorDegree{"k", 4}));
    EXPECT_THAT(plan.verify(model), IsEmpty());
    const auto moved = plan.communication(model);
    EXPECT_TRUE(std::ranges::any_of(moved, [](const CommunicationPlan& each) {
        return each.kind == "all-reduce" && each.of == "activations";
    }));
}

TEST(Graph, FactorsSayWhichDimsTheyAre) {
    Graph graph;
    graph.output(graph.add("MatMul", {graph.input("x", {8, 64}), graph.parameter("w", {64, 32})}));
    const auto factors = Model(graph).factors("MatMul_0");
    ASSERT_EQ(factors.size(), 3U);
    for (const FactorInfo& factor : factors) {
        EXPECT_TRUE(factor.splittable) << factor.name;
        if (factor.extent == 8) {
            EXPECT_THAT(factor.operands, ElementsAre(DimOf{0, 0}));
            EXPECT_THAT(factor.results, ElementsAre(DimOf{0, 0}));
        } else if (factor.extent == 32) {
            EXPECT_THAT(factor.operands, ElementsAre(DimOf{1, 1}));
            EXPECT_THAT(factor.results, ElementsAre(DimOf{0, 1}));
        } else {
            EXPECT_EQ(factor.extent, 64);
            EXPECT_THAT(factor.operands, ElementsAre(DimOf{0, 1}, DimOf{1, 0}));
            EXPECT_THAT(factor.results, IsEmpty());
        }
    }
}

TEST(Graph, ACopyGoesItsOwnWay) {
    Graph graph = tests::mlp(8);
    const Graph copy = graph;
    graph.output(graph.add("Relu", {"y"}));
    EXPECT_EQ(Model(copy).digest(), Model(tests::mlp(8)).digest());
    EXPECT_NE(Model(graph).digest(), Model(copy).digest());
}

}  // namespace
}  // namespace partita
