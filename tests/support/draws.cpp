// SPDX-License-Identifier: Apache-2.0
#include "tests/support/draws.h"

#include <charconv>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

namespace partita::support {

namespace {

constexpr const char* kVariable = "PARTITA_TEST_DRAWS";

std::int64_t read_percent() {
    const char* const given = std::getenv(kVariable);  // NOLINT(concurrency-mt-unsafe)
    if (given == nullptr) return 100;
    const std::string_view text(given);
    std::int64_t percent = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), percent);
    const bool is_whole = fault == std::errc() && end == text.data() + text.size();
    if (!is_whole || percent < 1 || percent > 1'000'000) {
        throw std::invalid_argument(std::string(kVariable) + " is a percentage such as 50, not '" +
                                    given + "'");
    }
    return percent;
}

}  // namespace

std::int64_t percent_of_draws() {
    static const std::int64_t kPercent = read_percent();
    return kPercent;
}

}  // namespace partita::support
