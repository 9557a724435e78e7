// SPDX-License-Identifier: Apache-2.0
//
// What a plan can be exported as: the rows of plan/exporters/exporter.h, and formats that are the
// model's own file with the plan in it, or cut by it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "api/loaded_model.h"
#include "plan/files/plan_file.h"
#include "plan/problem/problem.h"

namespace partita::api {

struct ExportFormat {
    std::string_view name;
    std::string_view summary;
};

/// By name.
std::vector<ExportFormat> export_formats();

/// Throws UsageError for an unknown format, naming the known ones.
void check_export_format(std::string_view format);

/// Of a known format: is it several files?
bool writes_folder(std::string_view format);

/// The contents of the file. `problem` is the plan's, of this model. Throws UsageError for an unknown
/// format, one that is a folder, and a plan that it cannot say; InputError when the model's file cannot
/// be read.
std::string export_text(std::string_view format, const LoadedModel& model,
                        const plan::Problem& problem, const plan::Plan& plan);

/// Writes the file, or the folder, and says what was written. Throws the same, and UsageError where
/// `output` cannot be written, or would not find what the model keeps in other files.
std::vector<std::filesystem::path> write_export(std::string_view format, const LoadedModel& model,
                                                const plan::Problem& problem,
                                                const plan::Plan& plan,
                                                const std::filesystem::path& output);

}  // namespace partita::api
