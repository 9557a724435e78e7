// SPDX-License-Identifier: Apache-2.0
#include "search/bounds/critical_path_bound.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "graph/op_graph.h"
#include "search/bounds/uniform_reads.h"

namespace partita::search {

using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::TensorId;
using plan::Problem;

namespace {

class PathBuilder {
public:
    PathBuilder(const Problem& problem, const MicroBatchCosts& times, const PartCosts& parts,
                const WorkBound& work)
        : problem_(problem), graph_(problem.graph()), times_(times), parts_(parts), work_(work) {}

    BestTasks run() {
        find_lengths();
        find_heads();
        find_tails();
        return std::move(tasks_);
    }

    /// The longest that an op keeps its busiest device, with what must go before and follow: number
    /// 5.
    void find_longest_stage(const BestTasks& tasks, CriticalPathBounds& bounds) const {
        for (std::size_t i = 0; i < graph_.op_count(); ++i) {
            const OpId op(i);
            const BestTask& last =
                problem_.facts().has_backward(op) ? tasks.backward[i] : tasks.forward[i];
            const Time stage = tasks.forward[i].head + busiest_share(op) + last.tail;
            if (stage <= bounds.stage) continue;
            bounds.stage = stage;
            bounds.longest_stage = op;
        }
    }

private:
    [[nodiscard]] BestTask best_of(OpId op, Time PartCost::*time,
                                   const MicroBatchCosts::PassCost& (MicroBatchCosts::*pass)(OpId,
                                                                                             int)
                                       const) const {
        BestTask task;
        bool any = false;
        for (std::size_t c = 0; c < work_.classes().count(); ++c) {
            if (!work_.may_use(op, c)) continue;
            const Time all = (times_.*pass)(op, work_.classes().device[c]).all;
            const Int128 price = static_cast<Int128>(work_.weight(c)) * all.raw();
            if (!any || price < task.price) task.price = price;
            for (const PartCost& part : parts_.of(op, c)) {
                if (!any || part.*time < task.length) task.length = part.*time;
                any = true;
            }
        }
        return task;
    }

    [[nodiscard]] BestTask best_update(OpId op) const {
        BestTask task;
        bool any = false;
        for (std::size_t c = 0; c < work_.classes().count(); ++c) {
            if (!work_.may_update(op, c)) continue;
            const int device = work_.classes().device[c];
            const Time whole = problem_.bounds().least_update_time(op, device);
            const Int128 price = static_cast<Int128>(work_.weight(c)) * whole.raw();
            const Time part = part_of_update(op, whole, device);
            if (!any || part < task.length) task.length = part;
            if (!any || price < task.price) task.price = price;
            any = true;
        }
        return task;
    }

    /// Whole times are rounded up, and no task is shorter than a launch.
    [[nodiscard]] Time part_of_update(OpId op, Time whole, int device) const {
        const std::int64_t parts = problem_.constraints().split_limit(op);
        if (parts == 1 || whole == Time{0}) return whole;
        return std::max(Time((whole.raw() - 1) / parts),
                        std::min(whole, problem_.bounds().least_task_time(op, device)));
    }

    /// The least that some device does of all micro-batches of an op, forward and backward.
    [[nodiscard]] Time busiest_share(OpId op) const {
        std::optional<Time> least;
        for (std::size_t c = 0; c < work_.classes().count(); ++c) {
            if (!work_.may_use(op, c)) continue;
            for (const PartCost& part : parts_.of(op, c)) {
                const Time share = times_.runs(op) * (part.forward + part.backward);
                least = std::min(least.value_or(share), share);
            }
        }
        return least.value_or(Time{0});
    }

    void find_lengths() {
        for (std::size_t i = 0; i < graph_.op_count(); ++i) {
            const OpId op(i);
            tasks_.forward.push_back(best_of(op, &PartCost::forward, &MicroBatchCosts::forward));
            tasks_.backward.push_back(best_of(op, &PartCost::backward, &MicroBatchCosts::backward));
            tasks_.update.push_back(best_update(op));
        }
    }

    /// Do all parts of the op come after who gives the operand, and those of its producer's
    /// backward after theirs?
    [[nodiscard]] bool waits(OpId op, std::size_t operand) const {
        return reads_in_all_parts(problem_, {op, static_cast<std::uint32_t>(operand)});
    }

    static Time end_of(const BestTask& task) { return task.head + task.length; }
    static Time from(const BestTask& task) { return task.length + task.tail; }

    void find_heads() {
        for (std::size_t i = 0; i < graph_.op_count(); ++i) {
            Time& head = tasks_.forward[i].head;
            const std::vector<TensorId>& operands = graph_.ops()[i].inputs;
            for (std::size_t k = 0; k < operands.size(); ++k) {
                if (!operands[k].valid() || !waits(OpId(i), k)) continue;
                const OpId producer = graph_.tensor(operands[k]).producer;
                head = std::max(head, end_of(tasks_.forward[producer.index()]));
            }
        }
        for (std::size_t i = graph_.op_count(); i-- > 0;) {
            const OpId op(i);
            const Time ready = std::max(end_of(tasks_.forward[i]), gradients_ready(op));
            tasks_.backward[i].head = ready;
            tasks_.update[i].head = ready;
        }
    }

