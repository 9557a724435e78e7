// SPDX-License-Identifier: Apache-2.0
//
// Measured copies and collectives as a model: for each key of devices a table (collective_table.h),
// straight lines between the sizes that were measured. That is alpha-beta between neighbours. Below
// the smallest size it is that one's time, beyond the largest its bandwidth counts.
//
// Knows calls among devices of one key, with the numbers of ranks and nodes that were measured.
// Element types and ways to do it are not told apart: of several rows of one size the median
// counts.
//
// Threads: const. Errors: none.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "cost/collectives/collective.h"
#include "cost/collectives/collective_table.h"
#include "cost/machine/machine.h"
#include "cost/profile/profile.h"

namespace partita::cost {

class ProfiledCollectives final : public CollectiveModel {
public:
    explicit ProfiledCollectives(const Profile& profile);

    [[nodiscard]] bool empty() const { return collectives_.empty() && copies_.empty(); }
    [[nodiscard]] std::optional<CollectivePrice> price(const CollectiveCall& call,
                                                       const Machine& machine) const override;
    [[nodiscard]] std::optional<Price> copy_price(int from, int to, Bytes bytes,
                                                  const Machine& machine) const override;
    /// By content: "profile 0123456789abcdef".
    [[nodiscard]] std::string name() const override { return name_; }

private:
    std::map<DeviceKey, CollectiveTable> collectives_;
    std::map<DeviceKey, CollectiveTable> copies_;  ///< as broadcasts to one other rank
    std::string name_;
};

}  // namespace partita::cost
