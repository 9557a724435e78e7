// SPDX-License-Identifier: Apache-2.0
#include <partita/graph.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "api/graph_impl.h"
#include "api/graph_to_onnx.h"
#include "base/files.h"
#include "graph/dtype.h"
#include "plan/files/plan_file.h"

#include <partita/model.h>

namespace partita {
namespace {

constexpr int kNewestOpset = 28;

[[noreturn]] void fail(const Graph::Impl& graph, std::string_view where, std::string_view what) {
    throw InputError(fmt::format("{}: {}: {}", graph.name, where, what));
}

void add_tensor_name(Graph::Impl& graph, std::string_view where, const std::string& name) {
    if (name.empty()) fail(graph, where, "expected a name, got none. Give it one.");
    if (graph.tensor_names.insert(name).second) return;
    fail(graph, where, fmt::format("another tensor is called '{}'. Rename one.", name));
}

void check_tensor(const Graph::Impl& graph, std::string_view where, const Shape& shape,
                  DType dtype) {
    if (std::ranges::any_of(shape, [](std::int64_t extent) { return extent < 0; })) {
        fail(graph, where,
             fmt::format("expected extents >= 0, got [{}]. Give all of them a value.",
                         fmt::join(shape, ", ")));
    }
    if (dtype == DType::undefined) {
        fail(graph, where, "expected an element type, got undefined. Give it one.");
    }
}

std::int64_t bytes_of(const Shape& shape, DType dtype) {
    std::int64_t bits = graph::bits_of(dtype);
    for (const std::int64_t extent : shape) bits *= extent;
    return (bits + 7) / 8;
}

/// Of a parameter, or of a constant whose value is not known.
void check_value(const Graph::Impl& graph, const std::string& name, std::int64_t bytes) {
    const auto parameter = std::ranges::find(graph.parameters, name, &Graph::Impl::Parameter::name);
    const auto constant = std::ranges::find(graph.constants, name, &Graph::Impl::Constant::name);
    std::int64_t expected = 0;
    if (parameter != graph.parameters.end()) {
        expected = bytes_of(parameter->shape, parameter->dtype);
    } else if (constant != graph.constants.end() && !constant->known) {
        expected = bytes_of(constant->shape, constant->dtype);
    } else {
        throw UsageError(
            fmt::format("{}: value of '{}': it is no parameter and no constant that lacks "
                        "one. Leave it out.",
                        graph.name, name));
    }
    if (bytes == expected) return;
    throw UsageError(fmt::format("{}: value of '{}': expected {} bytes, got {}. Give it row-major.",
                                 graph.name, name, expected, bytes));
}

/// "MatMul_3", or what was asked for.
std::string op_name(Graph::Impl& graph, const std::string& type, const std::string& wanted) {
    const std::string name =
        wanted.empty() ? fmt::format("{}_{}", type, graph.nodes.size()) : wanted;
    if (graph.op_names.insert(name).second) return name;
    fail(graph, fmt::format("op '{}' ({})", name, type),
         "another op has this name. Give it one of its own.");
}

}  // namespace

Graph::Graph(std::string name, int opset) : impl_(std::make_unique<Impl>()) {
    impl_->name = std::move(name);
    impl_->opset = opset;
    if (opset < 1 || opset > kNewestOpset) {
        fail(*impl_, "operator set",
             fmt::format("expected a version from 1 to {}, got {}. Use e.g. 23.", kNewestOpset,
                         opset));
    }
}

Graph::~Graph() = default;
Graph::Graph(const Graph& other) : impl_(std::make_unique<Impl>(*other.impl_)) {}
Graph::Graph(Graph&& other) noexcept = default;

Graph& Graph::operator=(Graph other) noexcept {
    impl_ = std::move(other.impl_);
    return *this;
}

Tensor Graph::input(const std::string& name, Shape shape, InputOptions options) {
    const std::string where = fmt::format("input '{}'", name);
    check_tensor(*impl_, where, shape, options.dtype);
    // A scalar has no dim that could carry the batch; saying nothing means none.
    if (shape.empty() && options.batch_dim == 0) options.batch_dim = -1;
    if (options.batch_dim < -1 || options.batch_dim >= static_cast<int>(shape.size())) {
        fail(*impl_, where,
             fmt::format(
                 "batch_dim: expected a dim from 0 to {} or -1 for none, got {}. Correct it.",
                 static_cast<int>(shape.size()) - 1, options.batch_dim));
    }
    add_tensor_name(*impl_, where, name);
    impl_->inputs.push_back({name, std::move(shape), options});
    return name;
}

Tensor Graph::parameter(const std::string& name, Shape shape, DType dtype) {
    const std::string where = fmt::format("parameter '{}'", name);
    check_tensor(*impl_, where, shape, dtype);
    if (!graph::is_floating_point(dtype)) {
        fail(*impl_, where,
             fmt::format("expected floating-point elements, which training can update, got {}. Use "
                         "constant().",
                         graph::name_of(dtype)));
    }
    add_tensor_name(*impl_, where, name);
    impl_->parameters.push_back({name, std::move(shape), dtype});
    return name;
}

Tensor Graph::constant(const std::string& name, Shape shape, DType dtype) {
    const std::string where = fmt::format("constant '{}'", name);
    check_tensor(*impl_, where, shape, dtype);
    add_tensor_name(*impl_, where, name);
    impl_->constants.push_back(
        {.name = name, .shape = std::move(shape), .dtype = dtype, .values = {}});
    return name;
}

Tensor Graph::integers(const std::string& name, std::vector<std::int64_t> values) {
    add_tensor_name(*impl_, fmt::format("constant '{}'", name), name);
    impl_->constants.push_back({.name = name,
                                .shape = {static_cast<std::int64_t>(values.size())},
                                .dtype = DType::int64,
                                .values = std::move(values),
                                .known = true});
    return name;
}

Tensor Graph::integer(const std::string& name, std::int64_t value) {
    add_tensor_name(*impl_, fmt::format("constant '{}'", name), name);
    impl_->constants.push_back(
        {.name = name, .shape = {}, .dtype = DType::int64, .values = {value}, .known = true});
    return name;
}

Tensor Graph::add(const std::string& type, std::vector<Tensor> operands, Attributes attributes,
                  OpOptions options) {
    options.name = op_name(*impl_, type, options.name);
    const std::string where = fmt::format("op '{}' ({})", options.name, type);
    if (options.results.empty()) options.results.emplace_back(options.name + ":0");
    for (const Result& result : options.results) {
        if (result.name.empty()) continue;
        add_tensor_name(*impl_, where, result.name);
        if (result.dtype != DType::undefined) {
            check_tensor(*impl_, fmt::format("{}, result '{}'", where, result.name), result.shape,
                         result.dtype);
        }
    }
    Tensor first = options.results.front().name;
    impl_->nodes.push_back({type, std::move(operands), std::move(attributes), std::move(options)});
    return first;
}

void Graph::output(const Tensor& tensor) {
    if (std::ranges::find(impl_->outputs, tensor.name) != impl_->outputs.end()) {
        fail(*impl_, fmt::format("output '{}'", tensor.name),
             "it is an output already. Name it once.");
    }
    impl_->outputs.push_back(tensor.name);
}

void Graph::save_onnx(const std::filesystem::path& file) const {
    static_cast<void>(Model(*this));
    write_file(file, api::to_onnx(*impl_));
}

void Graph::save_onnx(const std::filesystem::path& file, const TensorValues& values) const {
    static_cast<void>(Model(*this));
    const std::filesystem::path beside = file.string() + ".data";
    api::StoredValues stored;
    std::string data;
    for (const auto& [name, bytes] : values) {
        check_value(*impl_, name, static_cast<std::int64_t>(bytes.size()));
        stored[name] = {.location = beside.filename().string(),
                        .offset = static_cast<std::int64_t>(data.size()),
                        .length = static_cast<std::int64_t>(bytes.size())};
        data.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    write_file(beside, data);
    write_file(file, api::to_onnx(*impl_, stored));
}

}  // namespace partita
