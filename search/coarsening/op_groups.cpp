// SPDX-License-Identifier: Apache-2.0
#include "search/coarsening/op_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <queue>
#include <utility>

#include "base/union_find.h"
#include "graph/op_graph.h"

namespace partita::search {

using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::TensorId;
using plan::Problem;

namespace {

/// Sets of devices, each kept once; set 0 is all devices.
class DeviceSets {
public:
    explicit DeviceSets(const Problem& problem) : problem_(problem) {
        std::vector<int> all(static_cast<std::size_t>(problem.device_count()));
        std::iota(all.begin(), all.end(), 0);
        intern(std::move(all));
    }

    int intern(std::vector<int> devices) {
        const auto [at, added] = ids_.try_emplace(devices, static_cast<int>(sets_.size()));
        if (added) {
            Bytes largest;
            for (const int d : devices)
                largest = std::max(largest, problem_.constraints().memory_capacity(d));
            largest_.push_back(largest);
            sets_.push_back(std::move(devices));
        }
        return at->second;
    }

    int intersect(int a, int b) {
        if (a == b || b == 0) return a;
        if (a == 0) return b;
        const auto known = intersections_.find(std::minmax(a, b));
        if (known != intersections_.end()) return known->second;
        std::vector<int> common;
        std::set_intersection(set(a).begin(), set(a).end(), set(b).begin(), set(b).end(),
                              std::back_inserter(common));
        const int result = intern(std::move(common));
        intersections_.emplace(std::minmax(a, b), result);
        return result;
    }

    [[nodiscard]] bool empty(int id) const { return sets_[static_cast<std::size_t>(id)].empty(); }
    /// Capacity of the roomiest device of a set.
    [[nodiscard]] Bytes largest(int id) const { return largest_[static_cast<std::size_t>(id)]; }
    [[nodiscard]] std::vector<std::vector<int>> take() { return std::move(sets_); }

private:
    [[nodiscard]] const std::vector<int>& set(int id) const {
        return sets_[static_cast<std::size_t>(id)];
    }

    const Problem& problem_;
    std::map<std::vector<int>, int> ids_;
    std::map<std::pair<int, int>, int> intersections_;
    std::vector<std::vector<int>> sets_;
    std::vector<Bytes> largest_;
};

class Grouper {
public:
    explicit Grouper(const Problem& problem)
        : problem_(problem), graph_(problem.graph()), sets_(problem), joined_(graph_.op_count()) {
        facts_.reserve(graph_.op_count());
        const std::vector<int>* last = nullptr;  // most ops share one vector: intern it once
        int last_id = 0;
        for (std::size_t i = 0; i < graph_.op_count(); ++i) {
            const OpId op(i);
            const std::vector<int>* allowed = &problem.constraints().allowed_devices(op);
            if (allowed != last) last_id = sets_.intern(*allowed);
            last = allowed;
            const bool compute = graph_.op(op).kind == OpKind::compute;
            const bool cheap = compute && is_cheap(op);
            facts_.push_back({.kept = problem.facts().persistent_bytes(op),
                              .allowed = last_id,
                              .products = compute && !cheap,
                              .cheap = cheap});
        }
    }

    void join_required();
    void join_sources_and_outputs();
    void join_cheap_ops();
    OpGroups number();

private:
    struct Facts {
        Bytes kept;
        int allowed = 0;
        int products = 0;  ///< ops that are not cheap
        int cheap = 0;
    };

    std::uint32_t root(std::size_t op) { return joined_.root(op); }
    /// Of two roots.
    void unite(std::uint32_t a, std::uint32_t b, int allowed) {
        joined_.unite(a, b);
        facts_[root(a)] = {.kept = facts_[a].kept + facts_[b].kept,
                           .allowed = allowed,
                           .products = facts_[a].products + facts_[b].products,
                           .cheap = facts_[a].cheap + facts_[b].cheap};
    }
    /// Joins unless no device would be left or have room.
    void join_if_it_fits(OpId a, OpId b) {
        const std::uint32_t first = root(a.index());
        const std::uint32_t second = root(b.index());
        if (first == second) return;
        const int allowed = sets_.intersect(facts_[first].allowed, facts_[second].allowed);
        if (sets_.empty(allowed)) return;
        if (facts_[first].kept + facts_[second].kept > sets_.largest(allowed)) return;
        unite(first, second, allowed);
    }

