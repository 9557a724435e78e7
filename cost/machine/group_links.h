// SPDX-License-Identifier: Apache-2.0
//
// What a machine's links mean for a group of devices that communicate: alpha and beta of each
// pattern of simultaneous copies that collective algorithms are made of.
//
//     time of one round = latency + flows x bytes of one copy / bandwidth
//
// latency is the longest of the pattern's routes; flows / bandwidth belongs to the channel where
// flows of the pattern sharing it weigh most (contention, phi in REFERENCES.md 2). A ring over four
// devices behind one bus has four flows on that bus; over a switch each channel carries one.
//
// Measured once per group and kept by the machine, for a search asks the same groups again and
// again. Threads: any number may ask. Source: Hockney, Parallel Computing 20(3), 1994 (alpha,
// beta); the rest is counting.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/units.h"
#include "cost/machine/machine.h"

namespace partita::cost {

/// Of copies that run at the same time. Without copies it is free.
struct Round {
    Time latency;
    std::int64_t flows = 0;
    std::int64_t bandwidth = std::numeric_limits<std::int64_t>::max();

    /// Every copy carries `bytes` >= 0. Rounded up.
    [[nodiscard]] Time time(Bytes bytes) const {
        return latency + transfer_time(flows * bytes, bandwidth);
    }
};

/// An axis of a group that is a box of its node's torus.
struct TorusAxis {
    int extent = 0;              ///< of the group, > 1
    bool closed = false;         ///< the last device has a link to the first
    std::int64_t bandwidth = 0;  ///< bytes/s of a link in each direction, the least of all
    Time latency;                ///< of a link, the most of all
};

/// log2 of the most devices that a machine may have.
inline constexpr int kMostLevels = 16;

/// For ranks 0..n-1 of a group, arithmetic on ranks modulo n where it wraps. Level k means 2^k.
class GroupLinks {
public:
    GroupLinks(const Machine& machine, std::span<const int> devices);

    int ranks = 0;
    int nodes = 0;
    int ranks_per_node = 0;  ///< 0: nodes hold different numbers of ranks
    int fewest_per_node = 0;
    int most_per_node = 0;
    int levels = 0;                     ///< ceil(log2 ranks)
    bool switch_reduces = false;        ///< one reducing switch has a link to every device
    bool node_switches_reduce = false;  ///< in every node one has, to the node's devices

    /// Those along which it has any; empty: the group is no box of a torus.
    std::vector<TorusAxis> torus;

    Round ring;  ///< i to i + 1, at once
    Round to_root;
    Round from_root;
    Round node_ring;    ///< a ring in every node, at once
    Round column_ring;  ///< a ring over the j-th ranks of all nodes that have one, for every j
    Round fold;         ///< ranks from the highest power of two on exchange with the lowest
    std::array<Round, kMostLevels> up;        ///< i + 2^k to i, for i a multiple of 2^(k+1)
    std::array<Round, kMostLevels> down;      ///< the reverse
    std::array<Round, kMostLevels> exchange;  ///< i with i xor 2^k, below the highest power of two
    std::array<Round, kMostLevels> rotation;  ///< i to i + 2^k

    // Patterns that touch every pair, which takes long for thousands: each counted when first asked
    // for.
    [[nodiscard]] Round all_pairs(const Machine& machine) const;    ///< everyone to everyone
    [[nodiscard]] Round worst_shift(const Machine& machine) const;  ///< i to i + r, the worst r
    /// Everyone to everyone inside each node.
    [[nodiscard]] Round node_pairs(const Machine& machine) const;
    /// Everyone to everyone inside each column.
    [[nodiscard]] Round column_pairs(const Machine& machine) const;
    /// Bytes/s of a device's own links to the other devices of its node, the least of all.
    [[nodiscard]] std::int64_t direct_bandwidth(const Machine& machine) const;

private:
    template <class T>
    class Once {
    public:
        template <class Make>
        const T& get(Make make) {
            std::call_once(flag_, [&] { value_ = make(); });
            return value_;
        }

    private:
        std::once_flag flag_;
        T value_{};
    };

    std::vector<int> devices_;
    std::vector<std::vector<int>> node_members_;  ///< in the order of ranks
    mutable Once<Round> all_pairs_, worst_shift_, node_pairs_, column_pairs_;
    mutable Once<std::int64_t> direct_bandwidth_;
};

/// Channels that a group which communicates is taken to keep busy, whatever the algorithm: those of the
/// ring through it, or where it is a box of a torus all along its axes. Some may be there twice.
std::vector<std::int32_t> channels_of(const Machine& machine, std::span<const int> devices);

/// The groups of one machine, by their devices in order. Emptied when it holds too many.
class GroupLinksCache {
public:
    std::shared_ptr<const GroupLinks> find(const Machine& machine, std::span<const int> devices);

private:
    struct Entry {
        std::vector<int> devices;
        std::shared_ptr<const GroupLinks> links;
    };
    std::shared_mutex mutex_;
    /// By a hash of the devices; only looked up, never walked, so its order is nobody's business.
    std::unordered_multimap<std::uint64_t, Entry> entries_;
};

}  // namespace partita::cost
