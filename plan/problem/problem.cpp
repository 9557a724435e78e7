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

}  // namespace

struct Problem::Asked {
    Asked(const graph::OpGraph& model, const cost::Machine& machine, ProblemOptions of_model)
        : options(std::move(of_model)) {
        check_graph(model);
        check_constraints(model, machine, options.constraints);
        check_mode(model, options.mode);
        keep_on_cpus(model, machine, options.constraints);
        loss = graph_with_loss(model, options.mode, options.policy);
        if (loss) {
            options.constraints =
                constraints_with_loss(model, *loss, std::move(options.constraints));
        }
        rules = graph::rules_of(loss ? loss->graph : model);
    }

    ProblemOptions options;
    std::optional<LossGraph> loss;
    std::vector<graph::OpRule> rules;
};

Problem::Parts::Parts(const graph::OpGraph& of_model, std::optional<LossGraph> with_loss,
                      std::vector<graph::OpRule> rules, const cost::Machine& machine,
                      std::shared_ptr<const cost::CostModel> costs, const ProblemOptions& options,
                      std::shared_ptr<const cost::CollectiveModel> measured_transfers)
    : model(of_model),
      loss(std::move(with_loss)),
      transfers(loss ? loss->graph : model, machine, std::move(measured_transfers)),
      facts(loss ? loss->graph : model, std::move(rules), options),
      constraints(facts, machine, options.constraints),
      prices(facts, machine, std::move(costs)),
      priorities(op_priorities(facts, constraints, prices, transfers)) {}

Problem::Problem(const graph::OpGraph& model, const cost::Machine& machine,
                 std::shared_ptr<const cost::CostModel> costs, ProblemOptions options,
                 std::shared_ptr<const cost::CollectiveModel> transfers)
    : Problem(model, machine, std::move(costs), Asked(model, machine, std::move(options)),
              std::move(transfers)) {}

Problem::Problem(const graph::OpGraph& model, const cost::Machine& machine,
                 std::shared_ptr<const cost::CostModel> costs, Asked asked,
                 std::shared_ptr<const cost::CollectiveModel> transfers)
    : options_(std::move(asked.options)),
      parts_(std::make_shared<const Parts>(model, std::move(asked.loss), std::move(asked.rules),
                                           machine, std::move(costs), options_,
                                           std::move(transfers))),
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
    free.constraints.most_micro_batches = most_chosen_micro_batches(device_count());
    free.constraints.free_schedule = true;
    return {std::move(free), parts_};
}

std::string Problem::model_digest() const {
    return "sha256:" + graph::digest(parts_->model);
}

std::string Problem::costs_digest() const {
    return prices().digest(transfers().collectives());
}

}  // namespace partita::plan
