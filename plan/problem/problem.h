// SPDX-License-Identifier: Apache-2.0
//
// Problem: what is to be planned. A graph, a machine, a cost model, a mode, an objective and the
// user's constraints; and what every searcher needs to know of them, computed once:
//
//     rules       of every op                          gradients   which ops have a backward task
//     op costs    forward and backward, per device     priorities  of ops, frozen
//
// Immutable after construction, so any number of threads may read it. `check()` is run by the
// constructor: a Problem that exists is well formed (contract 1). It need not be feasible.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost/collectives/collective.h"
#include "cost/cost_model.h"
#include "cost/machine/machine.h"
#include "graph/op_graph.h"
#include "graph/operators/op_rule.h"
#include "graph/operators/soap.h"
#include "plan/problem/op_costs.h"
#include "plan/strategy/pass.h"
#include "plan/strategy/strategy.h"

namespace partita::plan {

enum class Mode : std::uint8_t { inference, training };
enum class Objective : std::uint8_t { latency, throughput, step_time };
std::string_view name_of(Mode mode);
std::string_view name_of(Objective objective);

/// What the user fixed (--fix, --memory-limit) and what a workload file demands.
struct Constraints {
    /// Per op the devices it may use, sorted; empty vector = any. May be shorter than the graph.
    std::vector<std::vector<int>> allowed;
    /// Ops that share one device, e.g. a colour class of a workload.
    std::vector<std::vector<graph::OpId>> together;
    std::optional<Bytes> memory_limit;      ///< per device, if tighter than the machine's
    bool whole_ops = false;                 ///< no op may be split (--dims O)
    std::vector<graph::SoapClass> unsplit;  ///< factors of these classes stay whole (--dims)
    int most_micro_batches = 0;  ///< the search may choose up to so many; 0: as many as the policy
    bool free_schedule = false;  ///< the search may choose the schedule
};

/// Micro-batches that a search may choose where nobody names a number: enough that a pipeline of
/// four stages waits for a fifth of its work at most. Each doubling doubles the tasks of a plan,
/// and the time that a proposal takes.
inline constexpr int kMostChosenMicroBatches = 16;

struct ProblemOptions {
    Mode mode = Mode::inference;
    Objective objective = Objective::latency;
    Policy policy;
    Constraints constraints;
    /// Per Input op, in order of id, the dim that carries the batch, or -1; empty: dim 0 of each.
    std::vector<int> input_sample_dims;
};

class Problem {
public:
    /// Keeps references to graph and machine, which must outlive it. `transfers` wins over what the
    /// machine names; null: nothing else is known of copies and collectives. Throws InputError
    /// (graph or machine inconsistent, naming the node or field) or UsageError (a constraint that
    /// names no op or device, training without any parameter, ...).
    Problem(const graph::OpGraph& graph, const cost::Machine& machine,
            std::shared_ptr<const cost::CostModel> costs, ProblemOptions options,
            std::shared_ptr<const cost::CollectiveModel> transfers = nullptr);

    [[nodiscard]] const graph::OpGraph& graph() const { return graph_; }
    [[nodiscard]] const cost::Machine& machine() const { return machine_; }
    [[nodiscard]] const cost::CostModel& costs() const { return *costs_; }
    /// Given, then what the machine names (cost/collectives/collective.h).
    [[nodiscard]] const cost::CollectiveModel& collectives() const { return *collectives_; }
    [[nodiscard]] Mode mode() const { return options_.mode; }
    [[nodiscard]] Objective objective() const { return options_.objective; }
    [[nodiscard]] const Policy& policy() const { return options_.policy; }
    [[nodiscard]] const Constraints& constraints() const { return options_.constraints; }
    [[nodiscard]] int device_count() const { return machine_.device_count(); }

    [[nodiscard]] const graph::OpRule& rule(graph::OpId op) const { return rules_[op.index()]; }

    /// The devices an op may use, rising; never empty.
    [[nodiscard]] const std::vector<int>& allowed_devices(graph::OpId op) const;
    /// min(machine, --memory-limit).
    [[nodiscard]] Bytes memory_capacity(int device) const;

    /// Does the op run anything? Sources and outputs do not; a loss runs in an output's backward.
    [[nodiscard]] bool has_forward(graph::OpId op) const;
    [[nodiscard]] bool has_backward(graph::OpId op) const { return backward_[op.index()] != 0; }
    /// Training: a gradient of this tensor is computed.
    [[nodiscard]] bool has_gradient(graph::TensorId t) const { return gradient_[t.index()] != 0; }
    /// Never changes between iterations: loaded once wherever it is used, never copied by a task.
    /// Constants, and in inference parameters too.
    [[nodiscard]] bool is_resident(graph::TensorId t) const { return resident_[t.index()] != 0; }

