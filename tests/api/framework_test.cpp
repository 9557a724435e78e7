// SPDX-License-Identifier: Apache-2.0
#include "api/framework.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <functional>
#include <string>

#include "api/plan_options.h"
#include "base/error.h"
#include "cost/machine/data_folder.h"
#include "tests/support/paths.h"

#include <partita/model.h>

namespace partita::api {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr const char* kFramework = R"({
    "format": "partita-framework", "version": 1, "name": "own", "summary": "a test",
    "fuse": ["swiglu"], "attention": "products", "gradients": "weights",
    "bucket_bytes": 1000, "host_time": "45us", "clip_norm": 0.5, "strategy": "zero=2,tp=1",
    "sources": {"fuse": "a", "attention": "b", "gradients": "c", "bucket_bytes": "d",
                "host_time": "f", "clip_norm": "g", "strategy": "e"},
    "not_modelled": ["it rests on Sundays"]})";

/// With one text instead of another.
std::string changed(const std::string& from, const std::string& to) {
    std::string text = kFramework;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
}

std::string fault(const std::function<void()>& act) {
    try {
        act();
    } catch (const std::exception& error) {
        return error.what();
    }
    return "";
}

TEST(Framework, SaysWhatItsFileSays) {
    const Framework framework = parse_framework(kFramework, "own.json");
    EXPECT_EQ(framework.name, "own");
    EXPECT_THAT(framework.fuse, ElementsAre("swiglu"));
    EXPECT_EQ(framework.fused_attention, false);
    EXPECT_FALSE(framework.float32_gradients);
    EXPECT_EQ(framework.bucket_bytes, Bytes{1000});
    EXPECT_EQ(framework.clip_norm, 0.5);
    EXPECT_EQ(parse_framework(changed("0.5", R"("none")"), "own.json").clip_norm, 0.0);
    ASSERT_TRUE(framework.host_time);
    EXPECT_EQ(framework.host_time->kernel, Time(45'000'000));
    EXPECT_EQ(framework.strategy, "tp=1,zero=2");
    EXPECT_EQ(note_of(framework), "Framework own: a test.");
    EXPECT_THAT(details_of(framework),
                ElementsAre("Not so in plans for own: it rests on Sundays."));
}

TEST(Framework, NamesTheFieldThatIsWrong) {
    const auto of = [](const std::string& text) {
        return fault([&] { (void)parse_framework(text, "own.json"); });
    };
    EXPECT_THAT(of(changed("partita-framework", "partita-plan")), HasSubstr("own.json: format:"));
    EXPECT_THAT(of(changed("\"version\": 1", "\"version\": 2")), HasSubstr("version: expected 1"));
    EXPECT_THAT(of(changed("\"products\"", "\"flash\"")),
                HasSubstr("attention: expected \"fused\" or \"products\""));
    EXPECT_THAT(of(changed("1000", "0")), HasSubstr("bucket_bytes: expected an amount of bytes"));
    EXPECT_THAT(of(changed("1000", "\"some\"")), HasSubstr("bucket_bytes: expected an amount"));
    EXPECT_THAT(of(changed("0.5", "0")),
                HasSubstr("clip_norm: expected a norm above 0 and at most 1e9"));
    EXPECT_THAT(of(changed("0.5", "\"all\"")), HasSubstr("clip_norm: expected a norm above 0"));
    EXPECT_THAT(of(changed("45us", "45")), HasSubstr("host_time: expected times of at most 1 ms"));
    EXPECT_THAT(of(changed("zero=2", "zero=7")), HasSubstr("strategy: strategy zero=7,tp=1"));
    EXPECT_THAT(of(changed("[\"swiglu\"]", "[1]")), HasSubstr("fuse[0]: expected a kernel"));
    EXPECT_THAT(of(changed("\"fuse\": \"a\", ", "")), HasSubstr("sources.fuse: expected where"));
    EXPECT_THAT(of(changed("\"fuse\": [\"swiglu\"], ", "")),
                HasSubstr("sources.fuse: is the source of a field that is not there"));
    EXPECT_THAT(of(changed("summary", "sumary")), HasSubstr("sumary"));
}

TEST(Framework, OfTheRepositoryAreWellFormed) {
    int count = 0;
    for (const auto& entry :
         std::filesystem::directory_iterator(cost::data_folder() / "frameworks")) {
        const std::filesystem::path name = entry.path().stem();
        EXPECT_EQ(load_framework(name).name, name);
        EXPECT_EQ(load_framework(entry.path()).name, name) << "by its file";
        ++count;
    }
    EXPECT_EQ(count, 5);
    EXPECT_THAT(fault([] { (void)load_framework("pytorch"); }),
                HasSubstr("--framework pytorch: unknown. There is: ddp, deepspeed, fsdp, megatron, "
                          "partita; a file of your own ends in .json."));
}

