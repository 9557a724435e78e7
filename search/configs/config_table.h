// SPDX-License-Identifier: Apache-2.0
//
// The configs that a search may give to an op: degrees x device sets, both by the number of parts.
//
//     parts   1, the divisors of the devices and of a node, powers of two
//     sets    stretches and strides of the machine's devices that start at multiples of themselves:
//                 2 of 8, stride 1    01 23 45 67         stride 4 (a node each)    04 15 26 37
//             and the same among the devices of the fastest kind, if there are several kinds
//     degrees one factor (in blocks too: factor_blocks.h), or two in either order, "*" (replicas)
//             among them; reductions too
//
// All are legal as plan/legality/config_legality.h has it, so constraints and --dims hold, for the
// problem's own number of micro-batches. Degrees are drawn evenly by the number of axes first,
// because there are many more pairs than single factors, and few of them good.
//
// Searchers handle configs by number (config_id.h); the table numbers them and remembers which are
// legal, for each number of micro-batches that occurs. Configs that it would not propose, of a
// start for example, get numbers too.
//
// Threads: tables are filled when first asked for, so one thread at a time.
// Differs from Jia et al. 2019, section 4: unequal parts, replicas and reductions are configs too;
// device sets are structured instead of arbitrary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"
#include "search/configs/config_id.h"
#include "search/configs/degree_lists.h"
#include "search/configs/device_sets.h"
#include "search/configs/factor_blocks.h"
#include "search/support/random.h"

namespace partita::search {

struct ConfigTableOptions {
    int most_axes = 2;  ///< of a config; 1 or 2
    /// Only these numbers of parts, rising; empty: all of the above.
    std::vector<int> sizes;
    /// No device set that does not begin at a device of this list; empty: any.
    std::vector<int> firsts;
};

class ConfigTable {
public:
    using Degrees = DegreeLists::Degrees;

    explicit ConfigTable(const plan::Problem& problem, ConfigTableOptions options = {});

    /// Numbers of parts for which the op has degrees and devices, rising; never empty.
    const std::vector<int>& sizes(graph::OpId op);
    /// Device sets of that many devices that the op may use.
    const std::vector<plan::DeviceSet>& device_sets(graph::OpId op, int size);
    /// Legal degrees that make that many parts, those of one axis first. For one part: none.
    const std::vector<Degrees>& degrees(graph::OpId op, int size);

    /// One of sizes(), then one of its device sets, both evenly.
    DevicesId draw_devices(graph::OpId op, Random& random);
    /// Degrees for that many parts, at random.
    DegreesId draw_degrees(graph::OpId op, int size, Random& random);
    /// The logarithm of the probability with which draw_degrees() draws these. Those that the table
    /// lacks (a start has them) count as others with as many axes.
    double log_probability(graph::OpId op, int size, const Degrees& degrees);
    /// ln q of coming to the degrees on one of the sets of their size, without what is the same for
    /// all.
    double log_probability(graph::OpId op, ConfigId config);

    ConfigId id(graph::OpId op, const plan::OpConfig& config);
    UpdateId id(graph::OpId op, const plan::UpdateConfig& update);
    DecisionId id(graph::OpId op, const plan::OpDecision& decision);
    [[nodiscard]] plan::OpConfig config(graph::OpId op, ConfigId id) const;
    [[nodiscard]] plan::UpdateConfig update(graph::OpId op, UpdateId id) const;
    [[nodiscard]] plan::OpDecision decision(graph::OpId op, DecisionId id) const;
    [[nodiscard]] DegreeLists& degree_lists() { return degree_lists_; }
    [[nodiscard]] const DegreeLists& degree_lists() const { return degree_lists_; }
    [[nodiscard]] const DeviceSets& sets() const { return sets_; }

