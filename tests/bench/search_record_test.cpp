// SPDX-License-Identifier: Apache-2.0
#include "bench/search_record.h"
#include "base/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "plan/files/plan_file.h"
#include "tests/support/temporary_folder.h"

namespace partita::bench {
namespace {

using testing::ElementsAreArray;
using testing::HasSubstr;

SearchRecord record(std::uint64_t seed) {
    SearchRecord r;
    r.date = "2026-11-22";
    r.of = {.network = "alexnet",
            .devices = 16,
            .samples_per_gpu = 256,
            .searcher = "mcmc",
            .seed = seed,
            .threads = 2,
            .seconds = 0.1,
            .most_evaluations = 500,
            .problem = "45a5c6600acb"};
    r.data_parallel = Time{52'140'000'000};
    r.heuristics = Time{45'230'000'000};
    r.heuristics_seconds = 0.3;
    r.lower_bound = Time{37'800'000'000};
    r.value = Time{41'770'000'000};
    r.evaluations = 499;
    r.elapsed = 0.097;
    r.trajectory = {{0.001, Time{60'000'000'000}},
                    {0.021, Time{42'000'000'000}},
                    {0.055, Time{41'770'000'000}}};
    return r;
}

std::string message_of(const std::string& text) {
    try {
        records_from_csv(text, "search_times.csv");
    } catch (const InputError& error) {
        return error.what();
    }
    return "no error";
}

TEST(SearchRecord, IsReadAsItWasWritten) {
    std::vector<SearchRecord> records{record(1), record(2)};
    records[1].trajectory.clear();
    EXPECT_THAT(records_from_csv(to_csv(records), "f"), ElementsAreArray(records));
    EXPECT_THAT(records_from_csv(to_csv({}), "f"), testing::IsEmpty());
}

TEST(SearchRecord, OtherFilesAndDamagedLinesAreRefused) {
    EXPECT_THAT(message_of("a,b\n1,2\n"),
                HasSubstr("search_times.csv, line 1: expected the header"));
    const std::string good = to_csv(std::vector{record(1)});
    EXPECT_THAT(message_of(good + "2026-11-22,alexnet\n"), HasSubstr("line 3: fewer fields"));
    std::string bad = good;
    bad.replace(bad.find("0.021:"), 6, "0.021;");
    EXPECT_THAT(message_of(bad), HasSubstr("line 2: expected a number, got '0.021;42000000000'"));
}

TEST(SearchRecord, EveryFileOfTheFolderIsRead) {
    const TemporaryFolder folder;
    EXPECT_THAT(read_records(folder.path() / "none"), testing::IsEmpty());
    write_file(folder.path() / "search_times-2026-11-23.csv", to_csv(std::vector{record(2)}));
    write_file(folder.path() / "search_times-2026-11-22.csv", to_csv(std::vector{record(1)}));
    write_file(folder.path() / "auto_table.csv", "other");
    EXPECT_THAT(read_records(folder.path()), ElementsAreArray(std::vector{record(1), record(2)}));
}

TEST(SearchRecord, ReachesAShareWhenTheFirstImprovementIsWithinIt) {
    const SearchRecord r = record(1);
    EXPECT_EQ(seconds_to(r, r.value, 0.01), 0.021);
    EXPECT_EQ(seconds_to(r, r.value, 0.0), 0.055);
    EXPECT_EQ(seconds_to(r, r.value, 0.5), 0.001);
    EXPECT_EQ(seconds_to(r, Time{41'000'000'000}, 0.01), std::nullopt);
}

}  // namespace
}  // namespace partita::bench
