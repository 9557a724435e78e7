// SPDX-License-Identifier: Apache-2.0
#include "tests/search/max_load/contiguous/contiguous_cases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "plan/evaluation/max_load.h"
#include "plan/files/plan_file.h"
#include "plan/files/verify.h"
#include "tests/plan/small_problems.h"
#include "tests/support/draws.h"

namespace partita::search {

using graph::Op;
using graph::OpGraph;
using graph::OpId;
using graph::TensorId;
using plan::Problem;
using support::draw;

namespace {

OpId add(OpGraph& graph, const graph::GivenCosts& given, const std::vector<OpId>& from) {
    Op op;
    op.name = "n" + std::to_string(given.id);
    op.type = "Given";
    op.domain = "partita";
    op.given = given;
    for (const OpId source : from) op.inputs.push_back(graph.op(source).outputs[0]);
    graph::Tensor result;
    result.name = op.name;
    result.given_bytes = Bytes{0};
    op.outputs.push_back(graph.add_tensor(std::move(result)));
    return graph.add_op(std::move(op));
}

graph::GivenCosts random_costs(Random& random, std::int64_t id) {
    graph::GivenCosts given;
    given.id = id;
    given.accelerator_time = microseconds(random.below(5) == 0 ? 0 : draw(random, 30));
    given.cpu_time = 3 * given.accelerator_time;
    given.communication_time = microseconds(draw(random, 10));
    given.memory = Bytes{draw(random, 4)};
    return given;
}

/// Every backward node mirrors a forward one and reads it too.
void add_backward(OpGraph& graph, Random& random,
                  const std::vector<std::vector<std::size_t>>& successors,
                  std::vector<std::vector<OpId>>& classes) {
    const std::size_t forward = successors.size();
    std::vector<OpId> mirrors(forward);
    for (std::size_t i = forward; i-- > 0;) {
        graph::GivenCosts given = random_costs(random, static_cast<std::int64_t>(100 + i));
        given.backward = true;
        std::vector<OpId> from{OpId(i)};
        for (const std::size_t next : successors[i]) from.push_back(mirrors[next]);
        if (random.below(4) == 0) from.erase(from.begin());
        mirrors[i] = add(graph, given, from);
        if (random.below(8) != 0) classes[i].push_back(mirrors[i]);
    }
}

bool is_backward(const OpGraph& graph, OpId op) {
    return graph.op(op).given->backward;
}

/// Forward edges as a class sees them: (from, to), and mirrored ones where a class is backward
/// alone.
std::set<std::pair<OpId, OpId>> precedence(const Problem& problem) {
    const OpGraph& graph = problem.graph();
    std::vector<std::vector<OpId>> classes(graph.op_count());
    for (std::size_t i = 0; i < graph.op_count(); ++i) classes[i] = {OpId(i)};
    for (const auto& together : problem.constraints().together()) {
        for (const OpId op : together) classes[op.index()] = together;
    }
    const auto backward_alone = [&](OpId op) {
        return std::ranges::all_of(classes[op.index()],
                                   [&](OpId other) { return is_backward(graph, other); });
    };
    std::set<std::pair<OpId, OpId>> edges;
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        for (const OpId next : graph.successors(OpId(i))) {
            const bool from_backward = is_backward(graph, OpId(i));
            if (from_backward != is_backward(graph, next)) continue;
            if (!from_backward) {
                edges.emplace(OpId(i), next);
            } else if (backward_alone(OpId(i)) || backward_alone(next)) {
                edges.emplace(next, OpId(i));
            }
        }
    }
    return edges;
}

bool keeps_together(const Problem& problem, const std::vector<int>& devices) {
    for (const auto& together : problem.constraints().together()) {
        for (const OpId op : together) {
            if (devices[op.index()] != devices[together[0].index()]) return false;
        }
    }
    for (std::size_t i = 0; i < devices.size(); ++i) {
        const auto& allowed = problem.constraints().allowed_devices(OpId(i));
        if (!std::binary_search(allowed.begin(), allowed.end(), devices[i])) return false;
    }
    return true;
}

bool is_acyclic_between_devices(const std::set<std::pair<OpId, OpId>>& edges,
                                const std::vector<int>& devices, int count) {
    const auto size = static_cast<std::size_t>(count);
    std::vector<std::vector<char>> reaches(size, std::vector<char>(size, 0));
    for (const auto& [from, to] : edges) {
        const auto a = static_cast<std::size_t>(devices[from.index()]);
        const auto b = static_cast<std::size_t>(devices[to.index()]);
        if (a != b) reaches[a][b] = 1;
    }
    for (std::size_t via = 0; via < size; ++via) {
        for (std::size_t a = 0; a < size; ++a) {
            for (std::size_t b = 0; b < size; ++b) {
                if (reaches[a][via] != 0 && reaches[via][b] != 0) reaches[a][b] = 1;
            }
        }
    }
    for (std::size_t a = 0; a < size; ++a) {
        if (reaches[a][a] != 0) return false;
    }
    return true;
}

}  // namespace

