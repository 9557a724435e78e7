// SPDX-License-Identifier: Apache-2.0
//
// Files that will be written. They are checked before the work begins, so that a search of an hour
// does not end at a folder that is not there, and written through write_file(), so that there
// is never half a file.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace partita::api {

struct Output {
    std::string_view option;              ///< for messages
    std::filesystem::path file;           ///< empty: not wanted
    std::filesystem::path replaces = {};  ///< an input that it may be too
};

/// Throws UsageError naming the option when a file cannot be written, is no regular file, is one of
/// `inputs`, or is asked for twice.
void check_outputs(const std::vector<Output>& outputs,
                   const std::vector<std::filesystem::path>& inputs);

}  // namespace partita::api
