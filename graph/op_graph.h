// SPDX-License-Identifier: Apache-2.0
//
// OpGraph: one neural network as a directed acyclic graph of ops.
//
//     input ──▶ MatMul ──▶ Relu ──▶ output       inputs, parameters and constants are source ops
//     parameter ──▲                              with one result, outputs sink ops with one operand
//
// Ops and tensors have dense ids in order of insertion. Operands must exist before their user, so a
// graph built through add_op() cannot have a cycle; formats that list nodes in any order (workload
// JSON) are sorted by their importer. An op may carry bodies (If, Loop, Scan): nested OpGraphs
// whose inputs are bound by position, and whose outer operands are listed among the op's own.
//
// Threads: const access from any number of threads. Errors: none here; see check().
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "graph/attributes.h"
#include "graph/ids.h"
#include "graph/tensor.h"

namespace partita::graph {

class OpGraph;

enum class OpKind : std::uint8_t { input, parameter, constant, compute, output };

/// Costs given by a workload file; they replace the cost model's (REFERENCES 8).
struct GivenCosts {
    bool on_accelerator = true;  ///< may run on an accelerator
    Time accelerator_time;
    Time cpu_time;
    Bytes memory;             ///< what it occupies on its accelerator
    Time communication_time;  ///< of its result, once per sender and once per receiver
    bool backward = false;    ///< a node of the backward pass
    std::optional<std::int64_t> color_class;  ///< nodes of a class share a device
    std::int64_t id = 0;                      ///< the id in the file
};

/// A body of a control-flow op (If, Loop, Scan).
struct Body {
    std::string name;                      ///< attribute: then_branch, else_branch, body
    std::shared_ptr<const OpGraph> graph;  ///< shared by copies of the outer graph; never changed
    /// How many of its last inputs are values from outside, which are the op's last operands.
    std::size_t captures = 0;
};

/// Rows of matrices begin at multiples of so many bytes where products of any library are quick: what
/// tensor cores' loads take at once.
inline constexpr int kWideRow = 16;

struct Op {
    std::string name;    ///< unique in the graph
    std::string type;    ///< operator, e.g. "Conv"; "Input", "Parameter", "Constant", "Output"
    std::string domain;  ///< "" for the ONNX standard
    OpKind kind = OpKind::compute;
    std::vector<TensorId> inputs;  ///< an operand left out is an invalid id
    std::vector<TensorId> outputs;
    Attributes attributes;
    std::vector<Body> bodies;
    std::optional<std::int64_t> trip_count;  ///< of Loop and Scan, when known
    std::string block;  ///< layer it belongs to, e.g. "encoder/layer.0"; "" when unknown
    std::optional<GivenCosts> given;
    int opset = 0;  ///< version of the domain's operator set that gives the op its meaning
    ProductType product_type = ProductType::as_stored;  ///< of a matrix product (product_type.h)
    /// Of a matrix product that is slower for it: rows begin at multiples of so many bytes, 1 to 8.
    int row_bytes = kWideRow;
};

/// One use of a tensor: operand number `operand` of `op`.
struct Use {
    OpId op;
    std::uint32_t operand = 0;
    friend bool operator==(Use, Use) = default;
};

class OpGraph {
public:
    std::string name;  ///< of the model; free text

    /// Adds a result tensor for a future op, or for a source op. `producer` is set by add_op().
    TensorId add_tensor(Tensor tensor);
    /// Operands must have producers already; results must not. Breaking that is a bug (assert).
    OpId add_op(Op op);
    /// A source op and its tensor in one call; the kind follows from tensor.role.
    TensorId add_source(Tensor tensor);
    /// A sink op for `tensor`.
    OpId add_output(std::string op_name, TensorId tensor);

    [[nodiscard]] std::size_t op_count() const { return ops_.size(); }
    [[nodiscard]] std::size_t tensor_count() const { return tensors_.size(); }
    [[nodiscard]] const Op& op(OpId id) const { return ops_[id.index()]; }
    [[nodiscard]] Op& op(OpId id) { return ops_[id.index()]; }
    [[nodiscard]] const Tensor& tensor(TensorId id) const { return tensors_[id.index()]; }
    [[nodiscard]] Tensor& tensor(TensorId id) { return tensors_[id.index()]; }
    [[nodiscard]] std::span<const Op> ops() const { return ops_; }
    [[nodiscard]] std::span<const Tensor> tensors() const { return tensors_; }
    [[nodiscard]] std::span<const Use> uses(TensorId id) const { return uses_[id.index()]; }
    [[nodiscard]] std::optional<OpId> find_op(std::string_view name) const;  ///< linear

    /// Distinct neighbours in rising order of id.
    [[nodiscard]] std::vector<OpId> predecessors(OpId id) const;
    [[nodiscard]] std::vector<OpId> successors(OpId id) const;

    /// Ops in an order that respects all edges; ties by id, so 0, 1, 2, ... by construction.
    [[nodiscard]] std::vector<OpId> topological_order() const;

private:
    std::vector<Op> ops_;
    std::vector<Tensor> tensors_;
    std::vector<std::vector<Use>> uses_;
};

/// Rejects what no importer may produce: empty or repeated names, negative extents, an operand that
/// has no producer, more than 2^31 ops. Throws InputError naming op or tensor.
void check(const OpGraph& graph);

/// SHA-256 of everything that a plan depends on: names, types, shapes, attributes, edges, given
/// costs; 64 hexadecimal digits. Two imports of the same file with the same bindings agree.
std::string digest(const OpGraph& graph);

}  // namespace partita::graph
