// SPDX-License-Identifier: Apache-2.0
#include "importers/onnx/node_checks.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>
#include <unordered_set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/dtype.h"
#include "importers/onnx/literal.h"
#include "importers/onnx/model_error.h"

namespace partita::importers {

namespace {

using onnx::AttributeProto;

std::string_view type_text(AttributeProto::AttributeType type) {
    switch (type) {
    case AttributeProto::FLOAT: return "a number";
    case AttributeProto::INT: return "an integer";
    case AttributeProto::STRING: return "a string";
    case AttributeProto::TENSOR: return "a tensor";
    case AttributeProto::GRAPH: return "a graph";
    case AttributeProto::SPARSE_TENSOR: return "a sparse tensor";
    case AttributeProto::TYPE_PROTO: return "a type";
    case AttributeProto::FLOATS: return "a list of numbers";
    case AttributeProto::INTS: return "a list of integers";
    case AttributeProto::STRINGS: return "a list of strings";
    case AttributeProto::TENSORS: return "a list of tensors";
    case AttributeProto::GRAPHS: return "a list of graphs";
    case AttributeProto::SPARSE_TENSORS: return "a list of sparse tensors";
    case AttributeProto::TYPE_PROTOS: return "a list of types";
    case AttributeProto::UNDEFINED: return "nothing";
    }
    return "nothing";
}

std::string count_fault(std::string_view what, int count, int low, int high) {
    if (count >= low && count <= high) return {};
    const std::string expected = low == high ? fmt::format("{}", low)
                                 : high == std::numeric_limits<int>::max()
                                     ? fmt::format("at least {}", low)
                                     : fmt::format("{} to {}", low, high);
    return fmt::format("expected {} {}, got {}", expected, what, count);
}

std::string attribute_type_faults(const onnx::NodeProto& node, const onnx::OpSchema& schema) {
    std::unordered_set<std::string_view> seen;
    for (const AttributeProto& attribute : node.attribute()) {
        if (!seen.insert(attribute.name()).second) {
            return fmt::format("attribute '{}': given more than once", printable(attribute.name()));
        }
        const auto known = schema.attributes().find(attribute.name());
        // Names that begin with two underscores are somebody's own business.
        if (known == schema.attributes().end() && attribute.name().rfind("__", 0) != 0) {
            return fmt::format("attribute '{}': the operator has none of this name",
                               printable(attribute.name()));
        }
        if (known != schema.attributes().end() && attribute.type() != known->second.type) {
            return fmt::format("attribute '{}': expected {}, got {}", attribute.name(),
                               type_text(known->second.type), type_text(attribute.type()));
        }
    }
    for (const auto& [name, attribute] : schema.attributes()) {
        if (attribute.required && seen.count(name) == 0) {
            return fmt::format("attribute '{}': expected {}, got none", name,
                               type_text(attribute.type));
        }
    }
    return {};
}

/// What of an attribute may be multiplied by another without leaving 64 bits, and what no tensor
/// that exists needs more of.
constexpr std::int64_t kMaxCount = std::numeric_limits<std::int32_t>::max();

/// Lists with `per_dim` entries for each spatial dim (operand 0 without batch and channels).
struct ListLimit {
    std::string_view name;
    std::int64_t minimum;
    int per_dim;
};
constexpr std::array kListLimits = {
    ListLimit{"strides", 1, 1}, ListLimit{"dilations", 1, 1},      ListLimit{"kernel_shape", 1, 1},
    ListLimit{"pads", 0, 2},    ListLimit{"output_padding", 0, 1},
};
constexpr std::array<std::string_view, 9> kWindowed = {
    "AveragePool", "Conv",    "ConvInteger", "ConvTranspose", "DeformConv",
    "LpPool",      "MaxPool", "MaxUnpool",   "QLinearConv"};

/// Counts and sizes, integers or lists of them, and numbers of element types. Some exporters write 0
/// for "not given".
struct IntegerLimit {
    std::string_view name;
    std::int64_t minimum;
    std::int64_t maximum = kMaxCount;
};
constexpr std::int64_t kLastType = graph::kDTypeCount - 1;
constexpr std::array kIntegers = {
    IntegerLimit{"block_size", 0},
    IntegerLimit{"blocksize", 1},
    IntegerLimit{"dilations", 1},
    IntegerLimit{"dtype", 1, kLastType},
    IntegerLimit{"group", 1},
    IntegerLimit{"hidden_size", 1},
    IntegerLimit{"kernel_shape", 1},
    IntegerLimit{"kv_num_heads", 0},
    IntegerLimit{"num_groups", 1},
    IntegerLimit{"num_heads", 0},
    IntegerLimit{"num_outputs", 1},
    IntegerLimit{"num_scan_inputs", 0},
    IntegerLimit{"offset_group", 1},
    IntegerLimit{"output_datatype", 1, kLastType},
    IntegerLimit{"output_dtype", 0, kLastType},
    IntegerLimit{"output_height", 0},
    IntegerLimit{"output_padding", 0},
    IntegerLimit{"output_shape", 0},
    IntegerLimit{"output_width", 0},
    IntegerLimit{"paddings", -kMaxCount},
    IntegerLimit{"pads", -kMaxCount},
    IntegerLimit{"pooled_shape", 1},
    IntegerLimit{"precision", 0, kLastType},
    IntegerLimit{"q_num_heads", 0},
    IntegerLimit{"rotary_embedding_dim", 0},
    IntegerLimit{"sample_size", 0},
    IntegerLimit{"sampling_ratio", 0},
    IntegerLimit{"size", 1},
    IntegerLimit{"softmax_precision", 0, kLastType},
    IntegerLimit{"stash_type", 1, kLastType},
    IntegerLimit{"strides", 1},
    IntegerLimit{"to", 1, kLastType},
};

/// Attributes that name dims, and how far they may lie outside of operand 0's rank. The first row
/// that matches counts. An operator without a row of its own may name the dims that there are.
struct AxisLimit {
    std::string_view type;  ///< "": every operator
    std::string_view name;
    int below = 0;       ///< from -(rank + below) ...
    int above = 0;       ///< ... to rank + above, exclusive
    bool ranked = true;  ///< false: of no operand's dims, or ignored where it does not apply
    int before = std::numeric_limits<int>::max();  ///< version of the operator
};
constexpr std::array kAxes = {
    AxisLimit{.type = "DequantizeLinear", .name = "axis", .ranked = false},
    AxisLimit{.type = "Flatten", .name = "axis", .above = 1},
    AxisLimit{.type = "Hardmax", .name = "axis", .above = 1, .before = 13},
    AxisLimit{.type = "LogSoftmax", .name = "axis", .above = 1, .before = 13},
    AxisLimit{.type = "OneHot", .name = "axis", .below = 1, .above = 1},
    AxisLimit{.type = "QuantizeLinear", .name = "axis", .ranked = false},
    AxisLimit{.type = "Softmax", .name = "axis", .above = 1, .before = 13},
    AxisLimit{.type = "Unsqueeze", .name = "axes", .ranked = false},  // of the result
    AxisLimit{.type = "", .name = "axes"},
    AxisLimit{.type = "", .name = "axis"},
    AxisLimit{.type = "", .name = "batch_axis"},
    AxisLimit{.type = "", .name = "batch_dims"},
    AxisLimit{.type = "", .name = "perm"},
    AxisLimit{.type = "", .name = "scan_input_axes", .ranked = false},
    AxisLimit{.type = "", .name = "scan_output_axes", .ranked = false},
    AxisLimit{.type = "", .name = "time_axis"},
};

/// "attribute 'a': expected an integer in [low, high], got n", or nothing.
std::string range_fault(const AttributeProto& attribute, std::int64_t low, std::int64_t high) {
    const auto text = [&](std::int64_t value) {
        return fmt::format("attribute '{}': expected {} in [{}, {}], got {}", attribute.name(),
                           attribute.type() == AttributeProto::INT ? "an integer" : "integers", low,
                           high, value);
    };
    const auto outside = [&](std::int64_t value) { return value < low || value > high; };
    if (attribute.type() == AttributeProto::INT) {
        return outside(attribute.i()) ? text(attribute.i()) : std::string();
    }
    const auto wrong = std::find_if(attribute.ints().begin(), attribute.ints().end(), outside);
    return wrong == attribute.ints().end() ? std::string() : text(*wrong);
}

std::string list_fault(const AttributeProto& attribute, const ListLimit& limit,
                       std::optional<int> rank) {
    const int count = attribute.ints_size();
    const int expected = rank ? std::max(*rank - 2, 0) * limit.per_dim : count;
    const bool large_enough = std::all_of(attribute.ints().begin(), attribute.ints().end(),
                                          [&](std::int64_t n) { return n >= limit.minimum; });
    if (large_enough && count == expected) return {};
    return fmt::format("attribute '{}': expected {} integers >= {}, got [{}]", limit.name, expected,
                       limit.minimum, fmt::join(attribute.ints(), ", "));
}

std::string integer_fault(const AttributeProto& attribute) {
    const auto* const limit = std::ranges::find(kIntegers, attribute.name(), &IntegerLimit::name);
    if (limit == kIntegers.end()) return {};
    const bool is_open = limit->maximum == kMaxCount;
    if (is_open && attribute.type() == AttributeProto::INT && attribute.i() < limit->minimum) {
        return fmt::format("attribute '{}': expected an integer >= {}, got {}", attribute.name(),
                           limit->minimum, attribute.i());
    }
    return range_fault(attribute, limit->minimum, limit->maximum);
}

std::string axis_fault(const onnx::NodeProto& node, int version, const AttributeProto& attribute,
                       std::span<const std::optional<int>> ranks) {
    const auto limit = std::find_if(kAxes.begin(), kAxes.end(), [&](const AxisLimit& row) {
        return row.name == attribute.name() && version < row.before &&
               (row.type.empty() || row.type == node.op_type());
    });
    if (limit == kAxes.end()) return {};
    // The dims of a scalar are counted as those of a list of one.
    const auto dims_of = [&](std::size_t operand) {
        const bool known = limit->ranked && operand < ranks.size() && ranks[operand];
        return known ? std::max(*ranks[operand], 1) : kMaxRank;
    };
    const int dims = dims_of(0);
    if (attribute.name() == "batch_dims") {
        return range_fault(attribute, 0, std::min(dims, dims_of(1)) - 1);
    }
    return range_fault(attribute, -(dims + limit->below), dims + limit->above - 1);
}

std::string attribute_value_faults(const onnx::NodeProto& node, int version,
                                   std::span<const std::optional<int>> ranks) {
    const std::optional<int> rank = ranks.empty() ? std::nullopt : ranks[0];
    const bool windowed =
        std::find(kWindowed.begin(), kWindowed.end(), node.op_type()) != kWindowed.end();
    for (const AttributeProto& attribute : node.attribute()) {
        for (const ListLimit& limit : kListLimits) {
            if (!windowed || attribute.name() != limit.name) continue;
            if (std::string fault = list_fault(attribute, limit, rank); !fault.empty())
                return fault;
        }
        if (std::string fault = integer_fault(attribute); !fault.empty()) return fault;
        if (std::string fault = axis_fault(node, version, attribute, ranks); !fault.empty())
            return fault;
    }
    return {};
}

/// Letters with at most one ellipsis.
bool is_einsum_term(std::string_view term) {
    const std::size_t dots = term.find("...");
    std::string letters(term);
    if (dots != std::string_view::npos) letters.erase(dots, 3);
    return std::all_of(letters.begin(), letters.end(),
                       [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); });
}

std::string einsum_fault(const onnx::NodeProto& node) {
    for (const AttributeProto& attribute : node.attribute()) {
        if (node.op_type() != "Einsum" || attribute.name() != "equation") continue;
        const std::string equation = without_spaces(attribute.s());
        const std::size_t arrow = equation.find("->");
        std::string_view left = std::string_view(equation).substr(0, arrow);
        bool valid = arrow == std::string::npos ||
                     is_einsum_term(std::string_view(equation).substr(arrow + 2));
        for (std::size_t comma = 0; comma != std::string_view::npos;) {
            comma = left.find(',');
            valid = valid && is_einsum_term(left.substr(0, comma));
            if (comma != std::string_view::npos) left.remove_prefix(comma + 1);
        }
        if (!valid) {
            return fmt::format(
                "attribute 'equation': expected terms of letters like 'ij,jk->ik', "
                "got '{}'",
                printable(attribute.s()));
        }
    }
    return {};
}

}  // namespace

std::string without_spaces(std::string text) {
    std::erase(text, ' ');
    return text;
}

std::string fault_of(const onnx::NodeProto& node, const onnx::OpSchema& schema,
                     std::span<const std::optional<int>> ranks) {
    std::string fault =
        count_fault("operands", node.input_size(), schema.min_input(), schema.max_input());
    if (fault.empty()) {
        fault =
            count_fault("results", node.output_size(), schema.min_output(), schema.max_output());
    }
    if (fault.empty()) fault = attribute_type_faults(node, schema);
    if (fault.empty()) fault = attribute_value_faults(node, schema.SinceVersion(), ranks);
    if (fault.empty()) fault = einsum_fault(node);
    return fault;
}

}  // namespace partita::importers
