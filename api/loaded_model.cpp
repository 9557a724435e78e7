// SPDX-License-Identifier: Apache-2.0
#include "api/loaded_model.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "api/framework.h"
#include "base/error.h"
#include "cost/machine/workload_machine.h"
#include "graph/fusion/attention.h"
#include "graph/fusion/block_attention.h"
#include "graph/fusion/fuse.h"
#include "graph/operators/product_type.h"
#include "importers/onnx/literal.h"
#include "importers/workload/workload.h"
#include "plan/files/plan_file.h"

namespace partita::api {
namespace {

void check_precision(DType precision) {
    if (graph::is_precision(precision)) return;
    throw UsageError(fmt::format("--precision {}: expected float32, float16 or bfloat16.",
                                 graph::name_of(precision)));
}

/// Of a constant of one element, 0 or 1 of a boolean; nullopt: it is none, or its value is not at hand.
std::optional<double> number_of(const LoadedModel& model, graph::TensorId id) {
    const graph::Tensor& tensor = model.graph.tensor(id);
    const bool is_number =
        tensor.role == graph::TensorRole::constant && tensor.elements() == 1 &&
        (tensor.dtype == graph::DType::boolean ||
         (importers::can_be_literal(tensor.dtype) && graph::is_floating_point(tensor.dtype)));
    if (!is_number || model.source == nullptr) return std::nullopt;
    std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.bytes().raw()));
    try {
        model.source->read(tensor.name, Bytes{0}, bytes);
    } catch (const InputError&) {
        return std::nullopt;  // a model without its weights
    }
    if (tensor.dtype == graph::DType::boolean) return bytes[0] == std::byte{0} ? 0 : 1;
    return importers::to_real(tensor.dtype, bytes);
}

/// Where that is asked for, refused if there is none.
void fuse_attention(LoadedModel& model, const graph::NumberOf& number,
                    const ImportOptions& options) {
    const bool in_blocks = options.attention_blocks > 1;
    const bool is_asked_for = options.fused_attention.has_value() || in_blocks;
    const auto attentions = std::ranges::count_if(model.graph.ops(), [](const graph::Op& op) {
        return op.kind == graph::OpKind::compute && op.domain.empty() && op.type == "Attention";
    });
    graph::FusedAttention fused = graph::with_fused_attention(model.graph, number);
    if (fused.count == 0 && !is_asked_for) return;
    if (fused.count + attentions == 0) {
        throw UsageError(fmt::format(
            "{}: --attention {}: the model has no products around a softmax that can become "
            "ONNX's Attention. Leave the option out.",
            model.file.filename().string(),
            in_blocks ? fmt::format("blocks={}", options.attention_blocks) : "fused"));
    }
    model.graph = std::move(fused.graph);
    model.fused_attention = true;
    if (fused.count > 0) {
        model.notes.push_back(
            fmt::format("{} Attention ops in place of products around a softmax.", fused.count));
    } else {
        model.notes.push_back(
            fmt::format("All attention is one op in the file already ({} of them).", attentions));
    }
}

void check_attention_blocks(const ImportOptions& options, bool fuses) {
    const int blocks = options.attention_blocks;
    if (blocks < 1 || blocks > plan::kMostAttentionBlocks) {
        throw UsageError(fmt::format("--attention blocks={}: expected 1 to {} blocks.", blocks,
                                     plan::kMostAttentionBlocks));
    }
    if (blocks > 1 && !fuses) {
        throw UsageError(fmt::format(
            "--attention blocks={}: is of fused attention, and products were asked for.", blocks));
    }
}

void put_attention_in_blocks(LoadedModel& model, int blocks) {
    graph::BlockedAttention blocked = graph::with_block_attention(model.graph, blocks);
    if (blocked.count == 0) {
        throw UsageError(fmt::format(
            "{}: --attention blocks={}: no attention of the model has queries and keys that can be "
            "cut into so many blocks of one size, without past keys, lengths, windows or capped "
            "scores. Say another number, or --attention fused.",
            model.file.filename().string(), blocks));
    }
    model.graph = std::move(blocked.graph);
    model.attention_blocks = blocks;
    model.notes.push_back(
        fmt::format("{} Attention ops in {} blocks each.", blocked.count, blocks));
}

std::string fusion_note(const std::string& kernel, int count) {
    if (kernel == graph::kTransposes) return fmt::format("{} Transpose ops as views.", count);
    if (kernel == graph::kUnalignedProducts) {
        return fmt::format("Matrix products that are slow, rows being no multiple of 16 bytes: {}.",
                           count);
    }
    return fmt::format("Ops of {} as one kernel, {} times.", kernel, count);
}

void fuse(LoadedModel& model, const std::vector<std::string>& kernels,
          const graph::NumberOf& number, graph::MissingKernel missing) {
    graph::Fused fused =
        graph::fused(model.graph, kernels, model.file.filename().string(), number, missing);
    model.graph = std::move(fused.graph);
    for (std::size_t i = 0; i < kernels.size(); ++i) {
        if (fused.counts[i] == 0) continue;
        model.fuse.push_back(kernels[i]);
        model.notes.push_back(fusion_note(kernels[i], fused.counts[i]));
    }
}

