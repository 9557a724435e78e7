// SPDX-License-Identifier: Apache-2.0
//
// The configs that a search may give to an op: device sets (device_set_choices.h) x degrees
// (degree_choices.h), both by the number of parts. All are legal as plan/legality/config_legality.h
// has it, so constraints and --dims hold, for the problem's own number of micro-batches.
//
// Searchers handle configs by number (config_id.h); the table numbers them and remembers, per class
// of ops (config_classes.h), what there is and what is legal for each number of micro-batches that
// occurs. Configs that it would not propose, of a start for example, get numbers too.
//
// Threads: tables are filled when first asked for, so one thread at a time.
// Differs from Jia et al. 2019, section 4: unequal parts, replicas and reductions are configs too;
// device sets are structured instead of arbitrary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"
#include "search/configs/config_classes.h"
#include "search/configs/config_id.h"
#include "search/configs/degree_choices.h"
#include "search/configs/degree_lists.h"
#include "search/configs/device_set_choices.h"
#include "search/configs/device_sets.h"
#include "search/configs/factor_blocks.h"
#include "search/support/random.h"

namespace partita::search {

class ConfigTable {
public:
    using Degrees = DegreeLists::Degrees;

    explicit ConfigTable(const plan::Problem& problem);

    /// Numbers of parts for which the op has degrees and devices, rising; never empty.
    const std::vector<int>& sizes(graph::OpId op);
    /// Device sets of that many devices that the op may use.
    const std::vector<plan::DeviceSet>& device_sets(graph::OpId op, int size) {
        return sets_of(class_of(op), size).sets;
    }
    /// Legal degrees that make that many parts, those of one axis first. For one part: no axes.
    const std::vector<Degrees>& degrees(graph::OpId op, int size) {
        return degrees_of(class_of(op), size).degrees();
    }

    /// One of sizes(), then one of its device sets, both evenly.
    DevicesId draw_devices(graph::OpId op, Random& random);
    /// Degrees for that many parts, at random.
    DegreesId draw_degrees(graph::OpId op, int size, Random& random) {
        return degrees_of(class_of(op), size).draw(random);
    }
    /// The logarithm of the probability with which draw_degrees() draws these.
    double log_probability(graph::OpId op, int size, const Degrees& degrees) {
        return degrees_of(class_of(op), size).log_probability(degrees);
    }
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
               degree_lists_.size(op, config.degrees) == sets_.size(config.devices);
    }
    /// The degrees alone: legal on any set of as many devices that the op may use.
    bool is_legal_split(graph::OpId op, DegreesId degrees, MicroBatchesId micro_batches_id) {
        const std::vector<Split>& splits = class_of(op).splits;
        if (micro_batches_id < kMostMicroBatchesIds && at(degrees) < splits.size()) {
            const Split& known = splits[at(degrees)];
            if ((known.asked >> micro_batches_id & 1) != 0)
                return (known.legal >> micro_batches_id & 1) != 0;
        }
        return find_legal_split(op, degrees, micro_batches_id);
    }
    bool may_use(graph::OpId op, DevicesId devices) {
        OfClass& of = class_of(op);
        return of.is_restricted ? may_use_all(of, devices) : sets_.is_valid(devices);
    }
    /// The op whole on the first device of the set that it may use, or else on the first it may
    /// use.
    ConfigId on_one_device(graph::OpId op, DevicesId devices) {
        if (class_of(op).is_restricted) return find_one_device(op, devices);
        return {0, DeviceSets::single(sets_.first(devices))};
    }

private:
    /// For so many numbers of micro-batches it is remembered what is legal.
    static constexpr MicroBatchesId kMostMicroBatchesIds = 64;

    /// What is known of degrees; the bits by number of micro-batches.
    struct Split {
        std::uint64_t asked = 0;
        std::uint64_t legal = 0;
        std::optional<double> log_probability;
    };
    /// What is known of a class of ops.
    struct OfClass {
        graph::OpId example;
        bool is_restricted = false;                ///< it may not use all devices
        std::optional<std::vector<int>> sizes;     ///< as sizes()
        std::map<int, DeviceSetChoices> own_sets;  ///< by size, where it is restricted
        std::map<int, DegreeChoices> degrees;      ///< by size
        std::vector<Split> splits;                 ///< by DegreesId
        std::vector<std::optional<bool>> may_use;  ///< by DevicesId, where it is restricted
    };

    static std::size_t at(std::int32_t id) { return static_cast<std::size_t>(id); }
    OfClass& class_of(graph::OpId op) { return of_class_[classes_.of(op)]; }
    const DeviceSetChoices& sets_of(OfClass& of, int size);
    const DegreeChoices& degrees_of(OfClass& of, int size);
    static Split& split(OfClass& of, DegreesId degrees);
    bool find_legal_split(graph::OpId op, DegreesId degrees, MicroBatchesId micro_batches_id);
    ConfigId find_one_device(graph::OpId op, DevicesId devices);
    bool may_use_all(OfClass& of, DevicesId devices);

    const plan::Problem& problem_;
    std::vector<std::vector<FactorBlocks>> blocks_;  ///< per op
    ConfigClasses classes_;
    DegreeLists degree_lists_;
    DeviceSets sets_;
    std::map<int, DeviceSetChoices> all_sets_;  ///< by size
    std::vector<OfClass> of_class_;
    std::vector<int> micro_batches_;
    std::vector<std::optional<bool>> legal_batch_;  ///< per number of micro-batches
};

}  // namespace partita::search
