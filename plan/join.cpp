// SPDX-License-Identifier: Apache-2.0
#include "plan/join.h"

#include <algorithm>
#include <cassert>
#include <compare>
#include <map>
#include <tuple>

namespace partita::plan {

using cost::Collective;

namespace {

bool is_exchange(Collective kind) {
    return kind == Collective::scatter || kind == Collective::gather ||
           kind == Collective::all_to_all;
}

/// What collectives must have in common.
struct Likeness {
    bool exchange = false;
    Collective kind = Collective::all_to_all;  ///< of those that are no exchanges
    std::int32_t ranks = -1;  ///< the first row of TaskGraph::ranks with these devices
    std::int32_t micro_batch = -1;
    bool gradient = false;
    bool updated = false;
    graph::Combine combine = graph::Combine::none;
    graph::DType dtype = graph::DType::undefined;  ///< of those that combine
    friend auto operator<=>(const Likeness&, const Likeness&) = default;
};

class Finder {
public:
    Finder(const Problem& problem, std::span<const Task> tasks, const Csr<std::int32_t>& ranks,
           std::span<const std::pair<TaskId, TaskId>> edges)
        : problem_(problem), tasks_(tasks), ranks_(ranks), edges_(edges), taken_(tasks.size()) {}

    std::vector<Join> run() {
        find_candidates();
        if (candidates_.size() < 2) return {};
        find_neighbours(false);
        join_alike(kMostLeftOfEqualEnds);
        find_neighbours(true);
        join_alike(1);
        return std::move(joins_);
    }

private:
    static constexpr double kMostLeftOfEqualEnds =
        0.75;  ///< at most that share of the time is left

    struct Candidate {
        TaskId task = -1;
        Likeness likeness;
        std::vector<TaskId> neighbours;  ///< rising, distinct
    };

    [[nodiscard]] const Task& task(TaskId id) const { return tasks_[static_cast<std::size_t>(id)]; }

    void find_candidates() {
        std::vector<std::int32_t> set_of_row;
        std::map<std::vector<std::int32_t>, std::int32_t> sets;
        for (std::size_t row = 0; row < ranks_.rows(); ++row) {
            std::vector<std::int32_t> set(ranks_[row].begin(), ranks_[row].end());
            std::sort(set.begin(), set.end());
            set_of_row.push_back(
                sets.emplace(std::move(set), static_cast<std::int32_t>(row)).first->second);
        }
        for (std::size_t i = 0; i < tasks_.size(); ++i) {
            const Task& t = tasks_[i];
            if (t.kind != TaskKind::collective) continue;
            Likeness likeness{.exchange = is_exchange(t.collective),
                              .micro_batch = t.micro_batch,
                              .gradient = t.gradient,
                              .updated = t.updated,
                              .combine = t.combine};
            likeness.ranks =
                likeness.exchange ? set_of_row[static_cast<std::size_t>(t.ranks)] : t.ranks;
            if (!likeness.exchange) likeness.kind = t.collective;
            if (cost::reduces(t.collective)) {
                likeness.dtype = problem_.graph().tensor(t.tensor).dtype;
            }
            candidates_.push_back({static_cast<TaskId>(i), likeness, {}});
        }
    }

    /// Stands for all parts of an op, which lie in a row: a scatter leaves out the part at its root, and
    /// parts never wait for each other.
    [[nodiscard]] TaskId first_part(TaskId id) const {
        const Task& part = task(id);
        if (is_communication(part.kind) || is_local_move(part.kind)) return id;
        const TaskId first = id - std::max(part.part, 0);
        assert(task(first).kind == part.kind && task(first).op == part.op);
        return first;
    }

    /// Of every candidate what comes right before it, or right after it.
    void find_neighbours(bool before) {
        std::vector<std::int32_t> row(tasks_.size(), -1);
        for (std::size_t c = 0; c < candidates_.size(); ++c) {
            candidates_[c].neighbours.clear();
            row[static_cast<std::size_t>(candidates_[c].task)] = static_cast<std::int32_t>(c);
        }
        for (const auto& [from, to] : edges_) {
            const std::int32_t c = row[static_cast<std::size_t>(before ? to : from)];
            if (c < 0) continue;
            candidates_[static_cast<std::size_t>(c)].neighbours.push_back(
                first_part(before ? from : to));
        }
        for (Candidate& candidate : candidates_) {
            std::vector<TaskId>& list = candidate.neighbours;
            std::sort(list.begin(), list.end());
            list.erase(std::unique(list.begin(), list.end()), list.end());
        }
    }

