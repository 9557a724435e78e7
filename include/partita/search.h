// SPDX-License-Identifier: Apache-2.0
//
// find_plan(): searches for the best plan of a model on a machine.
//
//     partita::PlanOptions options{.mode = partita::Mode::training, .evaluations = 5'000};
//     std::stop_source stop;
//     options.stop = stop.get_token();
//     options.progress = [&](const partita::Progress& p) { if (good_enough(p)) stop.request_stop(); };
//     const partita::SearchResult result = partita::find_plan(model, machine, options);
//     if (result.feasible()) result.plan().save("plan.json");
//
// Options are those of `partita plan`, with its defaults. They can be given as its text too, or as
// JSON:
//
//     options.set("micro-batches", "8");
//     options = partita::PlanOptions::parse(R"({"mode": "training", "micro-batches": 8})");
//
// The same seed and number of evaluations give the same plan with any number of threads; a time
// limit or a stop cut the search at a moment that depends on the host.
//
// Threads: any number of searches may run at once. A stop may be requested from any thread, also
// from within the progress callback; the search then ends after the evaluations that are under way,
// with a legal plan: the best so far.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include <partita/error.h>
#include <partita/machine.h>
#include <partita/model.h>
#include <partita/plan.h>
#include <partita/types.h>

namespace partita {

enum class Optimizer : std::uint8_t { sgd, momentum, adam };
enum class Loss : std::uint8_t { sum, mse, cross_entropy };
enum class GradientSync : std::uint8_t { all_reduce, parameter_server };
/// Which ready task goes first: the one longest ready, the one whose op has the highest priority,
/// the one with the longest path to the end, the one that sets free most work.
enum class Scheduler : std::uint8_t { fifo, rank, pct, msr };

/// What the searcher `exact` asks, for the throughput of given costs: its own branch and bound,
/// which proves in integers; HiGHS, if this build found it, whose bounds are numerical; or one
/// after the other.
enum class ExactEngine : std::uint8_t { own, highs, both };

/// What a searcher that learns is told of its candidates: their predicted time, or what they take
/// on this host's devices.
enum class Reward : std::uint8_t { simulated, measured };

/// What the search may split ops along; false: that kind stays whole. All false: whole ops.
struct Splits {
    bool sample = true;     ///< the batch
    bool attribute = true;  ///< what belongs to no weight, such as positions and heads
    bool parameter = true;  ///< what splits a weight
    bool reduction = true;  ///< what is summed up: parts are partial sums
};

/// The ops whose names match `match` use these devices only. `*` in a glob stands for any text, `?`
/// for one character.
struct Placement {
    std::string match;
    std::vector<int> devices;  ///< numbers, one or more
};

/// Valid during the call only. From one call to the next of a search `evaluations` and `elapsed`
/// never fall, `best` never rises, or with Reward::measured `measured` once it is there, and
/// `lower_bound` stays.
struct Progress {
    std::int64_t evaluations = 0;
    std::optional<Time> best;      ///< value of the best plan that fits; none yet: nullopt
    std::optional<Time> measured;  ///< with Reward::measured: the best plan took that long
    Bytes overflow;                ///< of the closest plan, while none fits
    Time lower_bound;
    std::chrono::nanoseconds elapsed{0};
    std::string_view searcher;  ///< the one at work
    std::string_view detail;    ///< what that one says of itself, e.g. samples per second; often ""
};

/// PlanOptions::bucket_bytes: one bucket for all, and one for each layer.
inline constexpr Bytes kOneBucket = Bytes::max();
inline constexpr Bytes kLayerBuckets{Bytes::max().raw() - 1};

/// What the host of an accelerator takes to launch a piece of work, of at most 1 ms each. It
/// launches one after the other, without waiting for any of them.
struct HostTime {
    Time kernel;         ///< of all work on a device but updates and communication
    Time communication;  ///< of a copy or collective
    Time update;         ///< of a parameter's update
};

struct PlanOptions {
    std::optional<Mode> mode;  ///< empty: inference
    /// Empty: latency of inference, step time of training, throughput of workloads.
    std::optional<Objective> objective;

