// SPDX-License-Identifier: Apache-2.0
//
// What the functions behind OpRow::part are made of: PartBuilder, and the functions themselves by
// family. Private to graph/; everyone else calls part_op().
//
//     void reshape_part(PartBuilder& b) {                  the target is the part's own shape
//         b.set_target("shape", 1, b.result_extents(0));
//     }
//
// Before such a function runs, operands and results have their regions, attributes are the op's,
// and operands that another part applies are left out.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "graph/operators/part_op.h"

namespace partita::graph {

class PartBuilder {
public:
    PartBuilder(const OpGraph& graph, const Op& op, const OpRule& rule, const Box& box);

    [[nodiscard]] const Op& op() const { return op_; }
    [[nodiscard]] const OpRule& rule() const { return rule_; }
    [[nodiscard]] PartOp& part() { return part_; }
    [[nodiscard]] const Attributes& attributes() const { return op_.attributes; }

    [[nodiscard]] bool has_operand(int operand) const;
    [[nodiscard]] const Shape& shape(int operand) const;  ///< of the whole operand
    [[nodiscard]] const Shape& result_shape(int result) const;
    [[nodiscard]] Shape extents(int operand) const;  ///< of the part's region
    [[nodiscard]] Shape result_extents(int result) const;
    [[nodiscard]] const DimRule& dim_rule(int operand, int dim) const;

    /// How many positions of the factor the part has; `fallback` when the rule has no such factor.
    [[nodiscard]] std::int64_t count(std::string_view factor, std::int64_t fallback = 1) const;
    /// The part's positions of the factor, which have no holes.
    [[nodiscard]] Range range(int factor) const;
    /// The part's positions of a factor that the rule has.
    [[nodiscard]] const Positions& positions(std::string_view factor) const {
        return box_[static_cast<std::size_t>(find_factor(factor).value())];
    }
    [[nodiscard]] std::optional<int> find_factor(std::string_view name) const;
    [[nodiscard]] bool is_whole(int factor) const;

    /// The integers of an attribute, as older opsets have it, else of an operand; when known.
    [[nodiscard]] std::optional<std::vector<std::int64_t>> integers(std::string_view attribute,
                                                                    int operand) const;
    /// Replaces the attribute where the op has it, else the operand.
    void set_target(std::string_view attribute, int operand, std::vector<std::int64_t> values);
    void set_attribute(std::string_view name, AttributeValue value);
    void crop(int result, int dim, Range positions);

    [[nodiscard]] PartOp finish() { return std::move(part_); }

private:
    const OpGraph& graph_;
    const Op& op_;
    const OpRule& rule_;
    const Box& box_;
    PartOp part_;
};

/// A windowed dim of operand `operand` in this part.
struct PartWindow {
    Range outputs;
    Range reads;              ///< operand positions before clipping
    Range inside;             ///< and after
    std::int64_t before = 0;  ///< positions cut off at the front
    std::int64_t after =
        0;  ///< and at the back; all of them stand at the front when none is inside
};
PartWindow window_of(const PartBuilder& b, int operand, int dim);

using MakePart = void(PartBuilder& b);

MakePart conv_part, conv_transpose_part, pool_part, lrn_part, resize_part;        // _window
MakePart slice_part, pad_part, center_crop_pad_part;                              // _window
MakePart reshape_part, squeeze_part, tile_part, split_part, shape_part;           // _shape
MakePart constant_of_shape_part, affine_grid_part;                                // _shape
MakePart mean_part, gather_part, gather_elements_part;                            // _value
MakePart group_norm_part, attention_part, rotary_embedding_part, recurrent_part;  // _value
MakePart block_attention_part;                                                    // _value

}  // namespace partita::graph
