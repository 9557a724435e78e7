// SPDX-License-Identifier: Apache-2.0
//
// Models with machines, by name: what the tables of searchers are made of.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cost/machine/machine.h"
#include "graph/op_graph.h"
#include "plan/problem/problem.h"
#include "search/core/engine.h"

namespace partita::bench {

struct CaseModel {
    graph::OpGraph graph;
    cost::Machine machine;
    std::vector<std::vector<graph::OpId>> together;  ///< ops that must share a device
};

struct Case {
    std::string name;
    plan::Mode mode = plan::Mode::training;
    plan::Objective objective = plan::Objective::step_time;
    std::function<CaseModel()> make;
};

/// Of network_table().
std::function<CaseModel()> network(const char* name, std::int64_t batch, const char* machine);
/// Of examples/models; `bindings`: of its symbolic dims.
std::function<CaseModel()> onnx(const char* name, std::map<std::string, std::int64_t> bindings,
                                const char* machine);
/// Of examples/workloads, on the machine that the file describes.
std::function<CaseModel()> workload(const char* file);

/// The problem of a case, as for a user who gives no options. `model` must outlive it.
plan::Problem make_problem(const Case& of, const CaseModel& model);

struct CaseBudget {
    double seconds = 0;            ///< 0: no limit
    std::int64_t evaluations = 0;  ///< 0: no limit
    std::uint64_t seed = 1;
    int threads = 1;
};

search::EngineOptions engine_options(std::string_view searcher, const CaseBudget& budget);

}  // namespace partita::bench
