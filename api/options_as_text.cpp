// SPDX-License-Identifier: Apache-2.0
//
// PlanOptions as text and as JSON, by the rows of option_table.h.
#include <cmath>
#include <cstdint>
#include <limits>

#include <fmt/format.h>

#include "api/option_table.h"
#include "base/error.h"
#include "base/json.h"

#include <partita/search.h>

namespace partita {
namespace {

constexpr std::size_t kMostCharacters = 10'000;

std::string json_value(api::OptionForm form, const std::string& text) {
    return form == api::OptionForm::text ? json_quoted(text) : text;
}

/// What the value would be on the command line.
std::string text_of(api::OptionForm form, const JsonField& field) {
    if (form == api::OptionForm::flag) return field.boolean() ? "true" : "false";
    const JsonExpectation expected{.what = "a text or a number",
                                   .remedy = "Write it as on the command line."};
    if (!field.is_number()) return field.text(expected, kMostCharacters);
    constexpr double kMost = std::numeric_limits<double>::max();
    const double value = field.number(-kMost, kMost, expected);
    // Whole ones by themselves: a double does not hold every seed.
    if (value != std::floor(value) || std::abs(value) > 0x1p63) return json_number(value);
    using Whole = std::numeric_limits<std::int64_t>;
    return fmt::format("{}", field.integer(Whole::min(), Whole::max(), expected));
}

}  // namespace

void PlanOptions::set(std::string_view option, std::string_view text) {
    api::option_of(option).read(*this, text);
}

std::optional<std::string> PlanOptions::text(std::string_view option) const {
    return api::option_of(option).write(*this);
}

std::string PlanOptions::json() const {
    const PlanOptions defaults;
    std::string members;
    for (const api::OptionRow& row : api::option_table()) {
        const auto text = row.write(*this);
        if (!text || text == row.write(defaults)) continue;
        members += fmt::format("{}\"{}\": {}", members.empty() ? "" : ", ", row.name(),
                               json_value(row.field.form, *text));
    }
    return fmt::format("{{{}}}", members);
}

PlanOptions PlanOptions::parse(std::string_view json, const std::string& called) {
    const JsonFile file(json, called);
    const JsonField root = file.root();
    PlanOptions options;
    for (const std::string& name : root.keys()) {
        try {
            const api::OptionRow& row = api::option_of(name);
            row.read(options, text_of(row.field.form, root[name]));
        } catch (const UsageError& error) {
            throw UsageError(fmt::format("{}: {}", called, error.what()));
        }
    }
    return options;
}

std::vector<OptionInfo> plan_options() {
    std::vector<OptionInfo> infos;
    for (const api::OptionRow& row : api::option_table()) {
        infos.push_back({std::string(row.name()), std::string(row.value), std::string(row.help)});
    }
    return infos;
}

}  // namespace partita