    /// Numbers it if it is new.
    MicroBatchesId micro_batches_id(int micro_batches);
    [[nodiscard]] int micro_batches(MicroBatchesId micro_batches_id) const {
        return micro_batches_[micro_batches_id];
    }
    /// Can the batch be cut into that many micro-batches?
    bool is_legal_batch(MicroBatchesId micro_batches_id);
    bool is_legal(graph::OpId op, ConfigId config, MicroBatchesId micro_batches_id) {
        return may_use(op, config.devices) &&
               is_legal_split(op, config.degrees, micro_batches_id) &&
               ops_[op.index()].splits[at(config.degrees)].size == sets_.size(config.devices);
    }
    /// The degrees alone: legal on any set of as many devices that the op may use.
    bool is_legal_split(graph::OpId op, DegreesId degrees, MicroBatchesId micro_batches_id) {
        const std::vector<Split>& splits = ops_[op.index()].splits;
        if (micro_batches_id < kMostMicroBatchesIds && at(degrees) < splits.size()) {
            const Split& known = splits[at(degrees)];
            if ((known.asked >> micro_batches_id & 1) != 0)
                return (known.legal >> micro_batches_id & 1) != 0;
        }
        return find_legal_split(op, degrees, micro_batches_id);
    }
    bool may_use(graph::OpId op, DevicesId devices) {
        return restricted_[op.index()] == 0 ? sets_.is_valid(devices) : has_all(op, devices);
    }
    /// The op whole on the first device of the set that it may use, or else on the first it may
    /// use.
    ConfigId on_one_device(graph::OpId op, DevicesId devices) {
        if (restricted_[op.index()] != 0) return find_one_device(op, devices);
        return {0, DeviceSets::single(sets_.first(devices))};
    }

private:
    /// For so many numbers of micro-batches it is remembered what is legal.
    static constexpr MicroBatchesId kMostMicroBatchesIds = 64;

    struct Sets {
        std::vector<plan::DeviceSet> sets;
        std::vector<DevicesId> ids;
    };
    struct Splits {
        std::vector<Degrees> degrees;
        std::vector<DegreesId> ids;
        std::size_t singles = 0;  ///< those of one axis come first
    };
    /// What an op has for one number of parts.
    struct OfSize {
        int size = 0;
        const Sets* sets = nullptr;  ///< null: not asked for yet
        std::unique_ptr<Sets> own_sets;
        std::unique_ptr<Splits> splits;
    };
    /// What is known of degrees, as bits by number of micro-batches.
    struct Split {
        int size = 0;
        bool weighed = false;
        double log_probability = 0;
        std::uint64_t asked = 0;
        std::uint64_t legal = 0;
    };
    struct OfOp {
        std::int32_t of_class = -1;  ///< -1: not asked for yet
        std::vector<int> sizes;      ///< empty: the same
        std::vector<OfSize> of_size;
        std::vector<Split> splits;         ///< by DegreesId
        std::vector<std::int8_t> may_use;  ///< by DevicesId, of restricted ops; -1: not asked yet
    };

    static std::size_t at(std::int32_t id) { return static_cast<std::size_t>(id); }
    OfSize& of(graph::OpId op, int size);
    const Sets& sets_of(graph::OpId op, int size);
    const Splits& splits_of(graph::OpId op, int size);
    Split& split(graph::OpId op, DegreesId degrees);
    [[nodiscard]] bool find_legal(graph::OpId op, const Degrees& degrees, int size,
                                  int micro_batches) const;
    std::int32_t class_of(graph::OpId op);
    [[nodiscard]] std::vector<std::int64_t> legality_of(graph::OpId op) const;
    [[nodiscard]] std::vector<Degrees> find_degrees(graph::OpId op, int size) const;
    bool find_legal_split(graph::OpId op, DegreesId degrees, MicroBatchesId micro_batches_id);
    ConfigId find_one_device(graph::OpId op, DevicesId devices);
    bool has_all(graph::OpId op, DevicesId devices);
    void add_sets(const std::vector<int>& devices);
    void add_size(int size, const std::vector<int>& devices);

    const plan::Problem& problem_;
    ConfigTableOptions options_;
    std::vector<std::vector<FactorBlocks>> blocks_;  ///< per op
    DegreeLists degree_lists_;
    DeviceSets sets_;
    std::map<int, Sets> by_size_;   ///< of all devices
    std::vector<char> restricted_;  ///< per op: it may not use all devices
    std::vector<OfOp> ops_;
    /// Ops of a class have the same legal degrees.
    std::map<std::vector<std::int64_t>, std::int32_t> classes_;
    std::map<std::pair<std::int32_t, int>, std::vector<Degrees>> degrees_;  ///< by class and size
    std::vector<int> micro_batches_;
    std::vector<std::int8_t> legal_batch_;  ///< per number of micro-batches; -1: not asked yet
};

}  // namespace partita::search
