// SPDX-License-Identifier: Apache-2.0
#include "plan/evaluation/subgraph_latency.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cost/machine/workload_machine.h"
#include "search/support/random.h"
#include "tests/plan/public_workload.h"
#include "tests/plan/small_problems.h"
#include "tests/support/random_graph.h"

namespace partita::plan {
namespace {

using graph::OpGraph;
using graph::OpId;
using search::Random;

/// Accelerators first, then CPUs.
cost::Machine workload_machine(const OpGraph& graph, int accelerators, int cpus,
                               Bytes memory = Bytes{1'000'000}) {
    return cost::make_workload_machine(graph, accelerators, cpus, memory);
}

Time latency(const OpGraph& graph, const std::vector<int>& devices, int accelerators) {
    const int most = *std::max_element(devices.begin(), devices.end());
    const cost::Machine machine =
        workload_machine(graph, accelerators, std::max(1, most + 1 - accelerators));
    const Problem problem = make_problem(graph, machine);
    return make_evaluator(problem, Scheduler::pct)->evaluate(on_devices(devices)).value;
}

// a (2, cost 3) on one accelerator, b (4, cost 2) and c (5, cost 7) on another, d (1) after both on
// the first:
//     {a}: 2 + 3 sent once = 5;  {b c}: from 5, 3 received once + 4 + 5 + 2 + 7 sent = 26;
//     {d}: 2 + 7 received + 1 = 36
TEST(SubgraphLatency, CountsCallsWithTheirCommunication) {
    const OpGraph graph = WorkloadBuilder()
                              .node("a", 2, {}, 3)
                              .node("b", 4, {"a"}, 2)
                              .node("c", 5, {"a"}, 7)
                              .node("d", 1, {"b", "c"}, 0)
                              .build();
    EXPECT_EQ(latency(graph, {0, 1, 1, 2}, 3), microseconds(36));
    // {a} and {d} of one accelerator are two calls, because b and c are between them.
    EXPECT_EQ(latency(graph, {0, 1, 1, 0}, 3), microseconds(36));
    EXPECT_EQ(latency(graph, {0, 0, 0, 0}, 3), microseconds(12));
    // b on a CPU takes ten times as long and pays nothing: {a} 5, b 45, {c} 5 + 3 + 5 + 7, {d} 45 +
    // 9 + 1.
    EXPECT_EQ(latency(graph, {0, 3, 1, 2}, 3), microseconds(55));
}

// What a call gives is there at its end, not before: b waits for c, which it does not read.
TEST(SubgraphLatency, HidesResultsUntilTheEndOfTheCall) {
    const OpGraph graph =
        WorkloadBuilder().node("a", 1, {}, 1).node("b", 1, {"a"}).node("c", 100).build();
    EXPECT_EQ(latency(graph, {0, 1, 0}, 2), microseconds(101 + 1 + 1 + 1));
}

TEST(SubgraphLatency, HasAsManyCpusAsAreNeeded) {
    const OpGraph graph = WorkloadBuilder().node("a", 3).node("b", 4).node("c", 5, {"a"}).build();
    EXPECT_EQ(latency(graph, {0, 0, 0}, 0), microseconds(80));
    EXPECT_EQ(latency(graph, {0, 1, 0}, 0), microseconds(80));
}

TEST(SubgraphLatency, OfNodesThatTakeNoTimeIsNothing) {
    const OpGraph graph = WorkloadBuilder().node("a", 0, {}, 0).node("b", 0, {"a"}, 0).build();
    EXPECT_EQ(latency(graph, {0, 1}, 2), Time{0});
}

TEST(SubgraphLatency, CutsCallsThatWaitForEachOther) {
    const OpGraph graph = WorkloadBuilder()
                              .node("a1", 1, {}, 1)
                              .node("b1", 10, {}, 1)
                              .node("a2", 100, {"b1"}, 1)
                              .node("b2", 1000, {"a1"}, 1)
                              .build();
    // {a1} 2, {b1} 11, {a2} 11 + 1 + 100, {b2} 2 + 1 + 1000
    EXPECT_EQ(latency(graph, {0, 1, 0, 1}, 2), microseconds(1003));
}

TEST(SubgraphLatency, LimitsTheMemoryOfAcceleratorsAlone) {
    const OpGraph graph = WorkloadBuilder()
                              .node("a", 1, {}, 0, Bytes{700})
                              .node("b", 1, {"a"}, 0, Bytes{500})
                              .build();
    const cost::Machine machine = workload_machine(graph, 2, 1, Bytes{1000});
    const Problem problem = make_problem(graph, machine);
    const auto evaluator = make_evaluator(problem, Scheduler::pct);
    EXPECT_EQ(evaluator->evaluate(on_devices({0, 0})).overflow, Bytes{200});
    EXPECT_EQ(evaluator->evaluate(on_devices({0, 1})).overflow, Bytes{0});
    EXPECT_EQ(evaluator->evaluate(on_devices({0, 2})).overflow, Bytes{0});
    EXPECT_EQ(evaluator->evaluate(on_devices({2, 2})).overflow, Bytes{0});
    EXPECT_EQ(evaluator->evaluate(on_devices({2, 0})).devices[0].memory, Bytes{500});
}

/// As greedy.cpp does it, with sets: cut by levels, contract, go through the calls in order.
class Literal {
public:
    Literal(const OpGraph& graph, const std::vector<int>& devices, int accelerators)
        : graph_(graph), devices_(devices), accelerators_(accelerators) {}

