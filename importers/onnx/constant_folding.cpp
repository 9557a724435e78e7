// SPDX-License-Identifier: Apache-2.0
#include "importers/onnx/constant_folding.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "importers/onnx/folding_rows.h"

namespace partita::importers {

using graph::Shape;

const Literal& operand(const FoldNode& node, std::size_t i) {
    const Literal* literal = optional_operand(node, i);
    if (literal == nullptr) throw NotFoldable{};
    return *literal;
}

const Literal* optional_operand(const FoldNode& node, std::size_t i) {
    return i < node.operands.size() ? node.operands[i].literal : nullptr;
}

const std::vector<std::int64_t>& integers(const Literal& literal) {
    if (!literal.integral()) throw NotFoldable{};
    return std::get<0>(literal.values);
}

std::vector<std::int64_t> operand_or_attribute(const FoldNode& node, std::size_t i,
                                               std::string_view attribute) {
    if (const Literal* literal = optional_operand(node, i)) return integers(*literal);
    return node.attributes.get_ints(attribute);
}

std::size_t normalize_axis(std::int64_t axis, std::size_t rank) {
    const auto signed_rank = static_cast<std::int64_t>(rank);
    if (axis < -signed_rank || axis >= signed_rank) throw NotFoldable{};
    return static_cast<std::size_t>(axis < 0 ? axis + signed_rank : axis);
}

Literal make_result(const FoldNode& node, graph::DType dtype, const Shape& shape) {
    const std::int64_t limit = is_integral(dtype) ? node.limit : node.real_limit;
    if (!can_be_literal(dtype) || !literal_fits(shape, limit)) throw NotFoldable{};
    Literal result = make_literal(dtype, shape);
    spend(node, result);
    return result;
}

Shape broadcast(const Shape& a, const Shape& b) {
    Shape result(std::max(a.size(), b.size()));
    for (std::size_t i = 0; i < result.size(); ++i) {
        const std::int64_t m = i < a.size() ? a[a.size() - 1 - i] : 1;
        const std::int64_t n = i < b.size() ? b[b.size() - 1 - i] : 1;
        if (m != n && m != 1 && n != 1) throw NotFoldable{};
        result[result.size() - 1 - i] = m == 1 ? n : m;
    }
    return result;
}

std::vector<std::size_t> strides_of(const Shape& shape) {
    std::vector<std::size_t> strides(shape.size());
    std::size_t stride = 1;
    for (std::size_t d = shape.size(); d-- > 0;) {
        strides[d] = stride;
        stride *= static_cast<std::size_t>(shape[d]);
    }
    return strides;
}

std::vector<std::size_t> broadcast_strides(const Shape& shape, const Shape& target) {
    const std::vector<std::size_t> own = strides_of(shape);
    std::vector<std::size_t> strides(target.size());
    for (std::size_t i = 0; i < shape.size(); ++i) {
        if (shape[i] != 1) strides[target.size() - shape.size() + i] = own[i];
    }
    return strides;
}

void copy_element(Literal& result, std::size_t flat, const Literal& source, std::size_t from) {
    if (result.integral() != source.integral()) throw NotFoldable{};
    if (result.integral()) {
        std::get<0>(result.values)[flat] = std::get<0>(source.values)[from];
    } else {
        std::get<1>(result.values)[flat] = std::get<1>(source.values)[from];
    }
}

void store(Literal& result, std::size_t flat, std::int64_t value) {
    if (!result.integral()) return store(result, flat, static_cast<double>(value));
    if (!fits(result.dtype, value)) throw NotFoldable{};
    std::get<0>(result.values)[flat] = value;
}

void store(Literal& result, std::size_t flat, double value) {
    if (!result.integral()) {
        std::get<1>(result.values)[flat] = round_to(result.dtype, value);
        return;
    }
    // 2^63 itself is a double; everything below it converts without overflow.
    if (!(std::fabs(value) < 0x1p63)) throw NotFoldable{};
    store(result, flat, static_cast<std::int64_t>(value));
}

void spend(const FoldNode& node, const Literal& literal) {
    if (node.work_left == nullptr) return;
    const std::size_t work = (literal.size() + 1) * (literal.shape.size() + 1);
    *node.work_left -= static_cast<std::int64_t>(work);
    if (*node.work_left < 0) throw NotFoldable{};
}

namespace {

const FoldRow* find_fold_row(std::string_view type) {
    for (const auto rows :
         {elementwise_rows(), movement_rows(), indexing_rows(), reduction_rows()}) {
        const auto row = std::find_if(rows.begin(), rows.end(),
                                      [&](const FoldRow& r) { return r.type == type; });
        if (row != rows.end()) return &*row;
    }
    return nullptr;
}

}  // namespace

bool can_fold(std::string_view type) {
    return find_fold_row(type) != nullptr;
}

std::optional<Literals> fold(const FoldNode& node) {
    const FoldRow* row = find_fold_row(node.type);
    if (row == nullptr) return std::nullopt;
    for (const FoldOperand& operand : node.operands) {
        if (operand.given && !row->shape_only && operand.literal == nullptr) return std::nullopt;
    }
    try {
        for (const FoldOperand& operand : node.operands) {
            if (!row->shape_only && operand.literal != nullptr) spend(node, *operand.literal);
        }
        Literals results = row->function(node);
        if (results.size() != node.results) return std::nullopt;
        return results;
    } catch (const NotFoldable&) {
        return std::nullopt;
    }
}

}  // namespace partita::importers
