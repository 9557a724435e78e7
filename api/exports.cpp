// SPDX-License-Identifier: Apache-2.0
#include "api/exports.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "api/onnx_parts.h"
#include "api/onnx_sharding.h"
#include "api/pricing.h"
#include "base/error.h"
#include "base/files.h"
#include "plan/exporters/exporter.h"

namespace partita::api {
namespace {

constexpr ExportFormat kOnnxSharding{
    "onnx-sharding", "the model's ONNX file, each node with its devices and shards"};

constexpr ExportFormat kParts{
    "parts", "a folder with an ONNX file for each device, of whole ops, for who runs them by hand"};

std::filesystem::path folder_of(const std::filesystem::path& file) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(file)).parent_path();
}

/// Throws UsageError where there is no file.
void check_file(std::string_view format, const LoadedModel& model) {
    if (model.is_workload()) {
        throw UsageError(fmt::format("{}: {} is a workload, no ONNX model.", format,
                                     model.file.filename().string()));
    }
    if (std::filesystem::exists(model.file)) return;
    throw UsageError(fmt::format("{}: {} was built or read in memory; save it, and load the file.",
                                 format, model.graph.name));
}

/// The written file would not find what the model keeps in other files.
void check_place(const LoadedModel& model, const std::filesystem::path& output) {
    if (folder_of(output) == folder_of(model.file) || !has_external_data(model.file)) return;
    throw UsageError(
        fmt::format("-o {}: {} keeps weights in other files, which are named relative to its "
                    "folder. Write to {}.",
                    output.string(), model.file.filename().string(),
                    (folder_of(model.file) / output.filename()).string()));
}

}  // namespace

std::vector<ExportFormat> export_formats() {
    std::vector<ExportFormat> formats{kOnnxSharding, kParts};
    for (const plan::ExporterRow& row : plan::exporter_table()) {
        formats.push_back({row.name, row.summary});
    }
    std::ranges::sort(formats, {}, &ExportFormat::name);
    return formats;
}

void check_export_format(std::string_view format) {
    std::vector<std::string_view> names;
    for (const ExportFormat& known : export_formats()) names.push_back(known.name);
    if (std::ranges::find(names, format) != names.end()) return;
    throw UsageError(
        fmt::format("--format {}: unknown. There is: {}.", format, fmt::join(names, ", ")));
}

bool writes_folder(std::string_view format) {
    return format == kParts.name;
}

std::string export_text(std::string_view format, const LoadedModel& model,
                        const plan::Problem& problem, const plan::Plan& plan) {
    check_export_format(format);
    if (writes_folder(format))
        throw UsageError("parts: they are files of a folder; name one to write them to.");
    const plan::Strategy strategy = plan::strategy_of(plan, problem);
    if (format == kOnnxSharding.name) {
        check_file(format, model);
        return onnx_with_sharding(model.file, problem, strategy);
    }
    const plan::Priced priced = price_as_planned(problem, strategy, plan);
    return plan::export_as(format, {.problem = problem,
                                    .strategy = strategy,
                                    .tasks = &priced.tasks,
                                    .timeline = priced.timeline ? &*priced.timeline : nullptr});
}

std::vector<std::filesystem::path> write_export(std::string_view format, const LoadedModel& model,
                                                const plan::Problem& problem,
                                                const plan::Plan& plan,
                                                const std::filesystem::path& output) {
    check_export_format(format);
    if (writes_folder(format)) {
        check_file(format, model);
        std::vector<std::filesystem::path> files;
        const plan::Strategy strategy = plan::strategy_of(plan, problem);
        for (const OnnxPart& part : write_onnx_parts(model.file, output, problem, strategy))
            files.push_back(output / part.file);
        files.push_back(output / "parts.json");
        return files;
    }
    if (format == kOnnxSharding.name) {
        check_file(format, model);
        check_place(model, output);
    }
    write_file(output, export_text(format, model, problem, plan));
    return {output};
}

}  // namespace partita::api
