// SPDX-License-Identifier: Apache-2.0
#include "cli/shared_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "api/framework.h"
#include "api/option_fields.h"
#include "base/error.h"
#include "plan/files/plan_file.h"

namespace partita::cli {
namespace {

constexpr const char* kModelGroup = "Model";
constexpr const char* kOutputGroup = "Output";

/// With the options of plans that say the same.
std::string goal_group() {
    return std::string(api::title_of(api::OptionSet::objective));
}

void add_binding(std::map<std::string, std::int64_t>& bindings, const std::string& text) {
    const auto split = text.rfind('=');
    const auto value = split == std::string::npos
                           ? std::nullopt
                           : api::whole_number(std::string_view(text).substr(split + 1), 1);
    if (!value || split == 0) {
        throw UsageError(
            fmt::format("--bind {}: expected NAME=N with N >= 1, e.g. --bind sequence=128.", text));
    }
    bindings[text.substr(0, split)] = *value;
}

void add_shape(std::map<std::string, graph::Shape>& shapes, const std::string& text) {
    const auto fail = [&] {
        throw UsageError(fmt::format(
            "--shape {}: expected INPUT:AxBxC with extents >= 1, e.g. --shape image:8x3x224x224.",
            text));
    };
    const auto split = text.rfind(':');  // names such as "input:0" hold colons too
    if (split == std::string::npos || split == 0) fail();
    graph::Shape shape;
    std::string_view rest = std::string_view(text).substr(split + 1);
    while (!rest.empty()) {
        const auto end = std::min(rest.find('x'), rest.size());
        const auto extent = api::whole_number(rest.substr(0, end), 1);
        if (!extent || end + 1 == rest.size()) fail();
        shape.push_back(extent.value_or(0));
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    shapes[text.substr(0, split)] = shape;
}

/// "64", or where there may be several "16,32,64".
std::vector<std::int64_t> read_batches(std::string_view text, bool several) {
    std::vector<std::int64_t> sizes;
    while (several && text.find(',') != std::string_view::npos) {
        const std::size_t comma = text.find(',');
        sizes.push_back(api::read_number("--batch", text.substr(0, comma), 1, api::kNoMost));
        text.remove_prefix(comma + 1);
    }
    sizes.push_back(api::read_number("--batch", text, 1, api::kNoMost));
    return sizes;
}

std::optional<DType> precision_of(std::string_view text) {
    if (text == "model") return std::nullopt;
    if (text == "fp32" || text == "tf32") return DType::float32;
    if (text == "bf16") return DType::bfloat16;
    if (text == "fp16") return DType::float16;
    throw UsageError(fmt::format(
        "--precision {}: unknown. There is: model, fp32, tf32, bf16, fp16. What else may "
        "be said (grads=fp32, products=fp8) comes behind one of these and a comma.",
        text));
}

/// "fused", "products", "blocks=4".
void read_attention(std::string_view text, ModelOptions& options) {
    constexpr std::string_view kBlocks = "blocks=";
    std::optional<std::int64_t> blocks;
    if (text.starts_with(kBlocks)) blocks = api::whole_number(text.substr(kBlocks.size()), 2);
    const bool is_known = text == "fused" || text == "products" || blocks;
    if (!is_known || blocks > plan::kMostAttentionBlocks) {
        throw UsageError(fmt::format(
            "--attention {}: unknown. There is: fused, products, blocks=N with N from 2 to {}.",
            text, plan::kMostAttentionBlocks));
    }
    options.fused_attention = text != "products";
    options.attention_blocks = static_cast<int>(blocks.value_or(1));
}

/// "bf16", "bf16,grads=fp32", "model,master=fp32,grads=fp32", "bf16,products=fp8".
void read_precision(std::string_view text, ModelOptions& options) {
    const std::size_t comma = std::min(text.find(','), text.size());
    options.precision = precision_of(text.substr(0, comma));
    options.float32_gradients.reset();
    options.products.reset();
    if (text.substr(0, comma) == "tf32") options.products = graph::ProductType::tf32;
    for (std::string_view rest = text.substr(comma); !rest.empty();) {
        rest.remove_prefix(1);
        const std::string_view item = rest.substr(0, rest.find(','));
        rest.remove_prefix(item.size());
        if (item == "grads=fp32" || item == "grads=weights") {
            options.float32_gradients = item == "grads=fp32";
        } else if (item == "products=fp8") {
            if (options.products == graph::ProductType::tf32) {
                throw UsageError(fmt::format(
                    "--precision {}: products are in tf32 or in float8. Leave one of them out.",
                    text));
            }
            options.products = graph::ProductType::float8;
        } else if (item != "master=fp32") {  // masters are never anything else
            throw UsageError(fmt::format(
                "--precision {}: '{}' is unknown. Behind the type may stand grads=fp32 (gradients "
                "are kept, added up and sent in float32), grads=weights (in the type of the "
                "weights), products=fp8 (MatMul and Gemm with a weight in float8) and "
                "master=fp32 (always so).",
                text, item));
        }
    }
}

}  // namespace

void add_model_options(CLI::App& app, ModelOptions& options, std::vector<std::int64_t>* batches) {
    app.add_option("MODEL", options.file, "an .onnx model, or a workload .json")
        ->required()
        ->type_name("");
    add_binding_options(app, options, batches);
}

void add_binding_options(CLI::App& app, ModelOptions& options, std::vector<std::int64_t>* batches) {
    app.add_option_function<std::vector<std::string>>(
           "--bind",
           [&options](const std::vector<std::string>& texts) {
               for (const auto& text : texts) add_binding(options.bindings, text);
           },
           "give a symbolic dim a value (repeatable)")
        ->type_name("NAME=N")
        ->allow_extra_args(false)
        ->group(kModelGroup);
    app.add_option_function<std::vector<std::string>>(
           "--shape",
           [&options](const std::vector<std::string>& texts) {
               for (const auto& text : texts) add_shape(options.shapes, text);
           },
           "give an input a shape (repeatable)")
        ->type_name("INPUT:AxBxC")
        ->allow_extra_args(false)
        ->group(kModelGroup);
    app.add_option_function<std::string>(
           "--batch",
           [&options, batches](const std::string& text) {
               const std::vector<std::int64_t> sizes = read_batches(text, batches != nullptr);
               options.batch = sizes.front();
               if (batches != nullptr) *batches = sizes;
           },
           batches == nullptr
               ? "the sample dim of all inputs"
               : "the sample dim of all inputs; several with commas: a table of sizes")
        ->type_name(batches == nullptr ? "N" : "N[,N...]")
        ->group(kModelGroup);
    app.add_option("--inputs", options.inputs,
                   "bind the dims to the shapes of the tensors in a folder: an ONNX test data set "
                   "(input_0.pb, ...), or numpy's arrays (NAME.npy); or in numpy's archive (.npz)")
        ->type_name("DIR|FILE")
        ->group(kModelGroup);
    app.add_option_function<std::string>(
           "--precision", [&options](const std::string& text) { read_precision(text, options); },
           "bf16, fp16 or fp32: compute the model in that, with float32 master weights; tf32: "
           "float32, its matrix products in TF32; model (default): as the file says; with "
           ",grads=fp32 gradients of 16-bit weights are kept, added up and sent in float32; with "
           ",products=fp8 MatMul and Gemm with a weight are priced in float8 (not executed)")
        ->type_name("P[,grads=fp32][,products=fp8]")
        ->group(kModelGroup);
    app.add_option("--untie", options.untie,
                   "parameters that several layers read become one for each, such as weights that "
                   "an exporter merged because they were equal (* any text, ? one character); may "
                   "be repeated")
        ->type_name("GLOB")
        ->allow_extra_args(false)
        ->group(kModelGroup);
    app.add_option_function<std::string>(
           "--attention", [&options](const std::string& text) { read_attention(text, options); },
           "fused (default): products around a softmax are one op that holds no scores; products: "
           "as the file has it; blocks=N: fused, keys and values in blocks that go round a ring "
           "of devices (Ring Attention), where --strategy or the search puts them on several")
        ->type_name("HOW")
        ->group(kModelGroup);
    app.add_option(
           "--fuse", options.fuse,
           "pointwise ops that run as one kernel: silu, swiglu, weighted-swiglu, gelu, gelu-tanh, "
           "bias-gelu, or an expression such as 'Mul(Mul(g, Sigmoid(g)), u)'; linear: MatMul and "
           "its bias are one kernel; transposes: they are views that move nothing; "
           "unaligned-products: rows that are no multiples of 16 bytes "
           "make matrix products slow; may be repeated")
        ->type_name("KERNEL")
        ->allow_extra_args(false)
        ->group(kModelGroup);
    app.add_flag("--unroll", options.unroll, "expand LSTM, GRU, RNN into one op per step")
        ->group(kModelGroup);
}

void add_machine_option(CLI::App& app, std::string& machine, bool several) {
    std::string help =
        "a preset (`partita machine list`) with optional size, such as cpu:2 or "
        "dgx-h100:4, so many devices such as 16xH200, or a machine .json; default: this host, or "
        "what a workload names";
    if (several) help += "; several with commas, such as dgx-h100:1,2,4: a table of sizes";
    app.add_option("--machine", machine, help)
        ->type_name(several ? "M[,M...]" : "M")
        ->group(goal_group());
}

void add_what_if_options(CLI::App& app, cost::WhatIf& changes) {
    app.add_option("--set", changes.set,
                   "a machine with another figure, such as network.bandwidth=12.5GB/s or "
                   "device.memory=40GiB; may be repeated")
        ->type_name("PATH=VALUE")
        ->allow_extra_args(false)
        ->group(goal_group());
    app.add_option("--scale", changes.scale,
                   "figures of the machine times a factor, such as network=0.25 or compute=2; may "
                   "be repeated")
        ->type_name("PATH=FACTOR")
        ->allow_extra_args(false)
        ->group(goal_group());
}

CLI::Option* add_plan_option(CLI::App& app, PlanOptions& options, std::string_view name,
                             std::string_view help) {
    const api::OptionRow& row = api::option_of(name);
    const std::string option(row.option);
    const std::string text(help.empty() ? row.help : help);
    const std::string group(api::title_of(row.set));
    if (row.field.form == api::OptionForm::flag) {
        return app.add_flag(option, text)
            ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
            ->each([&row, &options](const std::string& given) {
                bool value = true;  // --no-groups=off is one of CLI11's spellings
                const bool known = CLI::detail::lexical_cast(given, value);
                row.read(options, !known ? given : value ? "true" : "false");
            })
            ->group(group);
    }
    CLI::Option* const added =
        app.add_option_function<std::string>(
               option, [&row, &options](const std::string& given) { row.read(options, given); },
               text)
            ->type_name(std::string(row.value))
            ->group(group);
    if (row.repeats) added->join(',')->allow_extra_args(false);
    return added;
}

void add_plan_options(CLI::App& app, PlanOptions& options,
                      std::initializer_list<api::OptionSet> sets) {
    for (const api::OptionRow& row : api::option_table()) {
        if (std::ranges::find(sets, row.set) == sets.end()) continue;
        add_plan_option(app, options, row.name());
    }
}

void apply_framework(ModelOptions& model, PlanOptions& asked) {
    model.framework = asked.framework;
    asked = api::with_framework(std::move(asked));
}

void add_console_options(CLI::App& app, ConsoleOptions& options, bool with_json) {
    if (with_json) {
        app.add_flag("--json", options.json, "a summary for programs on stdout, nothing else there")
            ->group(kOutputGroup);
    }
    app.add_flag("--quiet", options.quiet, "no notes and no progress bar on stderr")
        ->group(kOutputGroup);
    app.add_flag("--verbose", options.verbose, "say what happens on stderr")->group(kOutputGroup);
}

}  // namespace partita::cli
