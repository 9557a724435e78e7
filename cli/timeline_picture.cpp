// SPDX-License-Identifier: Apache-2.0
#include "cli/timeline_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/table.h"
#include "plan/evaluation/subgraph_latency.h"

namespace partita::cli {
namespace {

constexpr std::size_t kRowLabelWidth = 18;
constexpr std::array<std::string_view, 5> kUnicodeShades = {" ", "░", "▒", "▓", "█"};
constexpr std::array<std::string_view, 5> kAsciiShades = {" ", ".", ":", "+", "#"};

/// The shade of a share in [0, 1]; only nothing is blank.
std::string_view shade(double share, bool unicode) {
    const auto last = static_cast<double>(kUnicodeShades.size() - 1);
    const double level = share <= 0 ? 0 : std::clamp(std::round(share * last), 1.0, last);
    return (unicode ? kUnicodeShades : kAsciiShades)[static_cast<std::size_t>(level)];
}

std::string labelled(std::string_view label, std::string_view picture) {
    std::string text = "  " + shortened(label, kRowLabelWidth);
    text += std::string(2 + kRowLabelWidth + 2 - display_width(text), ' ');
    return text.append(picture);
}

/// Time spent per column, in picoseconds.
class Columns {
public:
    Columns(Time whole, std::size_t count) : whole_(whole.raw()), spent_(count, 0) {}

    void add(Time start, Time duration, std::int32_t times = 1) {
        const std::int64_t begin = start.raw();
        const std::int64_t end = begin + duration.raw();
        for (std::size_t c = column_of(begin); c < spent_.size() && edge(c) < end; ++c) {
            spent_[c] +=
                Int128{times} *
                std::max<std::int64_t>(std::min(end, edge(c + 1)) - std::max(begin, edge(c)), 0);
        }
    }
    [[nodiscard]] double share(std::size_t column) const {
        const std::int64_t width = edge(column + 1) - edge(column);
        return width == 0 ? 0 : static_cast<double>(spent_[column]) / static_cast<double>(width);
    }
    [[nodiscard]] std::size_t count() const { return spent_.size(); }

private:
    [[nodiscard]] std::int64_t edge(std::size_t column) const {
        return static_cast<std::int64_t>(static_cast<Int128>(whole_) * static_cast<Int128>(column) /
                                         static_cast<Int128>(spent_.size()));
    }
    [[nodiscard]] std::size_t column_of(std::int64_t time) const {
        auto column = static_cast<std::size_t>(static_cast<Int128>(time) *
                                               static_cast<Int128>(spent_.size()) / whole_);
        return column > 0 ? column - 1 : column;  // edges are rounded
    }

    std::int64_t whole_;
    std::vector<Int128> spent_;
};

std::string picture(const Columns& columns, double scale, bool unicode) {
    std::string text;
    for (std::size_t c = 0; c < columns.count(); ++c) {
        text += shade(columns.share(c) * scale, unicode);
    }
    return text;
}

}  // namespace

void DevicePicture::add(const std::string& name, std::string text, Time busy, std::int32_t count) {
    if (busy == Time{0}) {
        idle_ += count;
        return;
    }
    const auto [known, is_new] = by_text_.emplace(std::move(text), rows_.size());
    if (is_new) {
        rows_.push_back({name, known->first, 0});
        busy_.push_back(busy.raw());
    }
    rows_[known->second].count += count;
}

std::string DevicePicture::text(std::size_t most_rows) const {
    if (whole_ <= Time{0}) return "";
    const std::vector<std::size_t> shown = largest(busy_, most_rows);
    std::string text = title_;
    for (const std::size_t row : shown) {
        const Row& of = rows_[row];
        text += labelled(plan::label_of(of.name, of.count), of.text) + '\n';
    }
    return text + rest(shown) + last_;
}

/// "30 more devices up to 12 % busy, 4 devices without work", or "".
std::string DevicePicture::rest(const std::vector<std::size_t>& shown) const {
    Time most;
    std::int64_t working = 0;
    for (std::size_t row = 0; row < rows_.size(); ++row) {
        if (std::ranges::binary_search(shown, row)) continue;
        working += rows_[row].count;
        most = std::max(most, Time(busy_[row]));
    }
    std::string text;
    if (working > 0) {
        text = fmt::format("{} up to {} busy", count_of(working, "more device"),
                           percent(most / whole_));
    }
    if (idle_ > 0) text += (text.empty() ? "" : ", ") + count_of(idle_, "device") + " without work";
    return text.empty() ? "" : "  " + text + "\n";
}

DevicePicture timeline_picture(const plan::Problem& problem, const plan::TaskGraph& tasks,
                               const plan::Timeline& timeline, const Terminal& terminal) {
    if (timeline.makespan <= Time{0}) return {};
    constexpr std::size_t kAround = kRowLabelWidth + 2 + 2 + 8;  // label, gaps, percentage
    const std::size_t width = static_cast<std::size_t>(terminal.width) - kAround;
    std::vector<Columns> columns(timeline.busy.size(), Columns(timeline.makespan, width));
    Columns copies(timeline.makespan, width);
    bool any_copy = false;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
        const plan::Task& task = tasks.tasks[i];
        const bool copy = is_communication(task);
        any_copy = any_copy || copy;
        (copy ? copies : columns[static_cast<std::size_t>(task.device)])
            .add(timeline.start[i], task.duration, copy ? tasks.copies_of(i) : 1);
    }

    const auto per_column = picoseconds(timeline.makespan.raw() / static_cast<std::int64_t>(width));
    DevicePicture rows(fmt::format("timeline of {}, {} per column\n", to_text(timeline.makespan),
                                   to_text(per_column)),
                       timeline.makespan);
    const auto stands_for = plan::stands_for(tasks);
    for (std::size_t d = 0; d < columns.size(); ++d) {
        if (stands_for[d] == 0) continue;
        const Time busy = timeline.busy[d];
        rows.add(problem.machine().device(static_cast<int>(d)).name,
                 fmt::format("{} {:>7}", picture(columns[d], 1, terminal.unicode),
                             percent(busy / timeline.makespan)),
                 busy, stands_for[d]);
    }
    if (any_copy) {
        // What many links carry adds up: the busiest column is the darkest.
        double most = 1;
        for (std::size_t c = 0; c < width; ++c) most = std::max(most, copies.share(c));
        std::string line = labelled("communication", picture(copies, 1 / most, terminal.unicode));
        line.erase(line.find_last_not_of(' ') + 1);
        rows.set_last(line + '\n');
    }
    return rows;
}

DevicePicture load_picture(const plan::Problem& problem, const plan::Evaluation& evaluation,
                           const Terminal& terminal) {
    if (evaluation.value <= Time{0}) return {};
    constexpr std::size_t kAround = kRowLabelWidth + 2 + 2 + 12;
    const std::size_t width = static_cast<std::size_t>(terminal.width) - kAround;
    const std::string value = to_text(evaluation.value);
    DevicePicture rows(plan::is_subgraph_latency(problem)
                           ? fmt::format("calls of each device, of a latency of {}\n", value)
                           : fmt::format("load per sample, {} at most\n", value),
                       evaluation.value);
    for (std::size_t d = 0; d < evaluation.devices.size(); ++d) {
        const Time busy = evaluation.devices[d].busy;
        Columns bar(evaluation.value, width);
        bar.add(Time{0}, std::min(busy, evaluation.value));
        rows.add(problem.machine().device(static_cast<int>(d)).name,
                 fmt::format("{} {:>11}", picture(bar, 1, terminal.unicode), to_text(busy)), busy,
                 1);
    }
    return rows;
}

}  // namespace partita::cli
