// SPDX-License-Identifier: Apache-2.0
#include "cost/data_folder.h"

#include <system_error>

#include <fmt/format.h>

#include "graph/error.h"

namespace partita::cost {

std::filesystem::path data_folder() {
    namespace fs = std::filesystem;
    std::error_code error;
    const fs::path program = fs::read_symlink("/proc/self/exe", error);
    const fs::path installed =
        (program.parent_path() / PARTITA_INSTALLED_DATA_DIR).lexically_normal();
    const fs::path source = PARTITA_DATA_DIR;
    for (const fs::path& folder : {installed, source}) {
        if (fs::is_directory(folder / "machines", error)) return folder;
    }
    throw InputError(fmt::format("no data files in {} or {}. Install Partita again.",
                                 installed.string(), source.string()));
}

}  // namespace partita::cost
