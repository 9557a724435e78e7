// SPDX-License-Identifier: Apache-2.0
//
// Plan: which device runs which part of which op, and in what order. What find_plan() returns
// (search.h), and what plan.json holds (docs/file-formats.md).
//
//     const partita::OpPlan fc = plan.op("fc");
//     fc.degrees   {{"n", 4}, {"k", 2}}      factor n in 4 parts, each of them in 2 along k
//     fc.devices   {0, 1, 2, 3, 4, 5, 6, 7}  of each part, in that order
//
// A factor is a loop of the op, such as the batch or the columns of a product; Model::factors()
// says which dims it is. Parts of an extent are ceil(extent / degree) long, the last one what is
// left. "*" stands for replicas that do the same work, "+" for parts of a sum that pass through a
// linear op, "n/3" for each of n's 3 blocks being cut (fused projections).
//
// Threads: never changes, so any number may read it. Copies share it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <partita/error.h>
#include <partita/machine.h>
#include <partita/model.h>
#include <partita/types.h>

namespace partita {

enum class Mode : std::uint8_t { inference, training };

/// latency of an inference (of a workload: of calls of its accelerators, docs/cost-model.md), time
/// of a training step, or time per sample of a full pipeline
enum class Objective : std::uint8_t { latency, step_time, throughput };

/// Order of the micro-batches in a pipeline: GPipe, one forward one backward, the same with a wider
/// window that hides transfers, several chunks of the model per device.
enum class Schedule : std::uint8_t {
    none,
    gpipe,
    one_f_one_b,
    eager_1f1b,
    interleaved,
    zero_bubble_h1
};

/// What layer blocks compute once more for the backward instead of keeping it: nothing, what
/// attention makes between its products, all but what a block reads and gives; or the search chooses
/// for each block.
enum class Recompute : std::uint8_t { none, selective, full, automatic };

/// As plan files and options spell them: "training", "step-time", "1f1b". Of no value of theirs: UsageError.
std::string_view to_text(Mode mode);
std::string_view to_text(Objective objective);
std::string_view to_text(Schedule schedule);
std::string_view to_text(Recompute recompute);

struct FactorDegree {
    std::string factor;
    int degree = 1;  ///< parts, >= 2
    friend bool operator==(const FactorDegree&, const FactorDegree&) = default;
};

/// How one op is split and where its parts run. Of a parameter: how and where it is kept.
struct OpPlan {
    std::string name;
    std::string type;
    std::vector<FactorDegree> degrees;  ///< major to minor; empty: whole, on one device
    std::vector<int> devices;           ///< one per part
    /// Of a trained parameter: who updates which part of it; empty: those that keep it.
    std::vector<FactorDegree> update_degrees;
    std::vector<int> update_devices;
    /// Of an op that runs once more for the backward: what its layer block recomputes.
    Recompute recompute = Recompute::none;
    friend bool operator==(const OpPlan&, const OpPlan&) = default;
};

struct DeviceUse {
    std::string name;
    Time busy;       ///< computing, per iteration
    Bytes memory;    ///< peak
    Bytes capacity;  ///< of the machine, without what it reserves
};

/// What a plan is, read off its ops: degrees of parallelism are those of most FLOPs in products with
/// weights.
struct PlanDescription {
    int devices = 1;  ///< that run ops
    int stages = 1;   ///< groups of devices that share ops
    int chunks = 1;   ///< passes of the data through all stages
    int data = 1;
    int tensor = 1;
    int context = 1;
    int experts = 1;
    int zero = 0;  ///< level of ZeRO of most bytes of parameters
    double share =
        0;  ///< of those FLOPs that have just these degrees; 0: there are no such products
    bool regular = false;            ///< all have, and each stage as many devices
    std::vector<std::string> lines;  ///< the same and more, for people
};

/// How much of a model an iteration gets through; 0: not known.
struct Throughput {
    double samples_per_second = 0;
    double tokens_per_second = 0;
    double flops_per_device = 0;  ///< FLOP/s of matrix products, without what is recomputed
    double mfu = 0;               ///< share of the peak of the devices that run ops
};

/// What moves of one kind in an iteration.
struct CommunicationPlan {
    std::string kind;  ///< "all-reduce", "copy"
    std::string
        of;  ///< "gradients", "parameters", "activations", "gradients of activations", "norms"
    std::int64_t messages = 0;  ///< of all devices
    Bytes bytes_per_device;
    Time time_per_device;  ///< as if nothing else went on
};

struct CollectivePlan {
    std::string task;  ///< e.g. "all-reduce fc.w.grad"
    std::string algorithm;
    std::string protocol;  ///< "" when the algorithm knows none
};

/// One task of an iteration, as predicted.
struct TaskPlan {
    std::string name;    ///< "forward fc [2] #1", "all-reduce fc.w.grad gpu0": unique
    std::string kind;    ///< "forward", "backward", "loss", "update", "copy", "all-reduce", ...
    std::string op;      ///< whose work it is; of communication what makes the tensor
    std::string tensor;  ///< that is moved, added up or updated; "": none
    bool of_gradient = false;  ///< it is the tensor's gradient
    int fused = 0;             ///< tensors that move with it
    std::vector<int> devices;  ///< of a copy from where and to where, of a collective its ranks
    int part = -1;             ///< of an op that is split
    int micro_batch = -1;      ///< where there are several
    Time begin;
    Time end;
    Bytes bytes;  ///< communication: of a copy what is sent, else of the buffer of a rank
    std::string algorithm;
    std::string protocol;
    int stands_for = 1;  ///< of a folded plan: tasks on devices that do the same
};

/// Devices of a plan that is a regular grid, row-major: rank -> machine's device.
struct DeviceMesh {
    std::vector<std::string> axes;  ///< "stage", "data", "context", "tensor"
    std::vector<int> shape;         ///< of each
    std::vector<int> devices;
};

/// Positions [begin, end) of a dim.
struct PositionRange {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    friend bool operator==(const PositionRange&, const PositionRange&) = default;
};

/// What one part of an op holds of a tensor.
struct TensorPart {
    int device = 0;
    bool holds = true;  ///< false: nothing of it, such as the bias of a product that is a sum
    std::vector<std::vector<PositionRange>> dims;  ///< per dim; nearly always one range
    /// An element is the sum over the distinct summands of the parts that hold it; parts with equal
    /// positions and summand are replicas.
    int summand = 0;
    friend bool operator==(const TensorPart&, const TensorPart&) = default;
};

/// How a tensor lies on devices for one op.
struct TensorLayout {
    std::string tensor;             ///< "": an operand or result that is left out, without parts
    std::vector<TensorPart> parts;  ///< one per part of the op, in the order of its devices
    int summands = 1;
    std::string combine;  ///< how summands combine: "sum", "max", ...; "": there is one
    friend bool operator==(const TensorLayout&, const TensorLayout&) = default;
};

/// What an op needs of its operands (and of the gradients of its results), and what it makes.
struct OpLayouts {
    std::string op;
    std::vector<TensorLayout> operands;
    std::vector<TensorLayout> results;
    std::vector<TensorLayout>
        operand_gradients;  ///< of training; of a gradient, by its tensor's name
    std::vector<TensorLayout> result_gradients;  ///< of training
    std::optional<TensorLayout> update;          ///< of a trained parameter: who updates what
    friend bool operator==(const OpLayouts&, const OpLayouts&) = default;
};

/// Ops of a layer block that run once more, in this order, before the first backward that needs
/// something of them.
struct RecomputedOps {
    std::string block;
    std::vector<std::string> ops;
    friend bool operator==(const RecomputedOps&, const RecomputedOps&) = default;
};

class Plan {
public:
    /// Reads plan.json. Throws InputError naming file and field. Whether it fits a model is for
    /// verify() to say.
    [[nodiscard]] static Plan load(const std::filesystem::path& file);
    [[nodiscard]] static Plan parse(std::string_view json);

