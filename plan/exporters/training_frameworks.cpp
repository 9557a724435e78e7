// SPDX-License-Identifier: Apache-2.0
#include "plan/exporters/training_frameworks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "plan/exporters/training_grid.h"

namespace partita::plan {

namespace {

[[noreturn]] void refuse(std::string_view format, const std::string& what) {
    throw UsageError(fmt::format("{}: {}", format, what));
}

/// Of a pipeline: the schedule is one that the framework has.
void check_schedule(std::string_view format, const TrainingGrid& grid, const Policy& policy,
                    std::initializer_list<ScheduleKind> known, std::string_view instead) {
    if (grid.stages == 1 || policy.micro_batches == 1) return;
    if (std::ranges::find(known, policy.schedule.kind) != known.end()) return;
    refuse(format, fmt::format("it has no schedule {}; plan with --schedule {}.",
                               to_text(policy.schedule), instead));
}

/// Of one micro-batch gradients do not add up, and levels 1 and 2 are one: the first, which all have.
ZeroLevel level_of(const TrainingGrid& grid, const Policy& policy) {
    const bool either = grid.zero == ZeroLevel::gradients && policy.micro_batches == 1;
    return either ? ZeroLevel::optimizer : grid.zero;
}

/// Comments: what the file is of.
std::string head(const ExportInput& input, const TrainingGrid& grid) {
    return fmt::format(
        "# {} on {} of the devices of {}: data {}, context {}, tensor {}, {} stages.\n",
        input.problem.graph().name, grid.devices.size(), input.problem.machine().name(), grid.data,
        grid.context, grid.tensor, grid.stages);
}

// Megatron-LM.

/// "Ett|ttt|ttL": the embedding, layers, the loss; stage by stage, then chunk by chunk.
std::string layer_layout(const std::vector<int>& layers) {
    std::vector<std::string> stages;
    for (const int count : layers) stages.emplace_back(static_cast<std::size_t>(count), 't');
    stages.front().insert(0, "E");
    stages.back() += 'L';
    return fmt::format("{}", fmt::join(stages, "|"));
}

class Arguments {
public:
    template <class... Values>
    void add(std::string_view name, const Values&... values) {
        text_ += name;
        ((text_ += fmt::format(" {}", values)), ...);
        text_ += '\n';
    }
    [[nodiscard]] const std::string& text() const { return text_; }

private:
    std::string text_;
};

void add_stages(const TrainingGrid& grid, Arguments& arguments) {
    arguments.add("--pipeline-model-parallel-size", grid.stages);
    if (grid.stages == 1) return;
    if (!grid.even()) {
        arguments.add("--pipeline-model-parallel-layout", layer_layout(grid.layers));
    } else if (grid.chunks > 1) {
        arguments.add("--num-layers-per-virtual-pipeline-stage", grid.layers.front());
    }
}

void add_shards(const TrainingGrid& grid, const Policy& policy, Arguments& arguments) {
    if (grid.zero == ZeroLevel::none) return;
    arguments.add("--use-distributed-optimizer");
    if (level_of(grid, policy) == ZeroLevel::optimizer) return;
    arguments.add("--use-megatron-fsdp");
    arguments.add("--data-parallel-sharding-strategy",
                  grid.zero == ZeroLevel::parameters ? "optim_grads_params" : "optim_grads");
    arguments.add("--no-gradient-accumulation-fusion");
}

void add_recompute(const TrainingGrid& grid, Arguments& arguments) {
    if (grid.recompute == Recompute::selective) {
        arguments.add("--recompute-granularity", "selective");
    } else if (grid.recompute == Recompute::full) {
        arguments.add("--recompute-granularity", "full");
        arguments.add("--recompute-method", "uniform");
        arguments.add("--recompute-num-layers", 1);
    }
}

// JSON and TOML.

std::string_view yes(bool is) {
    return is ? "true" : "false";
}

}  // namespace

std::string megatron(const ExportInput& input) {
    constexpr std::string_view kFormat = "megatron";
    const Policy& policy = input.strategy.policy;
    const TrainingGrid grid = training_grid_of(input.problem, input.strategy, kFormat);
    check_schedule(kFormat, grid, policy, {ScheduleKind::one_f_one_b, ScheduleKind::interleaved},
                   "1f1b");
    if (grid.chunks > 1 && policy.micro_batches % grid.stages != 0) {
        refuse(kFormat, fmt::format("its interleaved schedule needs micro-batches that {} stages "
                                    "divide; plan with --micro-batches {}.",
                                    grid.stages, grid.stages));
    }
    Arguments arguments;
    arguments.add("--tensor-model-parallel-size", grid.tensor);
    if (grid.sequence) arguments.add("--sequence-parallel");
    arguments.add("--context-parallel-size", grid.context);
    if (grid.experts > 1) {
        arguments.add("--expert-model-parallel-size", grid.experts);
        arguments.add("--expert-tensor-parallel-size", grid.experts_tensor);
    }
    add_stages(grid, arguments);
    arguments.add("--micro-batch-size", grid.micro_batch);
    arguments.add("--global-batch-size", grid.samples);
    if (grid.positions > 0) arguments.add("--seq-length", grid.positions);
    add_shards(grid, policy, arguments);
    add_recompute(grid, arguments);
    if (grid.dtype == graph::DType::bfloat16) arguments.add("--bf16");
    if (grid.dtype == graph::DType::float16) arguments.add("--fp16");
    arguments.add("--optimizer", policy.optimizer == Optimizer::adam ? "adam" : "sgd");
    arguments.add("--clip-grad", policy.clip_norm);
    return head(input, grid) + arguments.text();
}

std::string deepspeed(const ExportInput& input) {
    constexpr std::string_view kFormat = "deepspeed";
    const Policy& policy = input.strategy.policy;
    const TrainingGrid grid = training_grid_of(input.problem, input.strategy, kFormat);
    check_schedule(kFormat, grid, policy, {ScheduleKind::one_f_one_b}, "1f1b");
    if (grid.context > 1)
        refuse(kFormat, "its file has no context parallelism; plan with --strategy cp=1.");
    if (grid.sequence)
        refuse(kFormat, "its tensor parallelism has whole sequences; plan with --strategy sp=0.");
    if (grid.chunks > 1)
        refuse(kFormat, "its stages have one chunk each; plan with --strategy vpp=1.");
    if (grid.stages > 1 && !grid.even()) {
        refuse(kFormat, "its stages have as many layers each; plan with --strategy layers=even.");
    }
    if (grid.experts > 1)
        refuse(kFormat, "its file has no expert parallelism; plan with --strategy ep=1.");
    if (grid.recompute == Recompute::selective) {
        refuse(kFormat, "it has no selective recomputation; plan with --recompute full or none.");
    }
    const ZeroLevel level = level_of(grid, policy);
    if (grid.stages > 1 && level > ZeroLevel::optimizer) {
        refuse(kFormat, "with stages it has ZeRO up to 1; plan with --strategy zero=1.");
    }
    std::vector<std::string> fields = {
        fmt::format("\"train_batch_size\": {}", grid.samples),
        fmt::format("\"train_micro_batch_size_per_gpu\": {}", grid.micro_batch),
        fmt::format("\"gradient_accumulation_steps\": {}", policy.micro_batches),
        fmt::format("\"gradient_clipping\": {}", policy.clip_norm),
        fmt::format("\"zero_optimization\": {{\"stage\": {}}}", static_cast<int>(level)),
        fmt::format("\"bf16\": {{\"enabled\": {}}}", yes(grid.dtype == graph::DType::bfloat16)),
        fmt::format("\"fp16\": {{\"enabled\": {}}}", yes(grid.dtype == graph::DType::float16))};
    if (grid.tensor > 1) {
        fields.push_back(fmt::format("\"tensor_parallel\": {{\"autotp_size\": {}}}", grid.tensor));
    }
    if (grid.stages > 1) {
        fields.push_back(fmt::format(
            R"("pipeline": {{"stages": {}, "partition": "uniform", "activation_checkpoint_interval": {}}})",
            grid.stages, grid.recompute == Recompute::full ? 1 : 0));
    }
    return fmt::format("{{\n  {}\n}}\n", fmt::join(fields, ",\n  "));
}

namespace {

/// The modules of each part of the model, in the words of torchtitan's transformers.
std::string model_parts(const std::vector<int>& layers) {
    std::vector<std::string> parts;
    int next = 0;
    for (std::size_t i = 0; i < layers.size(); ++i) {
        std::vector<std::string> modules;
        if (i == 0) modules.emplace_back("\"tok_embeddings\"");
        for (int layer = 0; layer < layers[i]; ++layer) {
            modules.push_back(fmt::format("\"layers.{}\"", next++));
        }
        if (i + 1 == layers.size()) {
            modules.emplace_back("\"norm\"");
            modules.emplace_back("\"output\"");
        }
        parts.push_back(fmt::format("  [{}]", fmt::join(modules, ", ")));
    }
    return fmt::format("[\n{},\n]", fmt::join(parts, ",\n"));
}

std::string_view torch_schedule(ScheduleKind kind) {
    switch (kind) {
    case ScheduleKind::gpipe: return "GPipe";
    case ScheduleKind::interleaved: return "Interleaved1F1B";
    default: return "1F1B";
    }
}

}  // namespace

std::string torchtitan(const ExportInput& input) {
    constexpr std::string_view kFormat = "torchtitan";
    const Policy& policy = input.strategy.policy;
    const TrainingGrid grid = training_grid_of(input.problem, input.strategy, kFormat);
    check_schedule(kFormat, grid, policy,
                   {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved},
                   "1f1b");
    if (grid.tensor > 1 && !grid.sequence) {
        refuse(kFormat,
               "its tensor parallelism has the sequence in parts; plan with --strategy sp.");
    }
    if (grid.zero == ZeroLevel::optimizer) {
        refuse(
            kFormat,
            "it has no ZeRO-1; plan with --strategy zero=2 (parameters stay gathered) or zero=3.");
    }
    if (grid.dtype == graph::DType::float16) refuse(kFormat, "it has no fp16; plan in bf16.");
    if (grid.recompute == Recompute::selective) {
        refuse(kFormat,
               "its selective recomputation keeps products, not attention; plan with --recompute "
               "full or none.");
    }
    const bool shards = grid.zero != ZeroLevel::none;
    // Micro-batches of a pipeline are cut from what a replica gets; without stages they are steps
    // that accumulate.
    const std::int64_t local =
        grid.stages > 1 ? grid.micro_batch * policy.micro_batches : grid.micro_batch;
    std::string text = head(input, grid);
    text += fmt::format("[training]\nlocal_batch_size = {}\nglobal_batch_size = {}\n", local,
                        grid.samples);
    if (grid.positions > 0) text += fmt::format("seq_len = {}\n", grid.positions);
    text += fmt::format(
        "max_norm = {}\nmixed_precision_param = \"{}\"\nmixed_precision_reduce = \"float32\"\n",
        policy.clip_norm > 0 ? fmt::format("{}", policy.clip_norm) : "inf",
        grid.dtype == graph::DType::bfloat16 ? "bfloat16" : "float32");
    text += fmt::format(
        "\n[parallelism]\ndata_parallel_replicate_degree = {}\ndata_parallel_shard_degree = {}\n",
        shards ? 1 : grid.data, shards ? grid.data : 1);
    if (shards) {
        text += fmt::format("fsdp_reshard_after_forward = \"{}\"\n",
                            grid.zero == ZeroLevel::parameters ? "always" : "never");
    }
    text += fmt::format(
        "tensor_parallel_degree = {}\ncontext_parallel_degree = {}\nexpert_parallel_degree = {}\n"
        "pipeline_parallel_degree = {}\n",
        grid.tensor, grid.context, grid.experts, grid.stages);
    if (grid.stages > 1) {
        text += fmt::format(
            "pipeline_parallel_schedule = \"{}\"\npipeline_parallel_microbatch_size = {}\n"
            "module_fqns_per_model_part = {}\n",
            torch_schedule(policy.schedule.kind), grid.micro_batch, model_parts(grid.layers));
    }
    text += fmt::format("\n[activation_checkpoint]\nmode = \"{}\"\n", name_of(grid.recompute));
    return text;
}

}  // namespace partita::plan
