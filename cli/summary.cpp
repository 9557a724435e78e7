// SPDX-License-Identifier: Apache-2.0
#include "cli/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <utility>

#include "cli/folded_table.h"
#include "cli/table.h"
#include "cli/timeline_picture.h"

namespace partita::cli {
namespace {

constexpr std::size_t kLabelWidth = 11;

std::string_view source_name(cost::CostSource source) {
    switch (source) {
    case cost::CostSource::given: return "given";
    case cost::CostSource::measured: return "measured";
    case cost::CostSource::interpolated: return "interpolated";
    case cost::CostSource::fitted: return "fitted";
    case cost::CostSource::analytic: return "analytic";
    }
    return {};
}

std::string shape_text(const graph::Shape& shape) {
    std::string text;
    for (const auto extent : shape) text += (text.empty() ? "" : "x") + std::to_string(extent);
    return text;
}

/// Ops, busy time and memory.
FoldedTable device_table(const plan::Problem& problem, const plan::Strategy& strategy,
                         const plan::Evaluation& evaluation, Time whole) {
    FoldedTable table({{.title = "device"},
                       {.title = "ops", .align = Align::right},
                       {.title = "busy", .align = Align::right},
                       {.title = "", .align = Align::right},
                       {.title = "memory", .align = Align::right},
                       {.title = "of", .align = Align::right},
                       {.title = "", .align = Align::right}});
    const auto ops = ops_per_device(problem, strategy);
    for (std::size_t d = 0; d < ops.size(); ++d) {
        const plan::DeviceUse& use = evaluation.devices[d];
        if (ops[d] == 0 && use == plan::DeviceUse{}) continue;
        const Bytes capacity = problem.constraints().memory_capacity(static_cast<int>(d));
        table.add(problem.machine().device(static_cast<int>(d)).name,
                  {with_commas(ops[d]), to_text(use.busy),
                   whole > Time{0} ? percent(use.busy / whole) : "-", to_text(use.memory),
                   to_text(capacity), percent(use.memory / capacity)},
                  use.busy.raw());
    }
    return table;
}

FoldedTable memory_table(const plan::Problem& problem,
                         const std::vector<plan::MemoryByKind>& memory) {
    std::vector<plan::MemoryKind> held;
    for (const plan::MemoryKind kind : plan::kMemoryKinds) {
        const bool any =
            std::ranges::any_of(memory, [&](const auto& of) { return of[kind] > Bytes{0}; });
        if (any) held.push_back(kind);
    }
    std::vector<Column> columns = {{.title = "memory at its peak"}};
    for (const plan::MemoryKind kind : held) {
        columns.push_back({.title = std::string(name_of(kind)), .align = Align::right});
    }
    FoldedTable table(std::move(columns));
    for (std::size_t d = 0; d < memory.size(); ++d) {
        if (memory[d] == plan::MemoryByKind{}) continue;
        std::vector<std::string> cells;
        for (const plan::MemoryKind kind : held) cells.push_back(to_text(memory[d][kind]));
        table.add(problem.machine().device(static_cast<int>(d)).name, std::move(cells),
                  memory[d].total().raw());
    }
    return table;
}

}  // namespace

std::string fact_line(std::string_view label, std::string_view text) {
    std::string line = fmt::format("{:{}}", label, kLabelWidth);
    for (const char c : text) {
        line += c;
        if (c == '\n') line += std::string(kLabelWidth, ' ');
    }
    return line + '\n';
}

std::string model_line(const LoadedModel& model, const ModelFacts& facts) {
    std::string text =
        fmt::format("{}: {}", model.file.filename().string(), count_of(facts.ops, "op"));
    if (!model.is_workload()) {
        text += fmt::format(", {} parameters ({}), {} forward", to_text(Flops(facts.parameters)),
                            to_text(facts.parameter_bytes), flops_text(facts.flops));
    }
    std::string bound;
    for (const auto& [name, value] : model.bindings) {
        bound += fmt::format("{}{} = {}", bound.empty() ? "" : ", ", name, value);
    }
    for (const auto& [name, shape] : model.shapes) {
        bound += fmt::format("{}{}: {}", bound.empty() ? "" : ", ", name, shape_text(shape));
    }
    if (!bound.empty()) text += "\n" + bound;
    for (const std::string& note : model.notes) text += "\n" + note;
    if (!model.details.empty()) {
        text += fmt::format("\nPlans lack {} of that framework: --verbose says which.",
                            count_of(std::ssize(model.details), "way"));
    }
    return text;
}

std::string machine_line(const cost::Machine& machine) {
    std::map<std::pair<std::string, Bytes>, std::int64_t> kinds;
    for (const cost::Device& device : machine.devices()) ++kinds[{device.model, device.memory}];
    std::string text =
        fmt::format("{}: {}", machine.name(), count_of(machine.device_count(), "device"));
    std::string models;
    for (const auto& [kind, count] : kinds) {
        models += fmt::format("{}{} x {} with {}", models.empty() ? "" : ", ", count, kind.first,
                              to_text(kind.second));
    }
    return text + " (" + models + ")";
}

std::string goal_line(const plan::Problem& problem) {
    return goal_line(problem.objective(), problem.mode(), problem.policy());
}

std::string goal_line(plan::Objective objective, plan::Mode mode, const plan::Policy& policy) {
    std::string text = fmt::format("{} of {}", name_of(objective), name_of(mode));
    if (mode == plan::Mode::training) {
        text +=
            fmt::format(", optimizer {}, loss {}", name_of(policy.optimizer), name_of(policy.loss));
        if (!policy.loss_output.empty()) text += " of " + policy.loss_output;
    }
    if (policy.bucket_bytes == plan::kOneBucket) {
        text += ", gradients in one bucket";
    } else if (policy.bucket_bytes == plan::kLayerBuckets) {
        text += ", gradients in a bucket per layer";
    } else if (policy.bucket_bytes) {
        text += ", gradients in buckets of " + to_text(*policy.bucket_bytes);
    }
    if (policy.clip_norm > 0) {
        text += fmt::format(", clipped to norm {}", plan::clip_norm_text(policy.clip_norm));
    }
    if (policy.host_time.any()) {
        text += fmt::format(", launched in {}", to_text(policy.host_time));
    }
    if (policy.micro_batches > 1) text += fmt::format(", {} micro-batches", policy.micro_batches);
    if (policy.schedule.kind != plan::ScheduleKind::none) {
        text += ", schedule " + to_text(policy.schedule);
    }
    return text;
}

std::string unsupported_line(const ModelFacts& facts) {
    std::int64_t total = 0;
    std::string list;
    for (const auto& [type, count] : facts.unsupported) {
        total += count;
        list += fmt::format("{}{} ({})", list.empty() ? "" : ", ", type, count);
    }
    if (total == 0) return "";
    return fmt::format("{} without a rule: {}. Never split, priced by the bytes they move.",
                       count_of(total, "op"), list);
}

std::vector<std::int64_t> ops_per_device(const plan::Problem& problem,
                                         const plan::Strategy& strategy) {
    std::vector<std::int64_t> ops(static_cast<std::size_t>(problem.device_count()), 0);
    for (std::size_t i = 0; i < problem.graph().op_count(); ++i) {
        const graph::OpId op(i);
        if (!problem.facts().has_forward(op)) continue;
        const plan::DeviceSet& devices = strategy.config(op).devices;
        for (int part = 0; part < devices.size(); ++part) {
            ++ops[static_cast<std::size_t>(devices[part])];
        }
    }
    return ops;
}

Bytes most_memory(const plan::Evaluation& evaluation) {
    Bytes most;
    for (const plan::DeviceUse& use : evaluation.devices) most = std::max(most, use.memory);
    return most;
}

std::string devices_text(const plan::Problem& problem, const plan::Strategy& strategy,
                         const plan::Priced& priced, const Terminal& terminal,
                         std::size_t most_lines) {
    const Time whole = priced.timeline ? priced.timeline->makespan : priced.evaluation.value;
    // People look at the picture before they read tables.
    struct Rows {
        std::size_t devices, memory, picture;
    };
    constexpr std::array kRows = {Rows{24, 24, 24}, Rows{12, 12, 12}, Rows{8, 8, 8}, Rows{8, 4, 8},
                                  Rows{4, 2, 8},    Rows{2, 1, 8},    Rows{3, 2, 6}, Rows{2, 2, 5},
                                  Rows{2, 1, 4},    Rows{2, 1, 2}};
    const FoldedTable devices = device_table(problem, strategy, priced.evaluation, whole);
    const FoldedTable memory = memory_table(problem, priced.memory);
    const DevicePicture picture =
        priced.timeline ? timeline_picture(problem, priced.tasks, *priced.timeline, terminal)
                        : load_picture(problem, priced.evaluation, terminal);
    std::string text;
    for (const Rows& rows : kRows) {
        text = '\n' + devices.to_text(rows.devices, "less busy device") + '\n';
        if (!priced.memory.empty()) text += memory.to_text(rows.memory, "less full device") + '\n';
        text += picture.text(rows.picture);
        if (std::cmp_less_equal(std::ranges::count(text, '\n'), most_lines)) break;
    }
    return text;
}

std::size_t lines_below(const std::string& head, const Console& console) {
    constexpr std::size_t kWrote = 2;  // an empty line, and the file
    if (console.options.verbose) return std::numeric_limits<std::size_t>::max();
    const auto used = static_cast<std::size_t>(std::ranges::count(head, '\n')) + kWrote;
    return used < kMostLines ? kMostLines - used : 0;
}

plan::CostCounts count_costs(const Loaded& loaded, const plan::Strategy& strategy,
                             const plan::TaskGraph& tasks) {
    const plan::Problem& problem = *loaded.problem;
    if (!loaded.costs.measured.empty()) return plan::count_costs(tasks);
    plan::CostCounts counts{};
    for (std::size_t i = 0; i < problem.graph().op_count(); ++i) {
        const graph::OpId op(i);
        if (!problem.facts().has_forward(op)) continue;
        ++counts[static_cast<std::size_t>(
            problem.prices().cost_source(op, strategy.device_of(op)))];
    }
    return counts;
}

std::vector<std::pair<std::string_view, std::int64_t>> named_counts(
    const plan::CostCounts& counts) {
    std::vector<std::pair<std::string_view, std::int64_t>> named;
    for (const auto source :
         {cost::CostSource::measured, cost::CostSource::interpolated, cost::CostSource::fitted,
          cost::CostSource::analytic, cost::CostSource::given}) {
        named.emplace_back(source_name(source), counts[static_cast<std::size_t>(source)]);
    }
    return named;
}

std::string costs_line(const Loaded& loaded, const plan::CostCounts& counts) {
    const bool measured = !loaded.costs.measured.empty();
    std::string text;
    for (const auto& [source, count] : named_counts(counts)) {
        if (count == 0) continue;
        text += fmt::format("{}{} {}", text.empty() ? "" : ", ",
                            measured ? with_commas(count) : count_of(count, "op"), source);
    }
    if (text.empty()) return "none needed";
    return measured ? fmt::format("{} tasks ({})", text, loaded.costs.measured) : text;
}

std::optional<plan::PriceErrors> price_errors_of(const Loaded& loaded,
                                                 const plan::Strategy& strategy) {
    if (!loaded.costs.measured.empty()) return std::nullopt;
    const plan::Problem& problem = *loaded.problem;
    const plan::PriceErrors errors = price_errors(problem.facts(), problem.prices(), strategy);
    return errors.fitted > 0.0 ? std::optional(errors) : std::nullopt;
}

std::string accuracy_line(const plan::PriceErrors& errors, Time value) {
    constexpr double kPercent = 100.0;
    const auto times = [&](double factor) {
        return to_text(Time(std::llround(static_cast<double>(value.raw()) * factor)));
    };
    return fmt::format(
        "{} to {}: curves price {:.0f} % of the work, and are {:.3g} % off on kernels that they "
        "were not fitted to",
        times(std::max(0.0, 1.0 - errors.error)), times(1.0 + errors.error),
        kPercent * errors.fitted, kPercent * errors.error);
}

RecomputedBlocks recomputed_blocks(const plan::Problem& problem, const plan::Strategy& strategy) {
    RecomputedBlocks count;
    for (const plan::LayerBlock& block : problem.facts().recompute().blocks()) {
        const plan::Recompute choice = recompute_of(block, strategy);
        ++count.blocks;
        if (choice == plan::Recompute::selective) ++count.selective;
        if (choice == plan::Recompute::full) ++count.full;
    }
    return count;
}

std::string recompute_line(const plan::Problem& problem, const plan::Strategy& strategy) {
    const plan::Recompute asked = problem.policy().recompute;
    if (asked == plan::Recompute::none) return "";
    const RecomputedBlocks count = recomputed_blocks(problem, strategy);
    if (count.blocks == 0) {
        return "nothing: the model names no layer blocks that come more than once";
    }
    const plan::RecomputeRegions& regions = problem.facts().recompute();
    if (asked == plan::Recompute::selective && !regions.has(asked)) {
        return "nothing: no layer block keeps what attention makes between two products";
    }
    std::string text;
    if (count.full > 0) text += fmt::format("in full {}", count.full);
    if (count.selective > 0) {
        text += fmt::format("{}selective {}", text.empty() ? "" : ", ", count.selective);
    }
    return fmt::format("{} of {}", text.empty() ? "nothing" : text,
                       count_of(count.blocks, "layer block"));
}

/// Of type and how they are computed; nullopt: there are none of float32.
std::optional<graph::ProductType> float32_products(const plan::Problem& problem) {
    for (std::size_t i = 0; i < problem.graph().op_count(); ++i) {
        const graph::OpId op(i);
        if (!problem.facts().has_forward(op) || problem.graph().op(op).given) continue;
        const cost::Work work = problem.facts().works().forward(op);
        if (work.matrix_product && work.dtype == graph::DType::float32) return work.product_type;
    }
    return std::nullopt;
}

std::string precision_line(const plan::Problem& problem) {
    const std::optional<graph::ProductType> now = float32_products(problem);
    if (!now || *now == graph::ProductType::float8) return "";
    constexpr double kWorthSaying = 1.5;
    double gain = std::numeric_limits<double>::max();
    bool bfloat16 = true;
    for (const cost::Device& device : problem.machine().devices()) {
        const auto rate = [&](graph::DType dtype, graph::ProductType type) {
            return static_cast<double>(device.matrix_flops_of(dtype, type));
        };
        gain = std::min(gain, rate(graph::DType::bfloat16, graph::ProductType::as_stored) /
                                  rate(graph::DType::float32, *now));
        bfloat16 =
            bfloat16 && device.matrix_flops[static_cast<std::size_t>(graph::DType::bfloat16)] > 0;
    }
    if (gain < kWorthSaying) return "";
    return fmt::format("{}; {} products are {:.3g} times as fast here: --precision {}",
                       *now == graph::ProductType::tf32 ? "float32, products in TF32" : "float32",
                       bfloat16 ? "bfloat16" : "float16", gain, bfloat16 ? "bf16" : "fp16");
}

std::string attention_line(int count) {
    if (count == 0) return "";
    return fmt::format(
        "{} as products around a softmax, which keep their scores; one op each: --attention fused",
        count);
}

std::vector<graph::OpRule> rules_of(const plan::Problem& problem) {
    std::vector<graph::OpRule> rules;
    rules.reserve(problem.graph().op_count());
    for (std::size_t i = 0; i < problem.graph().op_count(); ++i) {
        rules.push_back(problem.facts().rule(graph::OpId(i)));
    }
    return rules;
}

}  // namespace partita::cli
