// SPDX-License-Identifier: Apache-2.0
//
// Reads a model's graphs into drafts: looks up names, verifies each node against its schema,
// evaluates shape arithmetic, infers the type of every value, inlines local functions and branches
// whose condition is known. Per node:
//
//     operands ──▶ fold? ──yes──▶ results are literals, the node vanishes
//                    │no
//                    ▼
//                 infer ──open extents?──▶ upper bounds ──▶ function body ──▶ declared shape
//
// Upper bounds: an extent that depends on data (NonZero, Compress, ...) holds its upper bound and
// is marked. A result's extent is marked unless inference can say it with all marked extents and
// all contents computed from them left open. That is sound, as inference never guesses, and may
// mark more than needed. The bound itself is exact arithmetic at the operands' bounds.
//
// Ends: after 100,000 nodes and 100 for each stored one, inlined ones and bodies included, or when
// memory or work pass what reading_limits.h allows; what needs more is refused. Throws InputError.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <onnx/defs/schema.h>
#include <onnx/onnx_pb.h>

#include "graph/tensor.h"
#include "importers/onnx/constant_folding.h"
#include "importers/onnx/draft.h"
#include "importers/onnx/reading_limits.h"
#include "importers/onnx/shape_inference.h"

namespace partita::importers {

struct ReaderOptions {
    std::string file;                              ///< for messages
    std::map<std::string, std::int64_t> bindings;  ///< of symbolic dims
    /// Contents of inputs that decide shapes where nothing else does (--inputs).
    std::map<std::string, Literal> contents;
    std::int64_t fold_limit = std::int64_t{1} << 16;
    bool unroll = false;
};

/// What the summary says about reading.
struct ReaderCounts {
    std::int64_t folded = 0;             ///< nodes evaluated while reading, Constant nodes included
    std::int64_t inlined_functions = 0;  ///< calls of local functions
    std::int64_t taken_branches = 0;     ///< If nodes whose condition was known
    std::int64_t unrolled = 0;           ///< recurrent nodes expanded into steps
    std::int64_t reshapes = 0;           ///< Gather nodes that take everything in order
};

class ModelReader {
public:
    /// `model` must outlive the values that are read from it.
    ModelReader(const onnx::ModelProto& model, ReaderOptions options);
    ~ModelReader();
    ModelReader(ModelReader&&) = delete;

    /// The main graph; `input_shapes` has one shape per input that is no initializer.
    Draft read(const std::map<std::string, graph::Shape>& input_shapes);

    [[nodiscard]] std::deque<Value>& values() { return values_; }
    [[nodiscard]] const ReaderCounts& counts() const { return counts_; }
    [[nodiscard]] ReadingLimits& limits() { return limits_; }
    /// Nodes and functions that were made while reading; values may point into them.
    [[nodiscard]] std::vector<std::shared_ptr<google::protobuf::Message>> take_arena() {
        return std::move(arena_);
    }

private:
    using Opsets = std::map<std::string, int>;

    struct Scope {
        const Scope* parent = nullptr;  ///< whose names are visible too; null in functions
        Draft* draft = nullptr;
        const Opsets* opsets = nullptr;
        std::string prefix;  ///< of names made inside an inlined function
        std::string block;   ///< layer of the caller
        std::map<std::string, onnx::TypeProto> declared;  ///< value_info and outputs, dims bound
        std::unordered_map<std::string, ValueId> names;
        int depth = 0;
        const Scope* caller = nullptr;  ///< of a function, to find recursion
        const void* function = nullptr;
    };

    /// One node while it is read.
    struct Node {
        const onnx::NodeProto* proto = nullptr;
        std::string name;
        std::string domain;
        int opset = 0;
        const onnx::OpSchema* schema = nullptr;
        std::vector<ValueId> operands;
        graph::Attributes attributes;
        std::vector<std::pair<std::string, Literal>> tensors;
        std::vector<DraftBody> bodies;
        std::optional<std::int64_t> trip_count;
    };

    struct ResultTypes {
        std::vector<onnx::TypeProto> types;
        std::vector<std::uint64_t> bounded;
    };

