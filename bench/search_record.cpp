// SPDX-License-Identifier: Apache-2.0
#include "bench/search_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <string_view>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"

namespace partita::bench {

namespace {

constexpr std::string_view kHeader =
    "date,network,devices,samples_per_gpu,searcher,seed,threads,seconds,most_evaluations,problem,"
    "data_parallel_ps,"
    "heuristics_ps,heuristics_s,lower_bound_ps,value_ps,evaluations,elapsed_s,trajectory";

std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> fields;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(separator, begin), text.size());
        fields.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return fields;
}

/// Reads the fields of one line from left to right.
class Line {
public:
    Line(std::string_view text, std::string where)
        : fields_(split(text, ',')), where_(std::move(where)) {}

    std::string text() { return std::string(next()); }

    template <class Number>
    Number number() {
        return number_of<Number>(next());
    }

    std::vector<Improvement> trajectory() {
        std::vector<Improvement> all;
        const std::string_view field = next();
        if (field.empty()) return all;
        for (const std::string_view entry : split(field, ' ')) {
            const std::size_t colon = std::min(entry.find(':'), entry.size());
            const std::string_view value = entry.substr(std::min(colon + 1, entry.size()));
            all.push_back(
                {number_of<double>(entry.substr(0, colon)), Time(number_of<std::int64_t>(value))});
        }
        return all;
    }

private:
    std::string_view next() {
        if (next_ == fields_.size()) fail("fewer fields than the header");
        return fields_[next_++];
    }

    template <class Number>
    Number number_of(std::string_view text) const {
        Number number{};
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
        if (error != std::errc() || end != text.data() + text.size()) {
            fail(fmt::format("expected a number, got '{}'", text));
        }
        return number;
    }

    [[noreturn]] void fail(const std::string& what) const {
        throw InputError(fmt::format("{}: {}. Remove the line or the file.", where_, what));
    }

    std::vector<std::string_view> fields_;
    std::string where_;
    std::size_t next_ = 0;
};

SearchRecord read(Line line) {
    SearchRecord record;
    record.date = line.text();
    record.of.network = line.text();
    record.of.devices = line.number<int>();
    record.of.samples_per_gpu = line.number<std::int64_t>();
    record.of.searcher = line.text();
    record.of.seed = line.number<std::uint64_t>();
    record.of.threads = line.number<int>();
    record.of.seconds = line.number<double>();
    record.of.most_evaluations = line.number<std::int64_t>();
    record.of.problem = line.text();
    record.data_parallel = Time(line.number<std::int64_t>());
    record.heuristics = Time(line.number<std::int64_t>());
    record.heuristics_seconds = line.number<double>();
    record.lower_bound = Time(line.number<std::int64_t>());
    record.value = Time(line.number<std::int64_t>());
    record.evaluations = line.number<std::int64_t>();
    record.elapsed = line.number<double>();
    record.trajectory = line.trajectory();
    return record;
}

}  // namespace

std::string to_csv(std::span<const SearchRecord> records) {
    std::string text(kHeader);
    text += '\n';
    auto out = std::back_inserter(text);
    for (const SearchRecord& r : records) {
        fmt::format_to(out, "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},", r.date,
                       r.of.network, r.of.devices, r.of.samples_per_gpu, r.of.searcher, r.of.seed,
                       r.of.threads, r.of.seconds, r.of.most_evaluations, r.of.problem,
                       r.data_parallel.raw(), r.heuristics.raw(), r.heuristics_seconds,
                       r.lower_bound.raw(), r.value.raw(), r.evaluations, r.elapsed);
        for (std::size_t i = 0; i < r.trajectory.size(); ++i) {
            fmt::format_to(out, "{}{}:{}", i > 0 ? " " : "", r.trajectory[i].seconds,
                           r.trajectory[i].value.raw());
        }
        text += '\n';
    }
    return text;
}

std::vector<SearchRecord> records_from_csv(std::string_view text, const std::string& file) {
    std::vector<SearchRecord> records;
    int number = 0;
    for (const std::string_view line : split(text, '\n')) {
        const std::string where = fmt::format("{}, line {}", file, ++number);
        if (number == 1 && line != kHeader) {
            throw InputError(fmt::format("{}: expected the header '{}'. Move the file elsewhere.",
                                         where, kHeader));
        }
        if (number > 1 && !line.empty()) records.push_back(read(Line(line, where)));
    }
    return records;
}

std::vector<SearchRecord> read_records(const std::filesystem::path& folder) {
    std::vector<std::filesystem::path> files;
    if (std::filesystem::is_directory(folder)) {
        for (const auto& entry : std::filesystem::directory_iterator(folder)) {
            const std::string name = entry.path().filename().string();
            if (name.starts_with("search_times") && name.ends_with(".csv")) {
                files.push_back(entry.path());
            }
        }
    }
    std::ranges::sort(files);
    std::vector<SearchRecord> all;
    for (const auto& file : files) {
        std::ranges::move(records_from_csv(read_text_file(file), file.string()),
                          std::back_inserter(all));
    }
    return all;
}

std::optional<double> seconds_to(const SearchRecord& record, Time best, double share) {
    const double limit = (1 + share) * static_cast<double>(best.raw());
    for (const Improvement& improvement : record.trajectory) {
        if (static_cast<double>(improvement.value.raw()) <= limit) return improvement.seconds;
    }
    return std::nullopt;
}

}  // namespace partita::bench
