// SPDX-License-Identifier: Apache-2.0
#include "importers/onnx/graph_builder.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "importers/onnx/model_error.h"
#include "importers/onnx/onnx_types.h"

namespace partita::importers {

using graph::DType;
using graph::OpGraph;
using graph::Shape;
using graph::TensorId;
using graph::TensorRole;

namespace {

// --- what is needed ----------------------------------------------------------------------------

struct Liveness {
    std::vector<bool> nodes;
    std::set<ValueId> needed;
    std::vector<ValueId> captures;              ///< values of outer drafts that are no constants
    std::vector<std::vector<Liveness>> bodies;  ///< per node
};

/// A value that each graph can hold by itself: computed while reading, or a Constant's tensor.
bool is_local_constant(const Value& value) {
    if (value.initializer) return false;
    return value.literal != nullptr || value.data != nullptr || value.sparse != nullptr;
}

// Nodes stand after the makers of their operands, so one pass from the end suffices.
Liveness liveness_of(const Draft& draft, const std::deque<Value>& values) {
    Liveness live;
    live.nodes.resize(draft.nodes.size(), false);
    live.bodies.resize(draft.nodes.size());
    live.needed.insert(draft.outputs.begin(), draft.outputs.end());
    for (std::size_t i = draft.nodes.size(); i-- > 0;) {
        const DraftNode& node = draft.nodes[i];
        live.nodes[i] = std::any_of(node.results.begin(), node.results.end(),
                                    [&](ValueId id) { return live.needed.count(id) != 0; });
        if (!live.nodes[i]) continue;
        for (const ValueId id : node.operands) {
            if (id != kNoValue) live.needed.insert(id);
        }
        for (const DraftBody& body : node.bodies) {
            live.bodies[i].push_back(liveness_of(*body.draft, values));
            const auto& captures = live.bodies[i].back().captures;
            live.needed.insert(captures.begin(), captures.end());
        }
    }
    for (const ValueId id : live.needed) {
        const Value& value = values[id];
        if (value.draft != draft.number && !is_local_constant(value)) live.captures.push_back(id);
    }
    return live;
}

// --- roles -------------------------------------------------------------------------------------

struct OperandPlace {
    std::string_view type;
    std::size_t operand;
};
/// Floating-point operands that describe and are not trained.
constexpr std::array kNotTrained = {
    OperandPlace{"BatchNormalization", 3},
    OperandPlace{"BatchNormalization", 4},
    OperandPlace{"Clip", 1},
    OperandPlace{"Clip", 2},
    OperandPlace{"DequantizeLinear", 1},
    OperandPlace{"Dropout", 1},
    OperandPlace{"OneHot", 2},
    OperandPlace{"Pad", 2},
    OperandPlace{"QLinearConv", 1},
    OperandPlace{"QLinearConv", 4},
    OperandPlace{"QLinearConv", 6},
    OperandPlace{"QLinearMatMul", 1},
    OperandPlace{"QLinearMatMul", 4},
    OperandPlace{"QLinearMatMul", 6},
    OperandPlace{"QuantizeLinear", 1},
    OperandPlace{"Resize", 1},
    OperandPlace{"Resize", 2},
    OperandPlace{"Upsample", 1},
};
/// Operators whose one-element operands are weights too.
constexpr std::array<std::string_view, 14> kWeighted = {"BatchNormalization",
                                                        "Conv",
                                                        "ConvTranspose",
                                                        "GRU",
                                                        "Gather",
                                                        "Gemm",
                                                        "GroupNormalization",
                                                        "InstanceNormalization",
                                                        "LSTM",
                                                        "LayerNormalization",
                                                        "MatMul",
                                                        "PRelu",
                                                        "RMSNormalization",
                                                        "RNN"};

bool trains(const DraftNode& node, std::size_t operand, const Value& value, bool exact_roles) {
    const DType dtype = dtype_of(value.type);
    if (!value.initializer || !graph::is_floating_point(dtype)) return false;
    if (exact_roles) return true;
    const bool excluded =
        std::any_of(kNotTrained.begin(), kNotTrained.end(), [&](const OperandPlace& place) {
            return place.type == node.type && place.operand == operand;
        });
    if (excluded) return false;
    const Shape shape = shape_of(value.type).value_or(Shape{});
    const auto count = element_count(shape, std::numeric_limits<std::int64_t>::max());
    if (shape.empty()) return false;
    if (count == 1) {
        return std::find(kWeighted.begin(), kWeighted.end(), node.type) != kWeighted.end();
    }
    return true;
}

void find_trained(const Draft& draft, const Liveness& live, const std::deque<Value>& values,
                  bool exact_roles, std::unordered_set<ValueId>& trained) {
    for (std::size_t i = 0; i < draft.nodes.size(); ++i) {
        if (!live.nodes[i]) continue;
        const DraftNode& node = draft.nodes[i];
        for (std::size_t k = 0; k < node.operands.size(); ++k) {
            const ValueId id = node.operands[k];
            if (id != kNoValue && trains(node, k, values[id], exact_roles)) trained.insert(id);
        }
        for (std::size_t b = 0; b < node.bodies.size(); ++b) {
            find_trained(*node.bodies[b].draft, live.bodies[i][b], values, exact_roles, trained);
        }
    }
}

// --- names -------------------------------------------------------------------------------------

/// The first comer keeps its name, others get _2, _3, ...
class UniqueNames {
public:
    bool taken(const std::string& name) const { return next_.count(name) != 0; }
    std::string make(const std::string& name) {
        std::string wanted = name.empty() ? std::string("unnamed") : name;
        auto& next = next_[wanted];
        if (next == 0) {
            next = 2;
            return wanted;
        }
        for (;;) {
            std::string tried = fmt::format("{}_{}", wanted, next_[wanted]++);
            if (next_.emplace(tried, 2).second) return tried;
        }
    }

private:
    std::unordered_map<std::string, int> next_;
};

// --- building ----------------------------------------------------------------------------------

class Builder {
public:
    Builder(const std::deque<Value>& values, const BuildOptions& options)
        : values_(values),
          file_(options.file),
          literal_limit_(options.literal_limit),
          exact_roles_(options.exact_roles),
          limits_(options.limits) {}

