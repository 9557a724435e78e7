// SPDX-License-Identifier: Apache-2.0
//
// Parameters that several layers read: which they are, and what becomes of them.
#include "importers/onnx/untie.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "importers/onnx/precision.h"

namespace partita::importers {
namespace {

using graph::TensorId;
using graph::TensorRole;
using testing::ElementsAre;
using testing::HasSubstr;

/// Remembers what it was asked for.
class Asked final : public graph::TensorSource {
public:
    explicit Asked(std::vector<std::string>& names) : names_(names) {}
    void read(const std::string& name, Bytes /*offset*/,
              std::span<std::byte> /*out*/) const override {
        names_.push_back(name);
    }

private:
    std::vector<std::string>& names_;
};

/// x -> scale by `ones` in each of three layers -> scale by `head` and by `ones` in no layer.
class Untie : public testing::Test {
protected:
    Untie() {
        TensorId x = source("x", TensorRole::input);
        ones_ = source("ones", TensorRole::parameter);
        own_ = source("own", TensorRole::parameter);
        for (const char* const block : {"layers.0", "layers.1", "layers.2"}) {
            x = scaled(block, std::string(block) + "/scale", x, ones_);
        }
        x = scaled("layers.2", "layers.2/own", x, own_);
        x = scaled("head", "head/scale", x, ones_);
        graph_.add_output("y", x);
    }

    TensorId source(const std::string& name, TensorRole role) {
        return graph_.add_source({.name = name, .shape = {4}, .role = role});
    }
    TensorId scaled(const std::string& block, const std::string& name, TensorId x, TensorId by) {
        graph::Op op;
        op.name = name;
        op.type = "Mul";
        op.opset = 14;
        op.block = block;
        op.inputs = {x, by};
        op.outputs = {graph_.add_tensor({.name = name + ".y", .shape = {4}})};
        const TensorId result = op.outputs[0];
        graph_.add_op(std::move(op));
        return result;
    }

    static std::string scale_of(const graph::OpGraph& graph, const std::string& op) {
        return graph.tensor(graph.op(*graph.find_op(op)).inputs[1]).name;
    }

    graph::OpGraph graph_;
    TensorId ones_;
    TensorId own_;
    std::vector<std::string> asked_;
};

TEST_F(Untie, FindsWhatLayersThatRepeatShare) {
    EXPECT_THAT(tied_parameters(graph_), ElementsAre("ones"));
}

// The first layer, and what is no layer, keep the parameter.
TEST_F(Untie, GivesEachFurtherLayerItsOwn) {
    const Untied result = untied(graph_, std::make_unique<Asked>(asked_), {"on*"}, "model.onnx");
    EXPECT_NO_THROW(graph::check(result.graph));
    EXPECT_EQ(result.graph.op_count(), graph_.op_count() + 2);
    EXPECT_EQ(scale_of(result.graph, "layers.0/scale"), "ones");
    EXPECT_EQ(scale_of(result.graph, "layers.1/scale"), "ones@layers.1");
    EXPECT_EQ(scale_of(result.graph, "layers.2/scale"), "ones@layers.2");
    EXPECT_EQ(scale_of(result.graph, "layers.2/own"), "own");
    EXPECT_EQ(scale_of(result.graph, "head/scale"), "ones");
    EXPECT_THAT(tied_parameters(result.graph), testing::IsEmpty());
    for (const char* const name : {"ones@layers.2", "own", "ones"}) {
        result.source->read(name, Bytes{0}, {});
    }
    EXPECT_THAT(asked_, ElementsAre("ones", "own", "ones"));
}

TEST_F(Untie, RefusesWhatIsNotShared) {
    const auto refusal = [&](const std::string& glob) -> std::string {
        try {
            static_cast<void>(untied(graph_, nullptr, {glob}, "model.onnx"));
        } catch (const UsageError& error) {
            return error.what();
        }
        return "nothing";
    };
    EXPECT_THAT(refusal("own"), HasSubstr("model.onnx: --untie own: no parameter of that name is "
                                          "read in several layer blocks. Those are: ones."));
}

TEST_F(Untie, GradientsOfNarrowParametersAloneMayBeWide) {
    graph_.tensor(own_).dtype = graph::DType::bfloat16;
    keep_gradients_in_float32(graph_);
    EXPECT_EQ(graph_.tensor(own_).type_of(true), graph::DType::float32);
    EXPECT_EQ(graph_.tensor(own_).type_of(false), graph::DType::bfloat16);
    EXPECT_FALSE(graph_.tensor(ones_).gradient_dtype);
}

}  // namespace
}  // namespace partita::importers
