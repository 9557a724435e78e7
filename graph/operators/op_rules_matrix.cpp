// SPDX-License-Identifier: Apache-2.0
//
// Matrix products: MatMul and its quantized forms, Gemm, Einsum.
#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "graph/operators/op_rules.h"

namespace partita::graph {

namespace {

/// Where the operands of a matrix product stand.
struct MatMulOperands {
    int a = 0;
    int b = 1;
    std::vector<int> row_parameters;     ///< scales and zero points: scalar, [m] or [... m 1]
    std::vector<int> column_parameters;  ///< scalar, [n] or [... 1 n]
};

MatMulOperands matmul_operands(std::string_view type) {
    if (type == "MatMulInteger") return {.row_parameters = {2}, .column_parameters = {3}};
    if (type == "QLinearMatMul") {
        return {.b = 3, .row_parameters = {1, 2}, .column_parameters = {4, 5}};
    }
    return {};
}

void set_parameter(RuleBuilder& b, int operand, int factor, int dim_from_right) {
    const int rank = b.rank(operand);
    if (rank == 1) b.operand(operand, 0, {factor});
    if (rank >= 2) b.operand(operand, rank - dim_from_right, {factor});
}

std::int64_t back(const Shape& shape, int from_right) {
    return shape[shape.size() - static_cast<std::size_t>(from_right)];
}

}  // namespace

// "... m k, ... k n -> ... m n"; a vector on the left has no m, one on the right no n. A third operand
// is the bias of "Linear", [n], applied once.
OpRule matmul_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    const MatMulOperands operands = matmul_operands(op.type);
    const Shape& left = b.shape(operands.a);
    const Shape& right = b.shape(operands.b);
    if (left.empty() || right.empty()) b.fail("expected two operands of at least 1 dim");
    const bool has_m = left.size() >= 2;
    const bool has_n = right.size() >= 2;

    const int batch_rank = b.result_rank(0) - (has_m ? 1 : 0) - (has_n ? 1 : 0);
    if (batch_rank < 0) b.fail("result 0: expected more dims");
    std::vector<std::vector<int>> batch;
    for (int i = 0; i < batch_rank; ++i) {
        batch.push_back({b.add(numbered('d', i), b.result_shape(0)[std::size_t(i)])});
        b.result(0, i, batch.back());
    }
    const auto factors_with = [&](int second_last, int last) {
        auto factors = batch;
        if (second_last >= 0) factors.push_back({second_last});
        factors.push_back({last});
        return factors;
    };
    const int m = has_m ? b.add("m", back(left, 2)) : -1;
    const int n = has_n ? b.add("n", back(right, 1)) : -1;
    const int k = b.add("k", back(left, 1));
    b.broadcast(operands.a, factors_with(m, k));
    b.broadcast(operands.b, has_n ? factors_with(k, n) : factors_with(-1, k));
    if (has_m) b.result(0, batch_rank, {m});
    if (has_n) b.result(0, batch_rank + (has_m ? 1 : 0), {n});
    if (has_m) {
        for (const int i : operands.row_parameters) set_parameter(b, i, m, 2);
    }
    if (has_n) {
        for (const int i : operands.column_parameters) set_parameter(b, i, n, 1);
    }
    if (op.type == kLinear && b.has_operand(2)) {
        b.operand(2, 0, {n});
        b.operand(2).apply_once = true;
    }
    return b.finish();
}

// "m k, k n, m n -> m n", A and B transposed by attributes, C broadcast and applied once.
OpRule gemm_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    b.expect_rank(0, 2);
    b.expect_rank(1, 2);
    const int transposed_a = op.attributes.get_int("transA", 0) != 0 ? 1 : 0;
    const int transposed_b = op.attributes.get_int("transB", 0) != 0 ? 1 : 0;
    const int m = b.add("m", b.shape(0)[std::size_t(transposed_a)]);
    const int n = b.add("n", b.shape(1)[std::size_t(1 - transposed_b)]);
    const int k = b.add("k", b.shape(0)[std::size_t(1 - transposed_a)]);
    b.operand(0, transposed_a, {m});
    b.operand(0, 1 - transposed_a, {k});
    b.operand(1, transposed_b, {k});
    b.operand(1, 1 - transposed_b, {n});
    b.result(0, 0, {m});
    b.result(0, 1, {n});
    if (b.has_operand(2)) {
        b.broadcast(2, {{m}, {n}});
        b.operand(2).apply_once = true;
    }
    return b.finish();
}

