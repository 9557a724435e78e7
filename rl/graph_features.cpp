// SPDX-License-Identifier: Apache-2.0
#include "rl/graph_features.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/hash_index.h"
#include "rl/walk.h"

namespace partita::rl {

using graph::OpId;

namespace {

constexpr std::size_t kDims = 4;

std::int64_t type_number(const std::string& type) {
    Hash hash;
    hash.add(type);
    return static_cast<std::int64_t>(hash.value() % static_cast<std::uint64_t>(kTypeNumbers));
}

float log_of(double amount, double scale) {
    return static_cast<float>(std::log10(std::max(amount, 1.0)) / scale);
}

std::vector<std::vector<std::int64_t>> neighbours(const ActionSpace& space,
                                                  const OptionPrices& prices, bool producers) {
    std::vector<std::vector<std::int64_t>> lists(space.size());
    for (std::size_t d = 0; d < space.size(); ++d) {
        for (const DecisionEdge& edge : prices.incoming(d)) {
            auto& list = producers ? lists[d] : lists[edge.producer];
            list.push_back(static_cast<std::int64_t>(producers ? edge.producer : d));
        }
    }
    for (std::size_t d = 0; d < space.size(); ++d) {
        auto& list = lists[d];
        std::ranges::sort(list);
        list.erase(std::unique(list.begin(), list.end()), list.end());
        if (producers) std::ranges::reverse(list);  // the nearest first
    }
    return lists;
}

void write_costs(const ActionSpace& space, const OptionPrices& prices, std::size_t d, double before,
                 double total, float* row) {
    const double least = prices.least_compute(d);
    const auto devices = static_cast<double>(space.problem().device_count());
    row[0] = static_cast<float>(std::log10(least / prices.even_share() + 1e-6) / 3);
    row[1] = static_cast<float>(least / prices.even_share());
    row[2] = total > 0 ? static_cast<float>(before / total) : 0.0F;
    row[3] = total > 0 ? static_cast<float>((before + least) / total * devices -
                                            std::floor(before / total * devices))
                       : 0.0F;
    row[4] = static_cast<float>(d) / static_cast<float>(space.size());
    Bytes kept;
    Bytes results;
    const search::GroupGraph* groups = &space.groups();
    for (const std::uint32_t group : space.decisions().groups[d]) {
        kept += groups->bytes(group);
        results += groups->result_bytes(group);
    }
    constexpr double kDigits = 10;  // of ten billion bytes
    row[5] = log_of(static_cast<double>(kept.raw()), kDigits);
    row[6] = log_of(static_cast<double>(results.raw()), kDigits);
    row[7] = log_of(static_cast<double>(space.ops(d).size()), 2);
    row[8] = space.problem().mode() == plan::Mode::training ? 1.0F : 0.0F;
    row[9] = space.decisions().whole[d] != 0 ? 1.0F : 0.0F;
}

/// Logarithms of the extents of the lead's first result, -1 where there are fewer.
void write_shape(const ActionSpace& space, std::size_t d, float* row) {
    std::fill_n(row, kDims, -1.0F);
    const OpId lead = space.lead(d);
    if (!lead.valid()) return;
    const graph::Op& op = space.problem().graph().op(lead);
    if (op.outputs.empty()) return;
    const graph::Shape& shape = space.problem().graph().tensor(op.outputs[0]).shape;
    constexpr double kDigits = 4;
    for (std::size_t i = 0; i < std::min(kDims, shape.size()); ++i) {
        row[i] = log_of(static_cast<double>(shape[i]), kDigits);
    }
}

}  // namespace

GraphFeatures graph_features(const ActionSpace& space, const OptionPrices& prices) {
    GraphFeatures features;
    features.rows.assign(space.size() * kGraphFeatures, 0);
    const auto producers = neighbours(space, prices, true);
    const auto readers = neighbours(space, prices, false);
    double total = 0;
    for (std::size_t d = 0; d < space.size(); ++d) total += prices.least_compute(d);
    double before = 0;
    for (std::size_t d = 0; d < space.size(); ++d) {
        const OpId lead = space.lead(d);
        features.types.push_back(lead.valid() ? type_number(space.problem().graph().op(lead).type)
                                              : 0);
        float* const row = features.rows.data() + d * kGraphFeatures;
        write_costs(space, prices, d, before, total, row);
        write_shape(space, d, row + 10);
        row[14] = log_of(1 + static_cast<double>(producers[d].size()), 1);
        row[15] = log_of(1 + static_cast<double>(readers[d].size()), 1);
        float* at = row + 16;
        for (const auto& list : {producers[d], readers[d]}) {
            for (std::size_t i = 0; i < kNeighbours; ++i, ++at) {
                const bool there = i < list.size();
                const double away =
                    there ? std::abs(static_cast<double>(list[i]) - static_cast<double>(d)) : 0;
                *at = there ? log_of(away, 2) : -1.0F;
                features.neighbours.push_back(there ? list[i] : static_cast<std::int64_t>(d));
                features.is_neighbour.push_back(there ? 1.0F : 0.0F);
            }
        }
        before += prices.least_compute(d);
    }
    for (const Iteration& iteration : space.iterations()) {
        const auto row = iteration_features(iteration);
        features.iterations.insert(features.iterations.end(), row.begin(), row.end());
    }
    return features;
}

}  // namespace partita::rl
