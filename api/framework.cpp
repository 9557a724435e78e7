// SPDX-License-Identifier: Apache-2.0
#include "api/framework.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "api/option_table.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "cost/machine/data_folder.h"
#include "plan/strategy/strategy.h"
#include "search/core/parallel_config.h"

namespace partita::api {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> texts_of(const JsonField& field, const JsonExpectation& each) {
    std::vector<std::string> texts;
    if (!field.present()) return texts;
    for (const JsonField& item : field.items()) texts.push_back(item.text(each));
    return texts;
}

/// "..." is one of two texts.
std::optional<bool> is_first(const JsonField& field, std::string_view first,
                             std::string_view second) {
    if (!field.present()) return std::nullopt;
    const std::string what = fmt::format("\"{}\" or \"{}\"", first, second);
    const std::string text = field.text({what});
    if (text != first && text != second) field.fail({what});
    return text == first;
}

/// What an option of plans would say of a text.
PlanOptions read_option(const JsonField& field, std::string_view option, const std::string& text,
                        const JsonExpectation& expected) {
    PlanOptions options;
    try {
        option_of(option).read(options, text);
    } catch (const UsageError&) {
        field.fail(expected);
    }
    return options;
}

/// As `--bucket-bytes` would take it.
std::optional<Bytes> bucket_bytes_of(const JsonField& field) {
    if (!field.present()) return std::nullopt;
    const JsonExpectation expected{
        .what = "an amount of bytes above 0, \"layer\", \"all\" or \"none\""};
    const std::string text =
        field.is_text() ? field.text(expected)
                        : fmt::format("{}", field.integer(1, plan::kMostBucket.raw(), expected));
    return read_option(field, "bucket-bytes", text, expected).bucket_bytes;
}

/// As `--host-time` would take it.
std::optional<HostTime> host_time_of(const JsonField& field) {
    if (!field.present()) return std::nullopt;
    const JsonExpectation expected{
        .what =
            "times of at most 1 ms, e.g. \"kernel=45us,communication=30us,update=0us\", or "
            "\"none\""};
    return read_option(field, "host-time", field.text(expected), expected).host_time;
}

/// As `--clip-norm` would take it.
std::optional<double> clip_norm_of(const JsonField& field) {
    if (!field.present()) return std::nullopt;
    const JsonExpectation expected{.what = "a norm above 0 and at most 1e9, or \"none\""};
    const std::string text = field.is_text()
                                 ? field.text(expected)
                                 : json_number(field.number(0, plan::kMostClipNorm, expected));
    return read_option(field, "clip-norm", text, expected).clip_norm;
}

std::string strategy_of(const JsonField& field) {
    if (!field.present()) return "";
    const std::string text = field.text({"degrees of parallelism, as --strategy takes them"});
    try {
        return search::parse_parallel_config(text, "strategy").text();
    } catch (const UsageError& error) {
        field.reject(error.what());
    }
}

constexpr std::array<std::string_view, 7> kFigures = {
    "fuse", "attention", "gradients", "bucket_bytes", "host_time", "clip_norm", "strategy"};

void check_sources(const JsonField& root) {
    const JsonField sources = root["sources"];
    for (const std::string_view figure : kFigures) {
        if (!root[figure].present()) continue;
        (void)sources[figure].text({"where this is known from, a text"});
    }
    for (const std::string& key : sources.keys()) {
        if (!root[key].present()) sources[key].reject("is the source of a field that is not there");
    }
}

std::vector<fs::path> files() {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(cost::data_folder() / "frameworks")) {
        if (entry.path().extension() == ".json") files.push_back(entry.path());
    }
    std::ranges::sort(files);
    return files;
}

}  // namespace

Framework parse_framework(std::string_view json, const std::string& context) {
    const JsonFile file(json, context);
    const JsonField root = file.root();
    const JsonField format = root["format"];
    if (format.text({"\"partita-framework\""}) != "partita-framework") {
        format.fail({"\"partita-framework\""});
    }
    (void)root["version"].integer(1, 1, {.what = "1", .remedy = "Use a newer partita."});
    root.allow_only({"format", "version", "name", "summary", "sources", "not_modelled"}, kFigures);
    Framework framework;
    framework.name = root["name"].text({"a name"}, 100);
    framework.summary = root["summary"].text({"one line, a text"});
    framework.fuse = texts_of(root["fuse"], {"a kernel, as --fuse takes it"});
    framework.fused_attention = is_first(root["attention"], "fused", "products");
    framework.float32_gradients = is_first(root["gradients"], "float32", "weights").value_or(false);
    framework.bucket_bytes = bucket_bytes_of(root["bucket_bytes"]);
    framework.host_time = host_time_of(root["host_time"]);
    framework.clip_norm = clip_norm_of(root["clip_norm"]);
    framework.strategy = strategy_of(root["strategy"]);
    framework.not_modelled = texts_of(root["not_modelled"], {"a text"});
    check_sources(root);
    return framework;
}

Framework load_framework(const fs::path& spec) {
    if (spec.extension() == ".json") return parse_framework(read_text_file(spec), spec.string());
    std::vector<std::string> names;
    for (const fs::path& path : files()) {
        names.push_back(path.stem().string());
        if (names.back() == spec) return parse_framework(read_text_file(path), path.string());
    }
    throw UsageError(
        fmt::format("--framework {}: unknown. There is: {}; a file of your own ends in .json.",
                    spec.string(), fmt::join(names, ", ")));
}

PlanOptions with_framework(PlanOptions options) {
    if (options.framework.empty() || options.mode != Mode::training) return options;
    const Framework framework = load_framework(options.framework);
    if (!options.bucket_bytes) options.bucket_bytes = framework.bucket_bytes;
    if (!options.host_time) options.host_time = framework.host_time;
    if (!options.clip_norm) options.clip_norm = framework.clip_norm;
    if (!framework.strategy.empty()) {
        const auto said = options.strategy.empty()
                              ? search::ParallelConfig{}
                              : search::parse_parallel_config(options.strategy);
        const auto usual = search::parse_parallel_config(framework.strategy);
        options.strategy = completed(said, usual).text();
    }
    return options;
}

std::string note_of(const Framework& framework) {
    return fmt::format("Framework {}: {}.", framework.name, framework.summary);
}

std::vector<std::string> details_of(const Framework& framework) {
    std::vector<std::string> notes;
    for (const std::string& clause : framework.not_modelled) {
        notes.push_back(fmt::format("Not so in plans for {}: {}.", framework.name, clause));
    }
    return notes;
}

}  // namespace partita::api
