// SPDX-License-Identifier: Apache-2.0
#include "search/core/parallel_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace partita::search {
namespace {

using testing::HasSubstr;

std::string error_of(const std::string& text) {
    try {
        static_cast<void>(parse_parallel_config(text));
    } catch (const UsageError& error) {
        return error.what();
    }
    return "";
}

TEST(ParallelConfig, IsWhatItsTextSays) {
    const ParallelConfig config = parse_parallel_config("tp=4,dp=2,sp,zero=1,order=pp-tp-dp");
    EXPECT_EQ(config.data, 2);
    EXPECT_EQ(config.tensor, 4);
    EXPECT_EQ(config.pipeline, std::nullopt);
    EXPECT_EQ(config.chunks, std::nullopt);
    EXPECT_EQ(config.zero, 1);
    EXPECT_EQ(config.sequence, true);
    EXPECT_EQ(config.context, std::nullopt);
    EXPECT_EQ(config.order,
              (GridOrder{GridDim::pipeline, GridDim::tensor, GridDim::context, GridDim::data}));
}

TEST(ParallelConfig, IsItsOwnText) {
    for (const std::string text :
         {"dp=2", "dp=2,tp=4,pp=8,vpp=2,zero=3,sp", "sp=0", "pp=1,zero=0", "tp=2,order=dp-tp-pp",
          "vpp=64", "pp=2,layers=even", "layers=work", "pp=4,layers=4-8-8-4", "layers=0-1",
          "dp=2,cp=4,vpp=2", "cp=4,sp,cp-by=heads", "cp=2,cp-by=queries,layers=even",
          "tp=2,cp=2,order=cp-tp-dp-pp", "dp=4,pp=2,ep=2,zero=1", "zero=0,reduce=each",
          "dp=2,zero=3,reduce=last,layers=even", "zero=2,reduce=each", "reduce=last"}) {
        EXPECT_EQ(parse_parallel_config(text).text(), text);
    }
    EXPECT_EQ(parse_parallel_config("sp=1,tp=2,order=tp-dp-pp").text(), "tp=2,sp,order=tp-dp-pp");
    EXPECT_EQ(parse_parallel_config("cp=2,order=tp-cp-dp-pp").text(), "cp=2,order=tp-dp-pp");
    EXPECT_EQ(parse_parallel_config("ep=2,order=tp-cp-ep-dp-pp").text(), "ep=2,order=tp-dp-pp");
    EXPECT_EQ(parse_parallel_config("order=dp-tp-cp-pp").text(), "order=dp-tp-pp");
    EXPECT_EQ(ParallelConfig{}.text(), "");
}

TEST(ParallelConfig, WhatIsSaidComesBeforeWhatIsUsual) {
    const ParallelConfig usual = parse_parallel_config("layers=even,order=pp-dp-tp,zero=1");
    const auto text = [&](const char* said) {
        return completed(parse_parallel_config(said), usual).text();
    };
    EXPECT_EQ(text("tp=2"), "tp=2,zero=1,layers=even,order=pp-dp-tp");
    EXPECT_EQ(text("zero=0,layers=work,order=tp-dp-pp"), "zero=0,layers=work,order=tp-dp-pp");
    EXPECT_EQ(text("reduce=each"), "zero=2,reduce=each,layers=even,order=pp-dp-tp");
    EXPECT_EQ(text("reduce=last"), "zero=1,reduce=last,layers=even,order=pp-dp-tp");
}

TEST(ParallelConfig, SaysWhatIsWrong) {
    EXPECT_THAT(error_of("foo=2"), HasSubstr("--strategy foo=2: 'foo' is unknown. There is: dp"));
    EXPECT_THAT(error_of(""), HasSubstr("'' is unknown"));
    EXPECT_THAT(error_of("dp=2,"), HasSubstr("'' is unknown"));
    EXPECT_THAT(error_of("dp=2,tp=2,dp=2"), HasSubstr("'dp' is said twice"));
    EXPECT_THAT(error_of("dp"), HasSubstr("dp=: expected a number from 1 on"));
    for (const char* const value : {"0", "-1", "2x", "", " 2", "1e3", "99999999999"}) {
        EXPECT_THAT(error_of(std::string("tp=") + value), HasSubstr("expected a number from 1 on"));
    }
    EXPECT_THAT(error_of("zero=4"), HasSubstr("expected a number from 0 to 3"));
    EXPECT_THAT(error_of("reduce=often"), HasSubstr("reduce=often: expected each or last"));
    EXPECT_THAT(error_of("zero=1,reduce=each"),
                HasSubstr("behind the last micro-batch. Say zero=2"));
    EXPECT_THAT(error_of("reduce=last,zero=2"), HasSubstr("in each micro-batch. Say zero=1"));
    EXPECT_THAT(error_of("cp=2,cp-by=rows"), HasSubstr("cp-by=rows: expected heads or queries"));
    EXPECT_THAT(error_of("cp-by=heads"), HasSubstr("Say cp=2 or more, or leave it out."));
    EXPECT_THAT(error_of("cp=1,cp-by=heads"), HasSubstr("Say cp=2 or more, or leave it out."));
    EXPECT_THAT(error_of("sp=2"), HasSubstr("expected a number from 0 to 1"));
    for (const char* const layers : {"", "4-", "4--4", "-1", "all", "4-x"}) {
        EXPECT_THAT(
            error_of(std::string("layers=") + layers),
            HasSubstr(
                "expected a number from 0 on for each stage, as in 4-8-8-4, or even, or work"));
    }
    EXPECT_THAT(error_of("layers=6-6,pp=4"), HasSubstr("and 2 are given for 4"));
    EXPECT_THAT(error_of("pp=2,layers=6,vpp=2"), HasSubstr("and 1 is given for 4"));
    EXPECT_THAT(error_of("pp=2,vpp=1,layers=1-2-3-4"), HasSubstr("and 4 are given for 2"));
    EXPECT_EQ(parse_parallel_config("pp=2,layers=1-2-3-4").layers->counts.size(),
              4u);  // vpp is open
    EXPECT_THAT(error_of("dp=4,ep=3"), HasSubstr("dp=4 is no multiple of ep=3"));
    EXPECT_THAT(error_of("vpp=65"), HasSubstr("expected a number from 1 to 64"));
    for (const char* const order :
         {"", "tp-dp", "tp-dp-pp-tp", "tp-tp-pp", "ep-tp-dp-pp", "tp-dp-xx", "tpdp-pp"}) {
        EXPECT_THAT(error_of(std::string("order=") + order), HasSubstr("each once, innermost"));
    }
}

}  // namespace
}  // namespace partita::search
