// SPDX-License-Identifier: Apache-2.0
#include "importers/onnx/node_checks.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

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
    for (int i = 0; i < node.attribute_size(); ++i) {
        const AttributeProto& attribute = node.attribute(i);
        for (int j = 0; j < i; ++j) {
            if (node.attribute(j).name() == attribute.name()) {
                return fmt::format("attribute '{}': given more than once",
                                   printable(attribute.name()));
            }
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
        const auto given =
            std::any_of(node.attribute().begin(), node.attribute().end(),
                        [&wanted = name](const AttributeProto& a) { return a.name() == wanted; });
        if (attribute.required && !given) {
            return fmt::format("attribute '{}': expected {}, got none", name,
                               type_text(attribute.type));
        }
    }
    return {};
}

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

constexpr std::array<std::string_view, 4> kPositive = {"blocksize", "group", "hidden_size",
                                                       "offset_group"};

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

std::string attribute_value_faults(const onnx::NodeProto& node, std::optional<int> rank) {
    const bool windowed =
        std::find(kWindowed.begin(), kWindowed.end(), node.op_type()) != kWindowed.end();
    for (const AttributeProto& attribute : node.attribute()) {
        const bool positive =
            std::find(kPositive.begin(), kPositive.end(), attribute.name()) != kPositive.end();
        if (positive && attribute.type() == AttributeProto::INT && attribute.i() < 1) {
            return fmt::format("attribute '{}': expected an integer >= 1, got {}", attribute.name(),
                               attribute.i());
        }
        for (const ListLimit& limit : kListLimits) {
            if (!windowed || attribute.name() != limit.name) continue;
            if (std::string fault = list_fault(attribute, limit, rank); !fault.empty())
                return fault;
        }
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
                     std::optional<int> rank) {
    std::string fault =
        count_fault("operands", node.input_size(), schema.min_input(), schema.max_input());
    if (fault.empty()) {
        fault =
            count_fault("results", node.output_size(), schema.min_output(), schema.max_output());
    }
    if (fault.empty()) fault = attribute_type_faults(node, schema);
    if (fault.empty()) fault = attribute_value_faults(node, rank);
    if (fault.empty()) fault = einsum_fault(node);
    return fault;
}

}  // namespace partita::importers
