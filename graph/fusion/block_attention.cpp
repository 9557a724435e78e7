// SPDX-License-Identifier: Apache-2.0
#include "graph/fusion/block_attention.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/graph_copy.h"

namespace partita::graph {

namespace {

constexpr std::size_t kKeyOperand = 1;
constexpr std::size_t kMaskOperand = 3;

/// Are queries, keys and values there, all of 3 or all of 4 dims? Whose are not has no rule.
bool is_well_formed(const OpGraph& graph, const Op& op) {
    if (op.kind != OpKind::compute || !op.domain.empty() || op.type != "Attention") return false;
    if (op.inputs.size() <= kMaskOperand - 1 || op.outputs.empty()) return false;
    for (std::size_t i = 0; i < kMaskOperand; ++i) {
        if (!op.inputs[i].valid()) return false;
        const std::size_t rank = graph.tensor(op.inputs[i]).shape.size();
        if (rank != graph.tensor(op.inputs[0]).shape.size() || rank < 3 || rank > 4) return false;
    }
    return true;
}

bool can_be_in_blocks(const OpGraph& graph, const Op& op, int blocks) {
    if (!is_well_formed(graph, op)) return false;
    const auto is_given = [](TensorId t) { return t.valid(); };
    const bool has_more =
        op.inputs.size() > kMaskOperand + 1 &&
        std::any_of(op.inputs.begin() + kMaskOperand + 1, op.inputs.end(), is_given);
    const bool shows_more = std::any_of(op.outputs.begin() + 1, op.outputs.end(), is_given);
    const Attributes& attributes = op.attributes;
    const bool is_plain = attributes.get_float("softcap", 0.0) == 0 &&
                          attributes.get_int("left_window_size", -1) < 0 &&
                          attributes.get_int("right_window_size", -1) < 0;
    if (has_more || shows_more || !is_plain) return false;
    for (const TensorId t : op.inputs) {
        if (t.valid() && graph.tensor(t).upper_bound_dims != 0) return false;
    }
    const auto length_of = [&](std::size_t operand) {
        const Shape& shape = graph.tensor(op.inputs[operand]).shape;
        return shape[shape.size() == 4 ? 2 : 1];
    };
    const std::int64_t keys = length_of(kKeyOperand);
    if (op.inputs.size() > kMaskOperand && op.inputs[kMaskOperand].valid()) {
        const Shape& mask = graph.tensor(op.inputs[kMaskOperand]).shape;
        if (mask.empty() || mask.back() != keys) return false;  // the last keys are hidden
    }
    return keys > 0 && keys % blocks == 0 && length_of(0) > 0 && length_of(0) % blocks == 0;
}

/// What a step leaves, in the new graph.
struct Sums {
    TensorId values;   ///< u, as the result
    TensorId weights;  ///< l
    TensorId largest;  ///< m
};

class Blocks {
public:
    Blocks(const OpGraph& from, int blocks) : from_(from), blocks_(blocks), copy_(from) {}

    BlockedAttention run() {
        BlockedAttention blocked;
        for (const Op& op : from_.ops()) {
            if (!can_be_in_blocks(from_, op, blocks_)) {
                copy_.add(op);
                continue;
            }
            add_blocks(op);
            ++blocked.count;
        }
        blocked.graph = std::move(copy_.to);
        return blocked;
    }

private:
    void add_blocks(const Op& op) {
        std::optional<Sums> sums;
        for (int step = 0; step < blocks_; ++step) sums = add_step(op, step, sums);
        Op result;
        result.name = op.name;
        result.type = "BlockAttentionResult";
        result.domain = "partita";
        result.block = op.block;
        result.inputs = {sums->values, sums->weights};
        const TensorId y = op.outputs[0];
        copy_[y] = copy_.to.add_tensor(from_.tensor(y));
        result.outputs = {copy_[y]};
        copy_.to.add_op(std::move(result));
    }

    Sums add_step(const Op& op, int step, const std::optional<Sums>& before) {
        Op block;
        block.name = copy_.unused(fmt::format("{}/step {}", op.name, step));
        block.type = "BlockAttention";
        block.domain = "partita";
        block.block = op.block;
        block.product_type = op.product_type;
        block.attributes = op.attributes;
        block.attributes.set("blocks", std::int64_t{blocks_});
        block.attributes.set("step", std::int64_t{step});
        for (const TensorId t : op.inputs) {
            block.inputs.push_back(t.valid() ? copy_[t] : TensorId{});
        }
        block.inputs.resize(kMaskOperand + 1);
        if (before) {
            for (const TensorId t : {before->values, before->weights, before->largest}) {
                block.inputs.push_back(t);
            }
        }
        const Sums sums = add_sums(op, block.name);
        block.outputs = {sums.values, sums.weights, sums.largest};
        copy_.to.add_op(std::move(block));
        return sums;
    }

    Sums add_sums(const Op& op, const std::string& name) {
        const Tensor& y = from_.tensor(op.outputs[0]);
        Tensor values = y;
        values.name = copy_.unused(name + "/values");
        values.dtype = y.dtype == DType::float64 ? DType::float64 : DType::float32;
        Tensor rows = values;
        rows.shape.pop_back();
        if (y.shape.size() == 3) rows.shape.push_back(op.attributes.get_int("q_num_heads", 1));
        Tensor largest = rows;
        rows.name = copy_.unused(name + "/weights");
        largest.name = copy_.unused(name + "/largest");
        return {.values = copy_.to.add_tensor(std::move(values)),
                .weights = copy_.to.add_tensor(std::move(rows)),
                .largest = copy_.to.add_tensor(std::move(largest))};
    }

    const OpGraph& from_;
    int blocks_;
    GraphCopy copy_;
};

}  // namespace

BlockedAttention with_block_attention(const OpGraph& graph, int blocks) {
    return Blocks(graph, blocks).run();
}

}  // namespace partita::graph