    /// Time of one phase of an op on a device; Time{0} when the op has no such phase.
    [[nodiscard]] Time forward_time(graph::OpId op, int device) const {
        return forward_[cost_index(op, device)].time;
    }
    [[nodiscard]] Time backward_time(graph::OpId op, int device) const {
        return backward_price_[cost_index(op, device)].time;
    }
    /// Of the parameter that a Parameter op holds; Time{0} for other ops.
    [[nodiscard]] Time update_time(graph::OpId op, int device) const {
        return update_[cost_index(op, device)].time;
    }
    /// What its tasks do: what is measured where it is to be priced.
    [[nodiscard]] OpWorks works() const { return {graph_, rules_, gradient_, options_.policy}; }
    /// Must PartSize::signature be set for what follows?
    [[nodiscard]] bool uses_signatures() const { return uses_signatures_; }
    /// The same for a part of an op.
    [[nodiscard]] cost::Price forward_price(graph::OpId op, const PartSize& size, int device) const;
    [[nodiscard]] cost::Price backward_price(graph::OpId op, const PartSize& size,
                                             int device) const;
    [[nodiscard]] cost::Price forward_price(graph::OpId op, int device) const {
        return forward_[cost_index(op, device)];
    }
    [[nodiscard]] cost::Price backward_price(graph::OpId op, int device) const {
        return backward_price_[cost_index(op, device)];
    }
    /// Of updating that many elements of a parameter.
    [[nodiscard]] cost::Price update_price(graph::OpId op, std::int64_t elements, int device) const;
    [[nodiscard]] cost::Price update_price(graph::OpId op, int device) const {
        return update_[cost_index(op, device)];
    }
    /// Of adding one more contribution to that many elements of the gradient of `t`.
    [[nodiscard]] cost::Price accumulate_price(graph::TensorId t, std::int64_t elements,
                                               int device) const;
    /// Of bringing that many elements of `t` into the order of a message, or back.
    [[nodiscard]] cost::Price pack_price(graph::TensorId t, std::int64_t elements,
                                         int device) const;

    // What bounds may count on. However the op is cut into parts and micro-batches, these take no
    // less than that in sum; without measured costs it is the time of the whole.
    [[nodiscard]] Time least_forward_time(graph::OpId op, int device) const;
    [[nodiscard]] Time least_backward_time(graph::OpId op, int device) const;
    [[nodiscard]] Time least_update_time(graph::OpId op, int device) const;
    /// Of one more contribution to all of the gradient of `t`.
    [[nodiscard]] Time least_accumulate_time(graph::TensorId t, int device) const;
    /// No single task of these is shorter: the launch interval, or less where shorter ones were
    /// measured.
    [[nodiscard]] Time least_task_time(graph::OpId op, int device) const;

    /// Everything an op makes a device compute in one iteration.
    [[nodiscard]] Time total_time(graph::OpId op, int device) const {
        return forward_time(op, device) + backward_time(op, device) + update_time(op, device);
    }
    [[nodiscard]] cost::CostSource cost_source(graph::OpId op, int device) const {
        return forward_[cost_index(op, device)].source;
    }
    /// Time of a copy of a tensor between two devices, alone on its route. Given by the workload
    /// file when there is one.
    [[nodiscard]] Time copy_time(graph::TensorId t, int from, int to) const;
    [[nodiscard]] Time copy_time(graph::TensorId t, Bytes bytes, int from, int to) const {
        return copy_price(t, bytes, from, to).time;
    }
    [[nodiscard]] cost::Price copy_price(graph::TensorId t, Bytes bytes, int from, int to) const;
    /// Of one collective over the machine's links, and how it is done.
    [[nodiscard]] cost::CollectivePrice collective_price(const cost::CollectiveCall& call) const;

    /// Bytes that stay on the device of the op for the whole iteration: a parameter with its
    /// gradient, accumulator and optimizer state, a constant, or the memory given by a workload.
    [[nodiscard]] Bytes persistent_bytes(graph::OpId op) const;
    /// Of one more copy of a resident tensor on another device.
    [[nodiscard]] Bytes tensor_bytes(graph::TensorId t) const;

