// SPDX-License-Identifier: Apache-2.0
//
// What `profile --import` prints.
#pragma once

#include <filesystem>
#include <string>

#include <partita/profile.h>

namespace partita::cli {

std::string import_text(const ImportReport& report, const std::filesystem::path& file,
                        const std::filesystem::path& database);
std::string import_json(const ImportReport& report, const std::filesystem::path& file,
                        const std::filesystem::path& database);

}  // namespace partita::cli
