// SPDX-License-Identifier: Apache-2.0
//
// Graph: a neural network written down by hand, with the operators of ONNX.
//
//     partita::Graph graph("mlp");
//     auto h = graph.input("x", {64, 784});
//     h = graph.add("MatMul", {h, graph.parameter("w1", {784, 512})});
//     h = graph.add("Relu", {h});
//     graph.output(graph.add("MatMul", {h, graph.parameter("w2", {512, 10})}));
//     partita::Model model(graph);          // infers all shapes, checks everything
//
// Types, operands and attributes are those of https://onnx.ai/onnx/operators, in the version of the
// graph's operator set. Shapes of results are inferred, so only inputs, parameters and constants
// have given ones, all concrete. Tensors have names; operands may name tensors that are made later.
//
// Weights have no values here: planning reads none. Values of integers matter where they decide
// shapes (Reshape's target, axes, indices); give those with integers() and integer().
//
// Not by hand: If, Loop, Scan and other operators with a graph or tensor as attribute. Load an ONNX
// file for those (model.h).
//
// Errors: each call throws InputError for what it can see: a name given twice, a negative extent.
// What needs the whole graph is checked by Model. Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <partita/error.h>
#include <partita/types.h>

namespace partita {

/// A tensor, by name. Default: an operand that is left out.
struct Tensor {
    std::string name;

    Tensor() = default;
    Tensor(std::string tensor_name) : name(std::move(tensor_name)) {}
    Tensor(const char* tensor_name) : name(tensor_name) {}
};

/// The value of an attribute. Write {"axis", 1}, {"epsilon", 1e-5}, {"kernel_shape", {3, 3}},
/// {"auto_pad", "SAME_UPPER"}, {"to", DType::float16}; a whole number is never taken for a real
/// one.
struct Attribute {
    using Value = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>,
                               std::vector<double>, std::vector<std::string>>;
    Value value;

    Attribute(int number) : value(std::int64_t{number}) {}
    Attribute(std::int64_t number) : value(number) {}
    Attribute(double number) : value(number) {}
    Attribute(DType dtype) : value(static_cast<std::int64_t>(dtype)) {}  ///< ONNX's number of it
    Attribute(std::string text) : value(std::move(text)) {}
    Attribute(const char* text) : value(std::string(text)) {}
    Attribute(std::initializer_list<int> numbers)
        : value(std::vector<std::int64_t>(numbers.begin(), numbers.end())) {}
    Attribute(std::initializer_list<double> numbers) : value(std::vector<double>(numbers)) {}
    Attribute(std::initializer_list<const char*> texts)
        : value(std::vector<std::string>(texts.begin(), texts.end())) {}
    Attribute(std::vector<std::int64_t> numbers) : value(std::move(numbers)) {}
    Attribute(std::vector<double> numbers) : value(std::move(numbers)) {}
    Attribute(std::vector<std::string> texts) : value(std::move(texts)) {}
};
using Attributes = std::vector<std::pair<std::string, Attribute>>;

/// Contents of tensors, by name.
using TensorValues = std::map<std::string, std::span<const std::byte>>;

struct InputOptions {
    DType dtype = DType::float32;
    /// The dim that carries the batch: micro-batches and data parallelism cut it. -1: none does.
    int batch_dim = 0;
};

/// A result with a name of its own. A shape is needed only if ONNX does not know the operator.
struct Result {
    std::string name;
    Shape shape;
    DType dtype = DType::undefined;  ///< undefined: inferred, and so is the shape

    Result(std::string result_name) : name(std::move(result_name)) {}
    Result(const char* result_name) : name(result_name) {}
    Result(std::string result_name, Shape result_shape, DType result_dtype = DType::float32)
        : name(std::move(result_name)), shape(std::move(result_shape)), dtype(result_dtype) {}
};

struct OpOptions {
    /// Unique; the plan's name for the op. "a/b/MatMul" is in block "a/b". "": "MatMul_3", the
    /// operator and the op's place in the graph.
    std::string name;
    /// One per result; "" for one that is left out. Empty: one result, "NAME:0".
    std::vector<Result> results;
    std::string domain;  ///< "": the ONNX standard. Of others the newest version
};

class Graph {
public:
    /// `opset`: the version of ONNX's operator set that gives operators their meaning, 1 to 28.
    explicit Graph(std::string name = "model", int opset = 23);
    ~Graph();
    Graph(const Graph& other);
    Graph(Graph&& other) noexcept;
    Graph& operator=(Graph other) noexcept;

    /// Given anew in each iteration.
    Tensor input(const std::string& name, Shape shape, InputOptions options = {});

    /// A weight, which training updates. Floating-point.
    Tensor parameter(const std::string& name, Shape shape, DType dtype = DType::float32);

    /// Never changes, and its values do not matter for shapes: masks, running means, scales.
    Tensor constant(const std::string& name, Shape shape, DType dtype = DType::float32);

    /// An int64 vector of these values, e.g. the target of a Reshape.
    Tensor integers(const std::string& name, std::vector<std::int64_t> values);
    /// An int64 scalar, e.g. the index of a Gather that removes its dim.
    Tensor integer(const std::string& name, std::int64_t value);

    /// One op; its first result. Operands in ONNX's order.
    Tensor add(const std::string& type, std::vector<Tensor> operands, Attributes attributes = {},
               OpOptions options = {});

    /// A result of the model. Ops that no output needs are dropped.
    void output(const Tensor& tensor);

    /// Writes an ONNX file without weights, which the program reads: `partita verify plan.json
    /// mlp.onnx`. Throws UsageError when it cannot be written, InputError as Model does.
    void save_onnx(const std::filesystem::path& file) const;
    /// With values of parameters and constants, row-major, which are written beside it as FILE.data: so
    /// the program's `execute` runs it. Those that have none stay without. Throws UsageError also for a
    /// value that belongs to none of them, or has another size.
    void save_onnx(const std::filesystem::path& file, const TensorValues& values) const;

    struct Impl;  ///< of the library
    [[nodiscard]] const Impl& impl() const { return *impl_; }

private:
    std::unique_ptr<Impl> impl_;
};

}  // namespace partita