    // reader_values.cpp: names, values and constants
    [[noreturn]] void fail(const Node& node, std::string_view what) const;
    Draft new_draft();
    /// Refuses a value of too many dims, or one that is too much for the memory that is left.
    void admit(std::string_view where, ValueId id);
    void take_memory(std::string_view where, std::size_t bytes);
    ValueId add_value(Value value);
    ValueId add_value(const Scope& scope, const std::string& name, onnx::TypeProto type);
    void define(Scope& scope, const std::string& name, ValueId id, std::string_view what);
    ValueId find(const Scope& scope, const std::string& name) const;
    void check_data(const onnx::TensorProto& tensor, std::string_view where) const;
    void read_initializers(const onnx::GraphProto& graph, Scope& scope);
    void read_declared(const onnx::GraphProto& graph, Scope& scope) const;
    void read_attributes(Node& node) const;
    void read_constant(const Node& node, Scope& scope);
    const Literal* known_literal(ValueId id);

    // model_reader.cpp: graphs and nodes
    void read_nodes(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes, Scope& scope);
    void read_outputs(const onnx::GraphProto& graph, Scope& scope);
    void read_node(const onnx::NodeProto& proto, std::size_t index, Scope& scope);
    Node open_node(const onnx::NodeProto& proto, std::size_t index, Scope& scope);
    void check_node(const Node& node) const;
    bool fold_node(const Node& node, Scope& scope);
    std::optional<Literals> evaluate(const Node& node, bool with_estimates);
    void emit(Node& node, Scope& scope, ResultTypes results,
              const std::optional<Literals>& estimates);

    // reader_inference.cpp: types of results
    ResultTypes infer(Node& node, Scope& scope);
    void read_as_reshape(DraftNode& made, Draft& draft);
    std::vector<onnx::TypeProto> infer_once(Node& node, Scope& scope, bool exact_only);
    void complete_from_rule(const Node& node, ResultTypes& results) const;
    std::optional<std::int64_t> scan_steps(const Node& node) const;
    void bound_results(const Node& node, ResultTypes& results);
    bool complete_from_function(Node& node, const Scope& scope, ResultTypes& results);
    void complete_from_declared(const Node& node, const Scope& scope, ResultTypes& results) const;
    const Literal* contents(ValueId id, bool exact_only);
    std::string shapes_text(const Node& node) const;

    // reader_functions.cpp: functions and control flow
    const onnx::FunctionProto* find_function(const onnx::NodeProto& node) const;
    void inline_function(const Node& node, const onnx::FunctionProto& function, Scope& scope);
    std::vector<ValueId> read_function(const Node& node, const onnx::FunctionProto& function,
                                       Scope& body);
    bool take_branch(const Node& node, Scope& scope);
    ResultTypes infer_if(Node& node, Scope& scope);
    std::unique_ptr<Draft> read_body(const Node& node, const onnx::GraphProto& graph,
                                     std::span<const onnx::TypeProto> inputs,
                                     const std::vector<std::uint64_t>& bounded, const Scope& scope);
    Scope child_scope(const Scope& scope, Draft& draft) const;

    // reader_loop.cpp
    struct LoopCall {
        const onnx::GraphProto* graph = nullptr;
        std::size_t states = 0;
        std::optional<std::int64_t> most;     ///< iterations, at most
        bool exact = false;                   ///< operands say so for certain
        std::vector<onnx::TypeProto> inputs;  ///< of the body
        std::vector<std::uint64_t> bounded;   ///< of the body's inputs
        std::vector<std::uint64_t> varying;   ///< per state: dims that change; empty: none at all
    };
    LoopCall open_loop(const Node& node);
    std::unique_ptr<Draft> read_loop_body(Node& node, LoopCall& call, const Scope& scope,
                                          bool& grows);
    ResultTypes infer_loop(Node& node, Scope& scope);

    const onnx::ModelProto& model_;
    ReaderOptions options_;
    Opsets opsets_;
    std::map<std::string, const onnx::FunctionProto*> functions_;
    std::map<const onnx::FunctionProto*, Opsets> function_opsets_;
    std::deque<Value> values_;  ///< a deque: references stay valid
    std::vector<std::shared_ptr<google::protobuf::Message>> arena_;
    ReaderCounts counts_;
    ReadingLimits limits_;
    std::uint32_t drafts_ = 0;
    std::int64_t nodes_read_ = 0;
    std::int64_t max_nodes_ = 0;
    std::int64_t folded_elements_ = 0;
};

}  // namespace partita::importers
