// SPDX-License-Identifier: Apache-2.0
#include "importers/onnx/unroll.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "importers/onnx/onnx_types.h"

namespace partita::importers {

using graph::DType;
using graph::Shape;

namespace {

// Operands of LSTM: X, W, R, B, sequence_lens, initial_h, initial_c, P; GRU and RNN end at 5.
enum Operand : std::size_t { kX, kW, kR, kB, kLengths, kH, kC, kP };

ValueId operand(const DraftNode& node, std::size_t i) {
    return i < node.operands.size() ? node.operands[i] : kNoValue;
}

ValueId result(const DraftNode& node, std::size_t i) {
    return i < node.results.size() ? node.results[i] : kNoValue;
}

/// Everything about one recurrent op that its steps share.
struct Recurrence {
    const DraftNode& node;
    std::deque<Value>& values;
    Draft& draft;
    DType dtype = DType::undefined;
    std::int64_t steps = 0, batch = 0, width = 0, hidden = 0, directions = 1;
    bool batch_first = false;  // layout = 1
    bool has_cell = false;     // LSTM

    ValueId add(const std::string& suffix, const Shape& shape) const {
        Value value;
        value.name = node.name + suffix;
        value.draft = draft.number;
        value.type = tensor_type(dtype, shape);
        values.push_back(std::move(value));
        return static_cast<ValueId>(values.size() - 1);
    }

    DraftNode& add_node(const std::string& suffix, std::string type, std::string domain) const {
        DraftNode made;
        made.name = node.name + suffix;
        made.type = std::move(type);
        made.domain = std::move(domain);
        made.opset = made.domain.empty() ? node.opset : 1;
        made.block = node.block;
        draft.nodes.push_back(std::move(made));
        return draft.nodes.back();
    }
};

/// x_0, x_1, ...; X itself when there is one step.
std::vector<ValueId> split_steps(const Recurrence& r) {
    if (r.steps == 1) return {operand(r.node, kX)};
    const Shape shape = r.batch_first ? Shape{r.batch, 1, r.width} : Shape{1, r.batch, r.width};
    std::vector<ValueId> parts;
    for (std::int64_t t = 0; t < r.steps; ++t) {
        parts.push_back(r.add(fmt::format("/x.{}", t), shape));
    }
    DraftNode& split = r.add_node("/Split", "Split", "");
    split.attributes.set("axis", std::int64_t{r.batch_first ? 1 : 0});
    if (split.opset >= 18) split.attributes.set("num_outputs", r.steps);
    split.operands = {operand(r.node, kX)};
    split.results = parts;
    return parts;
}

/// The steps of one direction; outputs in the order of time.
struct Direction {
    std::vector<ValueId> outputs;
    ValueId last_cell = kNoValue;
};

Direction add_steps(const Recurrence& r, const std::vector<ValueId>& inputs, std::int64_t direction,
                    bool backwards) {
    // [directions, batch, hidden] for the state of the op; a step makes [1, batch, hidden].
    const Shape state = r.batch_first ? Shape{r.batch, 1, r.hidden} : Shape{1, r.batch, r.hidden};
    Direction made;
    made.outputs.resize(inputs.size());
    ValueId hidden = operand(r.node, kH);
    ValueId cell = r.has_cell ? operand(r.node, kC) : kNoValue;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        const std::size_t t = backwards ? inputs.size() - 1 - i : i;
        const std::string suffix =
            r.directions == 1 ? fmt::format(".{}", t) : fmt::format(".{}.{}", direction, t);
        const ValueId next = r.add("/h" + suffix, state);
        const ValueId next_cell = r.has_cell ? r.add("/c" + suffix, state) : kNoValue;
        DraftNode& step = r.add_node("/step" + suffix, r.node.type + "Step", "partita");
        step.attributes = r.node.attributes;
        step.attributes.set("direction_index", direction);
        // Only the op's own initial state holds both directions.
        step.attributes.set("first", std::int64_t{i == 0});
        step.operands = {inputs[t], operand(r.node, kW), operand(r.node, kR), operand(r.node, kB),
                         hidden};
        if (r.has_cell) {
            step.operands.push_back(cell);
            step.operands.push_back(operand(r.node, kP));
        }
        while (!step.operands.empty() && step.operands.back() == kNoValue) step.operands.pop_back();
        step.results = {next};
        if (r.has_cell) step.results.push_back(next_cell);
        made.outputs[t] = hidden = next;
        made.last_cell = cell = next_cell;
    }
    return made;
}

void add_concat(const Recurrence& r, const std::string& suffix, std::vector<ValueId> parts,
                std::int64_t axis, ValueId into) {
    DraftNode& concat = r.add_node(suffix, parts.size() == 1 ? "Identity" : "Concat", "");
    if (parts.size() > 1) concat.attributes.set("axis", axis);
    concat.operands = std::move(parts);
    concat.results = {into};
}

/// Y is [steps directions batch hidden], or [batch steps directions hidden]: each step's outputs
/// get the missing dim by Unsqueeze before they are joined.
void join_outputs(const Recurrence& r, const std::vector<Direction>& made) {
    const ValueId y = result(r.node, 0);
    if (y == kNoValue) return;
    std::vector<ValueId> rows;
    for (std::int64_t t = 0; t < r.steps; ++t) {
        const auto step = static_cast<std::size_t>(t);
        ValueId row = made[0].outputs[step];
        if (made.size() == 2) {
            const Shape both =
                r.batch_first ? Shape{r.batch, 2, r.hidden} : Shape{2, r.batch, r.hidden};
            row = r.add(fmt::format("/y.{}", t), both);
            add_concat(r, fmt::format("/Concat.{}", t),
                       {made[0].outputs[step], made[1].outputs[step]}, r.batch_first ? 1 : 0, row);
        }
        rows.push_back(row);
    }
    // Joined along the dim in front (or, batch first, along dim 1), then given Y's own shape.
    const std::int64_t joined = r.steps * r.directions;
    const Shape shape =
        r.batch_first ? Shape{r.batch, joined, r.hidden} : Shape{joined, r.batch, r.hidden};
    const ValueId all = r.add("/y", shape);
    add_concat(r, "/Concat", rows, r.batch_first ? 1 : 0, all);
    const Shape target = r.batch_first ? Shape{r.batch, r.steps, r.directions, r.hidden}
                                       : Shape{r.steps, r.directions, r.batch, r.hidden};
    auto literal = std::make_shared<Literal>(make_literal(DType::int64, {4}));
    std::get<0>(literal->values) = target;
    Value value;
    value.name = r.node.name + "/shape";
    value.draft = r.draft.number;
    value.type = tensor_type(DType::int64, {4});
    value.literal = std::move(literal);
    r.values.push_back(std::move(value));
    const auto target_id = static_cast<ValueId>(r.values.size() - 1);
    DraftNode& reshape = r.add_node("/Reshape", "Reshape", "");
    reshape.operands = {all, target_id};
    reshape.results = {y};
}

}  // namespace

