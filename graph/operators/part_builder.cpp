// SPDX-License-Identifier: Apache-2.0
#include "graph/operators/part_builder.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace partita::graph {

namespace {

const Shape kNoShape;

bool has_factor(const TensorRule& tensor, int factor) {
    return std::any_of(tensor.dims.begin(), tensor.dims.end(), [factor](const DimRule& dim) {
        return std::find(dim.factors.begin(), dim.factors.end(), factor) != dim.factors.end();
    });
}

bool is_split(const OpRule& rule, const Box& box, std::size_t factor) {
    return graph::count(box[factor]) != rule.factors[factor].extent;
}

/// Whether this part is the one that applies what is applied once: the first of each reduction.
bool is_first(const OpRule& rule, const Box& box) {
    for (std::size_t f = 0; f < rule.factors.size(); ++f) {
        if (!rule.factors[f].reduction || !is_split(rule, box, f)) continue;
        if (box[f].empty() || box[f].front().begin != 0) return false;
    }
    return true;
}

Combine combine_of(const OpRule& rule, const TensorRule& result, const Box& box) {
    for (std::size_t f = 0; f < rule.factors.size(); ++f) {
        if (!rule.factors[f].reduction || !is_split(rule, box, f)) continue;
        if (!has_factor(result, static_cast<int>(f))) return rule.factors[f].combine;
    }
    return Combine::none;
}

}  // namespace

PartBuilder::PartBuilder(const OpGraph& graph, const Op& op, const OpRule& rule, const Box& box)
    : graph_(graph), op_(op), rule_(rule), box_(box) {
    part_.name = op.name;
    part_.type = op.type;
    part_.domain = op.domain;
    part_.opset = op.opset;
    part_.attributes = op.attributes;
    const bool applies = is_first(rule, box);
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        PartOperand operand;
        if (op.inputs[i].valid() && (applies || !rule.operands[i].apply_once)) {
            operand.source = PartOperand::Source::region;
            operand.dtype = graph.tensor(op.inputs[i]).dtype;
            operand.shape = graph.tensor(op.inputs[i]).shape;
            operand.region =
                region_of(rule, rule.operands[i], graph.tensor(op.inputs[i]).shape, box);
        }
        part_.operands.push_back(std::move(operand));
    }
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
        PartResult result;
        result.is_wanted = op.outputs[i].valid();
        if (result.is_wanted) {
            result.dtype = graph.tensor(op.outputs[i]).dtype;
            result.region =
                region_of(rule, rule.results[i], graph.tensor(op.outputs[i]).shape, box);
            result.combine = combine_of(rule, rule.results[i], box);
        }
        part_.results.push_back(std::move(result));
    }
}

bool PartBuilder::has_operand(int operand) const {
    return operand < static_cast<int>(op_.inputs.size()) &&
           op_.inputs[static_cast<std::size_t>(operand)].valid();
}

const Shape& PartBuilder::shape(int operand) const {
    if (!has_operand(operand)) return kNoShape;
    return graph_.tensor(op_.inputs[static_cast<std::size_t>(operand)]).shape;
}

const Shape& PartBuilder::result_shape(int result) const {
    return graph_.tensor(op_.outputs[static_cast<std::size_t>(result)]).shape;
}

Shape PartBuilder::extents(int operand) const {
    return extents_of(part_.operands[static_cast<std::size_t>(operand)].region);
}

Shape PartBuilder::result_extents(int result) const {
    return extents_of(part_.results[static_cast<std::size_t>(result)].region);
}

const DimRule& PartBuilder::dim_rule(int operand, int dim) const {
    return rule_.operands[static_cast<std::size_t>(operand)].dims[static_cast<std::size_t>(dim)];
}

std::optional<int> PartBuilder::find_factor(std::string_view name) const {
    for (std::size_t f = 0; f < rule_.factors.size(); ++f) {
        if (rule_.factors[f].name == name) return static_cast<int>(f);
    }
    return std::nullopt;
}

std::int64_t PartBuilder::count(std::string_view factor, std::int64_t fallback) const {
    const auto f = find_factor(factor);
    return f ? graph::count(box_[static_cast<std::size_t>(*f)]) : fallback;
}

Range PartBuilder::range(int factor) const {
    const Positions& positions = box_[static_cast<std::size_t>(factor)];
    assert(positions.size() <= 1);
    return positions.empty() ? Range{} : positions.front();
}

bool PartBuilder::is_whole(int factor) const {
    return !is_split(rule_, box_, static_cast<std::size_t>(factor));
}

std::optional<std::vector<std::int64_t>> PartBuilder::integers(std::string_view attribute,
                                                               int operand) const {
    if (op_.attributes.find(attribute) != nullptr) return op_.attributes.get_ints(attribute);
    if (!has_operand(operand)) return std::nullopt;
    return graph_.tensor(op_.inputs[static_cast<std::size_t>(operand)]).known_integers;
}

void PartBuilder::set_target(std::string_view attribute, int operand,
                             std::vector<std::int64_t> values) {
    if (op_.attributes.find(attribute) != nullptr) {
        part_.attributes.set(std::string(attribute), std::move(values));
        return;
    }
    const auto at = static_cast<std::size_t>(operand);
    if (part_.operands.size() <= at) part_.operands.resize(at + 1);
    const DType dtype = has_operand(operand) ? graph_.tensor(op_.inputs[at]).dtype : DType::int64;
    part_.operands[at] = {.source = PartOperand::Source::integers,
                          .region = {},
                          .dtype = dtype,
                          .shape = {static_cast<std::int64_t>(values.size())},
                          .integers = std::move(values)};
}

void PartBuilder::set_attribute(std::string_view name, AttributeValue value) {
    part_.attributes.set(std::string(name), std::move(value));
}

void PartBuilder::crop(int result, int dim, Range positions) {
    PartResult& cropped = part_.results[static_cast<std::size_t>(result)];
    if (cropped.crop.empty()) {
        for (const std::int64_t extent : result_extents(result))
            cropped.crop.push_back({0, extent});
    }
    cropped.crop[static_cast<std::size_t>(dim)] = positions;
}

}  // namespace partita::graph
