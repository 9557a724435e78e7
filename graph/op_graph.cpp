// SPDX-License-Identifier: Apache-2.0
#include "graph/op_graph.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/sha256.h"

namespace partita::graph {

TensorId OpGraph::add_tensor(Tensor tensor) {
    const TensorId id(tensors_.size());
    tensor.producer = OpId{};
    tensors_.push_back(std::move(tensor));
    uses_.emplace_back();
    return id;
}

OpId OpGraph::add_op(Op op) {
    const OpId id(ops_.size());
    for (std::uint32_t operand = 0; operand < op.inputs.size(); ++operand) {
        const TensorId tensor = op.inputs[operand];
        if (!tensor.valid()) continue;
        assert(tensors_[tensor.index()].producer.valid());
        assert(tensors_[tensor.index()].producer < id);
        uses_[tensor.index()].push_back({id, operand});
    }
    for (const TensorId tensor : op.outputs) {
        if (!tensor.valid()) continue;
        assert(!tensors_[tensor.index()].producer.valid());
        tensors_[tensor.index()].producer = id;
    }
    ops_.push_back(std::move(op));
    return id;
}

TensorId OpGraph::add_source(Tensor tensor) {
    Op op;
    op.name = tensor.name;
    switch (tensor.role) {
    case TensorRole::input:
        op.kind = OpKind::input;
        op.type = "Input";
        break;
    case TensorRole::parameter:
        op.kind = OpKind::parameter;
        op.type = "Parameter";
        break;
    case TensorRole::constant:
        op.kind = OpKind::constant;
        op.type = "Constant";
        break;
    case TensorRole::activation: assert(false && "an activation has a compute op"); break;
    }
    const TensorId id = add_tensor(std::move(tensor));
    op.outputs.push_back(id);
    add_op(std::move(op));
    return id;
}

OpId OpGraph::add_output(std::string op_name, TensorId tensor) {
    Op op;
    op.name = std::move(op_name);
    op.type = "Output";
    op.kind = OpKind::output;
    op.inputs.push_back(tensor);
    return add_op(std::move(op));
}

std::optional<OpId> OpGraph::find_op(std::string_view op_name) const {
    for (std::size_t i = 0; i < ops_.size(); ++i) {
        if (ops_[i].name == op_name) return OpId(i);
    }
    return std::nullopt;
}

namespace {
std::vector<OpId> sorted_distinct(std::vector<OpId> ids) {
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    return ids;
}
}  // namespace

std::vector<OpId> OpGraph::predecessors(OpId id) const {
    std::vector<OpId> ids;
    for (const TensorId tensor : op(id).inputs) {
        if (tensor.valid()) ids.push_back(tensors_[tensor.index()].producer);
    }
    return sorted_distinct(std::move(ids));
}

std::vector<OpId> OpGraph::successors(OpId id) const {
    std::vector<OpId> ids;
    for (const TensorId tensor : op(id).outputs) {
        if (!tensor.valid()) continue;
        for (const Use& use : uses(tensor)) ids.push_back(use.op);
    }
    return sorted_distinct(std::move(ids));
}

std::vector<OpId> OpGraph::topological_order() const {
    // add_op() demands producers first, so ids already are such an order.
    std::vector<OpId> order;
    order.reserve(ops_.size());
    for (std::size_t i = 0; i < ops_.size(); ++i) order.emplace_back(i);
    return order;
}

namespace {

/// The start of every message: which file, when known.
std::string prefix(const OpGraph& graph) {
    return graph.name.empty() ? std::string() : graph.name + ": ";
}

void check_given_costs(const OpGraph& graph, const Op& op) {
    const GivenCosts& given = *op.given;
    const std::pair<const char*, std::int64_t> fields[] = {
        {"accelerator time", given.accelerator_time.raw()},
        {"CPU time", given.cpu_time.raw()},
        {"memory", given.memory.raw()},
        {"communication time", given.communication_time.raw()}};
    for (const auto& [field, value] : fields) {
        if (value >= 0) continue;
        throw InputError(
            fmt::format("{}node '{}' ({}), {}: expected a number >= 0, got {}. Correct "
                        "the file.",
                        prefix(graph), op.name, op.type, field, value));
    }
}

void check_op(const OpGraph& graph, std::size_t index) {
    const Op& op = graph.ops()[index];
    if (op.name.empty()) {
        throw InputError(fmt::format("{}op {} ({}): expected a name, got none. Name every op.",
                                     prefix(graph), index, op.type));
    }
    if (op.type.empty()) {
        throw InputError(
            fmt::format("{}node '{}': expected an operator, got none. Correct the "
                        "model or export it again.",
                        prefix(graph), op.name));
    }
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        const TensorId id = op.inputs[i];
        if (!id.valid()) continue;
        if (id.index() >= graph.tensor_count() || !graph.tensor(id).producer.valid()) {
            throw InputError(
                fmt::format("{}node '{}' ({}), operand {}: no op produces it. Correct "
                            "the model or export it again.",
                            prefix(graph), op.name, op.type, i));
        }
    }
    if (op.trip_count && *op.trip_count < 0) {
        throw InputError(
            fmt::format("{}node '{}' ({}), trip count: expected a number >= 0, got "
                        "{}. Correct the model.",
                        prefix(graph), op.name, op.type, *op.trip_count));
    }
    if (op.given) check_given_costs(graph, op);
    for (const Body& body : op.bodies) check(*body.graph);
}

void check_tensor(const OpGraph& graph, std::size_t index) {
    const Tensor& tensor = graph.tensors()[index];
    if (tensor.name.empty()) {
        throw InputError(fmt::format("{}tensor {}: expected a name, got none. Name every tensor.",
                                     prefix(graph), index));
    }
    if (!tensor.producer.valid()) {
        throw InputError(
            fmt::format("{}tensor '{}': no op produces it. Correct the model or "
                        "export it again.",
                        prefix(graph), tensor.name));
    }
    for (std::size_t dim = 0; dim < tensor.shape.size(); ++dim) {
        if (tensor.shape[dim] >= 0) continue;
        throw InputError(
            fmt::format("{}tensor '{}', dim {}: expected an extent >= 0, got {}. "
                        "Correct the model or its bindings.",
                        prefix(graph), tensor.name, dim, tensor.shape[dim]));
    }
    if (tensor.given_bytes && *tensor.given_bytes < Bytes(0)) {
        throw InputError(
            fmt::format("{}tensor '{}': expected a size >= 0 bytes, got {}. Correct "
                        "the file.",
                        prefix(graph), tensor.name, tensor.given_bytes->raw()));
    }
    try {
        static_cast<void>(tensor.bytes());
    } catch (const OverflowError&) {
        throw OverflowError(
            fmt::format("{}tensor '{}': shape [{}] has more than 2^63 - 1 bytes. "
                        "Correct the model or its bindings.",
                        prefix(graph), tensor.name, fmt::join(tensor.shape, " ")));
    }
}

[[noreturn]] void throw_repeated(const OpGraph& graph, std::string_view what,
                                 std::string_view name) {
    throw InputError(fmt::format("{}{} '{}': the name occurs more than once. Give each its own.",
                                 prefix(graph), what, name));
}

}  // namespace

