// SPDX-License-Identifier: Apache-2.0
#include "plan/description/parallelism.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "plan/description/product_split.h"
#include "plan/description/used_devices.h"
#include "plan/legality/stages.h"

namespace partita::plan {

using graph::OpId;
using graph::OpKind;
using graph::TensorId;

namespace {

ProductSplit split_of(const Problem& problem, OpId op, const OpConfig& config, std::size_t weight) {
    ProductSplit split;
    for (const Axis& axis : config.axes) {
        split.*degree_of(problem, op, axis, weight) *= axis.degree;
    }
    return split;
}

/// The parameter that a weight is made of: through the ops that turn it.
const std::string& parameter_name(const graph::OpGraph& graph, TensorId weight) {
    while (graph.op(graph.tensor(weight).producer).kind == OpKind::compute) {
        weight = graph.op(graph.tensor(weight).producer).inputs[0];
    }
    return graph.tensor(weight).name;
}

/// "q_proj" of "model.layers.3.self_attn.q_proj.weight": what is left without numbers and without what
/// all weights are called; "" for names that exporters make up.
std::string_view short_name(std::string_view name) {
    constexpr std::array kMadeUp = {std::string_view("val_"), std::string_view("onnx::")};
    for (const std::string_view prefix : kMadeUp) {
        if (name.starts_with(prefix)) return {};
    }
    while (!name.empty()) {
        const std::size_t dot = name.find_last_of("./");
        const std::string_view part = dot == std::string_view::npos ? name : name.substr(dot + 1);
        const bool is_number = part.find_first_not_of("0123456789") == std::string_view::npos;
        if (!is_number && part != "weight" && part != "kernel") return part;
        name = name.substr(0, dot == std::string_view::npos ? 0 : dot);
    }
    return {};
}

/// By split.
class ProductGroups {
public:
    ProductGroups(const Problem& problem, const Strategy& strategy) {
        for (std::size_t i = 0; i < problem.graph().op_count(); ++i) {
            const OpId op(i);
            const std::optional<std::size_t> weight = weight_of(problem, op);
            if (!weight) continue;
            SplitProducts& group = groups_[split_of(problem, op, strategy.config(op), *weight)];
            ++group.products;
            const auto flops = static_cast<double>(problem.facts().rule(op).flops.raw());
            group.share += flops;
            flops_ += flops;
            const std::string_view name =
                short_name(parameter_name(problem.graph(), problem.graph().op(op).inputs[*weight]));
            if (!name.empty() && std::ranges::find(group.names, name) == group.names.end()) {
                group.names.emplace_back(name);
            }
        }
    }

