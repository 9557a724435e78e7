// SPDX-License-Identifier: Apache-2.0
#include "importers/onnx/unroll.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "importers/onnx/onnx_types.h"

namespace partita::importers {

using graph::DType;
using graph::Shape;

namespace {

// Operands of LSTM; those of GRU and RNN end after the initial h.
enum Operand : std::size_t { op_x, op_w, op_r, op_b, op_lengths, op_h, op_c, op_p, op_count };

ValueId operand(const DraftNode& node, std::size_t i) {
    return i < node.operands.size() ? node.operands[i] : kNoValue;
}

ValueId result(const DraftNode& node, std::size_t i) {
    return i < node.results.size() ? node.results[i] : kNoValue;
}

class Unroller {
public:
    Unroller(const DraftNode& node, std::deque<Value>& values, Draft& draft)
        : node_(node), values_(values), draft_(draft) {
        const Shape x = *shape_of(values[operand(node, op_x)].type);
        const Shape weights = *shape_of(values[operand(node, op_r)].type);
        batch_first_ = node.attributes.get_int("layout", 0) == 1;
        steps_ = x[batch_first_ ? 1 : 0];
        batch_ = x[batch_first_ ? 0 : 1];
        hidden_ = weights[2];
        directions_ = static_cast<std::size_t>(weights[0]);
        has_cell_ = node.type == "LSTM";
    }

    void unroll() {
        const std::int64_t time = batch_first_ ? 1 : 0;
        const std::vector<ValueId> inputs =
            split(op_x, time, static_cast<std::size_t>(steps_), "x");
        const bool reverse = node_.attributes.get_string("direction", "forward") == "reverse";
        split_directions();
        std::vector<std::vector<ValueId>> outputs;
        for (std::size_t d = 0; d < directions_; ++d) {
            outputs.push_back(add_steps(inputs, d, reverse || d == 1));
        }
        join(outputs);
    }

private:
    ValueId add_value(const std::string& suffix, const Shape& shape) {
        Value value;
        value.name = node_.name + suffix;
        value.draft = draft_.number;
        value.type = tensor_type(dtype_of(values_[operand(node_, op_x)].type), shape);
        values_.push_back(std::move(value));
        return static_cast<ValueId>(values_.size() - 1);
    }

    DraftNode& add_node(const std::string& suffix, std::string type) {
        DraftNode made;
        made.name = node_.name + suffix;
        made.type = std::move(type);
        made.opset = node_.opset;
        made.block = node_.block;
        draft_.nodes.push_back(std::move(made));
        return draft_.nodes.back();
    }

    /// Parts of extent 1 of an operand; the operand itself when there is one part.
    std::vector<ValueId> split(std::size_t which, std::int64_t axis, std::size_t parts,
                               const std::string& letter) {
        const ValueId whole = operand(node_, which);
        if (whole == kNoValue || parts == 1) return std::vector<ValueId>(parts, whole);
        Shape shape = *shape_of(values_[whole].type);
        shape[static_cast<std::size_t>(axis)] = 1;
        std::vector<ValueId> made;
        for (std::size_t i = 0; i < parts; ++i) {
            made.push_back(add_value(fmt::format("/{}.{}", letter, i), shape));
        }
        DraftNode& node = add_node("/split_" + letter, "Split");
        node.attributes.set("axis", axis);
        if (node.opset >= 18) node.attributes.set("num_outputs", static_cast<std::int64_t>(parts));
        node.operands = {whole};
        node.results = made;
        return made;
    }

    void split_directions() {
        constexpr std::array<std::pair<Operand, const char*>, 6> kParts = {
            {{op_w, "w"}, {op_r, "r"}, {op_b, "b"}, {op_h, "h0"}, {op_c, "c0"}, {op_p, "p"}}};
        for (const auto& [which, letter] : kParts) {
            const bool state = which == op_h || which == op_c;
            parts_[which] = split(which, state && batch_first_ ? 1 : 0, directions_, letter);
        }
    }

    /// Attributes of one direction: of the lists per activation, its half.
    graph::Attributes attributes_of(std::size_t direction) const {
        graph::Attributes made;
        for (const auto& [name, value] : node_.attributes.entries())
            made.set(name, half(value, direction));
        made.set("direction", std::string("forward"));
        return made;
    }

    graph::AttributeValue half(const graph::AttributeValue& value, std::size_t direction) const {
        return std::visit(
            [&](const auto& held) -> graph::AttributeValue {
                using Held = std::decay_t<decltype(held)>;
                if constexpr (std::is_same_v<Held, std::vector<std::string>> ||
                              std::is_same_v<Held, std::vector<double>>) {
                    const auto size = static_cast<std::ptrdiff_t>(held.size() / directions_);
                    const auto first = held.begin() + size * static_cast<std::ptrdiff_t>(direction);
                    return Held(first, first + size);
                } else {
                    return held;
                }
            },
            value);
    }

