// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as a workload file: either an error that the user can act on, or a graph that passes
// check(), in topological order, and a machine for it.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "cost/machine/workload_machine.h"
#include "importers/workload/workload.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    try {
        const auto model = partita::importers::parse_workload(text, "workload.json");
        check(model.graph);
        for (std::size_t i = 0; i < model.graph.op_count(); ++i) {
            for (const auto tensor : model.graph.ops()[i].inputs) {
                if (model.graph.tensor(tensor).producer.index() >= i) std::abort();
            }
        }
        const auto machine = partita::cost::make_workload_machine(
            model.graph, model.accelerators, model.cpus, model.accelerator_memory);
        if (machine.device_count() != model.accelerators + model.cpus) std::abort();
    } catch (const partita::InputError&) {
    } catch (const partita::UsageError&) {
    }
    return 0;
}
