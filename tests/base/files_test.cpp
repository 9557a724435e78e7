// SPDX-License-Identifier: Apache-2.0
//
// Files are written whole or not at all, and through nothing that somebody has prepared.
#include "base/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/support/temporary_folder.h"

namespace partita {
namespace {

TEST(WriteFile, GivesFilesTheModeThatIsAskedFor) {
    const TemporaryFolder folder;
    write_file(folder.path() / "plan.json", "text");
    std::ofstream(folder.path() / "other") << "text";
    EXPECT_EQ(std::filesystem::status(folder.path() / "plan.json").permissions(),
              std::filesystem::status(folder.path() / "other").permissions());
}

TEST(WriteFile, LeavesWhatIsNoFileWhereItIs) {
    const TemporaryFolder folder;
    const auto link = folder.path() / "nowhere";
    std::filesystem::create_symlink("/dev/null", link);
    write_file(link, "text");
    EXPECT_TRUE(std::filesystem::is_character_file(link));
}

TEST(WriteFile, GoesThroughNoFileThatWasPreparedAndLeavesNothingBehind) {
    const TemporaryFolder folder;
    const auto prepared = folder.path() / ("plan.json." + std::to_string(::getpid()) + ".tmp");
    std::filesystem::create_symlink(folder.path() / "victim", prepared);
    write_file(folder.path() / "plan.json", "text");
    EXPECT_FALSE(std::filesystem::exists(folder.path() / "victim"));
    EXPECT_TRUE(std::filesystem::is_regular_file(
        std::filesystem::symlink_status(folder.path() / "plan.json")));
    std::filesystem::create_directory(folder.path() / "folder");
    EXPECT_THROW(write_file(folder.path() / "folder", "text"), UsageError);
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
        names.push_back(entry.path().filename().string());
    }
    EXPECT_THAT(names,
                testing::UnorderedElementsAre("plan.json", "folder", prepared.filename().string()));
}

TEST(WriteFile, LeavesNothingBehindWhenItFails) {
    const TemporaryFolder own;
    const std::filesystem::path& folder = own.path();
    std::filesystem::create_directories(folder / "taken");
    EXPECT_THROW(write_file(folder / "missing" / "plan.json", "text"), UsageError);
    EXPECT_THROW(write_file(folder / "taken", "text"), UsageError) << "a folder is in the way";
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
    write_file(folder / "plan.json", "first");
    write_file(folder / "plan.json", "second");
    std::ifstream in(folder / "plan.json");
    EXPECT_EQ((std::stringstream() << in.rdbuf()).str(), "second");
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 2);
}

}  // namespace
}  // namespace partita
