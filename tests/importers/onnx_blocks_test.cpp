// SPDX-License-Identifier: Apache-2.0
#include "importers/onnx/blocks.h"

#include <gtest/gtest.h>

namespace partita::importers {
namespace {

TEST(Blocks, OnePerRepeatedLayer) {
    EXPECT_EQ(block_of("/model/bert/encoder/layer.0/attention/self/MatMul", ""),
              "model/bert/encoder/layer.0");
    EXPECT_EQ(block_of("/layer1/layer1.2/conv2/Conv", ""), "layer1/layer1.2");
    EXPECT_EQ(block_of("/encoder/layers/encoder_layer_11/mlp/mlp.3/MatMul", ""),
              "encoder/layers/encoder_layer_11");
    EXPECT_EQ(block_of("/features/features.10/Conv", ""), "features/features.10");
}

TEST(Blocks, FirstTwoComponentsWithoutANumber) {
    EXPECT_EQ(block_of("/cls/predictions/transform/Gelu", ""), "cls/predictions");
    EXPECT_EQ(block_of("/lstm/LSTM", ""), "lstm");
    EXPECT_EQ(block_of("/conv1/Conv", ""), "conv1");
    EXPECT_EQ(block_of("/Concat", ""), "");
}

TEST(Blocks, MetadataNamesTheModule) {
    const std::string layer =
        ": M/model: T.Gpt/model.transformer: T.Model/model.transformer.h.3: T.Block/"
        "model.transformer.h.3.attn: T.Attention/view_35: aten.view.default";
    EXPECT_EQ(block_of("node_view_35", layer), "model.transformer.h.3");
    EXPECT_EQ(block_of("node_linear", ": M/model: T/model.lm_head: Linear/linear_224: aten.linear"),
              "model.lm_head");
    EXPECT_EQ(block_of("node_Shape_0",
                       "_empty_nn_module_stack_from_metadata_hook: _empty_nn_module_"
                       "stack_from_metadata_hook/sym_size_int: aten.sym_size.int"),
              "");
}

TEST(Blocks, ANameWithoutAPathHasNone) {
    EXPECT_EQ(block_of("Conv_12", ""), "");
    EXPECT_EQ(block_of("", ""), "");
}

}  // namespace
}  // namespace partita::importers
