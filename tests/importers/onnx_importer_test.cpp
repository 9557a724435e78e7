// SPDX-License-Identifier: Apache-2.0
#include "importers/onnx/onnx_importer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/error.h"
#include "graph/operators/op_rule.h"
#include "tests/importers/onnx_fixtures.h"

namespace partita::importers {
namespace {

namespace fs = std::filesystem;
using graph::OpGraph;
using graph::OpKind;
using graph::Shape;
using testing::ElementsAre;
using testing::HasSubstr;

// --- the examples ------------------------------------------------------------------------------

struct Example {
    std::string file;
    OnnxOptions options;
};

std::vector<Example> examples() {
    const auto with = [](std::map<std::string, std::int64_t> bindings) {
        OnnxOptions options;
        options.bindings = std::move(bindings);
        return options;
    };
    const OnnxOptions batch = with({{"batch", 4}});
    const OnnxOptions text = with({{"batch", 2}, {"sequence", 96}});
    std::vector<Example> all = {
        {"models/alexnet.onnx", batch},
        {"models/vgg16.onnx", batch},
        {"models/resnet50.onnx", batch},
        {"models/inception_v3.onnx", batch},
        {"models/vit_b_16.onnx", batch},
        {"models/dlrm.onnx", batch},
        {"models/bert-base.onnx", text},
        {"models/gpt2-small.onnx", text},
        {"models/llama-3-8b.onnx", text},
        {"models/lstm-lm.onnx", text},
        {"models/t5-small.onnx", with({{"batch", 2}, {"sequence", 96}, {"decoder_sequence", 7}})},
        {"models/gnmt.onnx", with({{"batch", 2}, {"sequence", 96}, {"target_sequence", 7}})}};
    for (const char* name : {"mlp", "convnet", "encoder-layer", "lstm", "dlrm-tiny"}) {
        OnnxOptions options;
        const std::string folder = std::string("runnable/") + name;
        options.inputs = kSource / "examples" / folder / "test_data_set_1";
        all.push_back({folder + "/model.onnx", options});
    }
    return all;
}

class Examples : public testing::TestWithParam<Example> {};

TEST_P(Examples, ImportWithConcreteShapesForAllOps) {
    const OnnxModel model = import_onnx(kSource / "examples" / GetParam().file, GetParam().options);
    for (const graph::Tensor& tensor : model.graph.tensors()) {
        EXPECT_NE(tensor.dtype, graph::DType::undefined) << tensor.name;
        EXPECT_EQ(tensor.upper_bound_dims, 0u) << tensor.name;
    }
    EXPECT_GT(names(model.graph, OpKind::compute).size(), 4u);
    EXPECT_EQ(names(model.graph, OpKind::output).size(), 1u);
    EXPECT_EQ(model.bounded_tensors, 0);
}

TEST_P(Examples, HaveTheSameDigestTwice) {
    const fs::path path = kSource / "examples" / GetParam().file;
    EXPECT_EQ(graph::digest(import_onnx(path, GetParam().options).graph),
              graph::digest(import_onnx(path, GetParam().options).graph));
}

INSTANTIATE_TEST_SUITE_P(Onnx, Examples, testing::ValuesIn(examples()), [](const auto& example) {
    std::string name = example.param.file;
    std::replace_if(
        name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
    return name;
});

TEST(OnnxModels, NoShapeArithmeticIsLeft) {
    OnnxOptions options;
    options.bindings = {{"batch", 1}, {"sequence", 128}};
    for (const char* file : {"bert-base", "gpt2-small", "llama-3-8b", "lstm-lm"}) {
        const OnnxModel model =
            import_onnx(kSource / "examples/models" / (std::string(file) + ".onnx"), options);
        for (const graph::Op& op : model.graph.ops()) {
            EXPECT_NE(op.type, "Shape") << file;
            if (op.type != "Reshape") continue;
            EXPECT_TRUE(model.graph.tensor(op.inputs.at(1)).known_integers.has_value()) << op.name;
        }
    }
}

TEST(OnnxModels, EveryLayerIsABlock) {
    OnnxOptions options;
    options.bindings = {{"batch", 1}, {"sequence", 16}};
    const auto blocks = [&](const std::string& file) {
        const OnnxModel model = import_onnx(kSource / "examples/models" / file, options);
        std::set<std::string> found;
        for (const graph::Op& op : model.graph.ops()) found.insert(op.block);
        return found;
    };
    const auto bert = blocks("bert-base.onnx");
    const auto llama = blocks("llama-3-8b.onnx");
    for (int i = 0; i < 12; ++i) {
        EXPECT_EQ(bert.count("model/bert/encoder/layer." + std::to_string(i)), 1u) << i;
    }
    for (int i = 0; i < 32; ++i) {
        EXPECT_EQ(llama.count("model.model.layers." + std::to_string(i)), 1u) << i;
    }
}

TEST(OnnxModels, TensorsOfMoreThan2To32ElementsKeepTheirExtents) {
    OnnxOptions options;
    options.batch = 1;
    const OnnxModel model = import_onnx(kSource / "examples/models/dlrm.onnx", options);
    std::int64_t largest = 0;
    for (const graph::Tensor& tensor : model.graph.tensors()) {
        largest = std::max(largest, tensor.elements());
    }
    EXPECT_GT(largest, std::int64_t{1} << 32);
}

TEST(OnnxModels, RunningStatisticsAreNotTrained) {
    OnnxOptions options;
    options.batch = 1;
    const OnnxModel model = import_onnx(kSource / "examples/models/resnet50.onnx", options);
    const graph::Op* norm = nullptr;
    std::int64_t parameters = 0;
    for (const graph::Op& op : model.graph.ops()) {
        if (op.type == "BatchNormalization") norm = &op;
        if (op.kind == OpKind::parameter)
            parameters += model.graph.tensor(op.outputs[0]).elements();
    }
    ASSERT_NE(norm, nullptr);
    EXPECT_EQ(model.graph.tensor(norm->inputs[1]).role, graph::TensorRole::parameter);
    EXPECT_EQ(model.graph.tensor(norm->inputs[3]).role, graph::TensorRole::constant);
    EXPECT_EQ(parameters, 25'557'032);
}

// --- functions, data, unknown operators --------------------------------------------------------

TEST(OnnxFunctions, CallsAreInlinedWithTheirAttributes) {
    const OnnxModel model = fixture("functions");
    EXPECT_THAT(names(model.graph, OpKind::compute),
                ElementsAre("first/leaky", "first/scale/sum", "second/leaky", "second/scale/sum"));
    EXPECT_EQ(op(model.graph, "first/leaky").attributes.get_float("alpha", 0), 0.5);
    EXPECT_EQ(op(model.graph, "second/leaky").attributes.get_float("alpha", 0), 0.25);
}

TEST(OnnxBounds, ExtentsFromDataAreMarkedDownstream) {
    const OnnxModel model = fixture("nonzero");
    const graph::Tensor& where = result(model.graph, "NonZero_6");
    EXPECT_EQ(where.shape, (Shape{2, 12}));
    EXPECT_EQ(where.upper_bound_dims, 0b10u);
    const graph::Tensor& picked = result(model.graph, "Gather_5");
    EXPECT_EQ(picked.shape, (Shape{12, 5}));
    EXPECT_EQ(picked.upper_bound_dims, 0b01u);
}

TEST(OnnxOperators, UnknownOnesKeepDeclaredShapesAndAreNamed) {
    const OnnxModel model = fixture("custom_operator");
    EXPECT_EQ(result(model.graph, "Widen_0").shape, (Shape{2, 16}));
    EXPECT_THAT(model.notes, testing::Contains(HasSubstr("'Widen'")));
}

TEST(OnnxOperators, SpacesInAnEquationMeanNothing) {
    EXPECT_EQ(result(fixture("einsum_spaces").graph, "product").shape, (Shape{4, 2}));
}

TEST(OnnxOperators, AGatherOfEverythingInOrderIsAReshape) {
    const OnnxModel model = fixture("gather_all");
    EXPECT_EQ(op(model.graph, "by_number").type, "Reshape");
    EXPECT_EQ(result(model.graph, "by_number").shape, (Shape{2, 1, 3}));
    EXPECT_EQ(op(model.graph, "by_pair").type, "Reshape");
    EXPECT_EQ(model.graph.tensor(op(model.graph, "by_pair").inputs[1]).known_integers,
              (std::vector<std::int64_t>{2, 3}));
    EXPECT_EQ(op(model.graph, "turned_round").type, "Gather");
    EXPECT_THAT(model.notes, testing::Contains(HasSubstr("2 Gather nodes take every element")));
}

TEST(OnnxOperators, SequencesHaveNoSize) {
    const OnnxModel model = fixture("sequence");
    EXPECT_EQ(result(model.graph, "SequenceConstruct_0").dtype, graph::DType::undefined);
    EXPECT_EQ(result(model.graph, "SequenceConstruct_0").shape, Shape{});
    EXPECT_EQ(result(model.graph, "ConcatFromSequence_1").shape, (Shape{5, 8}));
}

// x [3 2 4], both directions, hidden 5:
//
//     forward   step 0 ─▶ step 1 ─▶ step 2         backward   step 2 ─▶ step 1 ─▶ step 0
TEST(OnnxUnroll, AnLstmBecomesOneOpPerStepAndDirection) {
    OnnxOptions options;
    options.unroll = true;
    const OnnxModel model = fixture("lstm", options);
    std::vector<std::string> steps;
    for (const graph::Op& op : model.graph.ops()) {
        if (op.type == "LSTM") steps.push_back(op.name);
    }
    EXPECT_THAT(steps, ElementsAre("rnn/step.0.0", "rnn/step.0.1", "rnn/step.0.2", "rnn/step.1.2",
                                   "rnn/step.1.1", "rnn/step.1.0"));
    const graph::Op& last = op(model.graph, "rnn/step.1.0");
    std::vector<std::string> operands;
    for (const auto id : last.inputs) {
        operands.push_back(id.valid() ? model.graph.tensor(id).name : "-");
    }
    EXPECT_THAT(operands, ElementsAre("rnn/x.0", "rnn/w.1", "rnn/r.1", "rnn/b.1", "-", "rnn/h.1.1",
                                      "rnn/c.1.1"));
    EXPECT_EQ(last.attributes.get_string("direction", ""), "forward");
    EXPECT_EQ(result(model.graph, "rnn/step.1.0", 0).shape, (Shape{1, 1, 2, 5}));
    EXPECT_EQ(result(model.graph, "rnn/step.1.0", 1).shape, (Shape{1, 2, 5}));
    const auto output = [&](std::size_t i) {
        const std::string name = names(model.graph, OpKind::output).at(i);
        return model.graph.tensor(op(model.graph, name).inputs[0]).shape;
    };
    EXPECT_EQ(output(0), (Shape{3, 2, 2, 5}));
    EXPECT_EQ(output(1), (Shape{2, 2, 5}));
    EXPECT_EQ(output(2), (Shape{2, 2, 5}));
}

TEST(OnnxUnroll, TheWorkStaysTheSame) {
    OnnxOptions options;
    options.bindings = {{"batch", 2}, {"sequence", 5}, {"target_sequence", 3}};
    const fs::path file = kSource / "examples/models/gnmt.onnx";
    const auto flops = [&] {
        const OnnxModel model = import_onnx(file, options);
        Flops sum;
        for (const graph::OpRule& rule : graph::rules_of(model.graph)) {
            if (rule.matrix_product) sum += rule.flops;
        }
        return sum;
    };
    const Flops whole = flops();
    options.unroll = true;
    EXPECT_EQ(flops(), whole);
}

// --- options -----------------------------------------------------------------------------------

std::string usage_error(const std::string& file, const OnnxOptions& options) {
    try {
        (void)import_onnx(kSource / "examples/models" / file, options);
    } catch (const UsageError& error) {
        return error.what();
    }
    return "accepted";
}

TEST(OnnxOptions, AllMissingDimsAreListedAtOnce) {
    EXPECT_EQ(
        usage_error("bert-base.onnx", {}),
        "bert-base.onnx: input 'input_ids', dim 0: symbolic 'batch' has no value. Give it one, "
        "e.g. --bind batch=1 (also missing: 'sequence').");
}

TEST(OnnxOptions, AnUnknownNameIsRefusedWithTheKnownOnes) {
    OnnxOptions options;
    options.bindings = {{"seq", 4}};
    EXPECT_EQ(usage_error("bert-base.onnx", options),
              "bert-base.onnx: --bind seq=4: no input has a symbolic dim 'seq'. The model's are "
              "'batch', 'sequence'.");
    options = {};
    options.input_shapes = {{"ids", {1, 2}}};
    EXPECT_EQ(usage_error("bert-base.onnx", options),
              "bert-base.onnx: --shape ids:1x2: no such input. The model's are 'input_ids', "
              "'attention_mask', 'token_type_ids'.");
}

TEST(OnnxOptions, AShapeBindsItsNamesForAllInputs) {
    OnnxOptions options;
    options.input_shapes = {{"input_ids", {3, 40}}};
    const OnnxModel model = import_onnx(kSource / "examples/models/bert-base.onnx", options);
    EXPECT_EQ(result(model.graph, "attention_mask").shape, (Shape{3, 40}));
    EXPECT_EQ(model.bindings,
              (std::map<std::string, std::int64_t>{{"batch", 3}, {"sequence", 40}}));
    EXPECT_THAT(model.input_sample_dims, ElementsAre(0, 0, 0));
}

TEST(OnnxOptions, ContradictionsAreRefused) {
    OnnxOptions options;
    options.bindings = {{"batch", 2}, {"sequence", 8}};
    options.batch = 4;
    EXPECT_EQ(usage_error("bert-base.onnx", options),
              "bert-base.onnx: --batch gives 'batch' the value 4, but it already has 2. Make the "
              "options agree.");
    options = {};
    options.input_shapes = {{"input", {1, 3, 224}}};
    EXPECT_THAT(usage_error("alexnet.onnx", options), HasSubstr("the input has 4 dims, not 3"));
    options.input_shapes = {{"input", {1, 4, 224, 224}}};
    EXPECT_THAT(usage_error("alexnet.onnx", options), HasSubstr("dim 1: expected 3, got 4"));
}

TEST(OnnxOptions, BatchSaysWhichDimsItBound) {
    OnnxOptions options;
    options.batch = 8;
    const OnnxModel model = import_onnx(kSource / "examples/models/dlrm.onnx", options);
    EXPECT_THAT(model.notes, testing::Contains("--batch 8 bound dim 0 of input 'dense' ('batch'), "
                                               "dim 0 of input 'sparse' ('batch')."));
    EXPECT_EQ(model.bindings.at("batch"), 8);
}

// A decoder has a cache of keys and of values for each layer.
TEST(OnnxOptions, BatchNamesAFewOfManyDims) {
    OnnxOptions options;
    options.batch = 8;
    options.bindings = {{"past", 15}};
    const OnnxModel model =
        import_onnx(kSource / "examples/models/llama-3-8b-decode.onnx", options);
    EXPECT_THAT(
        model.notes,
        testing::Contains("--batch 8 bound dim 0 of input 'token' ('batch'), dim 0 of input "
                          "'cos' ('batch'), dim 0 of input 'sin' ('batch') and such a dim of "
                          "64 other inputs."));
    EXPECT_THAT(model.input_sample_dims, testing::Each(0));
}

// --- bad models --------------------------------------------------------------------------------

/// Beside each model the exact message; PARTITA_REWRITE_GOLDEN=1 writes them anew.
TEST(OnnxBadModels, AreRefusedWithTheMessageBesideThem) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(kSource / "tests/data/bad_models")) {
        if (entry.path().extension() == ".onnx") files.push_back(entry.path());
    }
    EXPECT_GE(files.size(), 25u);
    for (const fs::path& file : files) {
        std::string message;
        try {
            (void)import_onnx(file);
        } catch (const InputError& error) {
            message = std::string(error.what()) + "\n";
        } catch (const UsageError& error) {
            message = std::string("usage: ") + error.what() + "\n";
        }
        EXPECT_FALSE(message.empty()) << file << " was accepted";
        const fs::path golden = fs::path(file).replace_extension(".txt");
        if (std::getenv("PARTITA_REWRITE_GOLDEN") != nullptr) {
            std::ofstream(golden, std::ios::binary) << message;
        }
        std::ifstream stream(golden, std::ios::binary);
        const std::string expected{std::istreambuf_iterator<char>(stream), {}};
        EXPECT_EQ(message, expected) << file;
    }
}

TEST(OnnxBadModels, AnyTruncationIsRefusedOrImports) {
    std::ifstream stream(kSource / "tests/data/onnx/nested.onnx", std::ios::binary);
    const std::string whole{std::istreambuf_iterator<char>(stream), {}};
    std::size_t refused = 0;
    for (std::size_t size = 0; size < whole.size(); ++size) {
        try {
            (void)import_onnx(std::as_bytes(std::span(whole).first(size)));
        } catch (const InputError&) {
            ++refused;
        }
    }
    EXPECT_GT(refused, whole.size() / 2);
}

}  // namespace
}  // namespace partita::importers
