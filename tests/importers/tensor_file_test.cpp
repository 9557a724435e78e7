// SPDX-License-Identifier: Apache-2.0
#include "importers/onnx/tensor_file.h"

#include <cstring>
#include <filesystem>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files.h"
#include "tests/support/temporary_folder.h"

namespace partita::importers {
namespace {

using graph::DType;
using graph::HostTensor;
using testing::ElementsAre;
using testing::HasSubstr;

HostTensor tensor(std::string name, DType dtype, graph::Shape shape) {
    graph::Tensor sized;
    sized.dtype = dtype;
    sized.shape = shape;
    HostTensor tensor{std::move(name), dtype, std::move(shape), {}};
    for (std::int64_t i = 0; i < sized.bytes().raw(); ++i) {
        tensor.bytes.push_back(static_cast<std::byte>(7 * i + 1));
    }
    return tensor;
}

std::string header(const std::string& dict) {
    std::string text = "\x93NUMPY";
    text += {'\x01', '\x00', static_cast<char>(dict.size() + 1), '\x00'};
    return text + dict + '\n';
}

std::string error_of(const std::string& bytes) {
    std::istringstream stream(bytes);
    try {
        (void)parse_tensor_file(stream, "x.npy");
    } catch (const InputError& error) {
        return error.what();
    }
    return "";
}

TEST(TensorFile, ArraysComeBackAsTheyWere) {
    const TemporaryFolder folder;
    for (const DType dtype :
         {DType::float32, DType::float64, DType::float16, DType::boolean, DType::int8, DType::int16,
          DType::int32, DType::int64, DType::uint8, DType::uint16, DType::uint32, DType::uint64,
          DType::complex64, DType::complex128}) {
        for (const graph::Shape& shape : {graph::Shape{}, {3}, {0, 2}, {2, 3, 4}}) {
            const std::vector<HostTensor> tensors = {tensor("t", dtype, shape)};
            const auto files = write_tensor_files(folder.path() / "out", tensors);
            ASSERT_THAT(files, ElementsAre(folder.path() / "out" / "t.npy"));
            const HostTensor read = read_tensor_file(files[0]);
            EXPECT_EQ(read.dtype, dtype);
            EXPECT_EQ(read.shape, shape);
            EXPECT_EQ(read.bytes, tensors[0].bytes);
        }
    }
}

// The bytes are those of numpy.save().
TEST(TensorFile, ArraysAreNumpys) {
    const TemporaryFolder folder;
    HostTensor numbers{"x", DType::float32, {3}, std::vector<std::byte>(12)};
    const float values[] = {1, 2, 3};
    std::memcpy(numbers.bytes.data(), values, sizeof values);
    const std::vector<HostTensor> tensors = {numbers};
    const std::string bytes = read_text_file(write_tensor_files(folder.path(), tensors)[0]);
    const std::string dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }";
    std::string expected = "\x93NUMPY";
    expected += {'\x01', '\x00', '\x76', '\x00'};
    expected += dict + std::string(117 - dict.size(), ' ') + '\n';
    EXPECT_EQ(bytes.substr(0, 128), expected);
    EXPECT_EQ(bytes.size(), 128u + 12u);
}

TEST(TensorFile, WhatNumpyLacksIsWidenedOrATensorOfOnnx) {
    const TemporaryFolder folder;
    HostTensor narrow = tensor("narrow", DType::bfloat16, {2});
    narrow.bytes = {std::byte{0x80}, std::byte{0x3F}, std::byte{0x00}, std::byte{0xC0}};
    const std::vector<HostTensor> tensors = {narrow, tensor("small", DType::float8e4m3fn, {3})};
    const auto files = write_tensor_files(folder.path(), tensors);
    ASSERT_THAT(files, ElementsAre(folder.path() / "narrow.npy", folder.path() / "output_1.pb"));
    const HostTensor wide = read_tensor_file(files[0]);
    EXPECT_EQ(wide.dtype, DType::float32);
    std::vector<float> values(2);
    std::memcpy(values.data(), wide.bytes.data(), 8);
    EXPECT_THAT(values, ElementsAre(1.0F, -2.0F));
    EXPECT_EQ(read_tensor_file(files[1]).bytes, tensors[1].bytes);
}

TEST(TensorFile, NamesOfTensorsMayBeAnything) {
    const TemporaryFolder folder;
    const std::vector<HostTensor> tensors = {
        tensor("a/b", DType::int8, {1}),  tensor("a b", DType::int8, {2}),
        tensor("../x", DType::int8, {3}), tensor("a-b_5", DType::int8, {4}),
        tensor("a-b", DType::int8, {5}),  tensor("a-b", DType::int8, {6})};
    EXPECT_THAT(write_tensor_files(folder.path(), tensors),
                ElementsAre(folder.path() / "a_b.npy", folder.path() / "a_b_1.npy",
                            folder.path() / ".._x.npy", folder.path() / "a-b_5.npy",
                            folder.path() / "a-b.npy", folder.path() / "a-b_6.npy"));
}

TEST(TensorFile, WhatIsNoArrayOfNumbersIsRefused) {
    const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }";
    EXPECT_EQ(error_of(header(good) + "abcd"), "");
    EXPECT_THAT(error_of(""), HasSubstr("x.npy: expected an array of numpy's"));
    EXPECT_THAT(error_of("something else that is long"), HasSubstr("expected an array of numpy's"));
    EXPECT_THAT(error_of(header(good).substr(0, 40)), HasSubstr("ends inside of its header"));
    EXPECT_THAT(error_of(header(good) + "abc"), HasSubstr("expected 4 bytes of data"));
    EXPECT_THAT(
        error_of(header("{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }") + "abcd"),
        HasSubstr("numpy.save(file, numpy.ascontiguousarray(array))"));
    for (const char* const type : {"'>f4'", "'|O'", "'<U3'", "[('a', '<f4')]", "'<f'", "'<f44'"}) {
        const std::string dict =
            std::string("{'descr': ") + type + ", 'fortran_order': False, 'shape': (1,), }";
        EXPECT_THAT(error_of(header(dict) + "abcd"), HasSubstr("expected an array of numbers"))
            << type;
    }
    for (const char* const shape : {"3", "(a,)", "(-1,)", "(1", "(99999999999999999999,)"}) {
        const std::string dict =
            std::string("{'descr': '<f4', 'fortran_order': False, 'shape': ") + shape;
        EXPECT_THAT(error_of(header(dict) + "abcd"), HasSubstr("expected a shape")) << shape;
    }
    EXPECT_THAT(error_of(header("{'descr': '<f4', 'fortran_order': False}")),
                HasSubstr("its header has no shape"));
}

}  // namespace
}  // namespace partita::importers