    BuiltGraph build(const Draft& draft) {
        const Liveness live = liveness_of(draft, values_);
        find_trained(draft, live, values_, exact_roles_, trained_);
        built_.graph = graph_of(draft, live, {}, "");
        return std::move(built_);
    }

private:
    /// One graph while it is built.
    struct Target {
        OpGraph graph;
        std::string body;  ///< "node 'n' (If), attribute 'then_branch': ", for messages
        std::unordered_map<ValueId, TensorId> tensors;
        UniqueNames op_names;
        UniqueNames tensor_names;
    };

    OpGraph graph_of(const Draft& draft, const Liveness& live, const std::vector<ValueId>& captures,
                     const std::string& body) {
        Target target;
        // A body is named by the file too: messages about its ops begin with it.
        target.graph.name = body.empty() ? file_ : fmt::format("{}: {}", file_, body);
        target.body = body.empty() ? body : body + ": ";
        for (const ValueId id : draft.inputs) add_input(target, id);
        for (const ValueId id : captures) add_input(target, id);
        // Nodes and outputs come before weights when names are given out: plans refer to them.
        std::vector<std::string> names;
        for (std::size_t i = 0; i < draft.nodes.size(); ++i) {
            names.push_back(live.nodes[i] ? target.op_names.make(draft.nodes[i].name)
                                          : std::string());
        }
        std::vector<std::string> output_names;
        for (const std::string& output : draft.output_names) {
            output_names.push_back(target.op_names.make(output));
        }
        for (std::size_t i = 0; i < draft.nodes.size(); ++i) {
            if (live.nodes[i]) {
                add_node(target, draft.nodes[i], live, i, std::move(names[i]));
            } else {
                ++built_.dead_nodes;
            }
        }
        for (std::size_t i = 0; i < draft.outputs.size(); ++i) {
            const TensorId tensor = tensor_for(target, draft.outputs[i], {});
            target.graph.add_output(output_names[i], tensor);
        }
        return std::move(target.graph);
    }