    // Training only; UsageError if given without it.
    std::optional<Optimizer> optimizer;         ///< default sgd
    std::optional<Loss> loss;                   ///< default sum
    std::string loss_output;                    ///< with `loss`; "": all floating-point outputs
    std::optional<GradientSync> gradient_sync;  ///< default all_reduce
    std::optional<Recompute> recompute;         ///< default none
    /// Gradients, and what ZeRO gathers, move together in buckets of so many bytes, kOneBucket or
    /// kLayerBuckets; 0 and default: each by itself.
    std::optional<Bytes> bucket_bytes;
    /// Empty: launching is free, but for the machine's launch interval.
    std::optional<HostTime> host_time;
    /// Gradients are scaled down together until their norm is that; 0 and default: they are not.
    std::optional<double> clip_norm;
    std::vector<std::string> frozen;  ///< globs: parameters, or blocks of them, not to be trained
    /// Who runs the step: megatron, ddp, fsdp, deepspeed, partita or a .json (docs/file-formats.md).
    /// Where bucket_bytes, host_time, clip_norm and strategy leave something open, what that has.
    /// The model needs it too (ImportOptions).
    std::filesystem::path framework;

    /// 1 to 4096; parts of the batch, one after the other. Empty: the search chooses 1, 2, 4, ...
    /// or 16 (on more than 64 devices 256) for the step time of training, as far as they cut the
    /// batch evenly; else 1.
    std::optional<int> micro_batches;
    std::optional<Schedule> schedule;  ///< empty: the search chooses in the same case; else none
    int chunks = 1;  ///< of the model per device, 2 to 64 with Schedule::interleaved, otherwise 1

    /// Degrees of parallelism, "dp=2,tp=4,pp=2,zero=1,sp" (docs/search.md); what is not said is
    /// searched. With no other searchers than "auto" or "grids". Empty: any plan.
    std::string strategy;

    // What the plan must keep.
    Splits splits;
    std::optional<Bytes> memory_limit;  ///< per device, > 0, if tighter than its own
    std::vector<Placement> placements;  ///< where several match an op, all of them hold
    std::vector<std::vector<std::string>> together;  ///< globs; the ops of each list share a device
    std::filesystem::path fix;  ///< more of both from a file (docs/file-formats.md); empty: none

    /// Measured costs, a database that `partita profile` wrote: where it knows what a task takes on
    /// a device, that counts. Empty: none.
    std::filesystem::path profile;

    // How to search.
    std::vector<std::string> searchers{"auto"};  ///< in this order, each from the best so far
    Scheduler scheduler = Scheduler::pct;
    /// >= 0. Without it and without `evaluations` searches end by themselves, or after 60 s; after
    /// 10 s where one of the searchers goes on for as long as it may (exact, mcmc, local-search,
    /// rl).
    std::optional<std::chrono::duration<double>> time_limit;
    std::optional<std::int64_t> evaluations;  ///< of strategies; >= 1
    std::uint64_t seed = 1;                   ///< of everything random
    int threads = 0;                          ///< 0 = one per core; at most 1024
    ExactEngine exact_engine = ExactEngine::both;
    bool groups = true;  ///< false: ops may part that make no sense apart (`--no-groups`)
    /// Of Objective::throughput: each device gets one contiguous piece of the graph. Without
    /// `start`, and with no other searchers than "auto" or "contiguous".
    bool contiguous = false;
    std::optional<Plan> start;  ///< the search starts from it
    /// Where tasks are more than 100,000, the plan lists, of devices that do the same, those of
    /// one; false: of all (`--no-fold`).
    bool fold = true;

    // Of searchers that learn, `rl` and `rl-hierarchical`; UsageError if given without one of them.
    std::filesystem::path load_policy;     ///< a file that save_policy named; empty: random weights
    std::filesystem::path save_policy;     ///< written after the search; empty: nowhere
    bool zero_shot = false;                ///< sample only, learn nothing; with load_policy
    std::filesystem::path learning_curve;  ///< FILE.csv, and a picture FILE.svg; empty: none
    /// measured: every candidate runs here, on devices like the machine's, so results vary. The
    /// best is the one that took the least time. The last searcher must be one that learns. Empty:
    /// simulated.
    std::optional<Reward> reward;

    /// Called after each batch of evaluations, from the thread that called find_plan(). What it
    /// throws ends the search and reaches the caller.
    std::function<void(const Progress&)> progress;
    std::stop_token stop;  ///< ends the search early

