// SPDX-License-Identifier: Apache-2.0
//
// Strict reading of JSON: what is refused, and how a field names itself.
#include "base/json.h"
#include "base/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "base/error.h"

namespace partita {
namespace {

using testing::ElementsAre;
using testing::StartsWith;

std::string error_of(const std::function<void()>& action) {
    try {
        action();
    } catch (const InputError& error) {
        return error.what();
    }
    return "accepted";
}

std::string parse_error(const std::string& text) {
    return error_of([&] { const JsonFile file(text, "f.json"); });
}

TEST(Json, AFieldKnowsItsPlace) {
    const JsonFile file(R"({"b": [{"c": 1}, {"c": "two"}], "a": null})", "f.json");
    const JsonField c = file.root()["b"].items()[1]["c"];
    EXPECT_EQ(c.place(), "b[1].c");
    EXPECT_EQ(error_of([&] {
                  static_cast<void>(c.integer(0, 9, {"a digit", "Write 2."}));
              }),
              "f.json: b[1].c: expected a digit, got \"two\". Write 2.");
    EXPECT_EQ(error_of([&] { static_cast<void>(file.root()["x"].boolean()); }),
              "f.json: x: expected true or false, got nothing. Add it.");
    EXPECT_THAT(file.root().keys(), ElementsAre("a", "b"));
    EXPECT_TRUE(file.root()["a"].is_null());
    EXPECT_FALSE(file.root()["x"].present());
    EXPECT_EQ(c.called("(id 7)").place(), "b[1].c (id 7)");
}

TEST(Json, UnknownFieldsAreNamedWithTheKnownOnes) {
    const JsonFile file(R"({"links": {"bandwith": 1}})", "f.json");
    EXPECT_EQ(error_of([&] {
                  file.root()["links"].allow_only({"bandwidth", "mode"});
              }),
              "f.json: links.bandwith: unknown field. Known here: bandwidth, mode.");
}

TEST(Json, WholeNumbersMayHaveAnExponentButNoFraction) {
    const JsonFile file(R"([3e9, 2.5, 9223372036854775807, 9223372036854775808, -1e300, -0.0])",
                        "f.json");
    const auto items = file.root().items();
    const auto integer = [&](std::size_t i) {
        return items[i].integer(std::numeric_limits<std::int64_t>::min(),
                                std::numeric_limits<std::int64_t>::max(), {"a whole number"});
    };
    EXPECT_EQ(integer(0), 3'000'000'000);
    EXPECT_THROW(integer(1), InputError);
    EXPECT_EQ(integer(2), std::numeric_limits<std::int64_t>::max());
    EXPECT_THROW(integer(3), InputError);
    EXPECT_THROW(integer(4), InputError);
    EXPECT_EQ(integer(5), 0);
}

TEST(Json, BrokenTextsAreRefused) {
    EXPECT_THAT(parse_error(""), StartsWith("f.json: no JSON: line 1, column 1: "));
    EXPECT_THAT(parse_error("[1,\n 2"), StartsWith("f.json: no JSON: line 2, column 3: "));
    EXPECT_THAT(parse_error("[1] 2"), StartsWith("f.json: no JSON: line 1, column 5: "));
    EXPECT_THAT(parse_error("[NaN]"), StartsWith("f.json: no JSON: "));
    EXPECT_THAT(parse_error("[1e999]"), StartsWith("f.json: no JSON: "));
    EXPECT_EQ(parse_error(R"({"a": 1, "b": 2, "a": 3})"),
              "f.json: the field \"a\" stands twice in one object. Correct the file.");
}

// Two bytes of text each would take twenty times as much memory.
TEST(Json, ValuesAreCounted) {
    const auto list_of = [](std::size_t count) {
        std::string text = "[0";
        text.reserve(2 * count + 1);
        for (std::size_t i = 1; i < count; ++i) text += ",0";
        return text + "]";
    };
    constexpr std::size_t kMost = std::size_t{1} << 24;
    EXPECT_EQ(parse_error(list_of(kMost)), "f.json: more than 16777216 values. Correct the file.");
}

TEST(Json, ThirtyTwoLevelsAreTheMost) {
    const auto nested = [](int levels) {
        return std::string(static_cast<std::size_t>(levels), '[') +
               std::string(static_cast<std::size_t>(levels), ']');
    };
    EXPECT_EQ(parse_error(nested(32)), "accepted");
    EXPECT_EQ(parse_error(nested(33)), "f.json: more than 32 levels of [ and {. Correct the file.");
}

TEST(Json, LongValuesAreShortenedInMessages) {
    const JsonFile file(
        "[\"" + std::string(1'000, 'x') + "\", [" + std::string(5'000, ' ') + "1, 2, 3]]",
        "f.json");
    const auto items = file.root().items();
    EXPECT_EQ(error_of([&] { items[0].fail({"less"}); }),
              "f.json: [0]: expected less, got \"" + std::string(59, 'x') + ".... Correct it.");
    EXPECT_EQ(error_of([&] { items[1].fail({"less"}); }),
              "f.json: [1]: expected less, got [1, 2, 3]. Correct it.");
}

TEST(Json, UnreadableFilesAreNamed) {
    EXPECT_EQ(error_of([] { static_cast<void>(read_text_file("no/such/file.json")); }),
              "no/such/file.json: cannot be read: No such file or directory. Check the path.");
    EXPECT_EQ(error_of([] { static_cast<void>(read_text_file(".")); }),
              ".: cannot be read: it is a folder. Check the path.");
}

TEST(Json, QuotingReplacesWhatIsNotUtf8) {
    EXPECT_EQ(json_quoted("a\"\n\xc3\xa9"), "\"a\\\"\\n\xc3\xa9\"");
    EXPECT_EQ(json_quoted("\xff"), "\"\xef\xbf\xbd\"");
}

RC_GTEST_PROP(JsonProperty, NumbersAndTextsReadBackUnchanged, ()) {
    const double number =
        *rc::gen::suchThat(rc::gen::arbitrary<double>(), [](double x) { return std::isfinite(x); });
    const auto text = *rc::gen::container<std::string>(rc::gen::inRange<char>(0, 127));
    const JsonFile file("[" + json_number(number) + "," + json_quoted(text) + "]", "f.json");
    const auto items = file.root().items();
    constexpr double kMost = std::numeric_limits<double>::max();
    RC_ASSERT(items[0].number(-kMost, kMost, {"a number"}) == number);
    RC_ASSERT(items[1].text({"a text"}) == text);
}

}  // namespace
}  // namespace partita
