// SPDX-License-Identifier: Apache-2.0
//
// The table of options of plans: a row and a field of PlanOptions are the whole declaration.
//
//     --micro-batches 8  ──parser──┐
//     set("micro-batches", "8") ───┼─▶ row.field.read() ─▶ PlanOptions::micro_batches
//     {"micro-batches": 8} ──JSON──┘          ▲
//     options.micro_batches = 8 ──────────────┘ check_options(): written as text, and read
//
// So an option means the same however it was given, and is refused with the same words. Parser,
// help, API, JSON and tests/api/plan_options_test.cpp read the table. What an option does is for
// api/plan_options.h.
//
// No option: PlanOptions::placements and together (of a file: --fix), start, progress and stop.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <partita/search.h>

namespace partita::api {

/// Options that a command takes together.
enum class OptionSet : std::uint8_t {
    framework,
    training,
    objective,
    constraints,
    costs,
    searchers,
    budget,
    learning,
    output
};

/// What stands above them in the help.
std::string_view title_of(OptionSet set);

/// How JSON spells a value; a flag has none on the command line.
enum class OptionForm : std::uint8_t { text, number, flag };

/// A field of PlanOptions as text (option_fields.h has the usual ones).
struct OptionField {
    /// Throws UsageError in which `option` is the name with its dashes.
    void (*read)(PlanOptions& options, std::string_view option, std::string_view text) = nullptr;
    /// What read() takes; none: not given. Throws UsageError for values that no text means.
    std::optional<std::string> (*write)(const PlanOptions& options) = nullptr;
    std::string_view example;  ///< a text other than the default's
    OptionForm form = OptionForm::text;
};

struct OptionRow {
    std::string_view option;  ///< with its dashes
    std::string_view value;   ///< in the help; "" for a flag
    OptionSet set = OptionSet::training;
    std::string_view help;
    OptionField field;
    bool says_how_to_train = false;  ///< refused where nothing is trained
    bool repeats = false;            ///< given again it adds; its text is a list with commas

    [[nodiscard]] std::string_view name() const { return option.substr(2); }
    void read(PlanOptions& options, std::string_view text) const {
        field.read(options, option, text);
    }
    [[nodiscard]] std::optional<std::string> write(const PlanOptions& options) const {
        return field.write(options);
    }
};

/// In the order of the help.
std::span<const OptionRow> option_table();

/// `name` without dashes. Throws UsageError naming all that there are.
const OptionRow& option_of(std::string_view name);

/// Throws UsageError for a field that has a value which its option cannot have.
void check_options(const PlanOptions& options);

}  // namespace partita::api