SmallWorkload small_workload(Random& random) {
    SmallWorkload small{
        .graph = {}, .machine = plan::switched_machine(3), .together = {}, .memory = {}};
    const int forward = 2 + draw(random, 5);
    std::vector<std::vector<std::size_t>> successors(static_cast<std::size_t>(forward));
    std::vector<std::vector<OpId>> classes;
    for (int i = 0; i < forward; ++i) {
        std::vector<OpId> from;
        for (int before = 0; before < i; ++before) {
            if (random.below(3) != 0) continue;
            from.emplace_back(static_cast<std::size_t>(before));
            successors[static_cast<std::size_t>(before)].push_back(static_cast<std::size_t>(i));
        }
        classes.push_back({add(small.graph, random_costs(random, i), from)});
    }
    const bool backward = random.below(2) == 0;
    if (backward) add_backward(small.graph, random, successors, classes);
    if (forward > 4 && random.below(3) == 0) {  // two forward nodes share a class
        auto& first = classes[0];
        auto& other = classes[2 + static_cast<std::size_t>(draw(random, 2))];
        first.insert(first.end(), other.begin(), other.end());
        other.clear();
    }
    std::erase_if(classes, [](const auto& ops) { return ops.size() < 2; });
    small.together = classes;

    const cost::Machine gpus = plan::switched_machine(3);
    std::vector<cost::Device> devices(gpus.devices().begin(), gpus.devices().end());
    if (random.below(3) != 0) {
        devices[2].kind = cost::DeviceKind::cpu;
        for (std::size_t i = 0; i < small.graph.op_count(); ++i) {
            small.graph.op(OpId(i)).given->on_accelerator = random.below(12) != 0;
        }
    }
    small.machine =
        cost::Machine("small", devices, {"switch"}, {gpus.links().begin(), gpus.links().end()});
    Bytes whole;
    for (const Op& op : small.graph.ops()) whole += op.given->memory;
    small.memory = Bytes{1 + whole.raw() * (25 + draw(random, 100)) / 100};
    return small;
}

Problem throughput_of(const SmallWorkload& small) {
    plan::ProblemOptions options{.objective = plan::Objective::throughput};
    options.constraints.together = small.together;
    options.constraints.memory_limit = small.memory;
    return plan::make_problem(small.graph, small.machine, options);
}

bool expect_best(const Problem& problem, const SearchResult& result,
                 const std::optional<Time>& best) {
    EXPECT_EQ(result.status != Status::infeasible, best.has_value());
    if (!best) {
        EXPECT_NE(result.shortage, "");
        return false;
    }
    EXPECT_EQ(result.evaluation.value, *best);
    EXPECT_THAT(plan::verify(problem, make_plan(problem, result)), testing::IsEmpty());
    return true;
}

bool is_contiguous(const Problem& problem, const plan::Strategy& strategy) {
    std::vector<int> devices;
    for (std::size_t i = 0; i < problem.graph().op_count(); ++i) {
        devices.push_back(strategy.device_of(OpId(i)));
    }
    return is_acyclic_between_devices(precedence(problem), devices, problem.device_count());
}

namespace {

std::optional<Time> best_of_all(const Problem& problem, bool contiguous) {
    // Classes move as one; the others are ops alone.
    const std::size_t ops = problem.graph().op_count();
    std::vector<std::vector<OpId>> units = problem.constraints().together();
    std::vector<char> joined(ops, 0);
    for (const auto& together : units) {
        for (const OpId op : together) joined[op.index()] = 1;
    }
    for (std::size_t i = 0; i < ops; ++i) {
        if (joined[i] == 0) units.push_back({OpId(i)});
    }
    const auto edges = precedence(problem);
    const int count = problem.device_count();
    std::vector<int> choice(units.size(), 0);
    std::vector<int> devices(ops, 0);
    std::optional<Time> best;
    for (bool more = true; more;) {
        for (std::size_t u = 0; u < units.size(); ++u) {
            for (const OpId op : units[u]) devices[op.index()] = choice[u];
        }
        if (keeps_together(problem, devices) &&
            (!contiguous || is_acyclic_between_devices(edges, devices, count))) {
            const plan::Evaluation value = given_max_load(problem, plan::on_devices(devices));
            if (value.feasible() && (!best || value.value < *best)) best = value.value;
        }
        more = false;
        for (std::size_t u = 0; u < units.size() && !more; ++u) {
            choice[u] = (choice[u] + 1) % count;
            more = choice[u] != 0;
        }
    }
    return best;
}

}  // namespace

std::optional<Time> best_contiguous_by_enumeration(const Problem& problem) {
    return best_of_all(problem, /*contiguous=*/true);
}

std::optional<Time> best_by_enumeration(const Problem& problem) {
    return best_of_all(problem, /*contiguous=*/false);
}

OpGraph renumbered(const OpGraph& graph, Random& random) {
    OpGraph result;
    std::vector<std::size_t> waiting(graph.op_count());
    std::vector<OpId> place(graph.op_count());
    std::vector<std::size_t> ready;
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        waiting[i] = graph.ops()[i].inputs.size();
        if (waiting[i] == 0) ready.push_back(i);
    }
    for (std::int64_t id = 0; !ready.empty(); ++id) {
        const auto at = static_cast<std::ptrdiff_t>(random.below(ready.size()));
        const std::size_t op = ready[static_cast<std::size_t>(at)];
        ready.erase(ready.begin() + at);
        graph::GivenCosts given = *graph.ops()[op].given;
        given.id = id;
        std::vector<OpId> from;
        for (const TensorId input : graph.ops()[op].inputs) {
            from.push_back(place[graph.tensor(input).producer.index()]);
        }
        place[op] = add(result, given, from);
        for (const OpId next : graph.successors(OpId(op))) {
            if (--waiting[next.index()] == 0) ready.push_back(next.index());
        }
    }
    return result;
}

}  // namespace partita::search
