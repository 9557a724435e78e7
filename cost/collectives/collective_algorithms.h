// SPDX-License-Identifier: Apache-2.0
//
// Collective algorithms by the alpha-beta model: one row per algorithm, one formula per row.
//
//     time = sum over rounds of (latency + flows x bytes / bandwidth)         group_links.h
//
// On n ranks that share no link, d bytes, this is alpha x rounds + beta x amount of REFERENCES.md
// 2:
//
//     all-reduce by          amount            rounds
//     ring                   2 (n-1) d/n       2 (n-1)
//     tree                   2 d log2 n        2 log2 n
//     pipelined tree         2 (log2 n + k) d/(2k), k chunks, the best k
//     butterfly              d log2 n          log2 n        recursive doubling
//     halving-doubling       2 (n-1) d/n       2 log2 n
//     one-shot               2 (n-1) d/n       2             only where a switch reduces
//     all-to-all             (n-1) d           1
//     master-worker          2 (n-1) d         2
//     parameter server       2 n d             2
//     round-robin            (n-1) d           n-1
//
// A number of ranks that is no power of two costs log2 rounded up; butterfly and halving-doubling
// fold the ranks beyond the highest power first. Parts are rounded up: ceil(d / n).
//
// Optimal: each row is its algorithm, the cheapest row no proof. Threads: pure.
// Source: Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005; Patarasuk, Yuan, JPDC 69(2), 2009;
// Bruck et al., IEEE TPDS 8(11), 1997 (butterfly of all-gather and all-to-all); REFERENCES.md 2.
// Differs: contention is counted on the machine's channels instead of assumed away.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/units.h"
#include "cost/collectives/collective.h"
#include "cost/machine/group_links.h"
#include "cost/machine/machine.h"

namespace partita::cost {

/// A set of collectives.
struct CollectiveSet {
    std::uint8_t bits = 0;
    constexpr CollectiveSet(std::initializer_list<Collective> collectives) {
        for (const Collective each : collectives) {
            bits = static_cast<std::uint8_t>(bits | (1U << static_cast<unsigned>(each)));
        }
    }
    [[nodiscard]] constexpr bool holds(Collective collective) const {
        return ((bits >> static_cast<unsigned>(collective)) & 1U) != 0;
    }
};

/// What a formula may look at. At least two ranks.
struct AlgorithmInput {
    Collective kind;
    Bytes bytes;
    const GroupLinks& links;
    const Machine& machine;
};

struct AlgorithmRow {
    Algorithm algorithm;
    CollectiveSet collectives;
    /// Null: not possible on these devices.
    std::optional<Time> (*time)(const AlgorithmInput& input);
    std::string_view summary;
};

/// Every algorithm that the alpha-beta model knows. Equal times: the first row wins.
std::span<const AlgorithmRow> collective_algorithms();

/// The cheapest row; knows every collective on every machine.
class AlphaBeta final : public CollectiveModel {
public:
    [[nodiscard]] std::optional<CollectivePrice> price(const CollectiveCall& call,
                                                       const Machine& machine) const override;
    [[nodiscard]] std::string name() const override { return "alpha-beta"; }
};

}  // namespace partita::cost
