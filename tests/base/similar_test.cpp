// SPDX-License-Identifier: Apache-2.0
#include "base/similar.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace partita {
namespace {

const std::vector<std::string> kWords = {"plan",    "execute",  "profile",
                                         "--batch", "dgx-h100", "Relu"};

TEST(SimilarWord, IsOneOfWhichFewLettersDiffer) {
    EXPECT_EQ(similar_word("plna", kWords), "plan");   // swapped
    EXPECT_EQ(similar_word("pla", kWords), "plan");    // one missing
    EXPECT_EQ(similar_word("plann", kWords), "plan");  // one too many
    EXPECT_EQ(similar_word("--bacth", kWords), "--batch");
    EXPECT_EQ(similar_word("dgx-h10", kWords), "dgx-h100");
    EXPECT_EQ(similar_word("execcutte", kWords), "execute");
    EXPECT_EQ(similar_word("RELU", kWords), "Relu");
}

TEST(SimilarWord, IsNoneWhereMoreDo) {
    for (const char* const word : {"", "x", "pn", "train", "--machine", "cpu-cluster", "perfect"}) {
        EXPECT_EQ(similar_word(word, kWords), "") << word;
    }
}

TEST(SimilarWord, IsTheFirstOfTheNearest) {
    EXPECT_EQ(similar_word("cat", std::vector<std::string>{"cart", "bat", "hat"}), "cart");
    EXPECT_EQ(similar_word("hat", std::vector<std::string>{"cart", "bat", "hat"}), "hat");
    EXPECT_EQ(suggestion("plna", kWords), " Is it 'plan'?");
    EXPECT_EQ(suggestion("nothing", kWords), "");
}

}  // namespace
}  // namespace partita
