// SPDX-License-Identifier: Apache-2.0
//
// Devices that do the same at the same time, so that one of each kind is lowered and simulated for
// all:
//
//     stage 0: devices 0..63, data parallel by 8, tensor parallel by 8       one class, device 0
//     stage 1: devices 64..127                                               one class, device 64
//
// Classes are found by partition refinement, as states of a Markov chain are lumped. Two resources
// are of one class only if they serve tasks of the same classes in the same order; two tasks only if
// they take as long, occupy resources of the same classes and wait for tasks of the same classes.
// Then all tasks of a class start at the same time, by induction over the commits of the scheduling
// rule (simulate.h), and the tasks that occupy the resources of one device of each class are all that
// is needed to know when. What they wait for stands for its class, too.
//
// Exact or not at all: where the tasks that keep one device of a class busy keep none of another
// class busy that they need, nothing is folded. Devices of a class hold as much, too: where parts are
// uneven they are of several classes. Classes are told apart by hashes of 64 bits.
//
// Source: Buchholz, Exact and ordinary lumpability in finite Markov chains, J. Appl. Probab. 1994;
// Paige and Tarjan, Three partition refinement algorithms, SIAM J. Comput. 1987.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "plan/problem/problem.h"
#include "plan/tasks/resource_sets.h"
#include "plan/tensors/strategy_tensors.h"
#include "plan/tensors/tensor_tasks.h"

namespace partita::plan {

/// The parts of an op that are kept.
struct FoldedParts {
    std::vector<std::int32_t> kept;   ///< rising
    std::vector<std::int32_t> place;  ///< per part: among those kept, of the one that stands for it
    std::vector<std::int32_t> copies;  ///< per part kept: how many it stands for
};

/// Of one tensor: a task of each class.
struct FoldedTasks {
    TensorTasks tasks;
    std::vector<std::int32_t> copies;  ///< per task: how many are of its class
};

class Folding {
public:
    /// nullopt: no two devices are of one class, or tasks do not fold. `tensors` keeps its strategy
    /// as long as this is used. O(tasks of one micro-batch) per refinement, of which there are few.
    static std::optional<Folding> find(const Problem& problem, StrategyTensors& tensors,
                                       const ResourceSets& resource_sets);

    /// Per device the one that stands for it.
    [[nodiscard]] std::span<const std::int32_t> representatives() const { return representatives_; }
    [[nodiscard]] const FoldedParts& parts(const OpLayouts& layouts) const {
        return parts_.at(layouts.devices.data());
    }
    /// Of a row of events: with parts by their places (FoldedParts), and nothing of totals.
    [[nodiscard]] const TensorTasks& tasks(std::size_t row) const { return rows_[row]->tasks; }
    /// Per task of these: how many it stands for.
    [[nodiscard]] std::span<const std::int32_t> copies(std::size_t row) const {
        return rows_[row]->copies;
    }

private:
    std::vector<std::int32_t> representatives_;
    std::unordered_map<const std::int32_t*, FoldedParts> parts_;  ///< by OpLayouts::devices
    std::vector<std::unique_ptr<FoldedTasks>> folded_;
    std::vector<const FoldedTasks*> rows_;  ///< null: the row has none
};

}  // namespace partita::plan
