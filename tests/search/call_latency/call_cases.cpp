// SPDX-License-Identifier: Apache-2.0
#include "tests/search/call_latency/call_cases.h"

#include <algorithm>
#include <vector>

#include "cost/machine/workload_machine.h"
#include "plan/evaluation/subgraph_latency.h"
#include "tests/plan/small_problems.h"
#include "tests/support/random_graph.h"

namespace partita::search {

namespace {

plan::Constraints random_constraints(Random& random, std::size_t ops, int devices) {
    plan::Constraints constraints;
    const auto any_op = [&] { return graph::OpId(random.below(ops)); };
    if (random.below(2) == 0) constraints.together.push_back({any_op(), any_op()});
    if (random.below(4) == 0) constraints.together.push_back({any_op(), any_op(), any_op()});
    if (random.below(3) == 0) {
        constraints.allowed.resize(ops);
        constraints.allowed[any_op().index()] = {
            static_cast<int>(random.below(static_cast<std::uint64_t>(devices)))};
    }
    return constraints;
}

}  // namespace

CallCase::CallCase(std::uint64_t seed, int ops, int accelerators, int cpus)
    : machine_(plan::switched_machine(1)) {
    Random random(seed);
    graph_ = support::random_workload(random, ops);
    // Some 50 bytes per op; communication from small to larger than computation.
    const auto memory = static_cast<std::int64_t>(100 + random.below(50 * graph_.op_count()));
    const auto factor = static_cast<std::int64_t>(random.below(12));
    for (std::size_t i = 0; i < graph_.op_count(); ++i) {
        auto& given = graph_.op(graph::OpId(i)).given;
        given->communication_time = factor * given->communication_time;
    }
    machine_ = cost::make_workload_machine(graph_, accelerators, cpus, Bytes{memory});
    plan::ProblemOptions options;
    options.constraints = random_constraints(random, graph_.op_count(), accelerators + cpus);
    problem_.emplace(plan::make_problem(graph_, machine_, options));
}

std::optional<Time> CallCase::optimum() const {
    plan::SubgraphLatency latency(*problem_);
    std::vector<int> devices(graph_.op_count(), 0);
    std::optional<Time> best;
    const auto is_legal = [&] {
        for (std::size_t i = 0; i < devices.size(); ++i) {
            const auto& allowed = problem_->constraints().allowed_devices(graph::OpId(i));
            if (!std::binary_search(allowed.begin(), allowed.end(), devices[i])) return false;
        }
        for (const auto& together : problem_->constraints().together()) {
            for (const graph::OpId op : together) {
                if (devices[op.index()] != devices[together[0].index()]) return false;
            }
        }
        return true;
    };
    for (;;) {
        if (is_legal()) {
            const plan::Evaluation evaluation = latency.evaluate(plan::on_devices(devices));
            if (evaluation.feasible()) {
                best = std::min(best.value_or(Time::max()), evaluation.value);
            }
        }
        std::size_t i = 0;
        while (i < devices.size() && ++devices[i] == problem_->device_count()) devices[i++] = 0;
        if (i == devices.size()) return best;
    }
}

}  // namespace partita::search
