// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tests/plan/lowering/interpreter.h"

namespace partita::plan {
namespace {

/// Which tasks come before which, by dependencies alone.
class Ancestors {
public:
    explicit Ancestors(const TaskGraph& tasks)
        : before_(tasks.size(), std::vector<bool>(tasks.size(), false)) {
        std::vector<std::int32_t> waiting = tasks.predecessor_counts;
        std::vector<std::size_t> ready;
        for (std::size_t i = 0; i < tasks.size(); ++i) {
            if (waiting[i] == 0) ready.push_back(i);
        }
        while (!ready.empty()) {
            const std::size_t task = ready.back();
            ready.pop_back();
            for (const TaskId next : tasks.successors[task]) {
                const std::size_t n = next.index();
                for (std::size_t i = 0; i < tasks.size(); ++i) {
                    if (before_[task][i]) before_[n][i] = true;
                }
                before_[n][task] = true;
                if (--waiting[n] == 0) ready.push_back(n);
            }
        }
    }
    [[nodiscard]] bool is_before(std::size_t a, std::size_t b) const { return before_[b][a]; }

private:
    std::vector<std::vector<bool>> before_;
};

/// Does the task read the buffer itself, and not only a value that lies in its memory?
bool reads_itself(const TaskGraph& tasks, std::size_t task, BufferId buffer) {
    const auto listed = tasks.reads[task];
    if (std::find(listed.begin(), listed.end(), buffer) == listed.end()) return false;
    return std::none_of(listed.begin(), listed.end(),
                        [&](BufferId b) { return tasks.buffers[b.index()].root == buffer; });
}

/// Does the task, or the transfer of a new parameter, write where that buffer lies?
bool overwrites(const TaskGraph& tasks, const Buffer& written, BufferId old) {
    const Task& writer = tasks.tasks[written.writer.index()];
    if (writer.kind == TaskKind::accumulate) return written.root == old;
    if ((writer.kind != TaskKind::update && !writer.updated) || written.message) return false;
    const Buffer& parameter = tasks.buffers[old.index()];
    return !parameter.writer.valid() && !parameter.gradient && parameter.region >= 0 &&
           parameter.tensor == written.tensor && parameter.device == written.device &&
           !intersection((*tasks.regions)[parameter.region], (*tasks.regions)[written.region])
                .empty();
}

}  // namespace

std::optional<std::string> find_hasty_write(const Problem& problem, const TaskGraph& tasks) {
    const Ancestors ancestors(tasks);
    for (const Buffer& written : tasks.buffers) {
        if (!written.writer.valid() || written.region < 0) continue;
        const std::size_t writer = written.writer.index();
        for (std::size_t i = 0; i < tasks.buffers.size(); ++i) {
            const BufferId old(i);
            if (!overwrites(tasks, written, old)) continue;
            for (std::size_t task = 0; task < tasks.size(); ++task) {
                if (task == writer || ancestors.is_before(task, writer)) continue;
                if (!reads_itself(tasks, task, old)) continue;
                return task_name(problem, tasks.tasks[writer]) + " overwrites what " +
                       task_name(problem, tasks.tasks[task]) + " reads";
            }
        }
    }
    return std::nullopt;
}

}  // namespace partita::plan
