// SPDX-License-Identifier: Apache-2.0
//
// Text files: read whole, written whole or not at all.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace partita {

/// Whole content of a file of at most 1 GiB. Throws InputError naming the file.
std::string read_text_file(const std::filesystem::path& file);

/// Writes to a temporary file beside `file`, to the disk, then renames; to what is no file (a pipe,
/// /dev/null) as it is. Throws UsageError when that fails.
void write_file(const std::filesystem::path& file, std::string_view text);

}  // namespace partita
