// SPDX-License-Identifier: Apache-2.0
//
// Fields of PlanOptions as text, for the rows of option_table.cpp:
//
//     number<&PlanOptions::threads, 1, 1024>()                        --threads 8
//     choice<&PlanOptions::mode, Mode::inference, Mode::training>()   --mode training
//     path<&PlanOptions::fix>()                                       --fix constraints.json
//     list<&PlanOptions::frozen>()                                    --frozen '*bias'
//     flag<&PlanOptions::zero_shot>()                                 --zero-shot
//
// and those whose text is of its own kind. A field that is std::optional is given when it has a
// value, a path when it is not empty, a number when it is not a default outside of its range.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "api/names.h"
#include "api/option_table.h"
#include "base/error.h"
#include "base/similar.h"

namespace partita::api {

inline constexpr std::int64_t kNoMost = std::numeric_limits<std::int64_t>::max();

/// A whole number that fills all of `text`, or nullopt.
std::optional<std::int64_t> whole_number(std::string_view text, std::int64_t least,
                                         std::int64_t most = kNoMost);

/// The same; throws UsageError saying which ones are possible.
std::int64_t read_number(std::string_view option, std::string_view text, std::int64_t least,
                         std::int64_t most);

/// Throws UsageError when an item is empty.
std::vector<std::string> read_list(std::string_view option, std::string_view text);

OptionField loss_field();          ///< loss and loss_output: "mse:y"
OptionField schedule_field();      ///< schedule and chunks: "interleaved:2"
OptionField strategy_field();      ///< "dp=2,tp=4"
OptionField splits_field();        ///< letters of S, O, A, P and R: "S,O"
OptionField memory_limit_field();  ///< "8GiB"
OptionField host_time_field();     ///< "45us", "kernel=45us,communication=30us"
OptionField clip_norm_field();     ///< "1.0", "none"
OptionField bucket_bytes_field();  ///< "25MiB", "all"
OptionField searchers_field();     ///< "heft,mcmc"
OptionField time_limit_field();    ///< seconds
OptionField engine_field();        ///< of exact

template <class T>
const T* given(const std::optional<T>& field) {
    return field ? &*field : nullptr;
}
template <class T>
const T* given(const T& field) {
    return &field;
}

template <auto member>
using ValueOf = std::remove_cvref_t<decltype(*given(std::declval<PlanOptions>().*member))>;

template <auto member, std::int64_t least, std::int64_t most = kNoMost>
OptionField number() {
    return {.read =
                [](PlanOptions& options, std::string_view option, std::string_view text) {
                    options.*member =
                        static_cast<ValueOf<member>>(read_number(option, text, least, most));
                },
            .write = [](const PlanOptions& options) -> std::optional<std::string> {
                const auto* const value = given(options.*member);
                if (value == nullptr) return std::nullopt;
                const PlanOptions defaults;
                const bool possible = std::cmp_greater_equal(*value, least);
                if (!possible && options.*member == defaults.*member) return std::nullopt;
                return fmt::format("{}", *value);
            },
            .example = "2",
            .form = OptionForm::number};
}

/// `values`: all of the enumeration, in the order in which messages name them.
template <auto member, auto... values>
OptionField choice() {
    return {.read =
                [](PlanOptions& options, std::string_view option, std::string_view text) {
                    for (const auto value : {values...}) {
                        if (name_of(value) != text) continue;
                        options.*member = value;
                        return;
                    }
                    const std::vector<std::string> names = {std::string(name_of(values))...};
                    throw UsageError(fmt::format("{} {}: unknown.{} There is: {}.", option, text,
                                                 suggestion(text, names), fmt::join(names, ", ")));
                },
            .write = [](const PlanOptions& options) -> std::optional<std::string> {
                const auto* const value = given(options.*member);
                if (value == nullptr) return std::nullopt;
                return std::string(name_of(*value));
            },
            .example = name_of(std::get<sizeof...(values) - 1>(std::tuple(values...)))};
}

template <auto member>
OptionField path() {
    return {.read = [](PlanOptions& options, std::string_view,
                       std::string_view text) { options.*member = text; },
            .write = [](const PlanOptions& options) -> std::optional<std::string> {
                if ((options.*member).empty()) return std::nullopt;
                return (options.*member).string();
            },
            .example = "a file"};
}

/// Texts without commas, separated by commas.
template <auto member>
OptionField list() {
    return {.read = [](PlanOptions& options, std::string_view option,
                       std::string_view text) { options.*member = read_list(option, text); },
            .write = [](const PlanOptions& options) -> std::optional<std::string> {
                if ((options.*member).empty()) return std::nullopt;
                return fmt::format("{}", fmt::join(options.*member, ","));
            },
            .example = "*bias,*norm*"};
}

/// Giving the option makes the field `set`.
template <auto member, bool set = true>
OptionField flag() {
    return {
        .read =
            [](PlanOptions& options, std::string_view option, std::string_view text) {
                if (text != "true" && text != "false") {
                    throw UsageError(fmt::format("{} {}: expected true or false.", option, text));
                }
                options.*member = (text == "true") == set;
            },
        .write = [](const PlanOptions& options) -> std::optional<std::string> {
            if (options.*member != set) return std::nullopt;
            return "true";
        },
        .example = "true",
        .form = OptionForm::flag};
}

}  // namespace partita::api
