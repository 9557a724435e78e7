// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "cost/traces/csv_table.h"
#include "cost/traces/nested_calls.h"
#include "cost/traces/trace_readers.h"

namespace partita::cost {

namespace {

using graph::Shape;

constexpr std::string_view kProjected = "Projected Duration (ns)";
constexpr std::string_view kOwn = "device_us";
constexpr int kMostCalls = 1'000'000;

/// The integers in a text, whatever stands between them.
Shape integers_in(std::string_view text) {
    Shape integers;
    while (!text.empty()) {
        std::int64_t value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (error == std::errc{}) integers.push_back(value);
        text.remove_prefix(std::max<std::size_t>(1, static_cast<std::size_t>(end - text.data())));
    }
    return integers;
}

/// "8x64 64x32".
std::vector<Shape> shapes_of(std::string_view text) {
    std::vector<Shape> shapes;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(' '), text.size());
        if (end > 0) shapes.push_back(integers_in(text.substr(0, end)));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return shapes;
}

OperatorTimes read_own(const CsvTable& table) {
    OperatorTimes times{.calls = {}, .device = {}, .is_flat = true};
    for (std::size_t row = 0; row < table.size(); ++row) {
        const double calls = table.has("calls") ? table.number(row, "calls") : 1;
        const double microseconds = table.number(row, kOwn);
        if (calls < 1 || calls > kMostCalls) {
            table.fail(row, fmt::format("calls: expected a number from 1 to {}", kMostCalls));
        }
        if (microseconds <= 0) continue;
        std::optional<graph::DType> dtype;
        if (table.has("type")) dtype = graph::dtype_from_name(table.text(row, "type"));
        times.calls.push_back(
            {.name = table.text(row, "operator"),
             .shapes = shapes_of(table.text(row, "shapes")),
             .dtype = dtype,
             .times = std::vector(static_cast<std::size_t>(calls),
                                  time_from_milliseconds(1e-3 * microseconds / calls))});
    }
    return times;
}

/// A range of emit_nvtx(): ":aten::mm, seq = 4, op_id = 9, sizes = [[8, 64], [64, 32]], ...".
struct Range {
    std::string name;
    std::vector<Shape> shapes;
    bool has_shapes = false;
};

Range range_of(std::string_view text) {
    if (text.starts_with(':')) text.remove_prefix(1);  // no domain
    Range range{.name = std::string(text.substr(0, text.find(','))), .shapes = {}};
    constexpr std::string_view kSizes = "sizes = [";
    const std::size_t at = text.find(kSizes);
    if (at == std::string_view::npos) return range;
    range.has_shapes = true;
    // Lists in lists are shapes of lists of tensors, which are none.
    int depth = 0;
    std::size_t begin = 0;
    for (std::size_t i = at + kSizes.size(); i < text.size() && depth >= 0; ++i) {
        if (text[i] == '[' && ++depth == 1) begin = i;
        if (text[i] == ']' && --depth == 0) {
            range.shapes.push_back(integers_in(text.substr(begin, i - begin)));
        }
    }
    return range;
}

OperatorTimes read_nvtx(const CsvTable& table, const std::string& context) {
    std::map<std::string, std::size_t> by_id;
    for (std::size_t row = 0; row < table.size(); ++row) {
        by_id.emplace(table.text(row, "RangeId"), row);
    }
    std::vector<NestedCall> calls;
    bool has_shapes = false;
    for (std::size_t row = 0; row < table.size(); ++row) {
        Range range = range_of(table.text(row, "Name"));
        has_shapes = has_shapes || range.has_shapes;
        const auto outer = by_id.find(table.text(row, "ParentId"));
        calls.push_back(
            {.name = std::move(range.name),
             .shapes = std::move(range.shapes),
             .dtype = {},
             .microseconds = 1e-3 * table.number(row, kProjected),
             .outer = outer == by_id.end() ? -1 : static_cast<std::ptrdiff_t>(outer->second)});
    }
    if (!has_shapes) {
        throw InputError(
            fmt::format("{}: ranges have no shapes (\"sizes = [[...\"). Run the step under "
                        "torch.autograd.profiler.emit_nvtx(record_shapes=True).",
                        context));
    }
    return {.calls = listed_calls(calls), .device = {}, .is_flat = false};
}

}  // namespace

OperatorTimes read_operator_table(std::string_view csv, const std::string& context) {
    if (csv.find(kProjected) != std::string_view::npos) {
        const CsvTable table(csv, kProjected, context);
        for (const std::string_view column : {"Name", "RangeId", "ParentId"}) {
            if (!table.has(column)) {
                throw InputError(fmt::format("{}: no column '{}'", context, column));
            }
        }
        return read_nvtx(table, context);
    }
    if (csv.find(kOwn) == std::string_view::npos) {
        throw InputError(fmt::format(
            "{}: neither operators (columns operator, shapes, device_us) nor ranges (nsys stats "
            "--report nvtx_gpu_proj_trace --format csv) nor works (profile --export-works). Tables "
            "of kernels do not say which operators they are of.",
            context));
    }
    const CsvTable table(csv, kOwn, context);
    for (const std::string_view column : {"operator", "shapes"}) {
        if (!table.has(column)) {
            throw InputError(fmt::format("{}: no column '{}'", context, column));
        }
    }
    return read_own(table);
}

OperatorTimes read_operator_times(std::string_view text, const std::string& context) {
    if (text.starts_with("\x1F\x8B")) {
        throw InputError(fmt::format("{}: compressed. Unpack it first (gunzip).", context));
    }
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    const bool is_json =
        first != std::string_view::npos && (text[first] == '{' || text[first] == '[');
    return is_json ? read_kineto(text, context) : read_operator_table(text, context);
}

}  // namespace partita::cost
