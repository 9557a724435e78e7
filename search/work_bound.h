// SPDX-License-Identifier: Apache-2.0
//
// The parts of the lower bound that follow from work and memory: numbers 2 and 3 of
// search/lower_bound.h, and the prices that number 4 needs.
//
// Units are ops, or ops that must share a device, and the additions of a gradient's contributions
// (one less than there are contributions, of all micro-batches, wherever they are made). A unit may not use a class whose
// roomiest device is smaller than the bytes it keeps.
//
// An op that may be split into parts is shared among devices like any divisible work; alone it takes
// at least its time over the number of parts. Splitting never makes work or memory smaller in sum:
// part sizes are rounded up, and what is not split is repeated.
//
// Bytes a unit keeps: what its sources and given nodes keep, and what the first op that reads a
// resident tensor reads of it, since the devices of that op must hold it.
#pragma once

#include <string>
#include <vector>

#include "graph/ids.h"
#include "graph/units.h"
#include "plan/problem.h"
#include "search/batch_times.h"
#include "search/work_weights.h"

namespace partita::search {

/// Devices that no op can tell apart, together.
struct DeviceClasses {
    std::vector<int> of;          ///< per device
    std::vector<int> device;      ///< per class, its first device
    std::vector<int> size;        ///< per class
    std::vector<Bytes> capacity;  ///< per class, of all its devices
    std::vector<Bytes> largest;   ///< per class, of its roomiest device

    [[nodiscard]] std::size_t count() const { return device.size(); }
};

class WorkBound {
public:
    /// Of plans with as many micro-batches as `times`, which must outlive it.
    WorkBound(const plan::Problem& problem, const BatchTimes& times);

    [[nodiscard]] Time work() const { return work_; }
    [[nodiscard]] Time unit() const { return unit_; }
    /// The op of unit(), or one that shares its device; invalid: none takes time.
    [[nodiscard]] graph::OpId longest_op() const { return longest_op_; }
    /// Devices of which the memory makes work() larger; 0: memory does not matter.
    [[nodiscard]] int devices_short_of_memory() const;
    /// As LowerBound::shortage.
    [[nodiscard]] const std::string& shortage() const { return shortage_; }

    [[nodiscard]] const DeviceClasses& classes() const { return classes_; }
    /// May an op use a class?
    [[nodiscard]] bool may_use(graph::OpId op, std::size_t c) const;

    /// The weights w of the bound, as integers.
    [[nodiscard]] std::int64_t weight(std::size_t c) const { return weight_[c]; }
    /// The shortest time in which work that costs `priced` (sum over tasks of the smallest weighted
    /// time) can be done by all devices.
    [[nodiscard]] Time time_for(Int128 priced) const;
    /// The price of the work that all devices can do in `time`.
    [[nodiscard]] Int128 price_of(Time time) const { return speed_ * time.raw(); }

private:
    void classify(const plan::Problem& problem);
    void find_units(const plan::Problem& problem);
    void sum_units(const plan::Problem& problem);
    void add_accumulations(const plan::Problem& problem);
    void exclude_small_devices();
    [[nodiscard]] Bytes smallest_part(std::size_t u, Bytes bytes) const;
    void find_shortage(const plan::Problem& problem);
    void bound_units();
    void round_weights(const WorkWeights& weights);
    [[nodiscard]] Time exact_bound() const;

    [[nodiscard]] std::size_t units() const { return first_op_.size(); }

    const BatchTimes& times_;
    DeviceClasses classes_;
    std::vector<std::uint32_t> unit_of_;  ///< per op
    std::vector<graph::OpId> first_op_;   ///< per unit; invalid for accumulations
    std::vector<std::int64_t> limit_;     ///< per unit, parts that any of its ops can have
    std::vector<std::int64_t> members_;   ///< ops per unit
    WorkTable table_;
    std::vector<std::int64_t> weight_;      ///< w per class
    std::vector<std::int64_t> byte_price_;  ///< z per class, in the same scale
    Int128 speed_ = 0;                      ///< sum of w over all devices
    Time work_;
    Time unit_;
    graph::OpId longest_op_;
    std::string shortage_;
};

}  // namespace partita::search
