// SPDX-License-Identifier: Apache-2.0
#include "api/exports.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "api/onnx_sharding.h"
#include "api/pricing.h"
#include "base/error.h"
#include "plan/exporters/exporter.h"

namespace partita::api {
namespace {

constexpr ExportFormat kOnnxSharding{
    "onnx-sharding", "the model's ONNX file, each node with its devices and shards"};

std::filesystem::path folder_of(const std::filesystem::path& file) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(file)).parent_path();
}

}  // namespace

std::vector<ExportFormat> export_formats() {
    std::vector<ExportFormat> formats{kOnnxSharding};
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

void check_export_place(std::string_view format, const LoadedModel& model,
                        const std::filesystem::path& output) {
    if (format != kOnnxSharding.name || model.is_workload()) return;
    if (folder_of(output) == folder_of(model.file) || !has_external_data(model.file)) return;
    throw UsageError(
        fmt::format("-o {}: {} keeps weights in other files, which are named relative to its "
                    "folder. Write to {}.",
                    output.string(), model.file.filename().string(),
                    (folder_of(model.file) / output.filename()).string()));
}

std::string export_plan(std::string_view format, const LoadedModel& model,
                        const plan::Problem& problem, const plan::Plan& plan) {
    check_export_format(format);
    const plan::Strategy strategy = plan::strategy_of(plan, problem);
    if (format == kOnnxSharding.name) {
        if (model.is_workload()) {
            throw UsageError(fmt::format("{}: {} is a workload, no ONNX model.", format,
                                         model.file.filename().string()));
        }
        if (!std::filesystem::exists(model.file)) {
            throw UsageError(
                fmt::format("{}: {} was built or read in memory; save it, and load the file.",
                            format, model.graph.name));
        }
        return onnx_with_sharding(model.file, problem, strategy);
    }
    const plan::Priced priced = price_as_planned(problem, strategy, plan);
    return plan::export_as(format, {.problem = problem,
                                    .strategy = strategy,
                                    .tasks = &priced.tasks,
                                    .timeline = priced.timeline ? &*priced.timeline : nullptr});
}

}  // namespace partita::api
