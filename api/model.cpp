// SPDX-License-Identifier: Apache-2.0
#include <partita/model.h>

#include <algorithm>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "api/graph_to_onnx.h"
#include "api/impl.h"
#include "base/error.h"
#include "graph/operators/op_rule.h"

namespace partita {
namespace {

/// In memory, a graph takes the way of every ONNX file: one place infers, checks and decides roles.
api::LoadedModel read(const Graph::Impl& graph, const ImportOptions& options) {
    const std::string bytes = api::to_onnx(graph);
    return api::load_model(std::as_bytes(std::span(bytes)), graph.name, options);
}

std::vector<std::string> names_of(const graph::OpGraph& graph,
                                  const std::vector<graph::TensorId>& tensors) {
    std::vector<std::string> names;
    for (const graph::TensorId tensor : tensors) {
        names.push_back(tensor.valid() ? graph.tensor(tensor).name : std::string());
    }
    return names;
}

/// The dims of `tensors` that `factor` is part of.
std::vector<DimOf> dims_with(int factor, const std::vector<graph::TensorRule>& tensors) {
    std::vector<DimOf> dims;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
        for (std::size_t d = 0; d < tensors[t].dims.size(); ++d) {
            if (std::ranges::count(tensors[t].dims[d].factors, factor) > 0) {
                dims.push_back({static_cast<int>(t), static_cast<int>(d)});
            }
        }
    }
    return dims;
}

}  // namespace

Model::Model(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

Model::Model(const Graph& graph, const ImportOptions& options)
    : impl_(std::make_shared<const Impl>(Impl{read(graph.impl(), options)})) {}

Model Model::load(const std::filesystem::path& file, const ImportOptions& options) {
    api::LoadedModel loaded = api::load_model(file, options);
    std::ranges::move(loaded.details, std::back_inserter(loaded.notes));
    return Model(std::make_shared<const Impl>(Impl{std::move(loaded)}));
}

const std::string& Model::name() const {
    return impl_->loaded.graph.name;
}

std::vector<OpInfo> Model::ops() const {
    const graph::OpGraph& graph = impl_->loaded.graph;
    std::vector<OpInfo> infos;
    for (const graph::Op& op : graph.ops()) {
        infos.push_back({.name = op.name,
                         .type = op.type,
                         .operands = names_of(graph, op.inputs),
                         .results = names_of(graph, op.outputs)});
    }
    return infos;
}

std::vector<FactorInfo> Model::factors(const std::string& op) const {
    const graph::OpGraph& graph = impl_->loaded.graph;
    const auto id = graph.find_op(op);
    if (!id) {
        throw UsageError(
            fmt::format("{}: no op is called '{}'. Model::ops() lists all.", name(), op));
    }
    const graph::OpRule rule = graph::rule_of(graph, *id);
    std::vector<FactorInfo> infos;
    for (std::size_t f = 0; f < rule.factors.size(); ++f) {
        const graph::Factor& factor = rule.factors[f];
        const bool joined = !factor.reduction || factor.combine != graph::Combine::none;
        infos.push_back({.name = factor.name,
                         .extent = factor.extent,
                         .splittable = factor.splittable && joined,
                         .operands = dims_with(static_cast<int>(f), rule.operands),
                         .results = dims_with(static_cast<int>(f), rule.results)});
    }
    return infos;
}

TensorInfo Model::tensor(const std::string& name) const {
    const auto tensors = impl_->loaded.graph.tensors();
    const auto found = std::ranges::find(tensors, name, &graph::Tensor::name);
    if (found == tensors.end()) {
        throw UsageError(
            fmt::format("{}: no tensor is called '{}'. Model::ops() lists the tensors of all ops.",
                        this->name(), name));
    }
    return {.shape = found->shape, .dtype = found->dtype, .bytes = found->bytes()};
}

std::string Model::digest() const {
    return "sha256:" + graph::digest(impl_->loaded.graph);
}

std::optional<Machine> Model::machine() const {
    const auto& machine = impl_->loaded.machine;
    if (!machine) return std::nullopt;
    return Machine(std::make_shared<const Machine::Impl>(Machine::Impl{*machine}));
}

const std::vector<std::string>& Model::notes() const {
    return impl_->loaded.notes;
}

}  // namespace partita
