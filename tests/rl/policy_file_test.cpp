// SPDX-License-Identifier: Apache-2.0
#include "rl/policy_file.h"
#include "base/files.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include "base/error.h"
#include "base/json.h"
#include "base/sha256.h"
#include "tests/rl/rl_cases.h"
#include "tests/support/temporary_folder.h"

namespace partita::rl {
namespace {

using testing::HasSubstr;

class PolicyFile : public testing::Test {
protected:
    PolicyFile() {
        torch::manual_seed(5);
        net_ = std::make_shared<PolicyNet>(NetOptions{.hidden = 8});
        write_policy(file_, *net_);
        text_ = read_text_file(file_);
    }

    std::string message_of(const std::string& text) {
        std::ofstream(other_, std::ios::binary) << text;
        try {
            static_cast<void>(read_policy(other_));
        } catch (const InputError& error) {
            EXPECT_THAT(error.what(), HasSubstr(other_.string()));
            return error.what();
        }
        return "";
    }
    /// With a digest that is right again.
    std::string message_of_body(const std::string& body) {
        return message_of("partita-policy 2\ndigest " + Sha256().add(body).finish() + "\n" + body);
    }
    std::string body() const { return text_.substr(text_.find("features")); }

    TemporaryFolder folder_;
    std::filesystem::path file_ = folder_.path() / "a.policy";
    std::filesystem::path other_ = folder_.path() / "b.policy";
    std::shared_ptr<PolicyNet> net_;
    std::string text_;
};

TEST_F(PolicyFile, GivesBackTheSameBytesAndProbabilities) {
    const auto again = read_policy(file_);
    write_policy(other_, *again);
    EXPECT_EQ(read_text_file(other_), text_);

    search::Random random(1);
    Fixture f(support::random_network(random, 10), plan::switched_machine(2));
    Draws draws;
    draws.count = 3;
    Batch batch = f.sampler.sample(*net_, f.tensors(), draws, random);
    EXPECT_TRUE(
        net_->score(f.tensors(), batch.episodes)
            .log_probability.equal(again->score(f.tensors(), batch.episodes).log_probability));
}

TEST_F(PolicyFile, RefusesWhatWasChangedOrCutAnywhere) {
    for (std::size_t at = 0; at < text_.size(); at += 97) {
        std::string changed = text_;
        changed[at] = static_cast<char>(changed[at] ^ 1);
        EXPECT_NE(message_of(changed), "") << at;
        EXPECT_NE(message_of(text_.substr(0, at)), "") << at;
    }
    EXPECT_THAT(message_of(text_ + "x"), HasSubstr("digest"));
}

TEST_F(PolicyFile, SaysWhatIsWrong) {
    const auto with = [&](const std::string& from, const std::string& to) {
        std::string changed = body();
        changed.replace(changed.find(from), from.size(), to);
        return message_of_body(changed);
    };
    EXPECT_EQ(message_of_body(body()), "");
    EXPECT_THAT(with("features 1", "features 999"), HasSubstr("its features have version 999"));
    EXPECT_THAT(with("hidden 8", "hidden 1000000"), HasSubstr("hidden 1000000 is out of range"));
    EXPECT_THAT(with("hidden 8", "hidden 9"), HasSubstr("hidden is odd"));
    EXPECT_THAT(with("hidden 8", "hidden 10"), HasSubstr("expected 'tensor"));
    EXPECT_THAT(with("groups 0", "layers 0"), HasSubstr("expected 'groups N'"));
    EXPECT_THAT(message_of_body(body() + "1234"), HasSubstr("another size"));
    EXPECT_THAT(message_of("{}"), HasSubstr("no policy of this version"));
    std::string nan = body();
    nan.replace(nan.size() - 4, 4, std::string("\xff\xff\xff\x7f", 4));
    EXPECT_THAT(message_of_body(nan), HasSubstr("not finite"));
    EXPECT_THROW(static_cast<void>(read_policy("/no/such/file.policy")), InputError);
}

}  // namespace
}  // namespace partita::rl
