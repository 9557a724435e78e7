// SPDX-License-Identifier: Apache-2.0
#include "tests/semantics/case.h"

#include <span>
#include <string_view>
#include <variant>

#include "graph/operators/part_op.h"
#include "tests/semantics/split.h"

namespace partita::tests {

namespace {

using nlohmann::json;

json json_of(graph::Range range) {
    return json::array({range.begin, range.end});
}

json json_of(std::span<const graph::Range> ranges) {
    json list = json::array();
    for (const graph::Range range : ranges) list.push_back(json_of(range));
    return list;
}

json json_of(const graph::Region& region) {
    json list = json::array();
    for (const graph::Positions& positions : region.dims) {
        list.push_back(json_of({positions.data(), positions.size()}));
    }
    return list;
}

/// The kind stands before the value: an empty list does not show it.
json json_of(const graph::AttributeValue& value) {
    constexpr const char* kKinds[] = {"int", "float", "string", "ints", "floats", "strings"};
    return std::visit(
        [&](const auto& held) {
            return json::array({kKinds[value.index()], held});
        },
        value);
}

json attributes_of(const graph::Attributes& attributes) {
    json object = json::object();
    for (const auto& [name, value] : attributes.entries()) object[name] = json_of(value);
    return object;
}

json json_of(const graph::PartOperand& operand) {
    switch (operand.source) {
    case graph::PartOperand::Source::left_out: return nullptr;
    case graph::PartOperand::Source::region: return {{"region", json_of(operand.region)}};
    case graph::PartOperand::Source::integers:
        return {{"integers", operand.integers},
                {"shape", operand.shape},
                {"dtype", graph::name_of(operand.dtype)}};
    }
    return nullptr;
}

json json_of(const graph::PartResult& result) {
    if (!result.is_wanted) return nullptr;
    json object = {{"region", json_of(result.region)},
                   {"weight", result.weight},
                   {"combine", name_of(result.combine)}};
    if (!result.crop.empty()) object["crop"] = json_of(result.crop);
    return object;
}

json json_of(const graph::PartOp& part) {
    json object = {{"type", part.type},         {"domain", part.domain},
                   {"opset", part.opset},       {"attributes", attributes_of(part.attributes)},
                   {"operands", json::array()}, {"results", json::array()}};
    for (const auto& operand : part.operands) object["operands"].push_back(json_of(operand));
    for (const auto& result : part.results) object["results"].push_back(json_of(result));
    if (part.row_mask) {
        object["mask"] = {{"operand", part.row_mask->operand},
                          {"extent", part.row_mask->extent},
                          {"rows", json_of(part.row_mask->rows)},
                          {"result_dim", part.row_mask->result_dim}};
    }
    return object;
}

/// The op as it stands, not through part_op().
json whole_of(const graph::OpGraph& graph, const graph::Op& op) {
    json object = {{"type", op.type},           {"domain", op.domain},
                   {"opset", op.opset},         {"attributes", attributes_of(op.attributes)},
                   {"operands", json::array()}, {"results", json::array()}};
    for (const graph::TensorId id : op.inputs) {
        if (!id.valid()) {
            object["operands"].push_back(nullptr);
            continue;
        }
        const graph::Region whole = graph::whole_region(graph.tensor(id).shape);
        object["operands"].push_back({{"region", json_of(whole)}});
    }
    for (const graph::TensorId id : op.outputs) {
        if (!id.valid()) {
            object["results"].push_back(nullptr);
            continue;
        }
        const graph::Tensor& tensor = graph.tensor(id);
        object["results"].push_back(
            {{"shape", tensor.shape}, {"dtype", graph::name_of(tensor.dtype)}});
    }
    return object;
}

json operands_of(const graph::OpGraph& graph, const graph::Op& op) {
    json list = json::array();
    for (const graph::TensorId id : op.inputs) {
        if (!id.valid()) {
            list.push_back(nullptr);
            continue;
        }
        const graph::Tensor& tensor = graph.tensor(id);
        list.push_back({{"dtype", graph::name_of(tensor.dtype)}, {"shape", tensor.shape}});
        if (tensor.known_integers) list.back()["integers"] = *tensor.known_integers;
    }
    return list;
}

}  // namespace

json record_of(const Case& test, std::size_t most_parts) {
    const graph::Op& op = test.graph.op(test.op);
    const graph::OpRule rule = graph::rule_of(test.graph, test.op);
    json record = {{"name", test.name},
                   {"type", op.type},
                   {"files", test.files},
                   {"operands", operands_of(test.graph, op)},
                   {"whole", whole_of(test.graph, op)},
                   {"additive", rule.additive},
                   {"linear", json::array()},
                   {"once", json::array()},
                   {"splittable", json::array()},
                   {"splits", json::array()}};
    for (std::size_t i = 0; i < rule.operands.size(); ++i) {
        if (rule.operands[i].linear) record["linear"].push_back(i);
        if (rule.operands[i].apply_once) record["once"].push_back(i);
    }
    for (const graph::Factor& factor : rule.factors) {
        if (factor.splittable && factor.extent > 1) record["splittable"].push_back(factor.name);
    }
    for (const Split& split : splits_of(rule, most_parts)) {
        json parts = json::array();
        for (const graph::Box& box : boxes_of(rule, split)) {
            parts.push_back(json_of(graph::part_op(test.graph, test.op, rule, box)));
        }
        json factors = json::array();
        for (const FactorSplit& one : split) {
            factors.push_back(rule.factors[static_cast<std::size_t>(one.factor)].name);
        }
        record["splits"].push_back(
            {{"text", text_of(rule, split)}, {"factors", factors}, {"parts", parts}});
    }
    return record;
}

}  // namespace partita::tests