    [[nodiscard]] bool is_cheap(OpId id) const {
        const Op& op = graph_.op(id);
        const graph::OpRule& rule = problem_.facts().rule(id);
        return !rule.matrix_product && !rule.conservative && op.bodies.empty() && !op.given;
    }
    [[nodiscard]] OpId only_consumer(const Op& op) const;
    std::vector<std::uint32_t> roots_in_order();
    [[nodiscard]] Csr<std::int32_t> successors(const std::vector<std::int32_t>& of,
                                               std::size_t count) const;

    const Problem& problem_;
    const graph::OpGraph& graph_;
    DeviceSets sets_;
    UnionFind joined_;
    std::vector<Facts> facts_;  ///< of roots
    std::string conflict_;
};

void Grouper::join_required() {
    for (const auto& together : problem_.constraints().together()) {
        for (std::size_t i = 1; i < together.size(); ++i) {
            const std::uint32_t first = root(together[0].index());
            const std::uint32_t second = root(together[i].index());
            if (first == second) continue;
            const int allowed = sets_.intersect(facts_[first].allowed, facts_[second].allowed);
            if (sets_.empty(allowed) && conflict_.empty()) {
                conflict_ = fmt::format(
                    "ops '{}' and '{}' must share a device, but no device is allowed to both. "
                    "Fix them to a common device, or take one of them out of 'together'.",
                    graph_.op(together[0]).name, graph_.op(together[i]).name);
            }
            unite(first, second, allowed);
        }
    }
}

void Grouper::join_sources_and_outputs() {
    for (std::size_t i = 0; i < graph_.op_count(); ++i) {
        const Op& op = graph_.ops()[i];
        if (op.kind == OpKind::output) {
            // And with what the loss adds: alone it would lie between the output's two readers.
            for (const TensorId t : op.inputs) {
                join_if_it_fits(graph_.tensor(t).producer, OpId(i));
            }
        } else if (op.kind != OpKind::compute) {
            OpId first;
            for (const graph::Use use : graph_.uses(op.outputs[0])) first = std::min(first, use.op);
            if (first.valid()) join_if_it_fits(OpId(i), first);
        }
    }
}

/// The one op that reads the results of `op`, if there is exactly one.
OpId Grouper::only_consumer(const Op& op) const {
    OpId only;
    for (const TensorId t : op.outputs) {
        for (const graph::Use use : graph_.uses(t)) {
            if (only.valid() && use.op != only) return {};
            only = use.op;
        }
    }
    return only;
}

void Grouper::join_cheap_ops() {
    for (std::size_t i = 0; i < graph_.op_count(); ++i) {
        const Op& op = graph_.ops()[i];
        if (op.kind != OpKind::compute) continue;
        const OpId consumer = only_consumer(op);
        if (!consumer.valid() || graph_.op(consumer).kind != OpKind::compute) continue;
        if (!is_cheap(OpId(i)) && !is_cheap(consumer)) continue;
        const Facts& a = facts_[root(i)];
        const Facts& b = facts_[root(consumer.index())];
        if (a.products + b.products > 1 || a.cheap + b.cheap > kMaxGroupOps) continue;
        join_if_it_fits(OpId(i), consumer);
    }
}

/// Successor groups of each group, each once per tensor, by tensors that need copies.
Csr<std::int32_t> Grouper::successors(const std::vector<std::int32_t>& of,
                                      std::size_t count) const {
    std::vector<std::pair<std::int32_t, std::int32_t>> edges;
    for (std::size_t i = 0; i < graph_.tensor_count(); ++i) {
        const TensorId t(i);
        if (problem_.facts().is_resident(t)) continue;
        const std::int32_t from = of[graph_.tensor(t).producer.index()];
        for (const graph::Use use : graph_.uses(t)) {
            const std::int32_t to = of[use.op.index()];
            if (from != to) edges.emplace_back(from, to);
        }
    }
    std::sort(edges.begin(), edges.end());
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
    Csr<std::int32_t> lists;
    for (const auto& [from, to] : edges) {
        while (lists.rows() < static_cast<std::size_t>(from)) lists.end_row();
        lists.items.push_back(to);
    }
    while (lists.rows() < count) lists.end_row();
    return lists;
}

/// Groups in order of their smallest computing op (sources often lie far ahead of their users),
/// of their smallest op when none computes.
std::vector<std::uint32_t> Grouper::roots_in_order() {
    const auto none = static_cast<std::uint32_t>(graph_.op_count());
    std::vector<std::uint32_t> key(graph_.op_count(), none);
    for (std::size_t i = graph_.op_count(); i-- > 0;) {
        if (graph_.ops()[i].kind == OpKind::compute) key[root(i)] = static_cast<std::uint32_t>(i);
    }
    std::vector<std::uint32_t> roots;
    for (std::uint32_t i = 0; i < none; ++i) {
        if (root(i) != i) continue;
        roots.push_back(i);
        if (key[i] == none) key[i] = i;
    }
    std::sort(roots.begin(), roots.end(),
              [&](std::uint32_t a, std::uint32_t b) { return key[a] < key[b]; });
    return roots;
}

/// New numbers for groups with these successors: topological, ties by old number. In a cycle the
/// smallest old number goes first.
std::vector<std::int32_t> topological_numbers(const Csr<std::int32_t>& successors) {
    const std::size_t count = successors.rows();
    std::vector<std::int32_t> waiting(count, 0);
    for (const std::int32_t to : successors.items) ++waiting[static_cast<std::size_t>(to)];
    std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
    for (std::size_t g = 0; g < count; ++g) {
        if (waiting[g] == 0) ready.push(g);
    }
    std::vector<std::int32_t> number(count, -1);
    std::size_t stuck = 0;  // all groups before it have a number
    for (std::int32_t next = 0; static_cast<std::size_t>(next) < count;) {
        if (ready.empty()) {
            while (number[stuck] >= 0) ++stuck;
            ready.push(stuck);
        }
        const std::size_t g = ready.top();
        ready.pop();
        if (number[g] >= 0) continue;  // it broke a cycle and became ready once more
        number[g] = next++;
        for (const std::int32_t to : successors[g]) {
            const auto at = static_cast<std::size_t>(to);
            if (--waiting[at] == 0 && number[at] < 0) ready.push(at);
        }
    }
    return number;
}

OpGroups Grouper::number() {
    const std::vector<std::uint32_t> roots = roots_in_order();
    std::vector<std::int32_t> of_root(graph_.op_count(), -1);
    for (std::size_t g = 0; g < roots.size(); ++g) of_root[roots[g]] = static_cast<std::int32_t>(g);
    OpGroups groups;
    groups.of.resize(graph_.op_count());
    for (std::size_t i = 0; i < graph_.op_count(); ++i) groups.of[i] = of_root[root(i)];
    const auto numbers = topological_numbers(successors(groups.of, roots.size()));
    groups.allowed.resize(roots.size());
    groups.members.offsets.assign(roots.size() + 1, 0);
    for (std::int32_t& g : groups.of) {
        g = numbers[static_cast<std::size_t>(g)];
        ++groups.members.offsets[static_cast<std::size_t>(g) + 1];
    }
    std::partial_sum(groups.members.offsets.begin(), groups.members.offsets.end(),
                     groups.members.offsets.begin());
    groups.members.items.resize(graph_.op_count());
    std::vector<std::uint32_t> next(groups.members.offsets.begin(),
                                    groups.members.offsets.end() - 1);
    for (std::size_t i = 0; i < graph_.op_count(); ++i) {
        const auto g = static_cast<std::size_t>(groups.of[i]);
        groups.members.items[next[g]++] = OpId(i);
        groups.allowed[g] = facts_[root(i)].allowed;
    }
    groups.device_sets = sets_.take();
    groups.conflict = conflict_;
    return groups;
}

}  // namespace

OpGroups make_groups(const Problem& problem, Grouping grouping) {
    Grouper grouper(problem);
    grouper.join_required();
    if (grouping == Grouping::all) {
        grouper.join_sources_and_outputs();
        grouper.join_cheap_ops();
    }
    return grouper.number();
}

}  // namespace partita::search
