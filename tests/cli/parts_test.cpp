// SPDX-License-Identifier: Apache-2.0
//
// The small parts of the program that can be tested without running it.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "cli/table.h"
#include "cli/timeline_picture.h"
#include "cost/machine/machine_file.h"

namespace partita::cli {
namespace {

TEST(Table, AlignsColumnsAndLeavesNoTrailingSpaces) {
    Table table({{.title = "name"}, {.title = "ops", .align = Align::right}, {.title = "note"}});
    table.add_row({"a", "1", ""});
    table.add_row({"größer", "1,000", "x"});
    EXPECT_EQ(table.to_text(),
              "name      ops  note\n"
              "a           1\n"
              "größer  1,000  x\n");
}

TEST(Table, ShortensFromEitherEndWithoutCuttingACharacter) {
    EXPECT_EQ(shortened("short", 8), "short");
    EXPECT_EQ(shortened("/a/long/name", 8), "..g/name");
    EXPECT_EQ(shortened("ääääää", 5), "..äää");
    EXPECT_EQ(beginning("short", 8), "short");
    EXPECT_EQ(beginning("/a/long/name", 8), "/a/lon..");
    EXPECT_EQ(beginning("ääääää", 5), "äää..");
}

TEST(Table, WritesNumbersForPeople) {
    EXPECT_EQ(with_commas(0), "0");
    EXPECT_EQ(with_commas(999), "999");
    EXPECT_EQ(with_commas(-1234567), "-1,234,567");
    EXPECT_EQ(count_of(1, "op"), "1 op");
    EXPECT_EQ(count_of(1000, "op"), "1,000 ops");
    EXPECT_EQ(percent(0.1234), "12.3 %");
}

}  // namespace
}  // namespace partita::cli
