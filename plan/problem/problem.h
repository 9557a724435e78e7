// SPDX-License-Identifier: Apache-2.0
//
// Problem: what is to be planned. A graph, a machine, a cost model, a mode, an objective and the
// user's constraints; and what every searcher needs to know of them, computed once, each from those
// before it:
//
//     transfers     prices of copies and collectives
//     facts         rules of ops, gradients, where the batch lies
//     constraints   devices that an op may use, factors that may be split
//     prices        of forward, backward and update, per device
//     priorities    of ops, frozen
//     batch         numbers of micro-batches and schedules that a plan may have
//     bounds        the least that an op takes, however it is cut
//
// Immutable after construction, so any number of threads may read it. A Problem that exists is well
// formed (contract 1). It need not be feasible.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cost/collectives/collective.h"
#include "cost/cost_model.h"
#include "cost/machine/machine.h"
#include "graph/op_graph.h"
#include "graph/operators/op_rule.h"
#include "plan/problem/batch_choices.h"
#include "plan/problem/graph_facts.h"
#include "plan/problem/loss_graph.h"
#include "plan/problem/op_constraints.h"
#include "plan/problem/prices.h"
#include "plan/problem/problem_options.h"
#include "plan/problem/time_bounds.h"
#include "plan/problem/transfer_prices.h"
#include "plan/strategy/pass.h"
#include "plan/strategy/strategy.h"

namespace partita::plan {

class Problem {
public:
    /// Keeps references to the model and the machine, which must outlive it. `transfers` wins over what the
    /// machine names; null: nothing else is known of copies and collectives. Throws InputError
    /// (model or machine inconsistent, naming the node or field) or UsageError (a constraint that
    /// names no op or device, training without any parameter, ...).
    Problem(const graph::OpGraph& model, const cost::Machine& machine,
            std::shared_ptr<const cost::CostModel> costs, ProblemOptions options,
            std::shared_ptr<const cost::CollectiveModel> transfers = nullptr);

    /// What is planned: the model, and what its loss adds (loss_graph.h). Tensors have the ids that
    /// they have in the model, ops may have others.
    [[nodiscard]] const graph::OpGraph& graph() const { return parts_->facts.graph(); }
    [[nodiscard]] const cost::Machine& machine() const { return parts_->prices.machine(); }
    [[nodiscard]] int device_count() const { return machine().device_count(); }
    [[nodiscard]] Mode mode() const { return options_.mode; }
    [[nodiscard]] Objective objective() const { return options_.objective; }
    /// The user's; a plan may differ from it as far as batch() allows.
    [[nodiscard]] const Policy& policy() const { return options_.policy; }

    [[nodiscard]] const TransferPrices& transfers() const { return parts_->transfers; }
    [[nodiscard]] const GraphFacts& facts() const { return parts_->facts; }
    [[nodiscard]] const OpConstraints& constraints() const { return parts_->constraints; }
    [[nodiscard]] const Prices& prices() const { return parts_->prices; }
    [[nodiscard]] const BatchChoices& batch() const { return batch_; }
    [[nodiscard]] const TimeBounds& bounds() const { return bounds_; }

    /// Frozen priority of an op in a pass, as its place in one order (op_priorities.h);
    /// smaller = more urgent. Independent of any strategy.
    [[nodiscard]] std::int32_t priority(graph::OpId op, Pass pass) const {
        return parts_->priorities[facts().passes(graph().op_count()).row(op.index(), pass)];
    }
    /// There are so many.
    [[nodiscard]] std::size_t priority_count() const { return parts_->priorities.size(); }

    /// This problem with micro-batches and schedule left to the search.
    [[nodiscard]] Problem with_free_batch() const;

    /// SHA-256 of the model, for plan files (computed on demand).
    [[nodiscard]] std::string model_digest() const;
    /// SHA-256 over all prices of this problem: two problems with equal digests price alike.
    [[nodiscard]] std::string costs_digest() const;

private:
    /// All that does not depend on the choices of micro-batches and schedule. Each is made from
    /// those above it, so their order counts; and so does which of two faults is reported.
    struct Parts {
        Parts(const graph::OpGraph& of_model, std::optional<LossGraph> with_loss,
              std::vector<graph::OpRule> rules, const cost::Machine& machine,
              std::shared_ptr<const cost::CostModel> costs, const ProblemOptions& options,
              std::shared_ptr<const cost::CollectiveModel> measured_transfers);

        const graph::OpGraph& model;
        std::optional<LossGraph> loss;
        TransferPrices transfers;
        GraphFacts facts;
        OpConstraints constraints;
        Prices prices;
        std::vector<std::int32_t> priorities;  ///< by GraphFacts::passes()
    };

    /// What is asked, checked, about the graph that is planned.
    struct Asked;
    Problem(const graph::OpGraph& model, const cost::Machine& machine,
            std::shared_ptr<const cost::CostModel> costs, Asked asked,
            std::shared_ptr<const cost::CollectiveModel> transfers);
    Problem(ProblemOptions options, std::shared_ptr<const Parts> parts);

    ProblemOptions options_;
    /// Shared with copies: parts refer to each other, so they must stay where they are.
    std::shared_ptr<const Parts> parts_;
    BatchChoices batch_;
    TimeBounds bounds_;
};

}  // namespace partita::plan