void set_products(LoadedModel& model, graph::ProductType type) {
    const std::size_t count = graph::set_product_type(model.graph, type);
    if (count == 0) {
        throw UsageError(fmt::format(
            "{}: --precision: the model has no matrix products that could be computed in {}. Leave "
            "it out.",
            model.file.filename().string(), graph::name_of(type)));
    }
    model.products = type;
    model.notes.push_back(
        fmt::format("Products of {} ops are in {}.", count, graph::name_of(type)));
}

/// Imports by `import`, a function of the importer's options, and does what the other options say.
template <class Import>
LoadedModel load_by(const std::filesystem::path& file, const ImportOptions& options,
                    const Import& import) {
    if (options.precision) check_precision(*options.precision);
    const Framework framework =
        options.framework.empty() ? Framework{} : load_framework(options.framework);
    const bool float32_gradients = options.float32_gradients.value_or(framework.float32_gradients);
    LoadedModel model =
        to_loaded(import(importers::OnnxOptions{.bindings = options.bindings,
                                                .input_shapes = options.shapes,
                                                .batch = options.batch,
                                                .inputs = options.inputs,
                                                .unroll = options.unroll,
                                                .precision = options.precision,
                                                .untie = options.untie,
                                                .float32_gradients = float32_gradients}),
                  file);
    model.shapes = options.shapes;
    model.unroll = options.unroll;
    model.precision = options.precision;
    model.untie = options.untie;
    const graph::NumberOf number = [&model](graph::TensorId t) { return number_of(model, t); };
    const bool fuses = options.fused_attention.value_or(framework.fused_attention.value_or(true));
    check_attention_blocks(options, fuses);
    if (fuses) {
        fuse_attention(model, number, options);
        if (options.attention_blocks > 1) put_attention_in_blocks(model, options.attention_blocks);
    }
    model.products_as_attention = graph::products_as_attention(model.graph, number);
    if (!options.fuse.empty()) {
        fuse(model, options.fuse, number, graph::MissingKernel::refuse);
    } else {
        fuse(model, framework.fuse, number, graph::MissingKernel::leave_out);
    }
    model.float32_gradients = float32_gradients;
    if (options.products) set_products(model, *options.products);
    if (!options.framework.empty()) {
        model.notes.push_back(note_of(framework));
        model.details = details_of(framework);
    }
    return model;
}

bool is_in_precision(const ImportOptions& options) {
    return options.precision || options.float32_gradients || options.products;
}

/// Throws UsageError naming an option that binds what a workload does not have.
void refuse_bindings(const std::filesystem::path& file, const ImportOptions& options) {
    const bool attention = options.fused_attention.value_or(false) || options.attention_blocks > 1;
    const char* given = !options.bindings.empty()    ? "--bind"
                        : !options.shapes.empty()    ? "--shape"
                        : options.batch              ? "--batch"
                        : !options.inputs.empty()    ? "--inputs"
                        : options.unroll             ? "--unroll"
                        : !options.untie.empty()     ? "--untie"
                        : !options.fuse.empty()      ? "--fuse"
                        : attention                  ? "--attention"
                        : !options.framework.empty() ? "--framework"
                        : is_in_precision(options)   ? "--precision"
                                                     : nullptr;
    if (given != nullptr) {
        throw UsageError(
            fmt::format("{}: the workload {} has given costs and no dims. Leave the "
                        "option out.",
                        given, file.string()));
    }
}

LoadedModel load_workload(const std::filesystem::path& file, const ImportOptions& options) {
    refuse_bindings(file, options);
    importers::WorkloadModel workload = importers::import_workload(file);
    LoadedModel model;
    model.file = file;
    model.machine = cost::make_workload_machine(workload.graph, workload.accelerators,
                                                workload.cpus, workload.accelerator_memory);
    model.graph = std::move(workload.graph);
    model.together = importers::color_classes(model.graph);
    return model;
}

}  // namespace

bool is_json(const std::filesystem::path& file) {
    return file.extension() == ".json";
}

LoadedModel to_loaded(importers::OnnxModel imported, const std::filesystem::path& file) {
    LoadedModel model;
    model.file = file;
    model.graph = std::move(imported.graph);
    model.bindings = std::move(imported.bindings);
    model.input_sample_dims = std::move(imported.input_sample_dims);
    model.notes = std::move(imported.notes);
    model.source = std::move(imported.source);
    return model;
}

LoadedModel load_model(const std::filesystem::path& file, const ImportOptions& options) {
    if (is_json(file)) return load_workload(file, options);
    return load_by(file, options, [&](const importers::OnnxOptions& onnx) {
        return importers::import_onnx(file, onnx);
    });
}

LoadedModel load_model(std::span<const std::byte> onnx, const std::string& name,
                       const ImportOptions& options) {
    return load_by(name, options, [&](const importers::OnnxOptions& known) {
        return importers::import_onnx(onnx, known, name);
    });
}

}  // namespace partita::api
