// SPDX-License-Identifier: Apache-2.0
#include "importers/onnx/onnx_importer.h"

#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <onnx/onnx_pb.h>

#include "base/error.h"
#include "importers/onnx/graph_builder.h"
#include "importers/onnx/input_shapes.h"
#include "importers/onnx/model_error.h"
#include "importers/onnx/model_file.h"
#include "importers/onnx/model_reader.h"
#include "importers/onnx/model_source.h"
#include "importers/onnx/onnx_types.h"
#include "importers/onnx/precision.h"
#include "importers/onnx/untie.h"

namespace partita::importers {

namespace {

constexpr std::int64_t kNewestOpset = 28;

void add_notes(OnnxModel& imported, const onnx::ModelProto& model, const ReaderCounts& counts,
               const BuiltGraph& built) {
    auto& notes = imported.notes;
    for (const auto& import : model.opset_import()) {
        const bool standard = import.domain().empty() || import.domain() == "ai.onnx";
        if (standard && import.version() > kNewestOpset) {
            notes.push_back(
                fmt::format("The model uses operator set {}; its operators were read "
                            "with their meaning in {}, the newest known.",
                            import.version(), kNewestOpset));
        }
    }
    const auto note = [&](std::int64_t count, std::string_view text) {
        if (count > 0) notes.push_back(fmt::format(fmt::runtime(text), count));
    };
    note(counts.inlined_functions, "{} calls of local functions were inlined.");
    note(counts.taken_branches, "{} If nodes have a known condition and became their branch.");
    note(counts.reshapes, "{} Gather nodes take every element in order and were read as Reshape.");
    note(counts.unrolled, "{} recurrent nodes were unrolled.");
    note(built.bounded_tensors,
         "{} tensors have an extent that depends on data; its upper bound stands for it, and it is "
         "not split.");
    note(built.opaque_tensors, "{} values are sequences, optionals or maps; they have no size.");
    for (const auto& [type, count] : built.unknown_operators) {
        notes.push_back(fmt::format("{} nodes use the operator '{}', which ONNX does not define.",
                                    count, type));
    }
}

/// Parameters that stay shared by layers.
void add_note_of_tied_parameters(OnnxModel& imported) {
    const std::vector<std::string> tied = tied_parameters(imported.graph);
    if (tied.empty()) return;
    imported.notes.push_back(fmt::format(
        "{} several layer blocks, '{}' first. If the exporter merged weights because they were "
        "equal, --untie gives each layer its own.",
        tied.size() == 1 ? "1 parameter is read in"
                         : fmt::format("{} parameters are read in", tied.size()),
        tied[0]));
}

OnnxModel import_model(const std::shared_ptr<onnx::ModelProto>& model, const OnnxOptions& options,
                       const std::string& file, const std::filesystem::path& folder) {
    if (!model->has_graph()) throw_not_onnx(file);
    BoundInputs inputs = bind_inputs(*model, options, file);
    ModelReader reader(*model, {.file = file,
                                .bindings = inputs.bindings,
                                .contents = std::move(inputs.contents),
                                .fold_limit = options.fold_limit,
                                .unroll = options.unroll});
    const Draft draft = reader.read(inputs.shapes);
    BuiltGraph built = build_graph(draft, reader.values(),
                                   {.file = file,
                                    .literal_limit = options.fold_limit,
                                    .exact_roles = has_exact_roles(*model),
                                    .limits = reader.limits()});
    graph::check(built.graph);

    OnnxModel imported;
    imported.bindings = std::move(inputs.bindings);
    imported.input_sample_dims = std::move(inputs.sample_dims);
    imported.notes = std::move(inputs.notes);
    for (const auto& entry : model->metadata_props()) {
        imported.metadata[printable(entry.key())] = printable(entry.value());
    }
    imported.file_nodes = model->graph().node_size();
    imported.folded_nodes = reader.counts().folded;
    imported.dead_nodes = built.dead_nodes;
    imported.bounded_tensors = built.bounded_tensors;
    add_notes(imported, *model, reader.counts(), built);
    imported.graph = std::move(built.graph);
    ModelSource::Messages messages = reader.take_arena();
    messages.push_back(model);
    imported.source =
        std::make_unique<ModelSource>(file, folder, std::move(messages), std::move(built.contents));
    if (!options.untie.empty()) {
        Untied own = untied(imported.graph, std::move(imported.source), options.untie, file);
        imported.graph = std::move(own.graph);
        imported.source = std::move(own.source);
    }
    add_note_of_tied_parameters(imported);
    if (options.precision) {
        Converted in = converted(std::move(imported.graph), std::move(imported.source),
                                 *options.precision, file);
        imported.graph = std::move(in.graph);
        imported.source = std::move(in.source);
        if (!in.note.empty()) imported.notes.push_back(std::move(in.note));
    }
    if (options.float32_gradients) keep_gradients_in_float32(imported.graph);
    return imported;
}

}  // namespace

OnnxModel import_onnx(const std::filesystem::path& path, const OnnxOptions& options) {
    const std::string file = printable(path.filename().string());
    return import_model(parse_file(path, file), options, file, path.parent_path());
}

OnnxModel import_onnx(std::span<const std::byte> bytes, const OnnxOptions& options,
                      const std::string& name, const std::filesystem::path& folder) {
    return import_model(parse_bytes(bytes, name), options, name, folder);
}

}  // namespace partita::importers
