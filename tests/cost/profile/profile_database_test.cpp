// SPDX-License-Identifier: Apache-2.0
#include "cost/profile/profile_database.h"

#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/temporary_folder.h"

namespace partita::cost {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const DeviceKey kDevice{.model = "a core", .setting = "threads=1"};

Measurement measured(std::int64_t microseconds_taken, const std::string& date = "2026-11-22",
                     std::int64_t repetitions = 10) {
    const Time time = microseconds(microseconds_taken);
    return {.median = time,
            .lower = time - Time{1},
            .upper = time + Time{1},
            .repetitions = repetitions,
            .versions = "LibTorch 2.11.0",
            .date = date};
}

MeasuredWork row(const std::string& text, Measurement time) {
    return {.signature = {.family = "forward Relu.14", .text = "forward Relu.14 " + text},
            .type = "Relu",
            .phase = Phase::forward,
            .flops = Flops(7),
            .bytes = Bytes(56),
            .dtype = graph::DType::float16,
            .matrix_product = true,
            .time = std::move(time)};
}

class ProfileDatabaseTest : public ::testing::Test {
protected:
    [[nodiscard]] std::filesystem::path file() const { return folder_.path() / "profile.sqlite"; }

    void run_sql(const std::string& sql) const {
        sqlite3* handle = nullptr;
        ASSERT_EQ(sqlite3_open(file().c_str(), &handle), SQLITE_OK);
        ASSERT_EQ(sqlite3_exec(handle, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
            << sqlite3_errmsg(handle);
        sqlite3_close(handle);
    }

    /// The message with which the file is refused; "" when it is not.
    [[nodiscard]] std::string refusal() const {
        try {
            const ProfileDatabase database = ProfileDatabase::open(file());
            for (const DeviceKey& key : database.devices()) static_cast<void>(database.read(key));
        } catch (const InputError& error) {
            return error.what();
        }
        return "";
    }

    TemporaryFolder folder_;
};

TEST_F(ProfileDatabaseTest, GivesBackWhatWasAdded) {
    std::vector<MeasuredWork> works = {row("[1]", measured(3)), row("[2]", measured(5)),
                                       row("[3]", measured(7))};
    works[1].matrix_product = false;
    works[2].product_type = graph::ProductType::float8;
    const std::vector<MeasuredTransfer> transfers = {
        {.copy = true, .bytes = Bytes(64), .variant = "threads", .time = measured(1)},
        {.kind = Collective::reduce_scatter,
         .ranks = 4,
         .nodes = 2,
         .bytes = Bytes(1 << 20),
         .dtype = graph::DType::bfloat16,
         .variant = "nccl",
         .time = measured(9)}};
    {
        ProfileDatabase database = ProfileDatabase::create(file());
        database.add(kDevice, works);
        database.add(kDevice, transfers);
    }
    const ProfileDatabase database = ProfileDatabase::open(file());
    EXPECT_EQ(database.devices(), std::vector{kDevice});
    const DeviceProfile found = database.read(kDevice);
    EXPECT_EQ(found.works, works);
    EXPECT_EQ(found.transfers, transfers);
    EXPECT_THAT(database.read({.model = "a core", .setting = ""}).works, IsEmpty());
}

TEST_F(ProfileDatabaseTest, KeepsTheNewerOfTwoRowsWhicheverComesFirst) {
    const MeasuredWork older = row("[1]", measured(3, "2026-11-20T10:00:00Z", 100));
    const MeasuredWork newer = row("[1]", measured(4, "2026-11-21T10:00:00Z", 5));
    const MeasuredWork surer = row("[1]", measured(6, "2026-11-21T10:00:00Z", 50));
    for (const auto& order : {std::vector{older, newer, surer}, std::vector{surer, older, newer},
                              std::vector{newer, surer, older}}) {
        std::filesystem::remove(file());
        ProfileDatabase database = ProfileDatabase::create(file());
        for (const MeasuredWork& work : order) database.add(kDevice, {&work, 1});
        EXPECT_EQ(database.read(kDevice).works, std::vector{surer});
    }
}

// As a process leaves it that dies in a transaction. Reading cannot undo that.
TEST_F(ProfileDatabaseTest, SaysWhatToDoAboutAJournal) {
    const std::filesystem::path other = folder_.path() / "copy.sqlite";
    {
        ProfileDatabase database = ProfileDatabase::create(file());
        std::vector<MeasuredWork> rows;
        for (int i = 0; i < 500; ++i) rows.push_back(row(std::to_string(i), measured(3)));
        database.add(kDevice, rows);
    }
    sqlite3* handle = nullptr;
    ASSERT_EQ(sqlite3_open(file().c_str(), &handle), SQLITE_OK);
    for (const char* sql : {"PRAGMA cache_size = 1", "PRAGMA cache_spill = 1", "BEGIN",
                            "UPDATE works SET repetitions = repetitions + 1"}) {
        ASSERT_EQ(sqlite3_exec(handle, sql, nullptr, nullptr, nullptr), SQLITE_OK)
            << sqlite3_errmsg(handle);
    }
    std::filesystem::copy(file(), other);
    std::filesystem::copy(file().string() + "-journal", other.string() + "-journal");
    sqlite3_close(handle);
    try {
        (void)ProfileDatabase::open(other);
        FAIL() << "accepted";
    } catch (const InputError& error) {
        EXPECT_THAT(error.what(), HasSubstr("copy.sqlite-journal is there to undo that"));
    }
    EXPECT_THAT(ProfileDatabase::create(other).read(kDevice).works, SizeIs(500));
}

TEST_F(ProfileDatabaseTest, TwoProcessesWriteAtOnceAndLoseNothing) {
    constexpr int kWriters = 4;
    constexpr int kRows = 40;
    std::vector<pid_t> writers;
    for (int w = 0; w < kWriters; ++w) {
        writers.push_back(fork());
        ASSERT_GE(writers.back(), 0);
        if (writers.back() > 0) continue;
        try {
            ProfileDatabase database = ProfileDatabase::create(file());
            for (int i = 0; i < kRows; ++i) {
                const std::vector<MeasuredWork> rows = {
                    row(std::to_string(w) + ":" + std::to_string(i), measured(1 + i)),
                    row("all", measured(1 + i))};
                database.add(kDevice, rows);
            }
        } catch (const std::exception&) {
            _exit(1);
        }
        _exit(0);
    }
    for (const pid_t writer : writers) {
        int status = 0;
        ASSERT_EQ(waitpid(writer, &status, 0), writer);
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    EXPECT_THAT(ProfileDatabase::open(file()).read(kDevice).works, SizeIs(kWriters * kRows + 1));
}

TEST_F(ProfileDatabaseTest, ReadingCreatesNothing) {
    EXPECT_THAT(refusal(), HasSubstr("profile.sqlite: there is no such file"));
    ProfileDatabase::create(file());
    std::filesystem::permissions(file(), std::filesystem::perms::owner_read);
    EXPECT_EQ(refusal(), "");
    const std::filesystem::directory_iterator files(folder_.path());
    EXPECT_EQ(std::distance(begin(files), end(files)), 1);
}

TEST_F(ProfileDatabaseTest, RefusesWhatIsNoDatabase) {
    std::ofstream(file()) << "an ordinary text, as long as the header of a database would be: "
                             "one hundred bytes and more than that";
    EXPECT_THAT(refusal(), HasSubstr("is no profile database"));
    EXPECT_THROW(ProfileDatabase::create(file()), InputError);
    std::ofstream(file(), std::ios::trunc).close();
    EXPECT_THAT(refusal(), HasSubstr("is no profile database"));
    run_sql("CREATE TABLE people (name TEXT)");
    EXPECT_THAT(refusal(), HasSubstr("is no profile database"));
    EXPECT_THROW(ProfileDatabase::create(file()), InputError);
}

TEST_F(ProfileDatabaseTest, RefusesANewerVersion) {
    ProfileDatabase::create(file());
    run_sql("PRAGMA user_version = 2");
    EXPECT_THAT(refusal(), HasSubstr("of version 2, this program knows version 1"));
    EXPECT_THROW(ProfileDatabase::create(file()), InputError);
}

TEST_F(ProfileDatabaseTest, RefusesADamagedFile) {
    {
        ProfileDatabase database = ProfileDatabase::create(file());
        std::vector<MeasuredWork> rows;
        for (int i = 0; i < 500; ++i) rows.push_back(row(std::to_string(i), measured(1)));
        database.add(kDevice, rows);
    }
    const auto size = static_cast<std::streamoff>(std::filesystem::file_size(file()));
    std::fstream bytes(file(), std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(size / 2);
    bytes << std::string(static_cast<std::size_t>(size / 3), '\xA5');
    bytes.close();
    EXPECT_THAT(refusal(), HasSubstr("is damaged"));
}

TEST_F(ProfileDatabaseTest, RefusesOtherTablesAndViews) {
    ProfileDatabase::create(file());
    run_sql("DROP TABLE works; CREATE VIEW works AS SELECT * FROM transfers");
    EXPECT_THAT(refusal(), HasSubstr("table works: is not as this program writes it"));
    std::filesystem::remove(file());
    ProfileDatabase::create(file());
    run_sql("CREATE TABLE zoo (name TEXT)");
    EXPECT_THAT(refusal(), HasSubstr("has more tables"));
}

TEST_F(ProfileDatabaseTest, RefusesValuesOfTheWrongKind) {
    for (const char* wrong :
         {"median_ps = 0", "median_ps = 'soon'", "phase = 'sideways'", "dtype = 'float7'",
          "bytes = -1", "matrix_product = 4", "repetitions = 0", "family = 7", "date = 20261122"}) {
        std::filesystem::remove(file());
        const MeasuredWork good = row("[1]", measured(1));
        ProfileDatabase::create(file()).add(kDevice, {&good, 1});
        EXPECT_EQ(refusal(), "");
        run_sql(std::string("UPDATE works SET ") + wrong);
        const std::string column = std::string(wrong).substr(0, std::string(wrong).find(' '));
        // The column's affinity makes numbers of texts where it can, and the other way round.
        if (refusal().empty()) {
            EXPECT_TRUE(column == "family" || column == "date") << wrong;
        } else {
            EXPECT_THAT(refusal(), HasSubstr("column " + column + ": expected")) << wrong;
        }
    }
}

TEST_F(ProfileDatabaseTest, OfAMachineIsReadByTheDevicesItHas) {
    Device core;
    core.name = "cpu0";
    core.model = "a core";
    core.kind = DeviceKind::cpu;
    core.memory = Bytes(1);
    core.memory_bandwidth = core.vector_flops = 1;
    core.matrix_flops.fill(1);
    const Machine machine("one", {core}, {}, {});
    const MeasuredWork mine = row("[1]", measured(1, "2026-11-20T10:00:00Z"));
    const MeasuredWork other = row("[1]", measured(2, "2026-11-23T10:00:00Z"));
    ProfileDatabase database = ProfileDatabase::create(file());
    database.add(kDevice, {&mine, 1});
    database.add({.model = "another core", .setting = "threads=1"}, {&other, 1});
    const Profile profile = read_profile(file(), machine);
    EXPECT_EQ(profile.file, "profile.sqlite");
    EXPECT_EQ(profile.date, "2026-11-20");
    ASSERT_THAT(profile.devices, SizeIs(1));
    EXPECT_EQ(profile.find(device_key(core))->works, std::vector{mine});
}

TEST(UtcDate, CountsFromTheEpoch) {
    EXPECT_EQ(utc_date(0), "1970-01-01T00:00:00Z");
    EXPECT_EQ(utc_date(1'795'357'805), "2026-11-22T14:30:05Z");
}

}  // namespace
}  // namespace partita::cost