    /// Sets what the program's option of that name sets, without its dashes: `set("loss",
    /// "mse:y")`; a flag is "true" or "false". All but placements, together, start, progress and
    /// stop have one. Throws UsageError as the program does.
    void set(std::string_view option, std::string_view text);
    /// What set() takes; none: not given. Throws UsageError for a field that no text means.
    [[nodiscard]] std::optional<std::string> text(std::string_view option) const;

    /// An object of the options that differ from the default: {"mode": "training", "micro-batches":
    /// 8}.
    /// Errors: as text().
    [[nodiscard]] std::string json() const;
    /// Text, numbers and flags as set() takes them. Throws InputError for what is no such object
    /// and UsageError as set(), both with `called` before what they say.
    [[nodiscard]] static PlanOptions parse(std::string_view json,
                                           const std::string& called = "options");
};

struct OptionInfo {
    std::string name;   ///< what PlanOptions::set() takes, e.g. "micro-batches"
    std::string value;  ///< what stands for the text in the program's help; "": a flag
    std::string help;
};
/// All of PlanOptions that can be given as text.
[[nodiscard]] std::vector<OptionInfo> plan_options();

enum class Status : std::uint8_t {
    optimal,           ///< proven: no legal plan is better
    found,             ///< the searchers ended by themselves
    budget_exhausted,  ///< time or evaluations ran out, or a stop was requested
    none_found,        ///< the same, before a plan was found that fits
    infeasible,        ///< no plan fits the memory, or the constraints contradict each other
};
std::string_view to_text(Status status);

/// What a solver says that computes in floating point. It is no proof, and not what `lower_bound`
/// and Status::optimal rest on.
struct NumericalBound {
    Time value;                 ///< no legal plan is faster
    std::optional<double> gap;  ///< of the plan: its value / this - 1
    std::string by;             ///< "HiGHS 1.15.1"
};

/// A well-known plan to compare with; no value when it does not fit.
struct Baseline {
    std::string name;           ///< "single-device", "data-parallel", "expert"
    std::string configuration;  ///< e.g. "8 devices, ZeRO 2"; "" where nothing fits
    std::optional<Time> value;
};

struct SearchResult {
    Status status = Status::infeasible;
    std::optional<Plan> best;  ///< the plan; empty when infeasible or none_found
    std::string shortage;      ///< without a plan: what is short and by how much
    Time lower_bound;          ///< no legal plan is faster
    /// value / lower bound - 1; none without a plan, or when the bound is 0
    std::optional<double> gap;
    std::optional<Time> measured;  ///< with Reward::measured: the plan took that long
    std::string limited_by;        ///< what the bound comes from, e.g. "memory of 4 devices"
    std::optional<NumericalBound> numerical_bound;  ///< where it is above `lower_bound`
    std::string searcher;                           ///< the one that found the plan
    std::int64_t evaluations = 0;
    std::chrono::nanoseconds elapsed{0};
    std::vector<Baseline> baselines;

    [[nodiscard]] bool feasible() const { return best.has_value(); }
    /// Throws UsageError with the shortage when there is none.
    [[nodiscard]] const Plan& plan() const;
};

/// Throws UsageError for options that are wrong or do not fit together, InputError when model and
/// machine cannot be planned (a loss output that does not exist, a figure out of range).
[[nodiscard]] SearchResult find_plan(const Model& model, const Machine& machine,
                                     const PlanOptions& options = {});

/// The plan that these decisions make, one for each of the model's ops (Plan::ops() of a plan gives
/// some to begin with), priced without any search; of the options those count that say how an
/// iteration goes. What an OpPlan does not say is not done: recomputing, fetching parameters again,
/// adding up gradients before they are reduced. The plan may need more memory than there is
/// (Plan::devices). Throws InputError naming the op for a decision that is missing, unknown or
/// illegal, and what find_plan() throws.
[[nodiscard]] Plan price(const Model& model, const Machine& machine, const std::vector<OpPlan>& ops,
                         const PlanOptions& options = {});

struct SearcherInfo {
    std::string name;
    std::string summary;  ///< one line
};
/// What PlanOptions::searchers may name.
[[nodiscard]] std::vector<SearcherInfo> searchers();

}  // namespace partita
