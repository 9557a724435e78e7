// SPDX-License-Identifier: Apache-2.0
#include "cost/profile/profiled_collectives.h"

#include <algorithm>
#include <vector>

#include "cost/collectives/collective_log.h"

namespace partita::cost {

ProfiledCollectives::ProfiledCollectives(const Profile& profile) {
    constexpr std::size_t kDigits = 16;
    name_ = "profile " + profile.digest().substr(0, kDigits);
    for (const DeviceProfile& device : profile.devices) {
        std::vector<MeasuredCollective> collectives;
        std::vector<MeasuredCollective> copies;
        for (const MeasuredTransfer& row : device.transfers) {
            (row.copy ? copies : collectives)
                .push_back({.set = {},
                            .kind = row.copy ? Collective::broadcast : row.kind,
                            .ranks = row.ranks,
                            .nodes = row.nodes,
                            .bytes = row.bytes,
                            .time = row.time.median});
        }
        if (!collectives.empty()) {
            collectives_.emplace(device.device, CollectiveTable(collectives, name_));
        }
        if (!copies.empty()) copies_.emplace(device.device, CollectiveTable(copies, name_));
    }
}

std::optional<CollectivePrice> ProfiledCollectives::price(const CollectiveCall& call,
                                                          const Machine& machine) const {
    if (call.devices.empty()) return std::nullopt;
    const DeviceKey key = device_key(machine.device(call.devices[0]));
    const auto table = collectives_.find(key);
    if (table == collectives_.end()) return std::nullopt;
    const bool alike = std::ranges::all_of(
        call.devices, [&](int device) { return device_key(machine.device(device)) == key; });
    return alike ? table->second.price(call, machine) : std::nullopt;
}

std::optional<Price> ProfiledCollectives::copy_price(int from, int to, Bytes bytes,
                                                     const Machine& machine) const {
    const Device& source = machine.device(from);
    const Device& target = machine.device(to);
    const auto table = copies_.find(device_key(source));
    if (table == copies_.end() || device_key(target) != table->first) return std::nullopt;
    const auto price = table->second.time_of(Collective::broadcast, bytes, /*ranks=*/2,
                                             source.node == target.node ? 1 : 2);
    if (!price) return std::nullopt;
    return Price{.time = price->time, .source = price->source};
}

}  // namespace partita::cost