    /// nullopt: the contracted graph is cyclic.
    std::optional<Time> latency() {
        for (int d = 0; d < accelerators_; ++d) cut(d);
        for (std::size_t op = 0; op < devices_.size(); ++op) {
            if (devices_[op] >= accelerators_) calls_.push_back({op});
        }
        for (std::size_t c = 0; c < calls_.size(); ++c) {
            for (const std::size_t op : calls_[c]) call_of_[op] = c;
        }
        Time latest;
        for (std::size_t done = 0; done < calls_.size(); ++done) {
            const auto next = find_ready();
            if (!next) return std::nullopt;
            end_[*next] = end_of(*next);
            latest = std::max(latest, end_[*next]);
        }
        return latest;
    }

private:
    std::vector<std::size_t> before(std::size_t op) const {
        std::vector<std::size_t> list;
        for (const OpId from : graph_.predecessors(OpId(op))) list.push_back(from.index());
        return list;
    }

    int level(std::size_t op, int device, std::map<std::size_t, int>& known) {
        if (const auto at = known.find(op); at != known.end()) return at->second;
        const bool here = devices_[op] == device;
        int most = here ? 1 : 0;
        for (const std::size_t from : before(op)) {
            const int step = here && devices_[from] != device ? 1 : 0;
            most = std::max(most, level(from, device, known) + step);
        }
        return known[op] = most;
    }

    void cut(int device) {
        std::map<std::size_t, int> known;
        std::map<int, std::set<std::size_t>> calls;
        for (std::size_t op = 0; op < devices_.size(); ++op) {
            if (devices_[op] == device) calls[level(op, device, known)].insert(op);
        }
        for (const auto& [at, ops] : calls) calls_.push_back(ops);
    }

    std::set<std::size_t> read_by(std::size_t call) const {
        std::set<std::size_t> read;
        for (const std::size_t op : calls_[call]) {
            for (const std::size_t from : before(op)) {
                if (!calls_[call].contains(from)) read.insert(from);
            }
        }
        return read;
    }

    std::optional<std::size_t> find_ready() {
        for (std::size_t c = 0; c < calls_.size(); ++c) {
            if (end_.contains(c)) continue;
            const auto read = read_by(c);
            if (std::all_of(read.begin(), read.end(),
                            [&](std::size_t op) { return end_.contains(call_of_[op]); })) {
                return c;
            }
        }
        return std::nullopt;
    }

    Time end_of(std::size_t call) {
        Time end;
        const std::set<std::size_t> read = read_by(call);
        for (const std::size_t op : read) end = std::max(end, end_[call_of_[op]]);
        const bool cpu = devices_[*calls_[call].begin()] >= accelerators_;
        if (cpu) return end + graph_.op(OpId(*calls_[call].begin())).given->cpu_time;
        for (const std::size_t op : read) end += graph_.op(OpId(op)).given->communication_time;
        for (const std::size_t op : calls_[call]) {
            end += graph_.op(OpId(op)).given->accelerator_time;
            const auto after = graph_.successors(OpId(op));
            if (std::any_of(after.begin(), after.end(),
                            [&](OpId to) { return !calls_[call].contains(to.index()); })) {
                end += graph_.op(OpId(op)).given->communication_time;
            }
        }
        return end;
    }