TEST(Framework, GivesOptionsTheValuesThatNobodyGave) {
    PlanOptions options;
    options.mode = Mode::training;
    options.framework = "ddp";
    const PlanOptions completed = with_framework(options);
    EXPECT_EQ(completed.bucket_bytes, Bytes{25 << 20});
    EXPECT_EQ(completed.strategy, "tp=1,pp=1,cp=1,ep=1,zero=0");
    EXPECT_GT(completed.host_time.value().kernel, Time{0});
    options.host_time = HostTime{};
    options.bucket_bytes = Bytes{0};
    options.strategy = "dp=4,tp=2";
    const PlanOptions said = with_framework(options);
    EXPECT_EQ(said.bucket_bytes, Bytes{0});
    EXPECT_EQ(said.host_time.value().kernel, Time{0});
    EXPECT_EQ(said.strategy, "dp=4,tp=2,pp=1,cp=1,ep=1,zero=0");
    options.framework = "partita";
    EXPECT_EQ(with_framework(options).strategy, "dp=4,tp=2");
    EXPECT_EQ(with_framework(options).clip_norm, std::nullopt);
    options.framework = "megatron";
    EXPECT_EQ(with_framework(options).clip_norm, 1.0);
    options.clip_norm = 0;
    EXPECT_EQ(with_framework(options).clip_norm, 0.0);
}

TEST(Framework, IsNamedWhereItsFormIsRefused) {
    PlanOptions options;
    options.mode = Mode::training;
    options.framework = "megatron";
    options.searchers = {"mcmc"};
    EXPECT_EQ(
        fault([&] { check_form(with_framework(options), false); }),
        "--strategy layers=even with --framework megatron: searcher mcmc proposes other plans "
        "too. Leave --searcher out.");
}

class FrameworkOfAModel : public testing::Test {
protected:
    static Model load(const std::string& file, const ImportOptions& options) {
        ImportOptions bound = options;
        bound.batch = 1;
        return Model::load(tests::repository() / "examples/models" / file, bound);
    }
};

TEST_F(FrameworkOfAModel, FusesWhatTheModelHas) {
    const Model model = load("llama-3-70b-12-layers.onnx",
                             {.bindings = {{"sequence", 128}}, .framework = "megatron"});
    EXPECT_EQ(model.digest(), load("llama-3-70b-12-layers.onnx",
                                   {.bindings = {{"sequence", 128}}, .fuse = {"swiglu"}})
                                  .digest())
        << "attention is one op in the file, and there are no experts";
    EXPECT_THAT(model.notes(), testing::Contains(HasSubstr("Framework megatron:")));
}

TEST_F(FrameworkOfAModel, LeavesOutWhatTheModelHasNot) {
    const Model model = load("resnet50.onnx", {.framework = "megatron"});
    EXPECT_EQ(model.digest(), load("resnet50.onnx", {}).digest());
    EXPECT_THAT(fault([] { (void)load("resnet50.onnx", {.fuse = {"swiglu"}}); }), Not(IsEmpty()));
}

TEST_F(FrameworkOfAModel, PutsAttentionInBlocksWhereThatIsSaid) {
    const ImportOptions whole{.bindings = {{"sequence", 128}}};
    ImportOptions blocked = whole;
    blocked.attention_blocks = 4;
    const Model model = load("bert-base.onnx", blocked);
    EXPECT_NE(model.digest(), load("bert-base.onnx", whole).digest());
    EXPECT_THAT(model.notes(), testing::Contains(HasSubstr("12 Attention ops in 4 blocks each.")));
    EXPECT_TRUE(std::ranges::any_of(model.ops(),
                                    [](const OpInfo& op) { return op.type == "BlockAttention"; }));
    blocked.fused_attention = false;
    EXPECT_THAT(fault([&] { (void)load("bert-base.onnx", blocked); }),
                HasSubstr("is of fused attention, and products were asked for"));
    blocked.attention_blocks = 0;
    EXPECT_THAT(fault([&] { (void)load("bert-base.onnx", blocked); }),
                HasSubstr("--attention blocks=0: expected 1 to 4096 blocks"));
}

TEST_F(FrameworkOfAModel, GivesWayToWhatIsSaid) {
    const Model model =
        load("bert-base.onnx",
             {.bindings = {{"sequence", 128}}, .fused_attention = false, .framework = "ddp"});
    EXPECT_EQ(model.digest(), load("bert-base.onnx",
                                   {.bindings = {{"sequence", 128}},
                                    .fuse = {"gelu", "linear", "transposes", "unaligned-products"},
                                    .fused_attention = false,
                                    .float32_gradients = true})
                                  .digest());
}

}  // namespace
}  // namespace partita::api
