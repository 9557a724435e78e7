// SPDX-License-Identifier: Apache-2.0
#include "api/option_table.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "api/option_fields.h"
#include "base/error.h"
#include "plan/evaluation/priced.h"
#include "plan/strategy/strategy.h"

namespace partita::api {
namespace {

constexpr std::int64_t kMostThreads = 1024;

}  // namespace

std::string_view title_of(OptionSet set) {
    switch (set) {
    case OptionSet::framework:
    case OptionSet::training:
    case OptionSet::objective:
    case OptionSet::constraints:
    case OptionSet::costs: return "What to plan for";
    case OptionSet::searchers:
    case OptionSet::budget: return "Search";
    case OptionSet::learning: return "Searchers that learn (rl, rl-hierarchical)";
    case OptionSet::output: return "Output";
    }
    return {};
}

std::span<const OptionRow> option_table() {
    using P = PlanOptions;
    static_assert(plan::most_chosen_micro_batches(64) == 16 &&
                      plan::most_chosen_micro_batches(1 << 16) == 256,
                  "the help of --micro-batches says so");
    static_assert(plan::kMostListedTasks == 100'000, "the help of --no-fold says 100,000");
    static const std::array kOptions = {
        OptionRow{
            .option = "--framework",
            .value = "F",
            .set = OptionSet::framework,
            .help =
                "training: who runs the step, megatron, ddp, fsdp, deepspeed, partita or "
                "a .json (docs/file-formats.md): what nobody says of --attention, "
                "--fuse, gradients, --bucket-bytes, --host-time, --clip-norm and --strategy is as "
                "that has it",
            .field = path<&P::framework>(),
            .says_how_to_train = true},
        OptionRow{.option = "--mode",
                  .value = "MODE",
                  .set = OptionSet::training,
                  .help = "inference (default) or training",
                  .field = choice<&P::mode, Mode::inference, Mode::training>()},
        OptionRow{
            .option = "--optimizer",
            .value = "O",
            .set = OptionSet::training,
            .help = "training: sgd (default), momentum, adam",
            .field = choice<&P::optimizer, Optimizer::sgd, Optimizer::momentum, Optimizer::adam>(),
            .says_how_to_train = true},
        OptionRow{.option = "--loss",
                  .value = "KIND[:OUTPUT]",
                  .set = OptionSet::training,
                  .help = "training: sum (default), mse or cross-entropy, of one output or of all",
                  .field = loss_field(),
                  .says_how_to_train = true},
        OptionRow{.option = "--gradient-sync",
                  .value = "SYNC",
                  .set = OptionSet::training,
                  .help = "training: all-reduce (default) or parameter-server, for data "
                          "parallelism",
                  .field = choice<&P::gradient_sync, GradientSync::all_reduce,
                                  GradientSync::parameter_server>(),
                  .says_how_to_train = true},
        OptionRow{.option = "--recompute",
                  .value = "WHAT",
                  .set = OptionSet::training,
                  .help = "training: what layer blocks compute once more for the backward instead "
                          "of keeping it: none (default), selective (what attention makes), full, "
                          "or auto (the search chooses for each block)",
                  .field = choice<&P::recompute, Recompute::none, Recompute::selective,
                                  Recompute::full, Recompute::automatic>(),
                  .says_how_to_train = true},
        OptionRow{.option = "--bucket-bytes",
                  .value = "BYTES",
                  .set = OptionSet::training,
                  .help = "training: gradients are reduced together in buckets of so many bytes, "
                          "in reverse order of use, the first one of 1 MiB (as PyTorch's DDP with "
                          "25MiB); layer: one for each layer (or op, if none are named), as "
                          "FSDP, also of what ZeRO-3 fetches; all: in one; none (default): each "
                          "by itself",
                  .field = bucket_bytes_field(),
                  .says_how_to_train = true},
        OptionRow{.option = "--host-time",
                  .value = "TIME",
                  .set = OptionSet::training,
                  .help = "what the host of a GPU takes to launch a kernel or a message, one after "
                          "the other (eager frameworks: tens of microseconds), e.g. 45us, or "
                          "kernel=45us,communication=30us,update=5us; none (default): nothing "
                          "(CUDA graphs)",
                  .field = host_time_field()},
        OptionRow{.option = "--clip-norm",
                  .value = "NORM",
                  .set = OptionSet::training,
                  .help = "training: gradients are scaled down together until their norm is at "
                          "most that, e.g. 1.0: no update before the last gradient, and one number "
                          "that all devices add up; none (default): they are not",
                  .field = clip_norm_field(),
                  .says_how_to_train = true},
        OptionRow{
            .option = "--micro-batches",
            .value = "N",
            .set = OptionSet::training,
            .help = "parts of the batch that run one after the other; gradients add up "
                    "(default 1; in training the search chooses, up to 16, on more than 64 devices "
                    "up to 256)",
            .field = number<&P::micro_batches, 1, plan::kMostMicroBatches>()},
        OptionRow{
            .option = "--schedule",
            .value = "SCHEDULE",
            .set = OptionSet::training,
            .help =
                "order of micro-batches in a pipeline: none (default; in training the "
                "search chooses), gpipe, 1f1b, eager-1f1b, interleaved:V or zb-h1 (gradients of "
                "weights fill the bubbles of 1f1b)",
            .field = schedule_field()},
        OptionRow{.option = "--frozen",
                  .value = "GLOB",
                  .set = OptionSet::training,
                  .help = "training: parameters (or their blocks) that are not trained, such as "
                          "'*bias' (* any text, ? one character); may be repeated",
                  .field = list<&P::frozen>(),
                  .says_how_to_train = true,
                  .repeats = true},
        OptionRow{.option = "--objective",
                  .value = "GOAL",
                  .set = OptionSet::objective,
                  .help = "latency (default of inference), step-time (of training), throughput (of "
                          "workloads)",
                  .field = choice<&P::objective, Objective::latency, Objective::throughput,
                                  Objective::step_time>()},
        OptionRow{.option = "--fix",
                  .value = "FILE",
                  .set = OptionSet::constraints,
                  .help = "constraints, JSON (docs/file-formats.md)",
                  .field = path<&P::fix>()},
        OptionRow{.option = "--dims",
                  .value = "S,O,A,P,R",
                  .set = OptionSet::constraints,
                  .help = "kinds of splits that the search may use: sample, operator (always), "
                          "attribute, parameter, reduction; O alone: whole ops on devices (default "
                          "all)",
                  .field = splits_field()},
        OptionRow{.option = "--memory-limit",
                  .value = "BYTES",
                  .set = OptionSet::constraints,
                  .help = "per device, if tighter than the machine's; 8GB and 8GiB work too",
                  .field = memory_limit_field()},
        OptionRow{.option = "--profile",
                  .value = "DB",
                  .set = OptionSet::costs,
                  .help = "measured costs, a database that `partita profile` wrote; what it lacks "
                          "is priced by the analytic model",
                  .field = path<&P::profile>()},
        OptionRow{.option = "--strategy",
                  .value = "DEGREES",
                  .set = OptionSet::searchers,
                  .help = "only plans of that form, any of dp=N (data), tp=N (tensor), pp=N "
                          "(pipeline), cp=N (context), ep=N (experts), vpp=N (chunks per stage), "
                          "zero=0..3, sp (sequence), cp-by=heads or queries, reduce=each or last "
                          "(gradients of "
                          "micro-batches), layers=even, work or "
                          "4-8-8-4 (per stage), order=tp-cp-dp-pp (innermost first); the rest is "
                          "searched",
                  .field = strategy_field()},
        OptionRow{.option = "--searcher",
                  .value = "S",
                  .set = OptionSet::searchers,
                  .help = "one of those below (default auto), or S1,S2: the later starts from the "
                          "best of the earlier",
                  .field = searchers_field()},
        OptionRow{.option = "--contiguous",
                  .value = "",
                  .set = OptionSet::searchers,
                  .help = "throughput: each device gets one contiguous piece of the graph",
                  .field = flag<&P::contiguous>()},
        OptionRow{.option = "--scheduler",
                  .value = "RULE",
                  .set = OptionSet::budget,
                  .help = "which ready task goes first: fifo, rank (frozen priorities of ops), pct "
                          "(longest path first, default), msr",
                  .field = choice<&P::scheduler, Scheduler::fifo, Scheduler::rank, Scheduler::pct,
                                  Scheduler::msr>()},
        OptionRow{.option = "--time-limit",
                  .value = "SEC",
                  .set = OptionSet::budget,
                  .help = "stop searching after SEC seconds (default 10 for searchers that do not "
                          "end by themselves)",
                  .field = time_limit_field()},
        OptionRow{.option = "--evaluations",
                  .value = "N",
                  .set = OptionSet::budget,
                  .help = "stop searching after N evaluations; no time limit then, unless given",
                  .field = number<&P::evaluations, 1>()},
        OptionRow{.option = "--seed",
                  .value = "N",
                  .set = OptionSet::budget,
                  .help = "of everything random (default 1)",
                  .field = number<&P::seed, 0>()},
        OptionRow{.option = "--threads",
                  .value = "N",
                  .set = OptionSet::budget,
                  .help = "default: one per core",
                  .field = number<&P::threads, 1, kMostThreads>()},
        OptionRow{.option = "--engine",
                  .value = "E",
                  .set = OptionSet::budget,
                  .help = "of exact: own (proofs in integers), highs (HiGHS, to its tolerances) or "
                          "both (default), own first",
                  .field = engine_field()},
        OptionRow{.option = "--no-groups",
                  .value = "",
                  .set = OptionSet::budget,
                  .help = "let operators part that make no sense apart, such as a constant and its "
                          "user",
                  .field = flag<&P::groups, false>()},
        OptionRow{.option = "--reward",
                  .value = "TIME",
                  .set = OptionSet::learning,
                  .help = "what they are told of a plan: its predicted time (simulated, default), "
                          "or what it takes on this host (measured)",
                  .field = choice<&P::reward, Reward::simulated, Reward::measured>()},
        OptionRow{.option = "--load-policy",
                  .value = "FILE",
                  .set = OptionSet::learning,
                  .help = "start from what was learned before, of this or another model",
                  .field = path<&P::load_policy>()},
        OptionRow{.option = "--save-policy",
                  .value = "FILE",
                  .set = OptionSet::learning,
                  .help = "write what was learned",
                  .field = path<&P::save_policy>()},
        OptionRow{.option = "--zero-shot",
                  .value = "",
                  .set = OptionSet::learning,
                  .help = "sample from the policy loaded, learn nothing",
                  .field = flag<&P::zero_shot>()},
        OptionRow{.option = "--learning-curve",
                  .value = "FILE.csv",
                  .set = OptionSet::learning,
                  .help = "write how learning went, and a picture FILE.svg beside it",
                  .field = path<&P::learning_curve>()},
        OptionRow{.option = "--no-fold",
                  .value = "",
                  .set = OptionSet::output,
                  .help = "list the tasks of all devices, even if they are more than 100,000; "
                          "default: then, of devices that do the same, those of one",
                  .field = flag<&P::fold, false>()},
    };
    return kOptions;
}

const OptionRow& option_of(std::string_view name) {
    std::string known;
    for (const OptionRow& row : option_table()) {
        if (row.name() == name) return row;
        known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name());
    }
    throw UsageError(fmt::format("{}: no option of plans. There is: {}.", name, known));
}

void check_options(const PlanOptions& options) {
    PlanOptions scratch;
    for (const OptionRow& row : option_table()) {
        if (const auto text = row.write(options)) row.read(scratch, *text);
    }
}

}  // namespace partita::api
