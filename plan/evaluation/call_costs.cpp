// SPDX-License-Identifier: Apache-2.0
#include "plan/evaluation/call_costs.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/csr.h"
#include "graph/op_graph.h"

namespace partita::plan {

using graph::OpId;
using graph::TensorId;

namespace {

using Pairs = std::vector<std::pair<std::int32_t, std::int32_t>>;

void connect(const graph::OpGraph& graph, CallCosts& costs) {
    Pairs forth;
    Pairs back;
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        const auto op = static_cast<std::int32_t>(i);
        for (const TensorId t : graph.ops()[i].inputs) {
            if (!t.valid()) continue;
            const auto from = static_cast<std::int32_t>(graph.tensor(t).producer.index());
            forth.emplace_back(from, op);
            back.emplace_back(op, from);
        }
    }
    costs.after = to_csr(forth, graph.op_count());
    costs.before = to_csr(back, graph.op_count());
}

void add_devices(const Problem& problem, CallCosts& costs) {
    for (int d = 0; d < problem.device_count(); ++d) {
        const bool accelerator = problem.machine().device(d).kind != cost::DeviceKind::cpu;
        costs.device_class.push_back(problem.prices().device_class(d));
        costs.is_accelerator.push_back(accelerator ? 1 : 0);
        costs.capacity.push_back(accelerator ? problem.constraints().memory_capacity(d).raw()
                                             : std::numeric_limits<std::int64_t>::max());
    }
}

void add_op(const Problem& problem, OpId op, CallCosts& costs) {
    const auto& given = problem.graph().op(op).given;
    costs.communication.push_back(given ? given->communication_time.raw() : 0);
    costs.bytes.push_back(given ? given->memory.raw() : 0);
    const std::size_t at = costs.times.size();
    costs.times.resize(at + costs.classes);
    for (std::size_t d = 0; d < costs.devices; ++d) {
        costs.times[at + static_cast<std::size_t>(costs.device_class[d])] =
            problem.prices().forward_time(op, static_cast<int>(d)).raw();
    }
}

void check_range(const CallCosts& costs) {
    Time sum;
    for (const std::int64_t time : costs.times) sum += Time(time);
    for (std::size_t op = 0; op < costs.ops; ++op) {
        const auto calls = static_cast<std::int64_t>(costs.after[op].size()) + 1;
        sum += calls * Time(costs.communication[op]);
    }
    static_cast<void>(2 * sum);
}

}  // namespace

CallCosts::CallCosts(const Problem& problem)
    : ops(problem.graph().op_count()),
      devices(static_cast<std::size_t>(problem.device_count())),
      classes(static_cast<std::size_t>(problem.prices().device_class_count())) {
    connect(problem.graph(), *this);
    add_devices(problem, *this);
    for (std::size_t i = 0; i < ops; ++i) add_op(problem, OpId(i), *this);
    check_range(*this);
}

}  // namespace partita::plan
