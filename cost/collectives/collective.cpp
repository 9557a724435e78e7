// SPDX-License-Identifier: Apache-2.0
#include "cost/collectives/collective.h"

#include <cstdlib>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace partita::cost {

std::string_view name_of(Collective collective) {
    switch (collective) {
    case Collective::all_reduce: return "all-reduce";
    case Collective::all_gather: return "all-gather";
    case Collective::reduce_scatter: return "reduce-scatter";
    case Collective::all_to_all: return "all-to-all";
    case Collective::broadcast: return "broadcast";
    case Collective::reduce: return "reduce";
    case Collective::scatter: return "scatter";
    case Collective::gather: return "gather";
    }
    std::abort();
}

std::string_view name_of(Algorithm algorithm) {
    switch (algorithm) {
    case Algorithm::ring: return "ring";
    case Algorithm::tree: return "tree";
    case Algorithm::pipelined_tree: return "pipelined-tree";
    case Algorithm::butterfly: return "butterfly";
    case Algorithm::halving_doubling: return "halving-doubling";
    case Algorithm::one_shot: return "one-shot";
    case Algorithm::all_to_all: return "all-to-all";
    case Algorithm::parameter_server: return "parameter-server";
    case Algorithm::master_worker: return "master-worker";
    case Algorithm::round_robin: return "round-robin";
    case Algorithm::direct: return "direct";
    case Algorithm::hierarchical: return "hierarchical";
    case Algorithm::torus: return "torus";
    case Algorithm::nvls: return "nvls";
    case Algorithm::nvls_tree: return "nvls-tree";
    case Algorithm::collnet_direct: return "collnet-direct";
    case Algorithm::collnet_chain: return "collnet-chain";
    case Algorithm::pat: return "pat";
    case Algorithm::library: return "library";
    }
    std::abort();
}

std::string_view name_of(Protocol protocol) {
    switch (protocol) {
    case Protocol::none: return "";
    case Protocol::simple: return "simple";
    case Protocol::ll: return "ll";
    case Protocol::ll128: return "ll128";
    }
    std::abort();
}

FirstCollectiveMatch::FirstCollectiveMatch(
    std::vector<std::shared_ptr<const CollectiveModel>> models)
    : models_(std::move(models)) {
    if (models_.empty()) {
        throw std::invalid_argument("FirstCollectiveMatch: expected at least one model");
    }
}

std::optional<CollectivePrice> FirstCollectiveMatch::price(const CollectiveCall& call,
                                                           const Machine& machine) const {
    for (const auto& model : models_) {
        if (auto price = model->price(call, machine)) return price;
    }
    return std::nullopt;
}

std::optional<Price> FirstCollectiveMatch::copy_price(int from, int to, Bytes bytes,
                                                      const Machine& machine) const {
    for (const auto& model : models_) {
        if (auto price = model->copy_price(from, to, bytes, machine)) return price;
    }
    return std::nullopt;
}

std::string FirstCollectiveMatch::name() const {
    std::vector<std::string> names;
    for (const auto& model : models_) names.push_back(model->name());
    return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace partita::cost
