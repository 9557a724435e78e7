// SPDX-License-Identifier: Apache-2.0
#include "api/option_fields.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <sstream>

#include "plan/strategy/pipeline_schedule.h"
#include "search/core/parallel_config.h"
#include "search/portfolio/searcher_table.h"

namespace partita::api {
namespace {

using Text = std::optional<std::string>;

void read_loss(PlanOptions& options, std::string_view option, std::string_view text) {
    const auto split = text.find(':');
    choice<&PlanOptions::loss, Loss::sum, Loss::mse, Loss::cross_entropy>().read(
        options, option, text.substr(0, split));
    options.loss_output = split == std::string_view::npos ? "" : text.substr(split + 1);
    if (split != std::string_view::npos && options.loss_output.empty()) {
        throw UsageError(fmt::format(
            "{} {}: expected the name of an output after the colon, e.g. {} sum:logits.", option,
            text, option));
    }
}

Text write_loss(const PlanOptions& options) {
    if (!options.loss && !options.loss_output.empty()) {
        throw UsageError(
            fmt::format("loss_output '{}': says of what, but not which loss. Give `loss` too.",
                        options.loss_output));
    }
    if (!options.loss) return std::nullopt;
    const std::string_view colon = options.loss_output.empty() ? "" : ":";
    return fmt::format("{}{}{}", name_of(*options.loss), colon, options.loss_output);
}

void read_schedule(PlanOptions& options, std::string_view option, std::string_view text) {
    const auto schedule = plan::schedule_from_text(text);
    if (!schedule) {
        throw UsageError(
            fmt::format("{} {}: unknown. There is: {}.", option, text, plan::schedule_names()));
    }
    options.schedule = to_public(schedule->kind);
    options.chunks = schedule->chunks;
}

Text write_schedule(const PlanOptions& options) {
    const bool interleaved = options.schedule == Schedule::interleaved;
    const int least = interleaved ? 2 : 1;
    const int most = interleaved ? plan::kMostChunks : 1;
    if (options.chunks < least || options.chunks > most) {
        throw UsageError(fmt::format("chunks {}: expected a number from {} to {}.", options.chunks,
                                     least, most));
    }
    if (!options.schedule) return std::nullopt;
    return to_text(
        plan::Schedule{.kind = to_internal(*options.schedule), .chunks = options.chunks});
}

/// A letter of --dims and the kind of split that it allows.
struct SplitLetter {
    char letter;
    bool Splits::*kind;
};
constexpr std::array kSplitLetters{
    SplitLetter{'S', &Splits::sample}, SplitLetter{'A', &Splits::attribute},
    SplitLetter{'P', &Splits::parameter}, SplitLetter{'R', &Splits::reduction}};

/// Letters of S, O, A, P and R, separated by commas.
void read_splits(PlanOptions& options, std::string_view option, std::string_view text) {
    Splits splits{.sample = false, .attribute = false, .parameter = false, .reduction = false};
    bool places_ops = false;
    std::istringstream letters{std::string(text)};
    for (std::string letter; std::getline(letters, letter, ',');) {
        places_ops = places_ops || letter == "O";
        if (letter == "O") continue;
        const auto row = std::ranges::find_if(kSplitLetters, [&](const SplitLetter& each) {
            return letter == std::string_view(&each.letter, 1);
        });
        if (row == kSplitLetters.end() || splits.*row->kind) {
            throw UsageError(fmt::format(
                "{} {}: expected letters of S, O, A, P and R, each once and separated by commas, "
                "got '{}'.",
                option, text, letter));
        }
        splits.*row->kind = true;
    }
    if (!places_ops) {
        throw UsageError(
            fmt::format("{} {}: the search always chooses devices op by op. Add O.", option, text));
    }
    options.splits = splits;
}

Text write_splits(const PlanOptions& options) {
    std::string text = "O";
    for (const SplitLetter& each : kSplitLetters) {
        if (options.splits.*each.kind) text += fmt::format(",{}", each.letter);
    }
    return text;
}

/// "512", "80GiB", "16 GB": an amount of bytes above 0, at most `most`. `or_else`: what else may be
/// said.
Bytes amount_of_bytes(std::string_view option, std::string_view text, std::string_view or_else = "",
                      Bytes most = Bytes::max()) {
    struct Suffix {
        std::string_view name;
        std::int64_t factor;
    };
    constexpr std::int64_t kKibi = 1024;
    constexpr std::int64_t kKilo = 1000;
    constexpr std::array kSuffixes = {
        Suffix{"", 1},
        Suffix{"B", 1},
        Suffix{"KiB", kKibi},
        Suffix{"MiB", kKibi * kKibi},
        Suffix{"GiB", kKibi * kKibi * kKibi},
        Suffix{"TiB", kKibi * kKibi * kKibi * kKibi},
        Suffix{"KB", kKilo},
        Suffix{"MB", kKilo * kKilo},
        Suffix{"GB", kKilo * kKilo * kKilo},
        Suffix{"TB", kKilo * kKilo * kKilo * kKilo},
    };
    const auto digits = std::min(text.find_first_not_of("0123456789"), text.size());
    const auto amount = whole_number(text.substr(0, digits), 1);
    std::string_view unit = text.substr(digits);
    unit.remove_prefix(std::min(unit.find_first_not_of(' '), unit.size()));
    const auto suffix = std::ranges::find(kSuffixes, unit, &Suffix::name);
    std::int64_t bytes = 0;
    if (!amount || suffix == kSuffixes.end() ||
        __builtin_mul_overflow(*amount, suffix->factor, &bytes) || Bytes(bytes) > most) {
        throw UsageError(
            fmt::format("{} {}: expected an amount of bytes, e.g. 8000000000, 8GB or 8GiB{}.",
                        option, text, or_else));
    }
    return Bytes(bytes);
}

void read_memory_limit(PlanOptions& options, std::string_view option, std::string_view text) {
    options.memory_limit = amount_of_bytes(option, text);
}

void read_bucket_bytes(PlanOptions& options, std::string_view option, std::string_view text) {
    if (text == "none") {
        options.bucket_bytes = Bytes{0};
    } else if (const auto named = plan::named_bucket(text)) {
        options.bucket_bytes = named;
    } else {
        options.bucket_bytes =
            amount_of_bytes(option, text, "; layer, all or none", plan::kMostBucket);
    }
}

void read_host_time(PlanOptions& options, std::string_view option, std::string_view text) {
    const auto host = plan::host_time_from_text(text);
    if (!host) {
        throw UsageError(
            fmt::format("{} {}: expected times of at most 1 ms, e.g. 45us or "
                        "kernel=45us,communication=30us,update=0us; none: launching is free.",
                        option, text));
    }
    options.host_time = HostTime{host->kernel, host->communication, host->update};
}

Text write_host_time(const PlanOptions& options) {
    if (!options.host_time) return std::nullopt;
    return to_text(to_internal(*options.host_time));
}

void read_clip_norm(PlanOptions& options, std::string_view option, std::string_view text) {
    const auto norm = plan::clip_norm_from_text(text);
    if (!norm) {
        throw UsageError(fmt::format(
            "{} {}: expected a norm, a number above 0 and at most 1e9, or none.", option, text));
    }
    options.clip_norm = norm;
}

Text write_clip_norm(const PlanOptions& options) {
    if (!options.clip_norm) return std::nullopt;
    return plan::clip_norm_text(*options.clip_norm);
}

Text write_bucket_bytes(const PlanOptions& options) {
    if (!options.bucket_bytes) return std::nullopt;
    if (options.bucket_bytes == Bytes{0}) return "none";
    return plan::bucket_text(*options.bucket_bytes);
}

Text write_memory_limit(const PlanOptions& options) {
    if (!options.memory_limit) return std::nullopt;
    return fmt::format("{}", options.memory_limit->raw());
}

void read_searchers(PlanOptions& options, std::string_view, std::string_view text) {
    options.searchers = search::parse_searchers(text);
}

Text write_searchers(const PlanOptions& options) {
    if (options.searchers.empty()) {
        throw UsageError("--searcher: expected at least one, e.g. auto.");
    }
    return fmt::format("{}", fmt::join(options.searchers, ","));
}

void read_time_limit(PlanOptions& options, std::string_view option, std::string_view text) {
    constexpr double kMost = 1e9;  // 30 years
    double seconds = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    if (error != std::errc{} || end != text.data() + text.size() || !(seconds >= 0) ||
        seconds > kMost) {
        throw UsageError(
            fmt::format("{} {}: expected seconds, a number from 0 to 1e9.", option, text));
    }
    options.time_limit = std::chrono::duration<double>(seconds);
}

Text write_time_limit(const PlanOptions& options) {
    if (!options.time_limit) return std::nullopt;
    return fmt::format("{}", options.time_limit->count());
}

void read_engine(PlanOptions& options, std::string_view, std::string_view text) {
    options.exact_engine = to_public(search::parse_exact_engine(text));
}

Text write_engine(const PlanOptions& options) {
    return std::string(name_of(options.exact_engine));
}

}  // namespace

std::optional<std::int64_t> whole_number(std::string_view text, std::int64_t least,
                                         std::int64_t most) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    if (value < least || value > most) return std::nullopt;
    return value;
}

