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

#include "base/hash_index.h"
#include "plan/problem/problem.h"

namespace partita::plan {

class ResourceClasses {
public:
    explicit ResourceClasses(const Problem& problem);

    [[nodiscard]] std::int32_t of_device(int device) const {
        return classes_[static_cast<std::size_t>(device)];
    }
    /// Of a resource (compute_row() and so on): equal only if device classes are, and rows alike.
    [[nodiscard]] std::int64_t of(std::int32_t resource) const {
        if (resource >= 3 * devices_) return 3 * std::int64_t{classes_[at_channel(resource)]};
        return 3 * std::int64_t{of_device(resource / 3)} + resource % 3;
    }
    [[nodiscard]] std::int32_t count() const { return count_; }
    /// Per device the first of its class.
    [[nodiscard]] std::vector<std::int32_t> representatives() const;

    /// The order among all rows of a device counts, too: its host launches what they serve.
    void saw(std::int32_t resource, std::uint64_t what) {
        seen_[static_cast<std::size_t>(resource)].add(static_cast<std::int64_t>(what));
        if (resource < 3 * devices_) device_saw(resource / 3, what);
    }
    void device_saw(int device, std::uint64_t what) {
        of_devices_[static_cast<std::size_t>(device)].add(static_cast<std::int64_t>(what));
    }
    /// Ends the round; returns whether some have parted.
    bool part();

private:
    [[nodiscard]] std::size_t at_channel(std::int32_t resource) const {
        return static_cast<std::size_t>(resource - 2 * devices_);
    }
    [[nodiscard]] std::uint64_t seen_by(std::size_t member) const;

    std::int32_t devices_;
    std::vector<std::int32_t> classes_;  ///< per device, then per channel
    std::int32_t count_ = 0;
    std::vector<Hash> seen_;        ///< per resource, in this round
    std::vector<Hash> of_devices_;  ///< per device, what concerns none of its resources
};

}  // namespace partita::plan
