// SPDX-License-Identifier: Apache-2.0
#include "cli/timeline_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include "cli/table.h"
#include "plan/evaluation/subgraph_latency.h"

namespace partita::cli {
namespace {

constexpr std::size_t kMaxRows = 24;
constexpr std::size_t kRowLabelWidth = 18;
constexpr std::array<std::string_view, 5> kUnicodeShades = {" ", "░", "▒", "▓", "█"};
constexpr std::array<std::string_view, 5> kAsciiShades = {" ", ".", ":", "+", "#"};

/// The shade of a share in [0, 1]; only nothing is blank.
std::string_view shade(double share, bool unicode) {
    const auto last = static_cast<double>(kUnicodeShades.size() - 1);
    const double level = share <= 0 ? 0 : std::clamp(std::round(share * last), 1.0, last);
    return (unicode ? kUnicodeShades : kAsciiShades)[static_cast<std::size_t>(level)];
}

/// At most kMaxRows devices, those with the largest `busy` (ties by id), in rising order.
std::vector<std::size_t> devices_to_show(const std::vector<Time>& busy) {
    std::vector<std::size_t> devices;
    for (std::size_t d = 0; d < busy.size(); ++d) {
        if (busy[d] > Time{0}) devices.push_back(d);
    }
    if (devices.size() > kMaxRows) {
        std::ranges::stable_sort(devices, std::greater{}, [&](std::size_t d) { return busy[d]; });
        devices.resize(kMaxRows);
        std::ranges::sort(devices);
    }
    return devices;
}

/// "30 more devices compute for 12 % of the time at most, 4 not at all", or "".
std::string rest(const std::vector<Time>& busy, const std::vector<std::size_t>& shown, Time whole) {
    Time most;
    std::int64_t working = 0;
    std::int64_t idle = 0;
    for (std::size_t d = 0; d < busy.size(); ++d) {
        if (std::ranges::binary_search(shown, d)) continue;
        ++(busy[d] > Time{0} ? working : idle);
        most = std::max(most, busy[d]);
    }
    std::string text;
    if (working > 0)
        text = fmt::format("{} up to {} busy", count_of(working, "more device"),
                           percent(most / whole));
    if (idle > 0) {
        text += (text.empty() ? "" : ", ") + count_of(idle, "device") + " without work";
    }
    return text.empty() ? "" : "  " + text + "\n";
}

/// Time spent per column, in picoseconds.
class Columns {
public:
    Columns(Time whole, std::size_t count) : whole_(whole.raw()), spent_(count, 0) {}

    void add(Time start, Time duration) {
        const std::int64_t begin = start.raw();
        const std::int64_t end = begin + duration.raw();
        for (std::size_t c = column_of(begin); c < spent_.size() && edge(c) < end; ++c) {
            spent_[c] +=
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
    std::vector<std::int64_t> spent_;
};

std::string row(std::string_view label, const Columns& columns, double scale, bool unicode) {
    std::string text = "  " + shortened(label, kRowLabelWidth);
    text += std::string(2 + kRowLabelWidth + 2 - display_width(text), ' ');
    for (std::size_t c = 0; c < columns.count(); ++c) {
        text += shade(columns.share(c) * scale, unicode);
    }
    return text;
}

}  // namespace

std::string timeline_picture(const plan::Problem& problem, const plan::TaskGraph& tasks,
                             const plan::Timeline& timeline, const Terminal& terminal) {
    if (timeline.makespan <= Time{0}) return "";
    constexpr std::size_t kAround = kRowLabelWidth + 2 + 2 + 8;  // label, gaps, percentage
    const std::size_t width = static_cast<std::size_t>(terminal.width) - kAround;
    const auto devices = devices_to_show(timeline.busy);
    std::vector<Columns> columns(timeline.busy.size(), Columns(timeline.makespan, width));
    Columns copies(timeline.makespan, width);
    bool any_copy = false;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
        const plan::Task& task = tasks.tasks[i];
        const bool copy = is_communication(task);
        any_copy = any_copy || copy;
        (copy ? copies : columns[static_cast<std::size_t>(task.device)])
            .add(timeline.start[i], task.duration);
    }

    const auto per_column = picoseconds(timeline.makespan.raw() / static_cast<std::int64_t>(width));
    std::string text = fmt::format("timeline of {}, {} per column\n", to_text(timeline.makespan),
                                   to_text(per_column));
    for (const std::size_t d : devices) {
        text += fmt::format("{} {:>7}\n",
                            row(problem.machine().device(static_cast<int>(d)).name, columns[d], 1,
                                terminal.unicode),
                            percent(timeline.busy[d] / timeline.makespan));
    }
    text += rest(timeline.busy, devices, timeline.makespan);
    if (any_copy) {
        // What many links carry adds up: the busiest column is the darkest.
        double most = 1;
        for (std::size_t c = 0; c < width; ++c) most = std::max(most, copies.share(c));
        std::string line = row("communication", copies, 1 / most, terminal.unicode);
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + '\n';
    }
    return text;
}

std::string load_picture(const plan::Problem& problem, const plan::Evaluation& evaluation,
                         const Terminal& terminal) {
    if (evaluation.value <= Time{0}) return "";
    constexpr std::size_t kAround = kRowLabelWidth + 2 + 2 + 12;
    const std::size_t width = static_cast<std::size_t>(terminal.width) - kAround;
    std::vector<Time> busy;
    busy.reserve(evaluation.devices.size());
    for (const plan::DeviceUse& use : evaluation.devices) busy.push_back(use.busy);
    const auto devices = devices_to_show(busy);
    const std::string value = to_text(evaluation.value);
    std::string text = plan::is_subgraph_latency(problem)
                           ? fmt::format("calls of each device, of a latency of {}\n", value)
                           : fmt::format("load per sample, {} at most\n", value);
    for (const std::size_t d : devices) {
        Columns bar(evaluation.value, width);
        bar.add(Time{0}, std::min(busy[d], evaluation.value));
        text += fmt::format(
            "{} {:>11}\n",
            row(problem.machine().device(static_cast<int>(d)).name, bar, 1, terminal.unicode),
            to_text(busy[d]));
    }
    return text + rest(busy, devices, evaluation.value);
}

}  // namespace partita::cli
