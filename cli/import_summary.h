// SPDX-License-Identifier: Apache-2.0
//
// What `profile --import` and `--export-works` print.
#pragma once

#include <filesystem>
#include <string>

#include "api/imported_times.h"

#include <partita/profile.h>

namespace partita::cli {

/// Of `--export-works` alone.
std::string exported_json(const api::WantedWorks& wanted, const std::filesystem::path& file);

std::string import_text(const ImportReport& report, const std::filesystem::path& file,
                        const std::filesystem::path& database);
std::string import_json(const ImportReport& report, const std::filesystem::path& file,
                        const std::filesystem::path& database);

}  // namespace partita::cli
