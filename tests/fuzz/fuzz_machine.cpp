// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as machine.json: either an error that the user can act on, or a machine that is written
// and read back unchanged and whose devices all reach each other.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cost/machine/group_links.h"
#include "cost/machine/machine_file.h"

namespace {

/// Routes to the first few devices; each destination costs a search over the whole machine.
constexpr int kDestinations = 4;

/// Devices that communicate.
constexpr int kGroup = 16;

/// Larger machines are read, and no more: writing makes two of each.
constexpr int kMostDevices = 4'096;

void exercise(const partita::cost::Machine& machine) {
    if (machine.device_count() > kMostDevices) return;
    const std::string text = to_json(machine);
    const partita::cost::Machine again = partita::cost::parse_machine(text, "again.json");
    if (to_json(again) != text || digest(again) != digest(machine)) std::abort();
    for (int to = 0; to < std::min(kDestinations, machine.device_count()); ++to) {
        for (int from = 0; from < machine.device_count(); ++from) {
            if (from == to) continue;
            const auto route = machine.route(from, to);
            if (route.channels.empty() || route.bandwidth < 1) std::abort();
            if (machine.copy_time(from, to, partita::Bytes{1}) <= route.latency) std::abort();
        }
    }
    std::vector<int> group(static_cast<std::size_t>(std::min(kGroup, machine.device_count())));
    std::iota(group.begin(), group.end(), 0);
    for (const auto& axis : machine.group_links(group)->torus) {
        if (axis.extent < 2 || axis.bandwidth < 1) std::abort();
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    // As the file says, and in another size: what one of them refuses the other may accept.
    for (const std::vector<int>& numbers : {std::vector<int>{}, {3}, {3, 3}, {2, 3, 4}}) {
        try {
            exercise(partita::cost::parse_machine(text, "machine.json", {.numbers = numbers}));
        } catch (const partita::InputError&) {
        } catch (const partita::UsageError&) {
        }
    }
    return 0;
}
