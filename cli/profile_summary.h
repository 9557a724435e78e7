// SPDX-License-Identifier: Apache-2.0
//
// What `profile` prints.
#pragma once

#include <filesystem>
#include <string>

#include "api/profiler.h"
#include "runtime/interface/runtime.h"

namespace partita::cli {

struct Profiled {
    const api::ProfileReport& report;
    const std::filesystem::path& database;
    const runtime::Hardware& hardware;
    double seconds = 0.0;
};

std::string profile_text(const Profiled& profiled);
std::string profile_json(const Profiled& profiled);

}  // namespace partita::cli
