// SPDX-License-Identifier: Apache-2.0
//
// A timeline in text: one row per device, time from left to right, shade = share of the column's
// time that the device computes; the last row shows how much is being copied.
//
//     timeline of 1.43 ms, 24 us per column
//       gpu0    ████▓▓▒░    ▒▓███   84 %
//       gpu1        ░▒▓████▓▒       41 %
//       copies     ░    ░   ░
//
// With many devices the busiest are shown, in their own order, and the rest is counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/console.h"
#include "plan/evaluation/evaluator.h"
#include "plan/problem/problem.h"
#include "plan/simulation/simulate.h"
#include "plan/tasks/task_graph.h"

namespace partita::cli {

/// A row per device; those that look the same share one, wherever they are.
class DevicePicture {
public:
    DevicePicture() = default;
    /// Of something that takes `whole`.
    DevicePicture(std::string title, Time whole) : title_(std::move(title)), whole_(whole) {}

    /// `count` devices, of which one is named, with what stands behind the name.
    void add(const std::string& name, std::string text, Time busy, std::int32_t count);
    /// Below all of them.
    void set_last(std::string line) { last_ = std::move(line); }

    /// The `most_rows` busiest devices (of equals the first) in their order, and how many others
    /// there are. "" when nothing runs.
    [[nodiscard]] std::string text(std::size_t most_rows) const;

private:
    struct Row {
        std::string name;  ///< of the first device
        std::string text;
        std::int32_t count = 0;
    };
    [[nodiscard]] std::string rest(const std::vector<std::size_t>& shown) const;

    std::string title_;
    Time whole_;
    std::vector<Row> rows_;
    std::vector<std::int64_t> busy_;  ///< the same, in picoseconds
    std::map<std::string, std::size_t> by_text_;
    std::int64_t idle_ = 0;
    std::string last_;
};

DevicePicture timeline_picture(const plan::Problem& problem, const plan::TaskGraph& tasks,
                               const plan::Timeline& timeline, const Terminal& terminal);

/// For evaluations without an order: one bar per device, its load beside the largest.
DevicePicture load_picture(const plan::Problem& problem, const plan::Evaluation& evaluation,
                           const Terminal& terminal);

}  // namespace partita::cli
