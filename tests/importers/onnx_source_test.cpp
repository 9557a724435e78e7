// SPDX-License-Identifier: Apache-2.0
//
// The contents of tensors: inside the model's file, folded, and in files beside it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <span>

#include "base/error.h"
#include "tests/importers/onnx_fixtures.h"
#include "tests/support/temporary_folder.h"

namespace partita::importers {
namespace {

namespace fs = std::filesystem;
using graph::OpKind;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(OnnxSource, ReadsWhatTheFileHolds) {
    OnnxOptions options;
    options.batch = 1;
    const OnnxModel model = import_onnx(kSource / "examples/runnable/mlp/model.onnx", options);
    for (const graph::Op& op : model.graph.ops()) {
        if (op.kind != OpKind::parameter && op.kind != OpKind::constant) continue;
        const graph::Tensor& tensor = model.graph.tensor(op.outputs[0]);
        std::vector<std::byte> whole(static_cast<std::size_t>(tensor.bytes().raw()));
        model.source->read(tensor.name, Bytes(0), whole);
        std::vector<std::byte> tail(whole.size() / 2);
        model.source->read(tensor.name,
                           Bytes(static_cast<std::int64_t>(whole.size() - tail.size())), tail);
        EXPECT_TRUE(std::equal(tail.begin(), tail.end(), whole.end() - std::ssize(tail)));
        EXPECT_THROW(model.source->read(tensor.name, Bytes(1), whole), InputError);
    }
}

TEST(OnnxSource, ReadsFoldedConstants) {
    OnnxOptions options;
    options.bindings = {{"batch", 1}, {"sequence", 128}};
    const OnnxModel model = import_onnx(kSource / "examples/models/bert-base.onnx", options);
    for (const graph::Op& op : model.graph.ops()) {
        if (op.type != "Reshape") continue;
        const graph::Tensor& target = model.graph.tensor(op.inputs[1]);
        std::vector<std::int64_t> read(static_cast<std::size_t>(target.elements()));
        model.source->read(target.name, Bytes(0), std::as_writable_bytes(std::span(read)));
        EXPECT_EQ(read, *target.known_integers);
    }
}

/// A copy of external.onnx in a folder of its own, with weights.bin and a link that leaves it.
class OnnxExternalData : public testing::Test {
protected:
    void SetUp() override {
        fs::create_directories(folder_);
        fs::copy_file(kSource / "tests/data/onnx/external.onnx", folder_ / "external.onnx");
        const std::vector<float> weights = {9, 9, 9, 9, 1, 2, 3, 4};
        std::ofstream(folder_ / "weights.bin", std::ios::binary)
            .write(reinterpret_cast<const char*>(weights.data()), 32);
        fs::copy_file(folder_ / "weights.bin", folder_.parent_path() / "weights.bin");
        fs::create_symlink("../weights.bin", folder_ / "link.bin");
        model_ = import_onnx(folder_ / "external.onnx");
    }

    std::string refusal(const std::string& name) {
        std::vector<float> values(4);
        try {
            model_.source->read(name, Bytes(0), std::as_writable_bytes(std::span(values)));
        } catch (const InputError& error) {
            return error.what();
        }
        return "read";
    }

    TemporaryFolder own_;
    fs::path folder_ = own_.path() / "model";
    OnnxModel model_;
};

TEST_F(OnnxExternalData, IsReadAtItsOffset) {
    std::vector<float> values(2);
    model_.source->read("inside", Bytes(8), std::as_writable_bytes(std::span(values)));
    EXPECT_THAT(values, ElementsAre(3, 4));
}

TEST_F(OnnxExternalData, NeverLeavesTheFolder) {
    EXPECT_THAT(refusal("above"), HasSubstr("expected a path inside the model's folder"));
    EXPECT_THAT(refusal("absolute"), HasSubstr("expected a path inside the model's folder"));
    EXPECT_THAT(refusal("link"), HasSubstr("a link that leaves the model's folder"));
}

TEST_F(OnnxExternalData, IsMissedByName) {
    EXPECT_THAT(refusal("absent"), HasSubstr("tensor 'absent': its external data 'nowhere.bin' "
                                             "cannot be opened"));
    EXPECT_THAT(refusal("beyond"), HasSubstr("expected 16 bytes at offset 1000 of 'weights.bin', "
                                             "which has 32 bytes"));
    EXPECT_THAT(refusal("other"), HasSubstr("holds no contents under this name"));
}

}  // namespace
}  // namespace partita::importers
