// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace partita {

/// Does `glob` match all of `text`? `*` stands for any text, `?` for one character.
bool glob_matches(std::string_view glob, std::string_view text);

}  // namespace partita
