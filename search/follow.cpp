// SPDX-License-Identifier: Apache-2.0
#include "search/follow.h"

#include <algorithm>
#include <string>

#include "plan/config.h"
#include "search/split_configs.h"

namespace partita::search {

using graph::OpId;
using graph::OpRule;
using graph::TensorRule;
using plan::FactorDegree;
using plan::OpConfig;
using plan::Problem;

namespace {

constexpr const char* kRepeated = "*";

/// The factor of `to` that cuts the same dim; "*" when there is none.
std::string factor_across(const OpRule& from, const TensorRule& of, const OpRule& to,
                          const TensorRule& as, const std::string& factor) {
    for (std::size_t d = 0; d < of.dims.size() && d < as.dims.size(); ++d) {
        if (of.dims[d].factors.empty() || as.dims[d].factors.empty()) continue;
        const auto own = static_cast<std::size_t>(of.dims[d].factors.front());
        if (from.factors[own].name != factor) continue;
        return to.factors[static_cast<std::size_t>(as.dims[d].factors.front())].name;
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

OpConfig follow(const Problem& problem, const Link& link, OpId from, const OpConfig& config,
                int micro_batches) {
    const OpId to = from == link.producer ? link.reader : link.producer;
    if (config.devices.size() == 1) return on_one_device(problem, to, config.devices);
    const TensorRule& given = problem.rule(link.producer).results[link.result];
    const TensorRule& read = problem.rule(link.reader).operands[link.operand];
    const bool forward = from == link.producer;
    OpConfig followed{.degrees = {}, .devices = config.devices};
    for (const FactorDegree& degree : config.degrees) {
        append(followed.degrees,
               {factor_across(problem.rule(from), forward ? given : read, problem.rule(to),
                              forward ? read : given, degree.factor),
                degree.degree});
    }
    if (!find_fault(problem, to, followed, micro_batches)) return followed;
    followed.degrees = {{kRepeated, config.devices.size()}};
    if (!find_fault(problem, to, followed, micro_batches)) return followed;
    return on_one_device(problem, to, config.devices);
}

}  // namespace partita::search