std::int64_t read_number(std::string_view option, std::string_view text, std::int64_t least,
                         std::int64_t most) {
    if (const auto value = whole_number(text, least, most)) return *value;
    const std::string range =
        most == kNoMost ? fmt::format(">= {}", least) : fmt::format("from {} to {}", least, most);
    throw UsageError(fmt::format("{} {}: expected a whole number {}.", option, text, range));
}

std::vector<std::string> read_list(std::string_view option, std::string_view text) {
    std::vector<std::string> items;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(',', begin), text.size());
        if (end == begin) {
            throw UsageError(
                fmt::format("{} {}: expected names with commas between them.", option, text));
        }
        items.emplace_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return items;
}

OptionField loss_field() {
    return {.read = read_loss, .write = write_loss, .example = "mse:y"};
}

OptionField schedule_field() {
    return {.read = read_schedule, .write = write_schedule, .example = "interleaved:2"};
}

OptionField strategy_field() {
    return {.read =
                [](PlanOptions& options, std::string_view option, std::string_view text) {
                    options.strategy = search::parse_parallel_config(text, option).text();
                },
            .write = [](const PlanOptions& options) -> std::optional<std::string> {
                if (options.strategy.empty()) return std::nullopt;
                return options.strategy;
            },
            .example = "dp=2,tp=4,sp"};
}

OptionField splits_field() {
    return {.read = read_splits, .write = write_splits, .example = "O,S,R"};
}

OptionField memory_limit_field() {
    return {.read = read_memory_limit,
            .write = write_memory_limit,
            .example = "8GiB",
            .form = OptionForm::number};
}

OptionField host_time_field() {
    return {.read = read_host_time,
            .write = write_host_time,
            .example = "kernel=45us,communication=30us,update=5us"};
}

OptionField clip_norm_field() {
    return {.read = read_clip_norm, .write = write_clip_norm, .example = "1.5"};
}

OptionField bucket_bytes_field() {
    return {.read = read_bucket_bytes, .write = write_bucket_bytes, .example = "25MiB"};
}

OptionField searchers_field() {
    return {.read = read_searchers, .write = write_searchers, .example = "heft,mcmc"};
}

OptionField time_limit_field() {
    return {.read = read_time_limit,
            .write = write_time_limit,
            .example = "2.5",
            .form = OptionForm::number};
}

OptionField engine_field() {
    return {.read = read_engine, .write = write_engine, .example = "own"};
}

}  // namespace partita::api