    const OpGraph& graph_;
    const std::vector<int>& devices_;
    int accelerators_;
    std::vector<std::set<std::size_t>> calls_;
    std::map<std::size_t, std::size_t> call_of_;
    std::map<std::size_t, Time> end_;
};

/// Each op where the one before it is, more or less often: long stretches and cut ones.
std::vector<int> random_devices(Random& random, std::size_t ops, int count) {
    const std::uint64_t stay = random.below(8);
    std::vector<int> devices;
    for (std::size_t op = 0; op < ops; ++op) {
        const bool stays = op > 0 && random.below(8) < stay;
        devices.push_back(stays
                              ? devices.back()
                              : static_cast<int>(random.below(static_cast<std::uint64_t>(count))));
    }
    return devices;
}

/// No call waits for itself: starts are after the ends of all that is read.
void expect_in_order(const OpGraph& graph, const SubgraphCalls& calls) {
    for (std::size_t op = 0; op < graph.op_count(); ++op) {
        const auto& own = calls.calls()[static_cast<std::size_t>(calls.call_of(op))];
        for (const OpId from : graph.predecessors(OpId(op))) {
            if (calls.call_of(from.index()) == calls.call_of(op)) continue;
            const std::int32_t before = calls.call_of(from.index());
            EXPECT_LE(calls.calls()[static_cast<std::size_t>(before)].end(), own.start);
        }
    }
}

TEST(SubgraphLatency, IsThatOfTheLiteralDefinition) {
    int cyclic = 0;
    int cut = 0;
    for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
        Random random(seed);
        const OpGraph graph =
            support::random_workload(random, 2 + static_cast<int>(random.below(14)));
        const int accelerators = static_cast<int>(random.below(4));
        const cost::Machine machine = workload_machine(graph, accelerators, 1);
        const Problem problem = make_problem(graph, machine);
        SubgraphLatency evaluator(problem);
        for (int i = 0; i < 3; ++i) {
            const auto devices = random_devices(random, graph.op_count(), accelerators + 1);
            const Time value = evaluator.evaluate(on_devices(devices)).value;
            const auto literal = Literal(graph, devices, accelerators).latency();
            ASSERT_EQ(evaluator.calls().was_cyclic(), !literal.has_value()) << "seed " << seed;
            if (literal) {
                ASSERT_EQ(value, *literal) << "seed " << seed;
            }
            expect_in_order(graph, evaluator.calls());
            cyclic += literal ? 0 : 1;
            std::set<int> used(devices.begin(), devices.end());
            used.erase(accelerators);
            const auto cpus = std::ranges::count(devices, accelerators);
            const auto least = used.size() + static_cast<std::size_t>(cpus);
            cut += evaluator.calls().calls().size() > least ? 1 : 0;
        }
    }
    EXPECT_GT(cyclic, 150);
    EXPECT_GT(cut, 1000);
}

/// The same graph with its ops in another topological order; `place` of each old op.
OpGraph reordered(const OpGraph& graph, Random& random, std::vector<std::size_t>& place) {
    OpGraph other;
    place.assign(graph.op_count(), graph.op_count());
    std::vector<graph::TensorId> tensors(graph.tensor_count());
    for (std::size_t done = 0; done < graph.op_count();) {
        const auto i = static_cast<std::size_t>(random.below(graph.op_count()));
        if (place[i] != graph.op_count()) continue;
        graph::Op op = graph.op(OpId(i));
        const auto ready = [&](OpId from) { return place[from.index()] != graph.op_count(); };
        if (!std::ranges::all_of(graph.predecessors(OpId(i)), ready)) continue;
        for (graph::TensorId& t : op.inputs) t = tensors[t.index()];
        for (graph::TensorId& t : op.outputs) {
            const graph::TensorId old = t;
            t = other.add_tensor(graph.tensor(old));
            tensors[old.index()] = t;
        }
        other.add_op(std::move(op));
        place[i] = done++;
    }
    return other;
}

TEST(SubgraphLatency, DoesNotDependOnTheNumbersOfOpsAndDevices) {
    for (std::uint64_t seed = 1; seed <= 500; ++seed) {
        Random random(seed);
        const OpGraph graph = support::random_workload(random, 12);
        std::vector<std::size_t> place;
        const OpGraph other = reordered(graph, random, place);
        const auto devices = random_devices(random, graph.op_count(), 4);
        std::vector<int> moved(devices.size());
        for (std::size_t op = 0; op < devices.size(); ++op) {
            moved[place[op]] = devices[op] == 3 ? 3 : (devices[op] + 1) % 3;
        }
        EXPECT_EQ(latency(graph, devices, 3), latency(other, moved, 3)) << "seed " << seed;
    }
}

struct Workload {
    const char* file;
    double accelerator_ms;    ///< all on one: REFERENCES 8, column sum f
    double greedy_ms;         ///< as published
    std::string_view greedy;  ///< the device of each node, by rising id, as greedy.cpp places them
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest looks for that name
void PrintTo(const Workload& workload, std::ostream* out) {
    *out << workload.file;
}

class PublishedWorkload : public testing::TestWithParam<Workload> {
protected:
    const PublicWorkload model_ = public_workload(std::string("latency/") + GetParam().file);
    const Problem problem_ = make_problem(model_.graph, model_.machine, model_.options);
};

double milliseconds(Time time) {
    return static_cast<double>(time.raw()) / 1e9;
}

TEST_P(PublishedWorkload, TakesOnOneAcceleratorTheSumOfItsTimes) {
    const std::vector<int> devices(model_.graph.op_count(), 0);
    const Evaluation one = SubgraphLatency(problem_).evaluate(on_devices(devices));
    EXPECT_NEAR(milliseconds(one.value) / GetParam().accelerator_ms, 1, 1e-8);
    EXPECT_GT(one.overflow, Bytes{0});
}

TEST_P(PublishedWorkload, TakesThePublishedTimeAsGreedyPlacesIt) {
    std::map<std::int64_t, std::size_t> ops;
    for (std::size_t i = 0; i < model_.graph.op_count(); ++i) {
        ops.emplace(model_.graph.ops()[i].given->id, i);
    }
    ASSERT_EQ(GetParam().greedy.size(), ops.size());
    std::vector<int> devices(ops.size());
    std::size_t at = 0;
    for (const auto& [id, op] : ops) devices[op] = GetParam().greedy[at++] - '0';
    const Evaluation greedy = SubgraphLatency(problem_).evaluate(on_devices(devices));
    EXPECT_NEAR(milliseconds(greedy.value) / GetParam().greedy_ms, 1, 1e-8);
    EXPECT_TRUE(greedy.feasible());
}

constexpr Workload kPublished[] = {
    {"bert24_inference", 92.406, 100.2185, "00000000000001111111111122222222"},
    {"gnmt_inference", 182.563, 268.5005,
     "000000000000000111111111111111111111111000111111101112202222220222222022222202222220"
     "222222033334"},
    {"op_bert_l-3_inference", 49.3525689463, 416.204375587,
     "221111222111111000000000000000000000000000000000000000000000000000000000000000000000"
     "000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
     "0000000000000000000000000000000000000001111111111111222221111111012"},
    {"op_resnet50_inference", 325.1319894609, 839.5362863359,
     "444455144254244345445443544453454554455444335543445333353533325352503450445143424250"
     "241425415550530545225555554045555025502532253555223151004143023003010531452330000000"
     "000000000000000000000000000000000011111111111111111111111111122222222222222222222222"
     "223333333222222222222222222222223333333333333333333333333333333333333333333333333333"
     "333333333333333344444444444444444444444444444444444444444444444444444444444444444444"
     "444444444444444444444444444444444444444444444445555555555555555555555555555555555555"
     "555555555555555555555555555555555555555555555555555555555555555555555555555555555555"
     "5555555555555555"},
};

std::string test_name(const testing::TestParamInfo<Workload>& info) {
    std::string name = info.param.file;
    std::ranges::replace(name, '-', '_');
    return name;
}

INSTANTIATE_TEST_SUITE_P(Workloads, PublishedWorkload, testing::ValuesIn(kPublished), test_name);

}  // namespace
}  // namespace partita::plan
