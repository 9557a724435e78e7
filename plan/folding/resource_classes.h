// SPDX-License-Identifier: Apache-2.0
//
// A partition of devices and channels that becomes finer: each round tells what every device and
// resource saw, in order, and those of one class that saw something else part. Private to
// plan/folding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/csr.h"
#include "base/hash_index.h"
#include "plan/problem/problem.h"

namespace partita::plan {

class ResourceClasses {
public:
    explicit ResourceClasses(const Problem& problem);

    [[nodiscard]] std::int32_t of_device(int device) const {
        return classes_[static_cast<std::size_t>(device)];
    }
    [[nodiscard]] bool is_channel(std::int32_t resource) const { return resource >= 3 * devices_; }
    /// Of a resource (compute_row() and so on): equal only if device classes are, and rows alike.
    [[nodiscard]] std::int64_t of(std::int32_t resource) const {
        return 3 * std::int64_t{classes_[member(resource)]} + row(resource);
    }
    /// Per device the first of its class.
    [[nodiscard]] std::vector<std::int32_t> representatives() const;

    /// The order among all rows of a device counts, too: its host launches what they serve.
    void saw(std::int32_t resource, std::uint64_t what) {
        seen_[member(resource)].add(row(resource));
        seen_[member(resource)].add(static_cast<std::int64_t>(what));
    }
    /// Of the classes of its resources, in no order.
    [[nodiscard]] std::uint64_t hash_of(std::span<const std::int32_t> resource_set) const;
    /// All resources of these sets see what sets they are in, by the classes of all that is in one:
    /// once, however many alike there are.
    void saw_sets(const Csr<std::int32_t>& resource_sets, std::span<const std::int32_t> sets);
    void device_saw(int device, std::uint64_t what) {
        seen_[static_cast<std::size_t>(device)].add(static_cast<std::int64_t>(what));
    }
    /// Ends the round; returns whether some have parted.
    bool part();

private:
    [[nodiscard]] std::size_t member(std::int32_t resource) const {
        return static_cast<std::size_t>(is_channel(resource) ? resource - 2 * devices_
                                                             : resource / 3);
    }
    [[nodiscard]] int row(std::int32_t resource) const {
        return is_channel(resource) ? 0 : resource % 3;
    }

    std::int32_t devices_;
    std::vector<std::int32_t> classes_;  ///< per device, then per channel
    std::int32_t count_ = 0;
    std::vector<Hash> seen_;  ///< the same, in this round
};

}  // namespace partita::plan