    /// Of a tensor, its part in every list and what rules say of it, about.
    static constexpr std::size_t kBytesPerTensor = 256;
    static constexpr std::size_t kBytesPerDim = 160;

    void take_memory(const std::string& where, std::size_t bytes) {
        if (!limits_.take_memory(bytes)) throw_model_error(file_, where, limits_.memory_text());
    }

    /// Everything but name and role.
    graph::Tensor describe(const Value& value, const std::string& where) {
        graph::Tensor tensor;
        take_memory(where, kBytesPerTensor + 3 * value.name.size());
        if (!is_tensor(value.type)) {
            tensor.dtype = DType::undefined;
            ++built_.opaque_tensors;
            return tensor;
        }
        tensor.dtype = dtype_of(value.type);
        const auto shape = shape_of(value.type);
        if (!shape || !is_static(value.type)) {
            throw_model_error(
                file_, where,
                fmt::format("the shape of '{}' depends on contents that only a run knows",
                            value.name),
                "Declare its shape in the model, or give the contents with --inputs.");
        }
        take_memory(where, kBytesPerDim * shape->size());
        tensor.shape = *shape;
        tensor.upper_bound_dims = value.bounded_dims;
        if (tensor.upper_bound_dims != 0) ++built_.bounded_tensors;
        return tensor;
    }

    void add_input(Target& target, ValueId id) {
        const Value& value = values_[id];
        graph::Tensor tensor =
            describe(value, fmt::format("{}input '{}'", target.body, value.name));
        tensor.name = target.tensor_names.make(target.op_names.make(value.name));
        tensor.role = TensorRole::input;
        target.tensors[id] = target.graph.add_source(std::move(tensor));
    }

    TensorId tensor_for(Target& target, ValueId id, const std::string& block) {
        const auto known = target.tensors.find(id);
        if (known != target.tensors.end()) return known->second;
        const Value& value = values_[id];
        graph::Tensor tensor = describe(value, fmt::format("value '{}'", value.name));
        tensor.role = trained_.count(id) != 0 ? TensorRole::parameter : TensorRole::constant;
        std::optional<Literal> parsed;
        const Literal* literal = value.literal.get();
        if (literal == nullptr && value.data != nullptr && is_integral(tensor.dtype)) {
            parsed = literal_of(*value.data, literal_limit_);
            if (parsed) literal = &*parsed;
        }
        if (literal != nullptr && literal->integral()) {
            take_memory(fmt::format("value '{}'", value.name), 8 * literal->size());
            tensor.known_integers = std::get<0>(literal->values);
        }
        tensor.name = unique_source_name(target, value.name, id);
        if (value.data != nullptr) {
            built_.contents[tensor.name] = value.data;
        } else if (value.sparse != nullptr) {
            built_.contents[tensor.name] = value.sparse;
        } else if (value.literal != nullptr) {
            built_.contents[tensor.name] = value.literal;
        }
        const TensorId made = target.graph.add_source(std::move(tensor));
        target.graph.op(target.graph.tensor(made).producer).block = block;
        target.tensors[id] = made;
        return made;
    }

    /// Unique among all graphs: the TensorSource knows the contents by this name.
    std::string unique_source_name(Target& target, const std::string& name, ValueId id) {
        const std::string wanted = name.empty() ? std::string("unnamed") : name;
        const auto own = own_names_.find(id);
        std::string tried = own != own_names_.end() ? own->second : wanted;
        // Counted over all graphs: equal names in many bodies must not all be tried again in each.
        std::int64_t& next = next_suffix_.try_emplace(wanted, 2).first->second;
        for (;;) {
            const auto owner = owners_.find(tried);
            const bool free = owner == owners_.end() || owner->second == id;
            if (free && !target.op_names.taken(tried) && !target.tensor_names.taken(tried)) break;
            tried = fmt::format("{}_{}", wanted, next++);
        }
        owners_.emplace(tried, id);
        own_names_[id] = tried;
        target.op_names.make(tried);
        target.tensor_names.make(tried);
        return tried;
    }