void check(const OpGraph& graph) {
    if (graph.op_count() > std::size_t{1} << 31) {
        throw InputError(fmt::format("{}expected at most 2^31 ops, got {}. Split the model.",
                                     prefix(graph), graph.op_count()));
    }
    // Hash sets answer only "seen before?"; no order comes from them.
    std::unordered_set<std::string_view> seen;
    seen.reserve(graph.op_count());
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        check_op(graph, i);
        if (!seen.insert(graph.ops()[i].name).second) {
            throw_repeated(graph, "node", graph.ops()[i].name);
        }
    }
    seen.clear();
    for (std::size_t i = 0; i < graph.tensor_count(); ++i) {
        check_tensor(graph, i);
        if (!seen.insert(graph.tensors()[i].name).second) {
            throw_repeated(graph, "tensor", graph.tensors()[i].name);
        }
    }
}

namespace {

/// Feeds a graph to the hash; every list is preceded by its length, every optional by 0 or 1.
class Digester {
public:
    std::string run(const OpGraph& graph) {
        text("partita-graph 1");
        number(graph.op_count());
        for (const Op& op : graph.ops()) add(op);
        number(graph.tensor_count());
        for (const Tensor& tensor : graph.tensors()) add(tensor);
        return hash_.finish();
    }

private:
    void text(std::string_view value) { hash_.add(value); }
    template <class T>
    void number(T value) {
        hash_.add(static_cast<std::int64_t>(value));
    }
    void value(std::int64_t v) { number(v); }
    void value(double v) { number(std::bit_cast<std::int64_t>(v)); }
    void value(const std::string& v) { text(v); }
    template <class T>
    void value(const std::vector<T>& list) {
        number(list.size());
        for (const T& element : list) value(element);
    }
    template <class T>
    void optional(const std::optional<T>& v) {
        number(v.has_value());
        if (v) value(*v);
    }

    void add(const Op& op) {
        text(op.name);
        text(op.type);
        text(op.domain);
        number(op.kind);
        for (const auto* list : {&op.inputs, &op.outputs}) {
            number(list->size());
            for (const TensorId id : *list) number(id.value);
        }
        number(op.attributes.entries().size());
        for (const auto& [name, attribute] : op.attributes.entries()) {
            text(name);
            number(attribute.index());
            std::visit([this](const auto& v) { value(v); }, attribute);
        }
        number(op.bodies.size());
        for (const Body& body : op.bodies) {
            text(body.name);
            text(digest(*body.graph));
        }
        optional(op.trip_count);
        number(op.given.has_value());
        if (op.given) add(*op.given);
        number(op.opset);
        if (op.product_type != ProductType::as_stored) text(name_of(op.product_type));
        if (op.row_bytes != kWideRow) number(op.row_bytes);
    }

    void add(const GivenCosts& given) {
        number(given.on_accelerator);
        number(given.accelerator_time.raw());
        number(given.cpu_time.raw());
        number(given.memory.raw());
        number(given.communication_time.raw());
        number(given.backward);
        optional(given.color_class);
        number(given.id);
    }

    void add(const Tensor& tensor) {
        text(tensor.name);
        value(tensor.shape);
        number(tensor.dtype);
        number(tensor.role);
        number(tensor.producer.value);
        number(tensor.upper_bound_dims);
        optional(tensor.known_integers);
        number(tensor.given_bytes.has_value());
        if (tensor.given_bytes) number(tensor.given_bytes->raw());
        if (tensor.gradient_dtype) number(*tensor.gradient_dtype);
    }

    Sha256 hash_;
};

}  // namespace

std::string digest(const OpGraph& graph) {
    return Digester().run(graph);
}

}  // namespace partita::graph
