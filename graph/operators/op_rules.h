// SPDX-License-Identifier: Apache-2.0
//
// What the functions behind the op table are made of: RuleBuilder, and the functions themselves by
// family. Private to graph/; everyone else calls rule_of().
//
//     RuleBuilder b(graph, op, row);                       Gemm, transB = 1
//     const int m = b.add("m", b.shape(0)[0]);
//     ...
//     b.operand(0, 0, {m});                                A [m k]
//     b.result(0, 1, {n});                                 Y [m n]
//     return b.finish();            reductions, FLOPs, linear and saved operands follow from the row
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/op_graph.h"
#include "graph/operators/op_rule.h"
#include "graph/operators/op_table.h"

namespace partita::graph {

class RuleBuilder {
public:
    RuleBuilder(const OpGraph& graph, const Op& op, const OpRow& row);

    [[nodiscard]] const Op& op() const { return op_; }
    [[nodiscard]] int operand_count() const { return static_cast<int>(op_.inputs.size()); }
    [[nodiscard]] int result_count() const { return static_cast<int>(op_.outputs.size()); }
    [[nodiscard]] bool has_operand(int operand) const;  ///< false: left out
    [[nodiscard]] bool has_result(int result) const;
    [[nodiscard]] const Shape& shape(int operand) const;  ///< empty when left out
    [[nodiscard]] const Shape& result_shape(int result) const;
    [[nodiscard]] int rank(int operand) const { return static_cast<int>(shape(operand).size()); }
    [[nodiscard]] int result_rank(int result) const;

    /// The integers of an operand whose value is known while planning.
    [[nodiscard]] std::optional<std::vector<std::int64_t>> integers(int operand) const;
    /// The same from the attribute of that name, as older opsets have it, else from the operand.
    [[nodiscard]] std::optional<std::vector<std::int64_t>> integers(std::string_view attribute,
                                                                    int operand) const;
    [[nodiscard]] bool opset_before(int version) const;
    /// `axis` counted from the front; complains unless it is in [-rank, rank).
    [[nodiscard]] int axis(std::int64_t axis, int rank) const;
    /// Complains unless the operand has this many dims.
    void expect_rank(int operand, int rank) const;
    /// Complains unless the result is wanted and has this many dims.
    void expect_result_rank(int result, int rank) const;

    int add(std::string name, std::int64_t extent, bool splittable = true);
    /// One factor d0, d1, ... per dim of the shape.
    std::vector<int> add_dims(const Shape& extents);
    [[nodiscard]] Factor& factor(int index) {
        return rule_.factors[static_cast<std::size_t>(index)];
    }
    [[nodiscard]] TensorRule& operand(int index);

    /// Says what a dim is made of; no factors: it is never split. An operand's dim of extent 1
    /// broadcasts: it gets no factor. Nothing happens for a tensor left out. Complains when the
    /// extents contradict.
    void operand(int operand, int dim, std::vector<int> factors);
    void result(int result, int dim, std::vector<int> factors);
    void window(int operand, int dim, int factor, const Window& window);
    /// Of a dim that has its factors: DimRule::rotation.
    void rotate(int operand, int dim, std::int64_t by);
    /// `factors` for the last dims of an operand, aligned from the right, as broadcasting is.
    void broadcast(int operand, const std::vector<std::vector<int>>& factors);

    void set_flops(Flops flops) { flops_ = flops; }
    /// Product of all factor extents.
    [[nodiscard]] Flops points() const;

    [[noreturn]] void fail(const std::string& what) const;
    [[nodiscard]] OpRule finish();

private:
    [[nodiscard]] std::int64_t product(const std::vector<int>& factors) const;
    void keep_redundant_factors_whole();

    const OpGraph& graph_;
    const Op& op_;
    const OpRow& row_;
    OpRule rule_;
    std::optional<Flops> flops_;
};

/// A factor's name, e.g. "d0".
std::string numbered(char letter, std::int64_t number);

/// The rule that the letters of a row of the table describe (op_pattern.cpp). Complains when shapes
/// contradict them.
OpRule pattern_rule(const OpGraph& graph, const Op& op, const OpRow& row);
/// The rule that an op says of itself (graph/stated_rule.h). Throws InputError naming the op and the
/// attribute that is wrong.
OpRule stated_rule(const OpGraph& graph, const Op& op);
/// Contract 7: not splittable, cost by bytes moved.
OpRule conservative_rule(const OpGraph& graph, const Op& op);

/// Throws std::logic_error when the row's text is malformed; used by the tests of the table.
void check_row(const OpRow& row);

using MakeRule = OpRule(const OpGraph& graph, const Op& op, const OpRow& row);

MakeRule matmul_rule, gemm_rule, einsum_rule;                                  // _matrix
MakeRule conv_rule, conv_transpose_rule, deform_conv_rule, causal_conv_rule;   // _conv
MakeRule pool_rule, lrn_rule, resize_rule, center_crop_pad_rule, col2im_rule;  // _window
MakeRule reshape_rule;                                                         // _reshape
MakeRule transpose_rule, slice_rule, pad_rule, concat_rule, split_rule;        // _shape
MakeRule tile_rule, depth_to_space_rule, space_to_depth_rule;                  // _shape
MakeRule cast_rule, trilu_rule, quantize_rule, reverse_sequence_rule;          // _pointwise
MakeRule pointwise_kernel_rule;                                                // _pointwise
MakeRule gather_rule, gather_elements_rule, gather_nd_rule, one_hot_rule;      // _index
MakeRule scatter_elements_rule, scatter_nd_rule, tensor_scatter_rule;          // _index
MakeRule reduce_rule, arg_reduce_rule, softmax_rule, along_axis_rule;          // _reduce
MakeRule top_k_rule, dft_rule, loss_rule;                                      // _reduce
MakeRule layer_norm_rule, group_norm_rule, batch_norm_rule;                    // _norm
MakeRule mean_variance_norm_rule;                                              // _norm
MakeRule lstm_rule, gru_rule, rnn_rule;                                        // _recurrent
MakeRule attention_rule, linear_attention_rule, rotary_embedding_rule;         // _attention
MakeRule block_attention_rule, block_attention_result_rule;                    // _attention
MakeRule control_flow_rule;                                                    // _control

}  // namespace partita::graph
