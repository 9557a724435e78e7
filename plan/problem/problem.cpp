// SPDX-License-Identifier: Apache-2.0
#include "plan/problem/problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "plan/problem/op_priorities.h"

namespace partita::plan {

using graph::TensorId;

namespace {

void check_graph(const graph::OpGraph& graph) {
    graph::check(graph);
    for (const graph::Op& op : graph.ops()) {
        const auto left_out = std::find_if(op.outputs.begin(), op.outputs.end(),
                                           [](TensorId t) { return !t.valid(); });
        if (left_out == op.outputs.end()) continue;
        throw InputError(
            fmt::format("model '{}': node '{}' ({}) leaves out its output {}, whose shape is not "
                        "known then. Name the output in the model.",
                        graph.name, op.name, op.type, left_out - op.outputs.begin()));
    }
}

void check_mode(const graph::OpGraph& graph, Mode mode) {
    const bool given = std::any_of(graph.ops().begin(), graph.ops().end(),
                                   [](const graph::Op& op) { return op.given.has_value(); });
    if (given && mode == Mode::training) {
        throw UsageError(
            "a workload with given costs holds its backward nodes itself; plan it with "
            "--mode inference");
    }
}

/// The options, with those constraints that the graph adds.
ProblemOptions checked(const graph::OpGraph& graph, const cost::Machine& machine,
                       ProblemOptions options) {
    check_graph(graph);
    check_constraints(graph, machine, options.constraints);
    check_mode(graph, options.mode);
    keep_on_cpus(graph, machine, options.constraints);
    return options;
}

}  // namespace

Problem::Parts::Parts(const graph::OpGraph& graph, std::vector<graph::OpRule> rules,
                      const cost::Machine& machine, std::shared_ptr<const cost::CostModel> costs,
                      const ProblemOptions& options,
                      std::shared_ptr<const cost::CollectiveModel> measured_transfers)
    : transfers(graph, machine, std::move(measured_transfers)),
      facts(graph, std::move(rules), options),
      constraints(facts, machine, options.constraints),
      prices(facts, machine, std::move(costs)),
      priorities(op_priorities(facts, constraints, prices, transfers)) {}

Problem::Problem(const graph::OpGraph& graph, const cost::Machine& machine,
                 std::shared_ptr<const cost::CostModel> costs, ProblemOptions options,
                 std::shared_ptr<const cost::CollectiveModel> transfers)
    : options_(checked(graph, machine, std::move(options))),
      parts_(std::make_shared<const Parts>(graph, graph::rules_of(graph), machine, std::move(costs),
                                           options_, std::move(transfers))),
      batch_(parts_->facts, options_),
      bounds_(parts_->facts, parts_->constraints, parts_->prices, batch_) {}

Problem::Problem(ProblemOptions options, std::shared_ptr<const Parts> parts)
    : options_(std::move(options)),
      parts_(std::move(parts)),
      batch_(parts_->facts, options_),
      bounds_(parts_->facts, parts_->constraints, parts_->prices, batch_) {}

Problem Problem::with_free_batch() const {
    ProblemOptions free = options_;
    free.policy.micro_batches = 1;
    free.policy.schedule = {};
    free.constraints.most_micro_batches = kMostChosenMicroBatches;
    free.constraints.free_schedule = true;
    return {std::move(free), parts_};
}

std::string Problem::model_digest() const {
    return "sha256:" + graph::digest(graph());
}

std::string Problem::costs_digest() const {
    return prices().digest(transfers().collectives());
}

}  // namespace partita::plan
