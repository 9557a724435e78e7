// SPDX-License-Identifier: Apache-2.0
//
// The parts of the lower bound that follow from work and memory: numbers 2 and 3 of
// search/bounds/lower_bound.h, and the prices that number 4 needs.
//
// Units share their time and their bytes among devices in the same proportions. They are
//
//     op          forward, backward and, where the policy has it run again, the forward once more of an op,
//                 or of ops that must share a device where none of them can be split (parts of several ops
//                 would lie on the same devices, but in shares of their own). It
//                 keeps a source's tensor, memory that is given, and what it is the first to read of a
//                 resident tensor
//     update      of a parameter, with the optimizer's state: these may lie elsewhere than the parameter
//     gradient    of a parameter, which may be accumulated elsewhere than it is updated: bytes alone
//     reads       what is read through windows or by one part alone, of which parts hold other shares than of
//                 the work: bytes alone
//     additions   of a gradient's contributions (one less than there are, of all micro-batches)
//
// A unit that cannot be split may not use a class whose roomiest device is smaller than the bytes
// it keeps. Of one that can, a small last part may go where the others have no room.
//
// An op that may be split into parts is shared among devices like any divisible work; alone it
// takes at least its time over the number of parts. Splitting never makes work or memory smaller in
// sum: part sizes are rounded up, and what is not split is repeated.
#pragma once

#include <string>
#include <vector>

#include "base/units.h"
#include "graph/ids.h"
#include "plan/problem/problem.h"
#include "search/bounds/dual_prices.h"
#include "search/part_costs/micro_batch_costs.h"

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
    WorkBound(const plan::Problem& problem, const MicroBatchCosts& times);

    [[nodiscard]] Time work() const { return work_; }
    [[nodiscard]] Time unit() const { return unit_; }
    /// The op of unit(), or one that shares its device; invalid: none takes time.
    [[nodiscard]] graph::OpId longest_op() const { return longest_op_; }
    /// Devices of which the memory makes work() larger; 0: memory does not matter.
    [[nodiscard]] int devices_short_of_memory() const;
    /// As LowerBound::shortage.
    [[nodiscard]] const std::string& shortage() const { return shortage_; }

    [[nodiscard]] const DeviceClasses& classes() const { return classes_; }
    /// May forward and backward of an op use a class?
    [[nodiscard]] bool may_use(graph::OpId op, std::size_t c) const {
        return table_.open[table_.at(unit_of_[op.index()], c)] != 0;
    }
    /// May the update of a parameter, which may lie elsewhere?
    [[nodiscard]] bool may_update(graph::OpId op, std::size_t c) const {
        return table_.open[table_.at(update_of_[op.index()], c)] != 0;
    }

    /// The weights w of the bound, as integers.
    [[nodiscard]] std::int64_t weight(std::size_t c) const { return weight_[c]; }
    /// The shortest time in which work that costs `priced` (sum over tasks of the smallest weighted
    /// time) can be done by all devices.
    [[nodiscard]] Time time_for(Int128 priced) const;
    /// The price of the work that all devices can do in `time`.
    [[nodiscard]] Int128 price_of(Time time) const { return speed_ * time.raw(); }

private:
    struct Unit {
        graph::OpId op;  ///< the first of its ops, or whose tensor it is; invalid: additions
        std::int64_t parts = 1;  ///< that it can be in; 1: it cannot be split
        std::int64_t tasks = 1;  ///< in one micro-batch
    };

    void classify(const plan::Problem& problem);
    void join_ops(const plan::Problem& problem);
    std::uint32_t add_unit(Unit unit);
    void add_ops(const plan::Problem& problem);
    void add_updates(const plan::Problem& problem);
    void add_kept(const plan::Problem& problem, graph::OpId op);
    void add_read(const plan::Problem& problem, graph::Use first);
    void add_additions(const plan::Problem& problem);
    void keep(std::uint32_t unit, Bytes bytes);
    void close_forbidden(std::uint32_t unit, const std::vector<int>& allowed);
    void close_small_classes();
    [[nodiscard]] Bytes smallest_part(std::size_t u, Bytes bytes) const;
    void find_shortage(const plan::Problem& problem);
    void bound_units();
    void round_weights(const DualPrices& weights);
    [[nodiscard]] Time exact_bound() const;

    const MicroBatchCosts& times_;
    DeviceClasses classes_;
    std::vector<Unit> units_;
    std::vector<std::uint32_t> unit_of_;    ///< per op
    std::vector<std::uint32_t> update_of_;  ///< per op; its own unit where nothing is updated
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
