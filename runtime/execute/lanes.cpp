// SPDX-License-Identifier: Apache-2.0
#include "runtime/execute/lanes.h"

#include <algorithm>

namespace partita::runtime {

using plan::TaskId;

namespace {

class LanePlanner {
public:
    LanePlanner(const Program& program, const plan::TaskGraph& tasks)
        : program_(program), tasks_(tasks), places_(tasks.size()) {
        for (std::uint32_t w = 0; w < program.steps.size(); ++w) {
            for (std::uint32_t s = 0; s < program.steps[w].size(); ++s) {
                places_[program.steps[w][s].task.index()].push_back({w, s});
            }
        }
    }

    std::vector<std::vector<LanedStep>> run() {
        std::vector<std::vector<LanedStep>> all;
        for (std::uint32_t w = 0; w < program_.steps.size(); ++w) {
            awaited_.assign(kLanes, std::vector<std::int64_t>(kLanes * program_.steps.size(), -1));
            auto& steps = all.emplace_back();
            for (const Step& step : program_.steps[w]) steps.push_back(laned(w, step.task));
        }
        return all;
    }

private:
    [[nodiscard]] Lane lane_at(StepPlace place) const {
        const Step& step = program_.steps[place.worker][place.step];
        return lane_of(tasks_.tasks[step.task.index()].kind);
    }

    LanedStep laned(std::uint32_t worker, TaskId task) {
        LanedStep laned{.lane = lane_of(tasks_.tasks[task.index()].kind), .awaits = {}};
        const auto own = static_cast<std::size_t>(laned.lane);
        for (const TaskId before : program_.predecessors[task.index()]) {
            for (const StepPlace place : places_[before.index()]) {
                const Lane lane = lane_at(place);
                if (place.worker == worker && lane == laned.lane) continue;
                auto& latest =
                    awaited_[own][kLanes * place.worker + static_cast<std::size_t>(lane)];
                if (latest >= place.step) continue;
                latest = place.step;
                const auto same = [&](StepPlace other) {
                    return other.worker == place.worker && lane_at(other) == lane;
                };
                std::erase_if(laned.awaits, same);
                laned.awaits.push_back(place);
            }
        }
        return laned;
    }

    const Program& program_;
    const plan::TaskGraph& tasks_;
    std::vector<std::vector<StepPlace>> places_;  ///< per task
    /// Of the worker: per lane and lane of all workers the latest step that was awaited.
    std::vector<std::vector<std::int64_t>> awaited_;
};

}  // namespace

Lane lane_of(plan::TaskKind kind) {
    return is_communication(kind) ? Lane::communication : Lane::compute;
}

std::vector<std::vector<LanedStep>> plan_lanes(const Program& program,
                                               const plan::TaskGraph& tasks) {
    return LanePlanner(program, tasks).run();
}

}  // namespace partita::runtime
