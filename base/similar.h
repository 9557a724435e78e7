// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace partita {

/// The one of `known` that `word` may have been meant for: it differs in the fewest places, upper and lower
/// case apart, and in no more than every third letter; ties go to the first. A place is a letter that is
/// another one, missing or too many, or two neighbours that are swapped (optimal string alignment). "" when
/// nothing is that close.
std::string similar_word(std::string_view word, std::span<const std::string> known);

/// " Is it 'plan'?", or "".
std::string suggestion(std::string_view word, std::span<const std::string> known);

}  // namespace partita