    void add_node(Target& target, const DraftNode& node, const Liveness& live, std::size_t index,
                  std::string name) {
        graph::Op op;
        op.name = std::move(name);
        op.type = node.type;
        op.domain = node.domain;
        op.opset = node.opset;
        op.attributes = node.attributes;
        op.block = node.block;
        op.trip_count = node.trip_count;
        if (!node.known_operator) ++built_.unknown_operators[node.type];
        for (const ValueId id : node.operands) {
            op.inputs.push_back(id == kNoValue ? TensorId() : tensor_for(target, id, node.block));
        }
        while (!op.inputs.empty() && !op.inputs.back().valid()) op.inputs.pop_back();
        add_bodies(target, node, live.bodies[index], op);
        for (const ValueId id : node.results) {
            if (id == kNoValue) {
                op.outputs.emplace_back();
                continue;
            }
            const Value& value = values_[id];
            const bool needed = live.needed.count(id) != 0;
            if (!needed && is_tensor(value.type) && !is_static(value.type)) {
                op.outputs.emplace_back();
                continue;
            }
            const std::string label = node_label(op.name, node.type);
            if (!node.known_operator && (!is_tensor(value.type) || !is_static(value.type))) {
                throw_model_error(
                    file_, label,
                    fmt::format("ONNX does not define this operator of domain '{}', so "
                                "the shape of '{}' is not known",
                                node.domain, value.name),
                    "Declare the shape in the model (value_info).");
            }
            graph::Tensor tensor = describe(value, label);
            tensor.name = target.tensor_names.make(value.name);
            tensor.role = TensorRole::activation;
            const TensorId made = target.graph.add_tensor(std::move(tensor));
            target.tensors[id] = made;
            op.outputs.push_back(made);
        }
        target.graph.add_op(std::move(op));
    }

    void add_bodies(Target& target, const DraftNode& node, const std::vector<Liveness>& live,
                    graph::Op& op) {
        if (node.bodies.empty()) return;
        std::set<ValueId> captures;
        for (const Liveness& body : live)
            captures.insert(body.captures.begin(), body.captures.end());
        const std::vector<ValueId> ordered(captures.begin(), captures.end());
        // Left-out operands keep their places: bodies bind their inputs by position.
        op.inputs.resize(node.operands.size());
        for (const ValueId id : ordered) op.inputs.push_back(tensor_for(target, id, node.block));
        for (std::size_t b = 0; b < node.bodies.size(); ++b) {
            const std::string body_name =
                fmt::format("{}{}, attribute '{}'", target.body, node_label(op.name, node.type),
                            node.bodies[b].attribute);
            op.bodies.push_back({node.bodies[b].attribute,
                                 std::make_shared<const OpGraph>(
                                     graph_of(*node.bodies[b].draft, live[b], ordered, body_name)),
                                 ordered.size()});
        }
    }

    const std::deque<Value>& values_;
    const std::string& file_;
    std::int64_t literal_limit_;
    bool exact_roles_;
    ReadingLimits& limits_;
    std::unordered_set<ValueId> trained_;
    std::unordered_map<std::string, ValueId> owners_;  ///< names of contents, over all graphs
    std::unordered_map<ValueId, std::string> own_names_;
    std::unordered_map<std::string, std::int64_t> next_suffix_;
    BuiltGraph built_;
};

}  // namespace

BuiltGraph build_graph(const Draft& draft, const std::deque<Value>& values,
                       const BuildOptions& options) {
    return Builder(values, options).build(draft);
}

}  // namespace partita::importers