    /// When the gradients of all results can be there.
    [[nodiscard]] Time gradients_ready(OpId op) const {
        Time ready;
        for (const TensorId t : graph_.op(op).outputs) {
            if (!problem_.facts().has_gradient(t)) continue;
            for (const graph::Use use : graph_.uses(t)) {
                if (!problem_.facts().has_backward(use.op) || !waits(use.op, use.operand)) continue;
                ready = std::max(ready, end_of(tasks_.backward[use.op.index()]));
            }
        }
        return ready;
    }

    void find_tails() {
        for (std::size_t i = 0; i < graph_.op_count(); ++i) {
            if (!problem_.facts().has_backward(OpId(i))) continue;
            Time& tail = tasks_.backward[i].tail;
            const std::vector<TensorId>& operands = graph_.ops()[i].inputs;
            for (std::size_t k = 0; k < operands.size(); ++k) {
                if (!operands[k].valid() || !problem_.facts().has_gradient(operands[k])) continue;
                if (!waits(OpId(i), k)) continue;
                const std::size_t q = graph_.tensor(operands[k]).producer.index();
                tail = std::max({tail, from(tasks_.update[q]), from(tasks_.backward[q])});
            }
        }
        for (std::size_t i = graph_.op_count(); i-- > 0;) {
            Time& tail = tasks_.forward[i].tail;
            if (problem_.facts().has_backward(OpId(i))) tail = from(tasks_.backward[i]);
            for (const TensorId t : graph_.ops()[i].outputs) {
                for (const graph::Use use : graph_.uses(t)) {
                    if (!waits(use.op, use.operand)) continue;
                    tail = std::max(tail, from(tasks_.forward[use.op.index()]));
                }
            }
        }
    }

    const Problem& problem_;
    const graph::OpGraph& graph_;
    const MicroBatchCosts& times_;
    const PartCosts& parts_;
    const WorkBound& work_;
    BestTasks tasks_;
};

/// Thresholds that window_bound() tries for tails, at most.
constexpr std::size_t kMostTails = 64;

/// The distinct tails, or an even choice of them.
std::vector<Time> tail_thresholds(const std::vector<BestTask>& tasks) {
    std::vector<Time> tails;
    tails.reserve(tasks.size());
    for (const BestTask& task : tasks) tails.push_back(task.tail);
    std::sort(tails.begin(), tails.end());
    tails.erase(std::unique(tails.begin(), tails.end()), tails.end());
    if (tails.size() <= kMostTails) return tails;
    std::vector<Time> chosen;
    for (std::size_t i = 0; i < kMostTails; ++i) {
        chosen.push_back(tails[i * (tails.size() - 1) / (kMostTails - 1)]);
    }
    return chosen;
}

/// max over h and t of  h + work(tasks with head >= h and tail >= t) + t.
Time window_bound(std::vector<BestTask> tasks, const WorkBound& work) {
    std::sort(tasks.begin(), tasks.end(), [&](const BestTask& a, const BestTask& b) {
        return a.head > b.head;  // equal heads: sums do not care
    });
    Time best;
    for (const Time tail : tail_thresholds(tasks)) {
        Int128 price = 0;
        for (std::size_t i = 0; i < tasks.size(); ++i) {
            if (tasks[i].tail < tail) continue;
            price += tasks[i].price;
            const Time fixed = tasks[i].head + tail;
            // Divide only where the bound rises.
            if (price <= work.price_of(best - fixed)) continue;
            best = fixed + work.time_for(price);
        }
    }
    return best;
}

}  // namespace

/// The longest op on a path that takes all of that.
OpId longest_on(const BestTasks& all, Time path) {
    OpId longest;
    Time most;
    for (const auto* kind : {&all.forward, &all.backward, &all.update}) {
        for (std::size_t i = 0; i < kind->size(); ++i) {
            const BestTask& task = (*kind)[i];
            if (task.length <= most || task.head + task.length + task.tail < path) continue;
            most = task.length;
            longest = OpId(i);
        }
    }
    return longest;
}

CriticalPathBounds critical_path_bounds(const Problem& problem, const MicroBatchCosts& times,
                                        const PartCosts& parts, const WorkBound& work) {
    PathBuilder builder(problem, times, parts, work);
    CriticalPathBounds bounds;
    const BestTasks& all = bounds.tasks = builder.run();
    builder.find_longest_stage(all, bounds);
    std::vector<BestTask> tasks;
    for (const auto* kind : {&all.forward, &all.backward, &all.update}) {
        for (const BestTask& task : *kind) {
            bounds.critical_path = std::max(bounds.critical_path, task.head + task.length);
            if (task.price > 0) tasks.push_back(task);
        }
    }
    bounds.on_path = longest_on(all, bounds.critical_path);
    bounds.windows = window_bound(std::move(tasks), work);
    return bounds;
}

}  // namespace partita::search
