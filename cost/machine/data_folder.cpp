// SPDX-License-Identifier: Apache-2.0
#include "cost/machine/data_folder.h"

#include <dlfcn.h>

#include <system_error>

#include <fmt/format.h>

#include "base/error.h"

namespace partita::cost {
namespace {

/// Lies in the library and nowhere else.
const char kAnchor = 0;

/// Of the library that holds this code; empty when the loader does not say.
std::filesystem::path library_folder() {
    Dl_info info{};
    if (::dladdr(&kAnchor, &info) == 0 || info.dli_fname == nullptr) return {};
    std::error_code error;
    return std::filesystem::canonical(info.dli_fname, error).parent_path();
}

}  // namespace

std::filesystem::path data_folder() {
    namespace fs = std::filesystem;
    std::error_code error;
    const fs::path installed = (library_folder() / PARTITA_INSTALLED_DATA_DIR).lexically_normal();
    const fs::path source = PARTITA_DATA_DIR;
    for (const fs::path& folder : {installed, source}) {
        if (fs::is_directory(folder / "machines", error)) return folder;
    }
    throw InputError(fmt::format("no data files in {} or {}. Install Partita again.",
                                 installed.string(), source.string()));
}

}  // namespace partita::cost
