// SPDX-License-Identifier: Apache-2.0
#include "tests/graph/operators/examples.h"

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace partita::graph::testing {

namespace {

std::vector<std::string> parts_of(std::string_view text, char separator) {
    std::vector<std::string> parts;
    std::istringstream stream{std::string(text)};
    for (std::string part; std::getline(stream, part, separator);) {
        const std::size_t first = part.find_first_not_of(' ');
        const std::size_t last = part.find_last_not_of(' ');
        parts.push_back(first == std::string::npos ? "" : part.substr(first, last - first + 1));
    }
    return parts;
}

std::vector<std::int64_t> integers_of(std::string_view text) {
    std::vector<std::int64_t> values;
    for (const std::string& part : parts_of(text, ',')) {
        if (!part.empty()) values.push_back(std::stoll(part));
    }
    return values;
}

constexpr std::pair<char, DType> kDTypes[] = {
    {'i', DType::int64},   {'j', DType::int32},   {'u', DType::uint8},   {'c', DType::int8},
    {'b', DType::boolean}, {'h', DType::float16}, {'d', DType::float64}, {'s', DType::string},
};

Tensor tensor_of(std::string text, std::string name) {
    Tensor tensor;
    tensor.name = std::move(name);
    for (const auto& [letter, dtype] : kDTypes) {
        if (text.front() != letter) continue;
        tensor.dtype = dtype;
        text.erase(0, 1);
        break;
    }
    if (text.front() == '[' || text.front() == '<') {
        tensor.dtype = DType::int64;
        tensor.known_integers = integers_of(text.substr(1, text.size() - 2));
        if (text.front() == '[') {
            tensor.shape = {static_cast<std::int64_t>(tensor.known_integers->size())};
        }
    } else if (text != "()") {
        tensor.shape = integers_of(text);
    }
    return tensor;
}

AttributeValue value_of(const std::string& text) {
    if (text.front() == '"') return text.substr(1, text.size() - 2);
    if (text.find(',') != std::string::npos) return integers_of(text);
    if (text.find('.') != std::string::npos) return std::stod(text);
    return std::int64_t{std::stoll(text)};
}

}  // namespace

OpGraph graph_of(std::string_view example) {
    const std::vector<std::string> fields = parts_of(example, '|');
    const std::size_t arrow = fields.at(1).find("->");
    OpGraph graph;
    Op op;
    op.name = "op";
    const std::size_t colon = fields[0].find(':');
    if (colon != std::string::npos) op.domain = fields[0].substr(0, colon);
    op.type = fields[0].substr(colon == std::string::npos ? 0 : colon + 1);
    for (const std::string& text : parts_of(fields[1].substr(0, arrow), ' ')) {
        if (text.empty()) continue;
        if (text == "_") {
            op.inputs.emplace_back();
            continue;
        }
        Tensor tensor = tensor_of(text, fmt::format("x{}", op.inputs.size()));
        tensor.role = tensor.known_integers ? TensorRole::constant : TensorRole::input;
        op.inputs.push_back(graph.add_source(std::move(tensor)));
    }
    for (const std::string& text : parts_of(fields[1].substr(arrow + 2), ' ')) {
        if (text.empty()) continue;
        op.outputs.push_back(
            text == "_" ? TensorId{}
                        : graph.add_tensor(tensor_of(text, fmt::format("y{}", op.outputs.size()))));
    }
    if (fields.size() > 2) {
        for (const std::string& entry : parts_of(fields[2], ' ')) {
            const std::size_t at = entry.find('=');
            if (at == std::string::npos) continue;
            if (entry.substr(0, at) == "opset") {
                op.opset = std::stoi(entry.substr(at + 1));
            } else {
                op.attributes.set(entry.substr(0, at), value_of(entry.substr(at + 1)));
            }
        }
    }
    graph.add_op(std::move(op));
    return graph;
}

OpId last_op(const OpGraph& graph) {
    return OpId(graph.op_count() - 1);
}

OpRule rule_of_example(std::string_view example) {
    const OpGraph graph = graph_of(example);
    return rule_of(graph, last_op(graph));
}

namespace {

std::string position(std::int64_t stride, std::int64_t shift) {
    const std::string scaled = stride == 1 ? "i" : fmt::format("{}i", stride);
    return shift == 0 ? scaled : fmt::format("{}{:+}", scaled, shift);
}

std::string text_of(const DimRule& dim, const OpRule& rule) {
    if (dim.factors.empty()) return ".";
    std::vector<std::string> names;
    for (const int f : dim.factors) names.push_back(rule.factors[std::size_t(f)].name);
    if (dim.rotation) names[0] += fmt::format("+{}", *dim.rotation);
    std::string text = fmt::format("{}", fmt::join(names, " "));
    if (names.size() > 1) text = "(" + text + ")";
    if (!dim.window) return text;
    const Window& w = *dim.window;
    const std::string range =
        fmt::format("{}..{}", position(w.stride, -w.before), position(w.stride, w.after));
    return text + (w.divisor == 1 ? fmt::format("{{{}}}", range)
                                  : fmt::format("{{({})/{}}}", range, w.divisor));
}

std::string text_of(const std::vector<TensorRule>& tensors, const OpRule& rule) {
    std::vector<std::string> texts;
    for (const TensorRule& tensor : tensors) {
        std::vector<std::string> dims;
        for (const DimRule& dim : tensor.dims) dims.push_back(text_of(dim, rule));
        texts.push_back(dims.empty() ? "()" : fmt::format("{}", fmt::join(dims, " ")));
    }
    return fmt::format("{}", fmt::join(texts, ", "));
}

std::string bits_text(std::uint64_t bits, std::size_t count, const char* prefix) {
    std::string text;
    for (std::size_t i = 0; i < count; ++i) {
        if (bits >> std::min<std::size_t>(i, 63) & 1) text += fmt::format(" {}{}", prefix, i);
    }
    return text;
}

}  // namespace

std::string text_of(const OpRule& rule) {
    if (rule.conservative) return "conservative";
    std::string whole, reduce, linear, once;
    for (const Factor& factor : rule.factors) {
        if (factor.reduction) {
            reduce += fmt::format(" {} {}", factor.name, name_of(factor.combine));
        } else if (!factor.splittable) {
            whole += " " + factor.name;
        }
    }
    for (std::size_t i = 0; i < rule.operands.size(); ++i) {
        if (rule.operands[i].linear) linear += fmt::format(" {}", i);
        if (rule.operands[i].apply_once) once += fmt::format(" {}", i);
    }
    const std::string saves = bits_text(rule.saves_operands, rule.operands.size(), "") +
                              bits_text(rule.saves_results, rule.results.size(), "y");
    const std::string operands = text_of(rule.operands, rule);
    const std::string results = text_of(rule.results, rule);
    std::string text = fmt::format("{}{}->{}{}", operands, operands.empty() ? "" : " ",
                                   results.empty() ? "" : " ", results);
    const auto add = [&text](const char* what, const std::string& list) {
        if (!list.empty()) text += fmt::format("; {}{}", what, list);
    };
    add("whole", whole);
    add("reduce", reduce);
    add(rule.additive ? "additive" : "linear", linear);
    add("once", once);
    add("saves", saves);
    if (rule.alias) text += "; alias";
    if (rule.matrix_product) text += "; matrix";
    text += fmt::format("; flops {}", static_cast<std::int64_t>(rule.flops.raw()));
    return text;
}

namespace {

std::string complaint_about(const DimRule& dim, std::int64_t extent, bool is_result,
                            const OpRule& rule) {
    if (dim.factors.empty()) return "";
    if (dim.window) {
        if (is_result || dim.factors.size() != 1) return "a window where none may be";
        const std::int64_t outputs = rule.factors[std::size_t(dim.factors[0])].extent;
        const Range all = operand_range(*dim.window, {0, outputs}, extent);
        return all.begin >= 0 && all.end <= extent ? "" : "a window beyond the operand";
    }
    std::int64_t product = 1;
    for (const int f : dim.factors) product *= rule.factors[std::size_t(f)].extent;
    return product == extent ? "" : fmt::format("extent {} of factors of {}", extent, product);
}

/// Checks one tensor and counts how often each factor is used in it.
std::string complaint_about(const OpGraph& graph, TensorId id, const TensorRule& tensor_rule,
                            bool is_result, const OpRule& rule, std::vector<int>& uses) {
    const Shape shape = id.valid() ? graph.tensor(id).shape : Shape{};
    if (tensor_rule.dims.size() != shape.size()) return "another number of dims";
    std::vector<int> here(rule.factors.size(), 0);
    for (std::size_t d = 0; d < shape.size(); ++d) {
        const std::string complaint =
            complaint_about(tensor_rule.dims[d], shape[d], is_result, rule);
        if (!complaint.empty()) return fmt::format("dim {}: {}", d, complaint);
        for (const int f : tensor_rule.dims[d].factors) ++here[std::size_t(f)];
    }
    for (std::size_t f = 0; f < here.size(); ++f) {
        uses[f] += here[f];
        if (here[f] > 1 && rule.factors[f].splittable) return "a splittable factor twice";
    }
    return "";
}

}  // namespace

std::string complaint_about(const OpGraph& graph, OpId id, const OpRule& rule) {
    const Op& op = graph.op(id);
    if (rule.operands.size() != op.inputs.size()) return "another number of operands";
    if (rule.results.size() != op.outputs.size()) return "another number of results";
    std::vector<int> in_operands(rule.factors.size(), 0);
    std::vector<int> in_results(rule.factors.size(), 0);
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        const std::string complaint =
            complaint_about(graph, op.inputs[i], rule.operands[i], false, rule, in_operands);
        if (!complaint.empty()) return fmt::format("operand {}, {}", i, complaint);
    }
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
        const std::string complaint =
            complaint_about(graph, op.outputs[i], rule.results[i], true, rule, in_results);
        if (!complaint.empty()) return fmt::format("result {}, {}", i, complaint);
    }
    std::vector<std::string> names;
    for (std::size_t f = 0; f < rule.factors.size(); ++f) {
        const Factor& factor = rule.factors[f];
        names.push_back(factor.name);
        const auto wrong = [&](const char* what) { return factor.name + ": " + what; };
        if (factor.extent < 0) return wrong("a negative extent");
        if (factor.reduction && in_results[f] > 0) return wrong("a reduction in a result");
        if (!factor.reduction && factor.combine != Combine::none)
            return wrong("nothing to combine");
        if (factor.reduction && factor.splittable && factor.combine == Combine::none) {
            return wrong("a splittable reduction that cannot combine");
        }
        const bool is_used = in_operands[f] + in_results[f] > 0;
        if (!is_used && factor.splittable && factor.extent > 1) return wrong("in no tensor");
    }
    std::sort(names.begin(), names.end());
    if (std::adjacent_find(names.begin(), names.end()) != names.end()) return "a name twice";
    if (rule.flops < Flops(0)) return "negative FLOPs";
    return "";
}

}  // namespace partita::graph::testing