    [[nodiscard]] Mode mode() const;
    [[nodiscard]] Objective objective() const;
    [[nodiscard]] int micro_batches() const;
    [[nodiscard]] Schedule schedule() const;
    /// Predicted: latency, step time, or time per sample.
    [[nodiscard]] Time value() const;
    /// No legal plan is faster; nullopt: not known.
    [[nodiscard]] std::optional<Time> lower_bound() const;

    /// In the model's order.
    [[nodiscard]] std::vector<OpPlan> ops() const;
    /// Throws UsageError when there is no such op.
    [[nodiscard]] OpPlan op(std::string_view name) const;
    /// By device number.
    [[nodiscard]] std::vector<DeviceUse> devices() const;
    /// In the order of their tasks; none of a plan that is folded (PlanOptions::fold).
    [[nodiscard]] std::vector<CollectivePlan> collectives() const;
    [[nodiscard]] Machine machine() const;

    /// These throw InputError when the plan does not fit the model.
    [[nodiscard]] PlanDescription description(const Model& model) const;
    [[nodiscard]] Throughput throughput(const Model& model) const;
    /// Most time first.
    [[nodiscard]] std::vector<CommunicationPlan> communication(const Model& model) const;
    /// Of all ops, in the model's order, in the first micro-batch. Where what an op makes differs from
    /// what its reader needs, it moves in between.
    [[nodiscard]] std::vector<OpLayouts> layouts(const Model& model) const;
    /// In the order of their forward; what of each block runs again does so at one time.
    [[nodiscard]] std::vector<RecomputedOps> recomputed(const Model& model) const;

