// SPDX-License-Identifier: Apache-2.0
#include "cost/collectives/collective_log.h"

#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/json.h"

namespace partita::cost {

namespace {

constexpr std::string_view kHeader =
    "set,collective,algorithm,protocol,ranks,nodes,gpus_per_node,bytes,time_us,algbw_GBps,"
    "busbw_GBps,place,source";
constexpr std::size_t kColumns = 13;
constexpr std::size_t kMostLines = 1'000'000;

constexpr std::array<std::pair<std::string_view, Collective>, 5> kCollectives{
    {{"all_reduce", Collective::all_reduce},
     {"all_gather", Collective::all_gather},
     {"reduce_scatter", Collective::reduce_scatter},
     {"all_to_all", Collective::all_to_all},
     {"send_recv", Collective::broadcast}}};

/// One line of the log, which knows its place for messages.
class Line {
public:
    Line(std::string_view text, std::size_t number, const std::string& file)
        : number_(number), file_(file) {
        std::size_t count = 0;
        for (std::size_t from = 0;; ++count) {
            const std::size_t comma = text.find(',', from);
            if (count < kColumns) fields_[count] = text.substr(from, comma - from);
            if (comma == std::string_view::npos) break;
            from = comma + 1;
        }
        if (count + 1 != kColumns) {
            fail(fmt::format("expected {} columns, got {}", kColumns, count + 1));
        }
    }

    [[nodiscard]] std::string_view text(std::size_t column) const { return fields_[column]; }

    template <class Number>
    [[nodiscard]] Number number(std::size_t column, Number least, Number most,
                                std::string_view what) const {
        const std::string_view field = fields_[column];
        Number value{};
        const auto [rest, error] =
            std::from_chars(field.data(), field.data() + field.size(), value);
        const bool whole = error == std::errc() && rest == field.data() + field.size();
        if (!whole || !(value >= least) || !(value <= most)) {
            fail(fmt::format("expected {}, got {}", what, json_quoted(field)));
        }
        return value;
    }

    [[noreturn]] void fail(const std::string& message) const {
        throw InputError(
            fmt::format("{}: line {}: {}. Correct the line.", file_, number_, message));
    }

private:
    std::size_t number_;
    const std::string& file_;
    std::array<std::string_view, kColumns> fields_;
};

MeasuredCollective parse(const Line& line) {
    MeasuredCollective row{.set = std::string(line.text(0))};
    std::optional<Collective> kind;
    for (const auto& [name, collective] : kCollectives) {
        if (line.text(1) == name) kind = collective;
    }
    if (!kind) {
        line.fail(fmt::format("expected a collective such as all_reduce, got {}",
                              json_quoted(line.text(1))));
    }
    row.kind = *kind;
    row.ranks = line.number(4, 2, kMostDevices, "ranks from 2 to 65536");
    row.nodes = line.number(5, 1, row.ranks, "nodes from 1 to ranks");
    const int per_node = line.number(6, 1, row.ranks, "gpus_per_node from 1 to ranks");
    if (row.nodes * per_node != row.ranks) {
        line.fail(fmt::format("expected nodes x gpus_per_node = ranks, got {} x {} = {}", row.nodes,
                              per_node, row.ranks));
    }
    constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;
    row.bytes = Bytes(line.number<std::int64_t>(7, 1, kMostBytes, "bytes from 1 to 2^50"));
    row.time =
        time_from_milliseconds(line.number(8, 1e-3, 1e9, "time_us from 0.001 to 10^9") / 1e3);
    return row;
}

}  // namespace

std::vector<MeasuredCollective> read_collective_log(std::string_view text,
                                                    const std::string& name) {
    std::vector<MeasuredCollective> rows;
    for (std::size_t number = 1; !text.empty(); ++number) {
        const std::size_t end = text.find('\n');
        std::string_view line = text.substr(0, end);
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
        if (line.ends_with('\r')) line.remove_suffix(1);
        if (number == 1) {
            if (line == kHeader) continue;
            throw InputError(
                fmt::format("{}: line 1: expected the columns {}. Add them.", name, kHeader));
        }
        if (number > kMostLines) {
            throw InputError(
                fmt::format("{}: more than {} lines. Split the file.", name, kMostLines));
        }
        rows.push_back(parse(Line(line, number, name)));
    }
    return rows;
}

}  // namespace partita::cost