    /// The steps of one direction; their outputs in the order of time.
    std::vector<ValueId> add_steps(const std::vector<ValueId>& inputs, std::size_t direction,
                                   bool backwards) {
        const Shape state = batch_first_ ? Shape{batch_, 1, hidden_} : Shape{1, batch_, hidden_};
        const Shape output =
            batch_first_ ? Shape{batch_, 1, 1, hidden_} : Shape{1, 1, batch_, hidden_};
        const graph::Attributes attributes = attributes_of(direction);
        std::vector<ValueId> outputs(inputs.size());
        ValueId hidden = parts_[op_h][direction];
        ValueId cell = parts_[op_c][direction];
        for (std::size_t i = 0; i < inputs.size(); ++i) {
            const std::size_t t = backwards ? inputs.size() - 1 - i : i;
            const std::string suffix =
                directions_ == 1 ? fmt::format(".{}", t) : fmt::format(".{}.{}", direction, t);
            const ValueId next_hidden = add_value("/h" + suffix, state);
            const ValueId next_cell = has_cell_ ? add_value("/c" + suffix, state) : kNoValue;
            outputs[t] = add_value("/y" + suffix, output);
            DraftNode& step = add_node("/step" + suffix, node_.type);
            step.attributes = attributes;
            step.operands = {inputs[t],
                             parts_[op_w][direction],
                             parts_[op_r][direction],
                             parts_[op_b][direction],
                             kNoValue,
                             hidden};
            step.results = {outputs[t], next_hidden};
            if (has_cell_) {
                step.operands.insert(step.operands.end(), {cell, parts_[op_p][direction]});
                step.results.push_back(next_cell);
            }
            hidden = next_hidden;
            cell = next_cell;
        }
        last_hidden_.push_back(hidden);
        last_cell_.push_back(cell);
        return outputs;
    }

    void concat(const std::string& suffix, const std::vector<ValueId>& parts, std::int64_t axis,
                ValueId into) {
        if (into == kNoValue) return;
        DraftNode& node = add_node(suffix, parts.size() == 1 ? "Identity" : "Concat");
        if (parts.size() > 1) node.attributes.set("axis", axis);
        node.operands = parts;
        node.results = {into};
    }

    // Y is [steps directions batch hidden], or [batch steps directions hidden].
    void join(const std::vector<std::vector<ValueId>>& outputs) {
        std::vector<ValueId> rows = outputs[0];
        for (std::size_t t = 0; directions_ == 2 && t < rows.size(); ++t) {
            const Shape both =
                batch_first_ ? Shape{batch_, 1, 2, hidden_} : Shape{1, 2, batch_, hidden_};
            rows[t] = add_value(fmt::format("/y.{}", t), both);
            concat(fmt::format("/join.{}", t), {outputs[0][t], outputs[1][t]}, batch_first_ ? 2 : 1,
                   rows[t]);
        }
        concat("/join", rows, batch_first_ ? 1 : 0, result(node_, 0));
        concat("/join_h", last_hidden_, batch_first_ ? 1 : 0, result(node_, 1));
        if (has_cell_) concat("/join_c", last_cell_, batch_first_ ? 1 : 0, result(node_, 2));
    }

    const DraftNode& node_;
    std::deque<Value>& values_;
    Draft& draft_;
    bool batch_first_ = false;  // layout = 1
    std::int64_t steps_ = 0, batch_ = 0, hidden_ = 0;
    std::size_t directions_ = 1;
    bool has_cell_ = false;
    std::array<std::vector<ValueId>, op_count> parts_;  // per operand and direction
    std::vector<ValueId> last_hidden_;
    std::vector<ValueId> last_cell_;
};

bool has_static_shape(const std::deque<Value>& values, ValueId id, std::size_t rank) {
    if (id == kNoValue) return true;
    const auto shape = shape_of(values[id].type);
    return shape && shape->size() == rank && is_static(values[id].type) &&
           values[id].bounded_dims == 0;
}

}  // namespace

bool can_unroll(const DraftNode& node, const std::deque<Value>& values) {
    const bool recurrent = node.type == "LSTM" || node.type == "GRU" || node.type == "RNN";
    if (!node.domain.empty() || !recurrent || operand(node, op_lengths) != kNoValue) return false;
    if (operand(node, op_x) == kNoValue || operand(node, op_r) == kNoValue) return false;
    for (const std::size_t i : {op_x, op_w, op_r, op_h, op_c}) {
        if (!has_static_shape(values, operand(node, i), 3)) return false;
    }
    for (const std::size_t i : {op_b, op_p}) {
        if (!has_static_shape(values, operand(node, i), 2)) return false;
    }
    const bool batch_first = node.attributes.get_int("layout", 0) == 1;
    const std::int64_t steps = (*shape_of(values[operand(node, op_x)].type))[batch_first ? 1 : 0];
    const std::int64_t directions =
        node.attributes.get_string("direction", "forward") == "bidirectional" ? 2 : 1;
    for (const std::size_t i : {op_w, op_r, op_b, op_p}) {
        const ValueId id = operand(node, i);
        if (id != kNoValue && (*shape_of(values[id].type))[0] != directions) return false;
    }
    return steps >= 1 && steps <= kMaxSteps;
}

void unroll(const DraftNode& node, std::deque<Value>& values, Draft& draft) {
    Unroller(node, values, draft).unroll();
}

}  // namespace partita::importers
