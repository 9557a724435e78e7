// SPDX-License-Identifier: Apache-2.0
#include "runtime/execute/sources.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include <ATen/Functions.h>

#include "base/error.h"
#include "runtime/execute/made_up_values.h"
#include "runtime/execute/patch.h"
#include "runtime/kernels/tensors.h"

namespace partita::runtime {

using graph::OpGraph;
using graph::TensorId;
using graph::TensorRole;

namespace {

/// Bytes of a file that are read at once.
constexpr std::int64_t kBlock = std::int64_t{64} << 20;

std::string text_of(const graph::Shape& shape) {
    std::string text;
    for (const std::int64_t extent : shape)
        text += (text.empty() ? "" : " x ") + std::to_string(extent);
    return "[" + text + "]";
}

at::TensorOptions options_of(const graph::Tensor& tensor) {
    const auto type = scalar_type_of(tensor.dtype);
    if (!type) {
        throw InputError("tensor '" + tensor.name + "': elements of type " +
                         std::string(graph::name_of(tensor.dtype)) + " cannot be computed with.");
    }
    return at::TensorOptions().dtype(type);
}

/// Rows [begin, end) of dim 0; all of a tensor without dims.
graph::Region rows_of(const graph::Shape& shape, graph::Range rows) {
    graph::Region region = graph::whole_region(shape);
    if (!shape.empty()) region.dims[0] = {rows};
    return region;
}

}  // namespace

Sources::Sources(const OpGraph& graph, SourceOptions options)
    : graph_(graph), options_(std::move(options)) {
    for (auto& [name, given] : options_.inputs) {
        const auto found = std::ranges::find_if(graph.tensors(), [&](const graph::Tensor& tensor) {
            return tensor.name == name && tensor.role == TensorRole::input;
        });
        if (found == graph.tensors().end()) {
            throw UsageError("input '" + name + "': the model has no such input.");
        }
        // --precision plans in 16 bits what people have data of 32 for.
        const bool narrows =
            given.dtype == graph::DType::float32 &&
            (found->dtype == graph::DType::float16 || found->dtype == graph::DType::bfloat16);
        if (found->shape != given.shape || (found->dtype != given.dtype && !narrows)) {
            throw UsageError("input '" + name + "': the plan is for " +
                             std::string(graph::name_of(found->dtype)) + " " +
                             text_of(found->shape) + ", given is " +
                             std::string(graph::name_of(given.dtype)) + " " + text_of(given.shape) +
                             ". Plan with the same data, e.g. --inputs.");
        }
        inputs_[static_cast<std::uint32_t>(found - graph.tensors().begin())] =
            to_aten(given).to(options_of(*found).dtype());
        given = {};
    }
}

at::Tensor Sources::read(TensorId id, const graph::Region& region) const {
    const graph::Tensor& tensor = graph_.tensor(id);
    if (tensor.role == TensorRole::input) {
        const auto given = inputs_.find(id.value);
        if (given == inputs_.end()) return made_up(id, region, options_.input_seed);
        at::Tensor part = at::empty(extents_of(region), options_of(tensor));
        Patch(graph::whole_region(tensor.shape), region).copy(part, given->second);
        return part;
    }
    if (!options_.random_weights) return from_model(id, region);
    if (tensor.role == TensorRole::parameter) return made_up(id, region, *options_.random_weights);
    try {
        return from_model(id, region);
    } catch (const InputError&) {  // weights that are not trained, such as running means
        return made_up(id, region, *options_.random_weights);
    }
}

at::Tensor Sources::read_inner(const graph::Tensor& tensor) const {
    if (options_.model == nullptr) {
        throw InputError("tensor '" + tensor.name + "': the model holds no contents.");
    }
    graph::HostTensor whole{
        .name = tensor.name, .dtype = tensor.dtype, .shape = tensor.shape, .bytes = {}};
    whole.bytes.resize(static_cast<std::size_t>(tensor.bytes().raw()));
    options_.model->read(tensor.name, Bytes{0}, whole.bytes);
    return to_aten(whole);
}

/// Block by block: rows of the region's hull along dim 0, of which the region takes what it has.
at::Tensor Sources::from_model(TensorId id, const graph::Region& region) const {
    const graph::Tensor& tensor = graph_.tensor(id);
    if (options_.model == nullptr) {
        throw InputError("tensor '" + tensor.name + "': the model holds no contents.");
    }
    const at::TensorOptions as = options_of(tensor);
    if (graph::bits_of(tensor.dtype) < 8 || tensor.shape.empty() || tensor.elements() == 0) {
        at::Tensor part = at::empty(extents_of(region), as);
        Patch(graph::whole_region(tensor.shape), region).copy(part, read_inner(tensor));
        return part;
    }
    const std::int64_t row = tensor.bytes().raw() / tensor.shape[0];
    const graph::Range hull{region.dims[0].front().begin, region.dims[0].back().end};
    // Can the last byte be had? Before memory is asked for.
    std::byte last{};
    options_.model->read(tensor.name, Bytes{hull.end * row - 1}, {&last, 1});
    at::Tensor part = at::empty(extents_of(region), as);
    const std::int64_t rows = std::max<std::int64_t>(1, kBlock / std::max<std::int64_t>(row, 1));
    for (std::int64_t begin = hull.begin; begin < hull.end; begin += rows) {
        const graph::Range block{begin, std::min(hull.end, begin + rows)};
        graph::Shape extents = tensor.shape;
        extents[0] = block.end - block.begin;
        const at::Tensor read = at::empty(extents, as);
        options_.model->read(tensor.name, Bytes{block.begin * row},
                             {static_cast<std::byte*>(read.mutable_data_ptr()), read.nbytes()});
        Patch(rows_of(tensor.shape, block), region).copy(part, read);
    }
    return part;
}

at::Tensor Sources::made_up(TensorId id, const graph::Region& region, std::uint64_t seed) const {
    const graph::Tensor& tensor = graph_.tensor(id);
    const Spread spread = spread_of(id);
    const at::Tensor values = made_up_values(seed, tensor.name, tensor.shape, region);
    const at::Tensor scaled = at::add(at::mul(values, spread.high - spread.low), spread.low);
    const auto type = options_of(tensor).dtype();
    const bool is_real = graph::is_floating_point(tensor.dtype);
    return (is_real ? scaled : at::floor(scaled)).to(type);
}

Sources::Spread Sources::spread_of(TensorId id) const {
    const graph::Tensor& tensor = graph_.tensor(id);
    if (!graph::is_floating_point(tensor.dtype)) {
        const auto rows = selected_rows(graph_, id);
        if (rows) return {0.0, static_cast<double>(*rows)};
        return {1.0, 2.0};
    }
    if (tensor.role == TensorRole::input) return {-1.0, 1.0};
    if (is_scale(graph_, id)) return {0.5, 1.5};
    if (tensor.shape.size() < 2) return {-0.1, 0.1};  // biases
    const double reach = std::sqrt(3.0 / static_cast<double>(fan_in(graph_, id)));
    return {-reach, reach};
}

}  // namespace partita::runtime
