// SPDX-License-Identifier: Apache-2.0
//
// What `profile --import` prints.
#pragma once

#include <filesystem>
#include <string>

#include "api/imported_times.h"

namespace partita::cli {

struct Imported {
    const std::filesystem::path& file;
    const std::filesystem::path& database;
    const api::WantedWorks& wanted;
    const api::ImportedTimes& times;
};

std::string import_text(const Imported& imported);
std::string import_json(const Imported& imported);

}  // namespace partita::cli