    /// Joins candidates that are alike and have the same neighbours.
    void join_alike(double most_left) {
        std::vector<const Candidate*> order;
        for (const Candidate& candidate : candidates_) {
            const bool taken = taken_[static_cast<std::size_t>(candidate.task)] != 0;
            if (!taken && !candidate.neighbours.empty()) order.push_back(&candidate);
        }
        const auto key = [](const Candidate* c) { return std::tie(c->likeness, c->neighbours); };
        std::stable_sort(order.begin(), order.end(),
                         [&](const auto* a, const auto* b) { return key(a) < key(b); });
        for (std::size_t begin = 0; begin < order.size();) {
            std::size_t end = begin + 1;
            while (end < order.size() && key(order[begin]) == key(order[end])) ++end;
            if (end - begin > 1)
                try_join({order.begin() + static_cast<std::ptrdiff_t>(begin),
                          order.begin() + static_cast<std::ptrdiff_t>(end)},
                         most_left);
            begin = end;
        }
    }

    /// One tensor that moves twice would no longer know which values belong together.
    [[nodiscard]] bool has_repeated_tensor(const std::vector<TaskId>& members) const {
        std::vector<graph::TensorId> tensors;
        for (const TaskId id : members) tensors.push_back(task(id).tensor);
        std::sort(tensors.begin(), tensors.end());
        return std::adjacent_find(tensors.begin(), tensors.end()) != tensors.end();
    }

    void try_join(const std::vector<const Candidate*>& alike, double most_left) {
        Join join;
        Time apart;
        for (const Candidate* candidate : alike) {
            join.members.push_back(candidate->task);
            apart += task(candidate->task).duration;
        }
        if (has_repeated_tensor(join.members)) return;
        const auto row = ranks_[static_cast<std::size_t>(task(join.members[0]).ranks)];
        join.devices.assign(row.begin(), row.end());
        if (alike[0]->likeness.exchange) {
            std::sort(join.devices.begin(), join.devices.end());
            join.bytes = exchanged(join);
        } else {
            join.kind = alike[0]->likeness.kind;
            for (const TaskId id : join.members) join.bytes += task(id).bytes;
        }
        join.price = problem_.collective_price(
            {.kind = join.kind, .devices = join.devices, .bytes = join.bytes});
        const double left = most_left * static_cast<double>(apart.raw());
        if (static_cast<double>(join.price.time.raw()) > left) return;
        for (const TaskId id : join.members) taken_[static_cast<std::size_t>(id)] = 1;
        joins_.push_back(std::move(join));
    }

    /// What the rank with the most of it gives or gets, as an all-to-all counts: padded.
    [[nodiscard]] Bytes exchanged(const Join& join) const {
        const auto count = static_cast<std::int64_t>(join.devices.size());
        std::vector<std::int64_t> given(join.devices.size(), 0);
        std::vector<std::int64_t> got(join.devices.size(), 0);
        for (const TaskId id : join.members) {
            const Task& member = task(id);
            const std::int64_t all = member.bytes.raw();
            const std::int64_t share = (all + count - 1) / count;
            for (std::size_t i = 0; i < join.devices.size(); ++i) {
                const bool root = join.devices[i] == member.device;
                const bool gives = member.collective == Collective::all_to_all ||
                                   (member.collective == Collective::scatter && root);
                const bool gets = member.collective == Collective::all_to_all ||
                                  (member.collective == Collective::gather && root);
                given[i] += gives ? all : member.collective == Collective::gather ? share : 0;
                got[i] += gets ? all : member.collective == Collective::scatter ? share : 0;
            }
        }
        return Bytes(std::max(*std::max_element(given.begin(), given.end()),
                              *std::max_element(got.begin(), got.end())));
    }

    const Problem& problem_;
    std::span<const Task> tasks_;
    const Csr<std::int32_t>& ranks_;
    std::span<const std::pair<TaskId, TaskId>> edges_;
    std::vector<Candidate> candidates_;
    std::vector<char> taken_;  ///< per task
    std::vector<Join> joins_;
};

}  // namespace

std::vector<Join> find_joins(const Problem& problem, std::span<const Task> tasks,
                             const Csr<std::int32_t>& ranks,
                             std::span<const std::pair<TaskId, TaskId>> edges) {
    return Finder(problem, tasks, ranks, edges).run();
}

}  // namespace partita::plan
