// SPDX-License-Identifier: Apache-2.0
#include "base/similar.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <utility>
#include <vector>

namespace partita {

namespace {

std::string lower_case(std::string_view text) {
    std::string lower(text);
    std::ranges::transform(lower, lower.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return lower;
}

std::size_t distance(const std::string& a, const std::string& b) {
    // Rows of the table: of the prefixes of `a` that end at i - 2, i - 1 and i.
    std::vector<std::size_t> before(b.size() + 1);
    std::vector<std::size_t> last(b.size() + 1);
    std::vector<std::size_t> now(b.size() + 1);
    for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        now[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
            now[j] = std::min({replaced, last[j] + 1, now[j - 1] + 1});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                now[j] = std::min(now[j], before[j - 2] + 1);
            }
        }
        std::swap(before, last);
        std::swap(last, now);
    }
    return last[b.size()];
}

}  // namespace

std::string similar_word(std::string_view word, std::span<const std::string> known) {
    constexpr std::size_t kLettersPerPlace = 3;
    const std::string lower = lower_case(word);
    std::string nearest;
    std::size_t least = std::max<std::size_t>(1, word.size() / kLettersPerPlace) + 1;
    for (const std::string& each : known) {
        const std::size_t places = distance(lower, lower_case(each));
        if (places >= least) continue;
        least = places;
        nearest = each;
    }
    return nearest;
}

std::string suggestion(std::string_view word, std::span<const std::string> known) {
    const std::string similar = similar_word(word, known);
    return similar.empty() ? "" : " Is it '" + similar + "'?";
}

}  // namespace partita