    /// Devices with equal figures share a class; costs differ by class only.
    [[nodiscard]] int device_class(int device) const {
        return device_class_[static_cast<std::size_t>(device)];
    }
    [[nodiscard]] int device_class_count() const { return class_count_; }
    /// Where the batch lies in the factors of an op, and whether a tensor differs between
    /// micro-batches.
    [[nodiscard]] const std::vector<graph::BatchDigit>& batch_digits(graph::OpId op) const {
        return batch_digits_[op.index()];
    }
    [[nodiscard]] bool is_batched(graph::TensorId t) const { return batched_[t.index()] != 0; }
    [[nodiscard]] bool is_batched(graph::OpId op) const { return batched_ops_[op.index()] != 0; }

    /// Do the constraints leave this factor of an op to be split?
    [[nodiscard]] bool may_split(graph::OpId op, std::size_t factor) const;
    /// Numbers of micro-batches that a plan may have, rising: the policy's, and where the search
    /// may choose 1, 2, 4, ... as far as these cut the batch evenly.
    [[nodiscard]] const std::vector<int>& micro_batch_choices() const { return micro_batches_; }
    [[nodiscard]] int most_micro_batches() const { return micro_batches_.back(); }
    /// May a plan go that way?
    [[nodiscard]] bool allows(const Policy& policy) const;

    /// Is the cut of the batch, or the schedule, what somebody named?
    [[nodiscard]] bool fixes_batch() const;
    /// The same problem with both left to the search.
    [[nodiscard]] Problem with_free_batch() const;

    /// An upper bound of the parts that an op can be cut into, replicas not counted; 1: never
    /// split.
    [[nodiscard]] std::int64_t split_limit(graph::OpId op) const;
    /// Bytes that a reader needs of a resident operand, at least.
    [[nodiscard]] Bytes read_bytes(graph::Use use) const;

    /// Smallest possible time of all phases of the op over its allowed devices.
    [[nodiscard]] Time best_time(graph::OpId op) const { return best_time_[op.index()]; }

    /// Frozen priority of a forward or a backward, as its place in one order (op_priorities.h);
    /// smaller = more urgent. Independent of any strategy.
    [[nodiscard]] std::int32_t priority(graph::OpId op, Pass pass) const {
        return priorities_[pass_row(op.index(), pass)];
    }

    /// SHA-256 of the graph, for plan files (computed on demand).
    [[nodiscard]] std::string model_digest() const;
    /// SHA-256 over all prices of this problem: two problems with equal digests price alike.
    [[nodiscard]] std::string costs_digest() const;

private:
    [[nodiscard]] std::size_t cost_index(graph::OpId op, int device) const {
        return op.index() * static_cast<std::size_t>(class_count_) +
               static_cast<std::size_t>(device_class(device));
    }
    void check() const;
    void classify_devices();
    void find_resident_tensors();
    void find_batch();
    void find_micro_batches();
    [[nodiscard]] cost::Price price(const cost::Work& work, int device) const;
    [[nodiscard]] PartSize whole_size(graph::OpId op) const;
    void price_op(graph::OpId op, std::size_t device_class);
    /// The least that the phases of an op take in sum, however it is cut, and any task of it.
    struct Least {
        Time forward;
        Time backward;
        Time update;
        Time task;
    };
    [[nodiscard]] Least least_of(graph::OpId op, int device) const;
    [[nodiscard]] bool is_never_cut(graph::OpId op) const;
    void find_gradients();
    void price_ops();

    const graph::OpGraph& graph_;
    const cost::Machine& machine_;
    std::shared_ptr<const cost::CostModel> costs_;  ///< shared with the caller's other problems
    ProblemOptions options_;
    std::vector<graph::OpRule> rules_;
    std::vector<int> all_devices_;
    std::vector<int> device_class_;
    std::vector<int> class_device_;  ///< one device of each class
    int class_count_ = 0;
    std::shared_ptr<const cost::CollectiveModel> collectives_;  ///< shared by copies
    std::vector<std::vector<graph::BatchDigit>> batch_digits_;
    std::vector<char> batched_;       ///< per tensor
    std::vector<char> batched_ops_;   ///< per op
    std::vector<int> micro_batches_;  ///< choices
    std::vector<std::vector<graph::SoapClass>>
        soap_classes_;  ///< per op; none when all may be split
    std::vector<char> resident_;
    std::vector<char> gradient_;
    std::vector<char> backward_;
    std::vector<cost::Price> forward_;
    std::vector<cost::Price> backward_price_;
    std::vector<cost::Price> update_;
    std::vector<Least> least_;  ///< as forward_; empty: prices are what bounds count on
    bool uses_signatures_ = false;
    bool measures_transfers_ = false;
    std::vector<Time> best_time_;
    std::vector<std::int32_t> priorities_;
};

}  // namespace partita::plan