bool can_unroll(const DraftNode& node, const std::deque<Value>& values) {
    const bool recurrent = node.type == "LSTM" || node.type == "GRU" || node.type == "RNN";
    if (!node.domain.empty() || !recurrent || operand(node, kLengths) != kNoValue) return false;
    const ValueId x = operand(node, kX);
    const ValueId r = operand(node, kR);
    if (x == kNoValue || r == kNoValue) return false;
    const auto shape = shape_of(values[x].type);
    const auto weights = shape_of(values[r].type);
    if (!shape || shape->size() != 3 || !is_static(values[x].type) || values[x].bounded_dims != 0) {
        return false;
    }
    if (!weights || weights->size() != 3 || !is_static(values[r].type)) return false;
    const std::int64_t steps = (*shape)[node.attributes.get_int("layout", 0) == 1 ? 1 : 0];
    const std::int64_t directions =
        node.attributes.get_string("direction", "forward") == "bidirectional" ? 2 : 1;
    return steps >= 1 && steps <= kMaxSteps && (*weights)[0] == directions;
}

void unroll(DraftNode node, std::deque<Value>& values, Draft& draft) {
    const Shape x = *shape_of(values[operand(node, kX)].type);
    const Shape weights = *shape_of(values[operand(node, kR)].type);
    Recurrence r{.node = node, .values = values, .draft = draft};
    r.dtype = dtype_of(values[operand(node, kX)].type);
    r.batch_first = node.attributes.get_int("layout", 0) == 1;
    r.steps = x[r.batch_first ? 1 : 0];
    r.batch = x[r.batch_first ? 0 : 1];
    r.width = x[2];
    r.hidden = weights[2];
    r.directions = weights[0];
    r.has_cell = node.type == "LSTM";
    const std::string way = node.attributes.get_string("direction", "forward");

    const std::vector<ValueId> inputs = split_steps(r);
    std::vector<Direction> made = {add_steps(r, inputs, 0, way == "reverse")};
    if (r.directions == 2) made.push_back(add_steps(r, inputs, 1, true));
    join_outputs(r, made);

    std::vector<ValueId> hidden = {way == "reverse" ? made[0].outputs.front()
                                                    : made[0].outputs.back()};
    std::vector<ValueId> cells = {made[0].last_cell};
    if (made.size() == 2) {
        hidden.push_back(made[1].outputs.front());
        cells.push_back(made[1].last_cell);
    }
    const std::int64_t axis = r.batch_first ? 1 : 0;
    if (result(node, 1) != kNoValue) add_concat(r, "/Y_h", hidden, axis, result(node, 1));
    if (r.has_cell && result(node, 2) != kNoValue)
        add_concat(r, "/Y_c", cells, axis, result(node, 2));
}

}  // namespace partita::importers
