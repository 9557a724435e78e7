// SPDX-License-Identifier: Apache-2.0
#include "cli/command.h"

#include <array>

#include "cli/compare_command.h"
#include "cli/completion_command.h"
#include "cli/execute_command.h"
#include "cli/explain_command.h"
#include "cli/export_command.h"
#include "cli/inspect_command.h"
#include "cli/machine_command.h"
#include "cli/plan_command.h"
#include "cli/profile_command.h"
#include "cli/simulate_command.h"
#include "cli/verify_command.h"

namespace partita::cli {

std::span<const CommandRow> command_table() {
    static constexpr std::array kCommands = {
        CommandRow{.name = "plan",
                   .summary = "search for the best plan and write it",
                   .example = "build/release/partita plan examples/models/resnet50.onnx --batch 8 "
                              "--machine dgx-a100 -o plan.json",
                   .make = make_plan_command},
        CommandRow{.name = "execute",
                   .summary = "run a plan; compare measured with predicted",
                   .example = "build/release/partita execute plan.json "
                              "examples/models/resnet50.onnx --devices cpu:2 --random-weights 1 "
                              "--iterations 3",
                   .make = make_execute_command},
        CommandRow{.name = "profile",
                   .summary = "measure what plans of a model are made of into a database",
                   .example = "build/release/partita profile examples/runnable/mlp/model.onnx "
                              "--batch 8 --machine cpu:2 --db profile.sqlite",
                   .make = make_profile_command},
        CommandRow{.name = "simulate",
                   .summary = "price a plan again: another machine or policy",
                   .example = "build/release/partita simulate plan.json "
                              "examples/models/resnet50.onnx --machine dgx-1-v100",
                   .make = make_simulate_command},
        CommandRow{.name = "verify",
                   .summary = "prove a plan legal, or say exactly why not",
                   .example = "build/release/partita verify plan.json "
                              "examples/models/resnet50.onnx",
                   .make = make_verify_command},
        CommandRow{.name = "inspect",
                   .summary = "what is in a model, a plan or a machine",
                   .example = "build/release/partita inspect examples/models/resnet50.onnx "
                              "--batch 1",
                   .make = make_inspect_command},
        CommandRow{.name = "compare",
                   .summary = "several searchers in one table, or two plans side by side",
                   .example = "build/release/partita compare examples/models/resnet50.onnx "
                              "--batch 8 --machine dgx-a100 --searchers critical-path,heft",
                   .make = make_compare_command},
        CommandRow{.name = "explain",
                   .summary = "why a plan takes as long as it does, and an op is split as it is",
                   .example = "build/release/partita explain plan.json "
                              "examples/models/resnet50.onnx",
                   .make = make_explain_command},
        CommandRow{.name = "machine",
                   .summary = "list, show or discover machines",
                   .example = "build/release/partita machine show dgx-a100",
                   .make = make_machine_command},
        CommandRow{.name = "export",
                   .summary = "a plan in the format of another tool",
                   .example = "build/release/partita export plan.json "
                              "examples/models/resnet50.onnx --format dot -o plan.dot",
                   .make = make_export_command},
        CommandRow{.name = "completion",
                   .summary = "completions for bash, zsh or fish, or the manual page",
                   .example = "build/release/partita completion bash",
                   .make = make_completion_command},
    };
    return kCommands;
}

}  // namespace partita::cli
