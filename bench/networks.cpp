// SPDX-License-Identifier: Apache-2.0
#include "bench/networks.h"

#include <algorithm>
#include <array>
#include <string>

#include <fmt/format.h>

#include "base/error.h"

namespace partita::bench {

namespace {

constexpr std::array kNetworks = {
    NetworkRow{"lenet-5", 32, make_lenet_5},
    NetworkRow{"alexnet", 256, make_alexnet},
    NetworkRow{"vgg-16", 64, make_vgg_16},
    NetworkRow{"resnet-50", 64, make_resnet_50},
    NetworkRow{"resnet-101", 64, make_resnet_101},
    NetworkRow{"resnet-101-chain", 64, make_resnet_101_chain},
    NetworkRow{"inception-v3", 64, make_inception_v3},
    NetworkRow{"densenet-121", 64, make_densenet_121},
    NetworkRow{"nmt", 64, make_nmt},
    NetworkRow{"language-model", 64, make_language_model},
    NetworkRow{"translator", 64, make_translator},
};

}  // namespace

std::span<const NetworkRow> network_table() {
    return kNetworks;
}

const NetworkRow& find_network(std::string_view name) {
    const auto* const at = std::ranges::find(kNetworks, name, &NetworkRow::name);
    if (at != kNetworks.end()) return *at;
    std::string known;
    for (const NetworkRow& row : kNetworks) {
        known += (known.empty() ? "" : ", ") + std::string(row.name);
    }
    throw UsageError(fmt::format("unknown network '{}'. Known are {}.", name, known));
}

graph::OpGraph make_network(std::string_view name, std::int64_t batch) {
    return find_network(name).make(batch);
}

int computing_ops(const graph::OpGraph& graph) {
    return static_cast<int>(std::ranges::count_if(graph.ops(), [](const graph::Op& op) {
        return op.kind == graph::OpKind::compute && op.type != "Squeeze";
    }));
}

}  // namespace partita::bench