namespace {

/// The subscripts of an Einsum equation, one text per tensor; '*' stands for the ellipsis.
struct Subscripts {
    std::vector<std::string> operands;
    std::string result;
};

/// Without an arrow: the ellipsis, then the letters that occur once, in alphabetical order.
std::string implied_result(const std::vector<std::string>& operands) {
    std::array<std::size_t, 128> occurrences{};
    for (const std::string& operand : operands) {
        for (const char letter : operand) ++occurrences[static_cast<unsigned char>(letter) & 127u];
    }
    std::string result;
    if (occurrences['*'] > 0) result += '*';
    for (std::size_t letter = 0; letter < occurrences.size(); ++letter) {
        if (letter != '*' && occurrences[letter] == 1) result += static_cast<char>(letter);
    }
    return result;
}

/// The equation without spaces, '*' for each ellipsis.
std::string compact_equation(const std::string& equation) {
    std::string compact;
    for (std::size_t at = 0; at < equation.size(); ++at) {
        if (equation[at] == ' ') continue;
        const bool ellipsis = equation.compare(at, 3, "...") == 0;
        compact += ellipsis ? '*' : equation[at];
        if (ellipsis) at += 2;
    }
    return compact;
}

Subscripts parse_equation(RuleBuilder& b) {
    const std::string equation = compact_equation(b.op().attributes.get_string("equation", ""));
    const std::size_t arrow = equation.find("->");
    Subscripts subscripts;
    const std::string left = equation.substr(0, arrow);
    for (std::size_t from = 0; from != std::string::npos;) {
        const std::size_t comma = left.find(',', from);
        subscripts.operands.push_back(left.substr(from, comma - from));
        from = comma == std::string::npos ? comma : comma + 1;
    }
    if (static_cast<int>(subscripts.operands.size()) != b.operand_count()) {
        b.fail(fmt::format("attribute 'equation': expected {} operands, got \"{}\"",
                           b.operand_count(), equation));
    }
    subscripts.result = arrow != std::string::npos ? equation.substr(arrow + 2)
                                                   : implied_result(subscripts.operands);
    return subscripts;
}

/// One letter per dim; the dims under an ellipsis of up to ten dims are '0' ... '9', right-aligned.
std::string dims_of(RuleBuilder& b, std::string subscript, std::size_t rank) {
    const std::size_t at = subscript.find('*');
    if (at != std::string::npos) {
        const std::size_t named = subscript.size() - 1;
        if (rank < named || rank - named > 10)
            b.fail("attribute 'equation': expected more letters");
        std::string dims;
        for (std::size_t i = rank - named; i-- > 0;) dims += static_cast<char>('0' + i);
        subscript.replace(at, 1, dims);
    }
    if (subscript.size() != rank) {
        b.fail(fmt::format("attribute 'equation': expected {} letters for {} dims",
                           subscript.size(), rank));
    }
    return subscript;
}

}  // namespace

// The equation is the row.
OpRule einsum_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    const Subscripts subscripts = parse_equation(b);
    std::vector<std::string> tensors;  // letters per dim: operands, then the result
    tensors.reserve(op.inputs.size() + 1);
    for (int i = 0; i < b.operand_count(); ++i) {
        tensors.push_back(dims_of(b, subscripts.operands[std::size_t(i)], b.shape(i).size()));
    }
    tensors.push_back(dims_of(b, subscripts.result, b.result_shape(0).size()));
    const auto shape_of = [&](std::size_t i) -> const Shape& {
        return i + 1 == tensors.size() ? b.result_shape(0) : b.shape(static_cast<int>(i));
    };

    std::vector<std::pair<char, int>> factors;
    const auto factor_of = [&](char letter) {
        const auto it = std::find_if(factors.begin(), factors.end(),
                                     [letter](const auto& entry) { return entry.first == letter; });
        return it == factors.end() ? -1 : it->second;
    };
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        for (std::size_t dim = 0; dim < tensors[i].size(); ++dim) {
            const char letter = tensors[i][dim];
            const std::int64_t extent = shape_of(i)[dim];
            const int known = factor_of(letter);
            if (known < 0) {
                const bool is_digit = letter >= '0' && letter <= '9';
                factors.emplace_back(letter,
                                     b.add((is_digit ? "d" : "") + std::string(1, letter), extent));
            } else if (b.factor(known).extent == 1) {
                b.factor(known).extent = extent;
            }
            // A diagonal: no layout shards two dims of one tensor over the same devices.
            if (tensors[i].find(letter) != dim) b.factor(factor_of(letter)).splittable = false;
        }
    }
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        for (std::size_t dim = 0; dim < tensors[i].size(); ++dim) {
            const std::vector<int> factor{factor_of(tensors[i][dim])};
            const int at = static_cast<int>(dim);
            i + 1 == tensors.size() ? b.result(0, at, factor)
                                    : b.operand(static_cast<int>(i), at, factor);
        }
    }
    b.set_flops(std::max(1, b.operand_count()) * b.points());
    OpRule rule = b.finish();
    rule.matrix_product = op.inputs.size() >= 2;
    return rule;
}

}  // namespace partita::graph
