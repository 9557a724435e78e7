// SPDX-License-Identifier: Apache-2.0
#include "runtime/execute/iteration.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "base/statistics.h"
#include "runtime/execute/lanes.h"

namespace partita::runtime {

namespace {

/// When all steps of each task had ended.
std::vector<Time> ends_of_tasks(const Program& program, const Iteration& iteration) {
    std::vector<Time> ends(program.shares.size());
    std::size_t place = 0;
    for (const auto& steps : program.steps) {
        for (const Step& step : steps) {
            Time& last = ends[step.task.index()];
            last = std::max(last, iteration.ends[place++]);
        }
    }
    return ends;
}

}  // namespace

std::vector<plan::TaskRun> task_runs(const Program& program,
                                     std::span<const std::unique_ptr<Driver>> drivers,
                                     const Iteration& iteration) {
    const std::vector<Time> done = ends_of_tasks(program, iteration);
    std::vector<plan::TaskRun> runs;
    for (std::size_t w = 0; w < program.steps.size(); ++w) {
        std::array<Time, kLanes> before{};
        for (std::size_t s = 0; s < program.steps[w].size(); ++s) {
            const Step& step = program.steps[w][s];
            const std::size_t place = runs.size();
            Time& last = before.at(static_cast<std::size_t>(drivers[w]->lane(s)));
            plan::TaskRun run{.task = step.task,
                              .device = step.device,
                              .start = last,
                              .end = iteration.ends[place]};
            if (!iteration.met.empty()) run.start = std::max(run.start, iteration.met[place]);
            for (const plan::TaskId task : program.predecessors[step.task.index()]) {
                run.start = std::max(run.start, done[task.index()]);
            }
            run.start = std::min(run.start, run.end);  // clocks of two devices may differ
            last = run.end;
            runs.push_back(run);
        }
    }
    return runs;
}

std::vector<Time> durations(std::span<const plan::TaskRun> runs, std::size_t tasks) {
    std::vector<Time> durations(tasks);
    for (const plan::TaskRun& run : runs) {
        Time& longest = durations[run.task.index()];
        longest = std::max(longest, run.end - run.start);
    }
    return durations;
}

bool is_stable(std::span<const Iteration> iterations) {
    constexpr std::size_t kLeast = 5;
    constexpr double kPrecision = 0.01;
    if (iterations.size() < kLeast) return false;
    std::vector<Time> times;
    for (const Iteration& each : iterations) times.push_back(each.duration);
    const Time spread = quantile(times, 0.75) - quantile(times, 0.25);
    const double deviation = 0.5 * (spread / quantile(times, 0.5)) / 0.67;
    return 1.25 * deviation / std::sqrt(static_cast<double>(times.size())) <= kPrecision;
}

}  // namespace partita::runtime
