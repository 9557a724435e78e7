// SPDX-License-Identifier: Apache-2.0
#include "search/configs/layout_propagation.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "plan/legality/config_legality.h"
#include "search/configs/factor_blocks.h"
#include "search/configs/standard_configs.h"

namespace partita::search {

using graph::OpId;
using graph::OpRule;
using graph::TensorRule;
using plan::FactorDegree;
using plan::OpConfig;
using plan::Problem;

namespace {

constexpr const char* kRepeated = "*";

/// A factor in a dim: the dim is made of so many equal blocks, each of which is split.
struct Place {
    std::size_t dim = 0;
    std::int64_t blocks = 1;
};

std::optional<Place> place_of(const OpRule& rule, const TensorRule& tensor,
                              const std::string& name) {
    const std::size_t slash = name.find('/');
    const std::string factor = name.substr(0, slash);
    for (std::size_t d = 0; d < tensor.dims.size(); ++d) {
        std::int64_t blocks = slash == std::string::npos ? 1 : std::stoll(name.substr(slash + 1));
        for (const int f : tensor.dims[d].factors) {
            const graph::Factor& own = rule.factors[static_cast<std::size_t>(f)];
            if (own.name == factor) return Place{d, blocks};
            blocks *= own.extent;
        }
    }
    return std::nullopt;
}

/// The factor that splits the dim in the same way; "*" when there is none.
std::string factor_at(const OpRule& rule, const TensorRule& tensor, const Place& place) {
    if (place.dim >= tensor.dims.size()) return kRepeated;
    std::int64_t blocks = place.blocks;
    for (const int f : tensor.dims[place.dim].factors) {
        const graph::Factor& own = rule.factors[static_cast<std::size_t>(f)];
        if (own.extent < 2) continue;
        if (blocks == 1) return own.name;
        if (blocks % own.extent != 0) return name_in_blocks(own.name, blocks);
        blocks /= own.extent;
    }
    return kRepeated;
}

/// Neighbouring axes of replicas are one.
void append(std::vector<FactorDegree>& degrees, FactorDegree degree) {
    const bool joins =
        degree.factor == kRepeated && !degrees.empty() && degrees.back().factor == kRepeated;
    if (joins) {
        degrees.back().degree *= degree.degree;
    } else {
        degrees.push_back(std::move(degree));
    }
}

}  // namespace

std::vector<Link> links_of(const Problem& problem, OpId op) {
    const graph::OpGraph& graph = problem.graph();
    std::vector<Link> links;
    const std::vector<graph::TensorId>& operands = graph.op(op).inputs;
    for (std::size_t i = 0; i < operands.size(); ++i) {
        if (!operands[i].valid()) continue;
        const OpId producer = graph.tensor(operands[i]).producer;
        const auto& results = graph.op(producer).outputs;
        const auto result = std::find(results.begin(), results.end(), operands[i]);
        links.push_back({producer, static_cast<std::size_t>(result - results.begin()), op, i});
    }
    const std::vector<graph::TensorId>& results = graph.op(op).outputs;
    for (std::size_t r = 0; r < results.size(); ++r) {
        if (!results[r].valid()) continue;
        for (const graph::Use& use : graph.uses(results[r])) {
            links.push_back({op, r, use.op, use.operand});
        }
    }
    return links;
}

std::vector<FactorDegree> propagated_degrees(const Problem& problem, const Link& link, OpId from,
                                             const std::vector<FactorDegree>& degrees) {
    const OpId to = from == link.producer ? link.reader : link.producer;
    const TensorRule& given = problem.facts().rule(link.producer).results[link.result];
    const TensorRule& read = problem.facts().rule(link.reader).operands[link.operand];
    const bool forward = from == link.producer;
    std::vector<FactorDegree> propagated;
    for (const FactorDegree& degree : degrees) {
        const auto place =
            place_of(problem.facts().rule(from), forward ? given : read, degree.factor);
        const std::string factor =
            place ? factor_at(problem.facts().rule(to), forward ? read : given, *place) : kRepeated;
        append(propagated, {factor, degree.degree});
    }
    return propagated;
}

OpConfig propagate(const Problem& problem, const Link& link, OpId from, const OpConfig& config,
                   int micro_batches) {
    const OpId to = from == link.producer ? link.reader : link.producer;
    if (config.devices.size() == 1) return on_one_device(problem, to, config.devices);
    OpConfig propagated{.degrees = propagated_degrees(problem, link, from, config.degrees),
                        .devices = config.devices};
    if (!find_fault(problem, to, propagated, micro_batches)) return propagated;
    propagated.degrees = {{kRepeated, config.devices.size()}};
    if (!find_fault(problem, to, propagated, micro_batches)) return propagated;
    return on_one_device(problem, to, config.devices);
}

}  // namespace partita::search
