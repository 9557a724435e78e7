// SPDX-License-Identifier: Apache-2.0
#include "tests/plan/public_workload.h"

#include <string>
#include <utility>

#include "cost/machine/workload_machine.h"
#include "importers/workload/workload.h"
#include "tests/support/paths.h"

namespace partita::plan {

PublicWorkload public_workload(std::string_view file) {
    auto model = importers::import_workload(tests::repository() / "examples/workloads" /
                                            (std::string(file) + ".json"));
    cost::Machine machine = cost::make_workload_machine(model.graph, model.accelerators, model.cpus,
                                                        model.accelerator_memory);
    ProblemOptions options;
    if (file.starts_with("throughput/")) options.objective = Objective::throughput;
    options.constraints.together = importers::color_classes(model.graph);
    return {std::move(model.graph), std::move(machine), std::move(options)};
}

}  // namespace partita::plan