    /// All that runs in an iteration, in the plan's order; of a folded plan (PlanOptions::fold) on one
    /// device of each kind. Throws UsageError for given costs, which have no tasks in time.
    [[nodiscard]] std::vector<TaskPlan> tasks(const Model& model) const;
    /// nullopt: it is no regular grid, or its ranks are in another order.
    [[nodiscard]] std::optional<DeviceMesh> mesh(const Model& model) const;

    /// plan.json: the same plan is the same bytes.
    [[nodiscard]] std::string json() const;
    /// Throws UsageError when the file cannot be written.
    void save(const std::filesystem::path& file) const;

    /// Proves the plan legal for a model on the plan's machine: digests, placement, degrees, order,
    /// memory and every prediction are computed anew. What is wrong, one sentence each; empty =
    /// legal. `profile`: the database it was made with, if any. Throws InputError when that cannot
    /// be read, or the plan's mode or policy is impossible for the model.
    [[nodiscard]] std::vector<std::string> verify(const Model& model,
                                                  const std::filesystem::path& profile = {}) const;

    /// The page of `partita plan --report`: graph, timeline and memory, as one HTML file that needs
    /// nothing else. Throws InputError when the plan does not fit the model.
    [[nodiscard]] std::string report(const Model& model) const;

    /// The plan for another tool: "dot", "chrome-trace", "dtensor", "shardy", "nccl-tuner",
    /// "onnx-sharding", "megatron", "deepspeed", "torchtitan". Throws UsageError for an unknown
    /// format and for a plan that it cannot say, InputError when the plan does not fit the model.
    [[nodiscard]] std::string export_as(std::string_view format, const Model& model) const;
    /// The same into a file, or, of "parts" (an ONNX file for each device, of a plan of whole ops),
    /// into a folder. Throws the same, and UsageError where that cannot be written.
    void export_to(const std::filesystem::path& output, std::string_view format,
                   const Model& model) const;

    struct Impl;  ///< of the library
    [[nodiscard]] const Impl& impl() const { return *impl_; }
    explicit Plan(std::shared_ptr<const Impl> impl);  ///< of the library

private:
    std::shared_ptr<const Impl> impl_;  ///< shared by copies
};

}  // namespace partita
