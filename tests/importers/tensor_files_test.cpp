// SPDX-License-Identifier: Apache-2.0
#include "importers/onnx/tensor_files.h"

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files.h"
#include "importers/onnx/tensor_file.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"

namespace partita::importers {
namespace {

using graph::DType;
using graph::HostTensor;
using testing::ElementsAre;
using testing::HasSubstr;

/// Two archives of numpy 2.4.6 with the same arrays, int64 [3, 1, 2] and float32 [[0, 1, 2], [3, 4, 5]]:
/// savez(tokens=, **{"layer/x": }) and savez_compressed(first, second).
const std::filesystem::path kArchives = tests::repository() / "tests/data/npz";

std::vector<HostTensor> read(const std::filesystem::path& place,
                             const std::vector<std::string>& names) {
    return TensorFiles(place).read("input", names);
}

void expect_both(const std::vector<HostTensor>& tensors) {
    ASSERT_EQ(tensors.size(), 2U);
    EXPECT_EQ(tensors[0].dtype, DType::int64);
    std::vector<std::int64_t> tokens(3);
    ASSERT_EQ(tensors[0].bytes.size(), 24U);
    std::memcpy(tokens.data(), tensors[0].bytes.data(), 24);
    EXPECT_THAT(tokens, ElementsAre(3, 1, 2));
    EXPECT_EQ(tensors[1].dtype, DType::float32);
    EXPECT_THAT(tensors[1].shape, ElementsAre(2, 3));
    std::vector<float> values(6);
    ASSERT_EQ(tensors[1].bytes.size(), 24U);
    std::memcpy(values.data(), tensors[1].bytes.data(), 24);
    EXPECT_THAT(values, ElementsAre(0, 1, 2, 3, 4, 5));
}

std::string error_of(const std::filesystem::path& place) {
    try {
        const TensorFiles files(place);
    } catch (const InputError& error) {
        return error.what();
    }
    return "";
}

TEST(TensorFiles, AnArchiveHasArraysByName) {
    expect_both(read(kArchives / "named.npz", {"tokens", "layer/x"}));
    EXPECT_THAT(read(kArchives / "named.npz", {"others"}), ElementsAre());
}

TEST(TensorFiles, AnArchiveHasArraysByNumber) {
    expect_both(read(kArchives / "numbered.npz", {"tokens", "layer/x"}));
    // Outputs that are expected have names.
    EXPECT_THAT(TensorFiles(kArchives / "numbered.npz").read("output"), ElementsAre());
}

TEST(TensorFiles, AFolderHasThemByNumberOrName) {
    const TemporaryFolder folder;
    const auto tokens = read(kArchives / "named.npz", {"tokens"});
    std::vector<HostTensor> named = tokens;
    named[0].name = "../x";
    write_tensor_files(folder.path(), named);
    EXPECT_TRUE(read(folder.path(), {"a"}).empty());
    const auto found = read(folder.path(), {"../x"});
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].bytes, tokens[0].bytes);
    std::filesystem::rename(folder.path() / array_file_name("../x"), folder.path() / "input_0.npy");
    EXPECT_EQ(read(folder.path(), {"a"}).size(), 1U);
}

TEST(TensorFiles, WhatIsNoArchiveIsRefused) {
    const TemporaryFolder folder;
    const std::filesystem::path file = folder.path() / "x.npz";
    EXPECT_THAT(error_of(file), HasSubstr("x.npz: No such file. Write it again: numpy.savez("));
    write_file(file, "no archive");
    EXPECT_THAT(error_of(file), HasSubstr("x.npz: Not a zip archive. Write it again"));
    const std::string good = read_text_file(kArchives / "named.npz");
    write_file(file, good.substr(0, good.size() / 2));
    EXPECT_THAT(error_of(file), HasSubstr("x.npz: Not a zip archive"));
    // Bytes of an array that are not those of its checksum.
    std::string other = good;
    other[good.find("tokens.npy") + 150] ^= 1;
    write_file(file, other);
    EXPECT_THAT(error_of(file), HasSubstr("x.npz: tokens.npy: CRC error"));
    EXPECT_EQ(error_of(folder.path()), "");
    EXPECT_EQ(error_of(folder.path() / "none"), "");
}

}  // namespace
}  // namespace partita::importers
