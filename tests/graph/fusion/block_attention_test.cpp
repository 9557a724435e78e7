// SPDX-License-Identifier: Apache-2.0
#include "graph/fusion/block_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "graph/operators/op_rule.h"
#include "graph/operators/part.h"
#include "tests/graph/operators/examples.h"

namespace partita::graph {
namespace {

using ::testing::ElementsAre;

/// The types of what an op of the notation of examples.h becomes in so many blocks.
std::vector<std::string> types(std::string_view example, int blocks) {
    const OpGraph graph = with_block_attention(testing::graph_of(example), blocks).graph;
    std::vector<std::string> types;
    for (const Op& op : graph.ops()) {
        if (op.kind == OpKind::compute) types.push_back(op.type);
    }
    return types;
}

constexpr const char* kAttention = "Attention | 2,8,16,32 2,2,24,32 2,2,24,48 16,24 -> 2,8,16,48";

TEST(BlockAttention, IsAChainOfSteps) {
    EXPECT_THAT(types(kAttention, 4),
                ElementsAre("BlockAttention", "BlockAttention", "BlockAttention", "BlockAttention",
                            "BlockAttentionResult"));
    EXPECT_EQ(with_block_attention(testing::graph_of(kAttention), 4).count, 1);
}

// 24 keys in 4 blocks: where blocks of queries lie on 2 devices, the second reads its own keys in step
// 0, and half of those of each device in step 1.
TEST(BlockAttention, MeetsTheKeysOfAnotherBlockInEachStep) {
    const OpGraph graph = with_block_attention(testing::graph_of(kAttention), 4).graph;
    std::vector<Positions> keys;
    std::vector<Positions> masks;
    std::vector<Positions> queries;
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        const Op& op = graph.ops()[i];
        if (op.type != "BlockAttention") continue;
        const OpRule rule = rule_of(graph, OpId(i));
        Box box = whole_box(rule);
        for (std::size_t f = 0; f < box.size(); ++f) {
            if (rule.factors[f].name == "p") box[f] = part_of(box[f], 2, 1);
        }
        const auto read = [&](std::size_t operand, std::size_t dim) {
            const Shape& shape = graph.tensor(op.inputs[operand]).shape;
            return region_of(rule, rule.operands[operand], shape, box).dims[dim];
        };
        queries.push_back(read(0, 2));
        EXPECT_EQ(read(1, 2), read(2, 2));
        keys.push_back(read(1, 2));
        masks.push_back(read(3, 1));
    }
    const Positions second{{8, 16}};
    EXPECT_THAT(queries, ElementsAre(second, second, second, second));
    EXPECT_THAT(keys, ElementsAre(Positions{{12, 24}}, Positions{{0, 6}, {18, 24}},
                                  Positions{{0, 12}}, Positions{{6, 18}}));
    const Positions all{{0, 24}};
    EXPECT_THAT(masks, ElementsAre(all, all, all, all));
}

TEST(BlockAttention, SumsInFloat32) {
    const OpGraph graph =
        with_block_attention(
            testing::graph_of("Attention | h2,16,256 h2,24,64 h2,24,96 -> h2,16,384 | "
                              "q_num_heads=8 kv_num_heads=2 is_causal=1"),
            2)
            .graph;
    const Op& last = graph.ops()[graph.op_count() - 1];
    EXPECT_EQ(last.type, "BlockAttentionResult");
    EXPECT_EQ(graph.tensor(last.inputs[0]).dtype, DType::float32);
    EXPECT_EQ(graph.tensor(last.inputs[0]).shape, (Shape{2, 16, 384}));
    EXPECT_EQ(graph.tensor(last.inputs[1]).shape, (Shape{2, 16, 8}));
    EXPECT_EQ(graph.tensor(last.outputs[0]).dtype, DType::float16);
    EXPECT_EQ(last.name, "op");
}

constexpr const char* kWithPastKeys =
    "Attention | 2,4,16,32 2,4,16,32 2,4,16,32 2,1,16,40 2,4,24,32 2,4,24,32 -> "
    "2,4,16,32 2,4,40,32 2,4,40,32";

TEST(BlockAttention, LeavesWhatItCannotKeepApart) {
    for (const char* const example :
         {kWithPastKeys,
          "Attention | 2,8,16,32 2,2,24,32 2,2,24,48 16,20 -> 2,8,16,48",  // hides the last keys
          "Attention | 2,8,16,32 2,2,24,32 2,2,24,48 16,1 -> 2,8,16,48",   // and all but one
          "Attention | 2,8,16,32 2,2,24,32 2,2,24,48 -> 2,8,16,48 | softcap=2.0",
          "Attention | 2,8,16,32 2,2,24,32 2,2,24,48 -> 2,8,16,48 | left_window_size=3",
          "Attention | 2,8,16,32 2,2,24,32 2,2,24,48 _ _ _ -> 2,8,16,48 _ _ 2,8,16,24",
          "Attention | 2,8,16,32 2,2,1,32 2,2,1,48 -> 2,8,16,48",
          "Attention | 2,8,3,32 2,2,4,32 2,2,4,48 -> 2,8,3,48", "Relu | 5,7 -> 5,7",
          "Attention | 8,4 8,4 8,4 -> 8,4", "Attention | 2,8,4 2,8,4 -> 2,8,4"}) {
        SCOPED_TRACE(example);
        const OpGraph graph = testing::graph_of(example);
        EXPECT_EQ(with_block_attention(graph, 2).count, 0);
        EXPECT_EQ(digest(with_block_attention(graph, 2).graph), digest(graph));
    }
}

}  // namespace
}  // namespace partita::graph
