// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as plan.json: either an error that the user can act on, or a plan that is written and
// read back unchanged and that verify() can judge.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "cost/cost_model.h"
#include "plan/files/plan_file.h"
#include "plan/files/verify.h"

namespace {

partita::graph::OpGraph small_graph() {
    partita::graph::OpGraph graph;
    partita::graph::Tensor x;
    x.name = "x";
    x.shape = {2, 3};
    x.role = partita::graph::TensorRole::input;
    const auto input = graph.add_source(x);
    partita::graph::Tensor y = x;
    y.name = "y";
    y.role = partita::graph::TensorRole::activation;
    partita::graph::Op relu;
    relu.name = "relu";
    relu.type = "Relu";
    relu.inputs = {input};
    relu.outputs = {graph.add_tensor(y)};
    graph.add_op(relu);
    graph.add_output("out", relu.outputs[0]);
    return graph;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    try {
        const partita::plan::Plan plan = partita::plan::parse_plan(text, "plan.json");
        const std::string again = to_json(plan);
        if (to_json(partita::plan::parse_plan(again, "again.json")) != again) std::abort();
        static const partita::graph::OpGraph kGraph = small_graph();
        const partita::plan::Problem problem(kGraph, *plan.machine,
                                             partita::cost::default_cost_model(), {});
        (void)verify(problem, plan);
    } catch (const partita::InputError&) {
    } catch (const partita::UsageError&) {
    }
    return 0;
}
