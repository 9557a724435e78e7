// SPDX-License-Identifier: Apache-2.0
#include "cli/device_json.h"

#include <cstddef>
#include <string>

namespace partita::cli {

using Json = nlohmann::ordered_json;

nlohmann::ordered_json devices_json(const plan::Problem& problem,
                                    const plan::Evaluation& evaluation,
                                    const std::vector<plan::MemoryByKind>& memory) {
    Json devices = Json::array();
    for (std::size_t d = 0; d < evaluation.devices.size(); ++d) {
        const int device = static_cast<int>(d);
        const plan::DeviceUse& use = evaluation.devices[d];
        Json kinds = nullptr;
        if (!memory.empty()) {
            for (const plan::MemoryKind kind : plan::kMemoryKinds) {
                kinds[std::string(name_of(kind))] = memory[d][kind].raw();
            }
            kinds["reserved"] = problem.machine().device(device).reserved.raw();
        }
        devices.push_back(
            {{"name", problem.machine().device(device).name},
             {"busy_ps", use.busy.raw()},
             {"memory_bytes", use.memory.raw()},
             {"memory_capacity_bytes", problem.constraints().memory_capacity(device).raw()},
             {"memory", kinds}});
    }
    return devices;
}

}  // namespace partita::cli