    /// Most FLOPs first, of equals the less split.
    [[nodiscard]] std::vector<SplitProducts> list() const {
        std::vector<SplitProducts> list;
        for (const auto& [split, group] : groups_) {
            list.push_back(group);
            list.back().split = split;
            if (flops_ > 0) list.back().share /= flops_;
        }
        std::ranges::stable_sort(list, std::greater{}, &SplitProducts::share);
        return list;
    }

private:
    std::map<ProductSplit, SplitProducts> groups_;
    double flops_ = 0;
};

/// What columns and rows of one model share.
auto degrees_of(const ProductSplit& split) {
    return std::tuple(split.data, split.tensor(), split.context, split.replicas);
}

/// Products of experts have other degrees than those around them, which send them their tokens.
bool is_usual(const ProductSplit& split, const Parallelism& of) {
    if (split.experts > 1) return split.experts == of.experts;
    return degrees_of(split) == std::tuple(of.data, of.tensor, of.context, of.replicas);
}

void set_degrees(Parallelism& parallelism) {
    std::map<std::tuple<int, int, int, int>, double> shares;
    for (const SplitProducts& group : parallelism.products) {  // most FLOPs first
        if (group.split.experts == 1) shares[degrees_of(group.split)] += group.share;
        if (parallelism.experts == 1) parallelism.experts = group.split.experts;
    }
    double most = -1;
    for (const auto& [degrees, share] : shares) {
        if (share <= most) continue;
        most = share;
        std::tie(parallelism.data, parallelism.tensor, parallelism.context, parallelism.replicas) =
            degrees;
    }
    for (const SplitProducts& group : parallelism.products) {
        if (is_usual(group.split, parallelism)) parallelism.share += group.share;
    }
}

int parts_of(const OpConfig& config) {
    int parts = 1;
    for (const Axis& axis : config.axes) {
        if (!axis.is_replica()) parts *= axis.degree;
    }
    return parts;
}

std::vector<KeptParameters> parameters_of(const Problem& problem, const Strategy& strategy) {
    std::map<std::tuple<int, int, int, ZeroLevel>, Bytes> bytes;
    for (std::size_t i = 0; i < problem.graph().op_count(); ++i) {
        const OpId op(i);
        if (problem.graph().op(op).kind != OpKind::parameter) continue;
        const OpConfig& config = strategy.config(op);
        const OpConfig& update = strategy.update(op).update;
        const ZeroLevel zero = zero_level(strategy.update(op), strategy.policy.micro_batches);
        const int parts = parts_of(config);
        const bool is_updated = problem.facts().works().is_updated(op);
        const int updates = !is_updated ? 0 : update.devices.empty() ? parts : parts_of(update);
        bytes[{parts, config.devices.size() / parts, updates, zero}] +=
            problem.graph().tensor(problem.graph().op(op).outputs[0]).bytes();
    }
    std::vector<KeptParameters> kept;
    for (const auto& [layout, size] : bytes) {
        const auto [parts, copies, updates, zero] = layout;
        kept.push_back({.parts = parts,
                        .copies = copies,
                        .update_parts = updates,
                        .zero = zero,
                        .bytes = size});
    }
    std::ranges::stable_sort(kept, std::greater{}, &KeptParameters::bytes);
    return kept;
}

/// That of most bytes.
ZeroLevel zero_of(const std::vector<KeptParameters>& parameters) {
    std::map<ZeroLevel, Bytes> bytes;
    for (const KeptParameters& kept : parameters) bytes[kept.zero] += kept.bytes;
    const auto most =
        std::ranges::max_element(bytes, {}, [](const auto& of_level) { return of_level.second; });
    return most == bytes.end() ? ZeroLevel::none : most->first;
}

/// Of each block, by stage.
using BlockFlops = std::map<std::string, std::vector<double>>;

std::vector<StageOps> stages_of(const Problem& problem, const Pipeline& pipeline) {
    std::vector<StageOps> stages(static_cast<std::size_t>(pipeline.stages));
    for (const std::int32_t stage : pipeline.stage_of_device) {
        if (stage >= 0) ++stages[static_cast<std::size_t>(stage)].devices;
    }
    double flops = 0;
    BlockFlops of_block;
    std::vector<std::string> blocks;  // in the model's order
    for (std::size_t i = 0; i < problem.graph().op_count(); ++i) {
        const OpId op(i);
        if (!pipeline.has(op)) continue;
        const auto stage = static_cast<std::size_t>(pipeline.stage(op));
        const auto own = static_cast<double>(problem.facts().rule(op).flops.raw());
        ++stages[stage].ops;
        stages[stage].share += own;
        flops += own;
        const std::string& block = problem.graph().op(op).block;
        if (block.empty()) continue;
        const auto [at, is_new] = of_block.try_emplace(block, stages.size(), 0.0);
        at->second[stage] += own;
        if (is_new) blocks.push_back(block);
    }
    for (StageOps& stage : stages) {
        if (flops > 0) stage.share /= flops;
    }
    for (const std::string& block : blocks) {
        const std::vector<double>& by_stage = of_block[block];
        const auto most = std::ranges::max_element(by_stage);
        if (*most <= 0) continue;
        stages[static_cast<std::size_t>(most - by_stage.begin())].blocks.push_back(block);
    }
    return stages;
}

// Lines.

std::string count(std::int64_t number, std::string_view noun) {
    return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

/// "12 products (c_attn, c_fc)".
std::string products_text(int products, const std::vector<std::string>& names) {
    constexpr std::size_t kMost = 6;
    std::string text = count(products, "product");
    if (names.empty()) return text;
    const auto end = names.begin() + std::ptrdiff_t(std::min(kMost, names.size()));
    return fmt::format("{} ({}{})", text, fmt::join(names.begin(), end, ", "),
                       names.size() > kMost ? ", ..." : "");
}

/// "data x 2, tensor x 4", of the names with a degree above 1.
std::string degrees_text(std::initializer_list<std::pair<std::string_view, int>> degrees) {
    std::string text;
    for (const auto& [name, degree] : degrees) {
        if (degree > 1) text += fmt::format("{}{} x {}", text.empty() ? "" : ", ", name, degree);
    }
    return text;
}

std::string split_text(const ProductSplit& split) {
    const std::string text = degrees_text({{"data", split.data},
                                           {"columns", split.columns},
                                           {"rows", split.rows},
                                           {"context", split.context},
                                           {"experts", split.experts},
                                           {"repeated", split.replicas}});
    return text.empty() ? "whole" : text;
}

bool one_size(const std::vector<StageOps>& stages) {
    return std::ranges::all_of(
        stages, [&](const StageOps& stage) { return stage.devices == stages[0].devices; });
}

std::string head_line(const Parallelism& parallelism, const Policy& policy) {
    if (parallelism.devices == 1) return "all on one device";
    const auto stages = static_cast<std::int64_t>(parallelism.stages.size());
    std::vector<std::string> parts;
    const bool in_turn = parallelism.chunks == 1 || policy.schedule.kind != ScheduleKind::none;
    if (stages > 1) {
        parts.push_back(in_turn ? count(stages, "stage")
                                : fmt::format("{} groups of devices that take turns", stages));
    }
    if (const std::string degrees = degrees_text({{"data", parallelism.data},
                                                  {"tensor", parallelism.tensor},
                                                  {"context", parallelism.context},
                                                  {"experts", parallelism.experts},
                                                  {"repeated", parallelism.replicas}});
        !degrees.empty()) {
        parts.push_back(degrees);
    } else {
        parts.emplace_back("ops whole");
    }
    std::string text =
        fmt::format("{} on {}", fmt::join(parts, ", "), count(parallelism.devices, "device"));
    if (policy.micro_batches > 1) {
        text += fmt::format("; {} micro-batches", policy.micro_batches);
        if (policy.schedule.kind != ScheduleKind::none) text += " in " + to_text(policy.schedule);
    }
    if (parallelism.zero != ZeroLevel::none) {
        text += fmt::format("; ZeRO-{}", static_cast<int>(parallelism.zero));
    }
    return text;
}

/// Which weights are cut by columns and which by rows.
std::string tensor_line(const Parallelism& parallelism) {
    std::vector<std::string> parts;
    const auto add = [&](std::string_view how, const auto& is_so) {
        int products = 0;
        std::vector<std::string> names;
        for (const SplitProducts& group : parallelism.products) {
            if (!is_usual(group.split, parallelism) || !is_so(group.split)) continue;
            products += group.products;
            for (const std::string& name : group.names) {
                if (std::ranges::find(names, name) == names.end()) names.push_back(name);
            }
        }
        if (products > 0) {
            parts.push_back(fmt::format("{} of {}", how, products_text(products, names)));
        }
    };
    add("columns", [](const ProductSplit& s) { return s.columns > 1 && s.rows == 1; });
    add("rows", [](const ProductSplit& s) { return s.rows > 1 && s.columns == 1; });
    add("both", [](const ProductSplit& s) { return s.rows > 1 && s.columns > 1; });
    return parts.empty() ? "" : fmt::format("tensor: {}", fmt::join(parts, ", "));
}

std::string other_products_line(const Parallelism& parallelism) {
    constexpr std::size_t kMost = 3;
    std::vector<std::string> parts;
    std::size_t others = 0;
    for (const SplitProducts& group : parallelism.products) {
        if (is_usual(group.split, parallelism) || ++others > kMost) continue;
        parts.push_back(fmt::format("{} {}, {:.1f} % of the FLOPs",
                                    products_text(group.products, group.names),
                                    split_text(group.split), 100 * group.share));
    }
    if (others > kMost) parts.push_back(fmt::format("{} more ways", others - kMost));
    return parts.empty() ? "" : fmt::format("otherwise: {}", fmt::join(parts, "; "));
}

/// What the names of all blocks begin with, up to a dot or slash.
std::size_t common_prefix(const std::vector<StageOps>& stages) {
    std::optional<std::string> common;
    for (const StageOps& stage : stages) {
        for (const std::string& block : stage.blocks) {
            if (!common) common = block;
            const auto end = std::ranges::mismatch(*common, block).in1;
            common->erase(end, common->end());
        }
    }
    const std::size_t end = common ? common->find_last_of("./") : std::string::npos;
    return end == std::string::npos ? 0 : end + 1;
}

/// "stages: h.0 .. h.3 (30 %) | h.4 .. h.7 (30 %) | lm_head (40 %)".
std::string stages_line(const Parallelism& parallelism) {
    const std::vector<StageOps>& stages = parallelism.stages;
    constexpr std::size_t kMost = 8;
    if (stages.size() < 2 || parallelism.chunks > 1) return "";
    const std::size_t prefix = common_prefix(stages);
    const auto name = [&](const std::string& block) { return block.substr(prefix); };
    std::vector<std::string> parts;
    for (const StageOps& stage : stages) {
        if (parts.size() == kMost) {
            parts.emplace_back("...");
            break;
        }
        std::string text =
            stage.blocks.empty() ? count(stage.ops, "op")
            : stage.blocks.size() == 1
                ? name(stage.blocks[0])
                : fmt::format("{} .. {}", name(stage.blocks.front()), name(stage.blocks.back()));
        if (!one_size(stages)) text += fmt::format(" on {}", stage.devices);
        parts.push_back(fmt::format("{} ({:.0f} %)", text, 100 * stage.share));
    }
    return fmt::format("stages: {}", fmt::join(parts, " | "));
}

std::string parameters_line(const Parallelism& parallelism) {
    constexpr std::size_t kMost = 3;
    if (parallelism.devices < 2) return "";
    std::vector<std::string> parts;
    for (const KeptParameters& kept : parallelism.parameters) {
        if (parts.size() == kMost) {
            parts.emplace_back("...");
            break;
        }
        std::string text = kept.parts == 1 ? partita::to_text(kept.bytes)
                                           : fmt::format("{} in {} parts",
                                                         partita::to_text(kept.bytes), kept.parts);
        text += kept.copies == 1 ? " on one device" + std::string(kept.parts > 1 ? " each" : "")
                                 : fmt::format(" on {} devices each", kept.copies);
        if (kept.update_parts > kept.parts) {
            text += fmt::format(", updated in {} parts", kept.update_parts);
        }
        parts.push_back(std::move(text));
    }
    return parts.empty() ? "" : fmt::format("parameters: {}", fmt::join(parts, "; "));
}

}  // namespace

bool Parallelism::regular(const Policy& policy) const {
    constexpr double kAll = 1 - 1e-9;
    const bool in_turn = chunks == 1 || policy.schedule.kind != ScheduleKind::none;
    return share >= kAll && in_turn && one_size(stages);
}

Parallelism parallelism_of(const Problem& problem, const Strategy& strategy) {
    const Pipeline pipeline = pipeline_of(problem, strategy);
    Parallelism parallelism{
        .devices = static_cast<int>(std::ranges::count(used_devices(problem, strategy), 1)),
        .chunks = std::max(1, pipeline.chunks),
        .stages = stages_of(problem, pipeline),
        .products = ProductGroups(problem, strategy).list(),
        .parameters = parameters_of(problem, strategy)};
    set_degrees(parallelism);
    parallelism.zero = zero_of(parallelism.parameters);
    return parallelism;
}

std::vector<std::string> lines_of(const Parallelism& parallelism, const Policy& policy) {
    std::vector<std::string> lines{head_line(parallelism, policy)};
    for (std::string line : {tensor_line(parallelism), stages_line(parallelism),
                             parameters_line(parallelism), other_products_line(parallelism)}) {
        if (!line.empty()) lines.push_back(std::move(line));
    }
    return lines;
}

}  // namespace partita::plan
