// SPDX-License-Identifier: Apache-2.0
#include "search/coarsening/group_graph.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <tuple>

#include "graph/op_graph.h"

namespace partita::search {

using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::TensorId;
using plan::Problem;

namespace {

/// Pairs of devices for mean communication times.
constexpr int kSampledPairs = 16;

struct Edge {
    std::int32_t from = 0;
    std::int32_t to = 0;
    TensorId tensor;
    Bytes bytes;
};

/// Lists per `key` of the edges, which are sorted by it.
template <class Key, class Other>
Csr<GroupEdge> lists_of(const std::vector<Edge>& edges, std::size_t rows, Key key, Other other) {
    Csr<GroupEdge> lists;
    lists.offsets.assign(rows + 1, 0);
    lists.items.reserve(edges.size());
    for (const Edge& edge : edges) {
        ++lists.offsets[static_cast<std::size_t>(key(edge)) + 1];
        lists.items.push_back({other(edge), edge.tensor, edge.bytes});
    }
    std::partial_sum(lists.offsets.begin(), lists.offsets.end(), lists.offsets.begin());
    return lists;
}

}  // namespace

GroupGraph::GroupGraph(const Problem& problem, OpGroups groups)
    : problem_(problem), groups_(std::move(groups)) {
    assert(groups_.conflict.empty());
    const int devices = device_count();
    for (int i = 0; i < kSampledPairs && devices > 1; ++i) {
        const int from = i * devices / kSampledPairs;
        const int to = (from + 1 + i * 5 % (devices - 1)) % devices;
        sample_.emplace_back(from, to);
    }
    sum_times();
    sum_bytes();
    connect();
    rank_groups();
}

void GroupGraph::sum_times() {
    const auto classes = static_cast<std::size_t>(problem_.prices().device_class_count());
    std::vector<int> device_of_class(classes, -1);
    std::vector<int> class_size(classes, 0);
    for (int d = device_count(); d-- > 0;) {
        const auto c = static_cast<std::size_t>(problem_.prices().device_class(d));
        device_of_class[c] = d;
        ++class_size[c];
    }
    time_.resize(size() * classes);
    mean_time_.resize(size());
    class_total_.resize(classes);
    for (std::size_t g = 0; g < size(); ++g) {
        Int128 sum = 0;
        for (std::size_t c = 0; c < classes; ++c) {
            Time time;
            for (const OpId op : groups_.members[g]) {
                time += problem_.prices().total_time(op, device_of_class[c]);
            }
            time_[g * classes + c] = time;
            class_total_[c] += time;
            sum += static_cast<Int128>(time.raw()) * class_size[c];
        }
        mean_time_[g] = Time(static_cast<std::int64_t>(sum / std::max(1, device_count())));
    }
    by_speed_.resize(static_cast<std::size_t>(device_count()));
    std::iota(by_speed_.begin(), by_speed_.end(), 0);
    std::stable_sort(by_speed_.begin(), by_speed_.end(),
                     [&](int a, int b) { return total_time(a) < total_time(b); });
}

/// Need what it makes not be kept for the backward?
bool may_run_again(const plan::Problem& problem, OpId op) {
    const plan::LayerBlock* const block = problem.facts().recompute().block_of(op);
    if (block == nullptr) return false;
    const plan::Recompute said = problem.policy().recompute;
    const auto most = said == plan::Recompute::automatic ? plan::Recompute::full : said;
    const plan::RecomputeRegion* const region = block->region(most);
    return region != nullptr && region->has(op);
}

/// Activations that the backward of `op` reads, appended to `saved`.
void GroupGraph::add_saved_bytes(OpId op, std::vector<TensorId>& saved) const {
    const graph::OpGraph& graph = problem_.graph();
    const graph::OpRule& rule = problem_.facts().rule(op);
    const auto add = [&](TensorId t) {
        if (!t.valid()) return;
        const OpId producer = graph.tensor(t).producer;
        if (may_run_again(problem_, producer)) return;
        if (graph.op(producer).kind == OpKind::compute) saved.push_back(t);
    };
    const Op& of = graph.op(op);
    if (!problem_.facts().has_backward(op) || of.kind != OpKind::compute) return;
    for (std::size_t i = 0; i < of.inputs.size(); ++i) {
        if (rule.saves_operand(i)) add(of.inputs[i]);
    }
    for (std::size_t i = 0; i < of.outputs.size(); ++i) {
        if (rule.saves_result(i)) add(of.outputs[i]);
    }
}

void GroupGraph::sum_bytes() {
    const graph::OpGraph& graph = problem_.graph();
    bytes_.resize(size());
    saved_bytes_.resize(size());
    result_bytes_.resize(size());
    std::vector<TensorId> saved;
    for (std::size_t g = 0; g < size(); ++g) {
        saved.clear();
        for (const OpId op : groups_.members[g]) {
            const Op& facts = graph.op(op);
            if (facts.kind == OpKind::compute) {
                for (const TensorId t : facts.outputs) result_bytes_[g] += graph.tensor(t).bytes();
            }
            add_saved_bytes(op, saved);
            // A resident tensor lies where it is first used, and nowhere when it is not.
            const bool source = facts.kind != OpKind::compute && facts.kind != OpKind::output;
            if (!source || !problem_.facts().is_resident(facts.outputs[0])) {
                bytes_[g] += problem_.facts().persistent_bytes(op);
                continue;
            }
            const auto uses = graph.uses(facts.outputs[0]);
            if (uses.empty()) continue;
            bytes_[static_cast<std::size_t>(groups_.of[uses[0].op.index()])] +=
                problem_.facts().tensor_bytes(facts.outputs[0]);
        }
        std::sort(saved.begin(), saved.end());
        saved.erase(std::unique(saved.begin(), saved.end()), saved.end());
        for (const TensorId t : saved) saved_bytes_[g] += problem_.facts().tensor_bytes(t);
        bytes_[g] += saved_bytes_[g];
    }
}

void GroupGraph::connect() {
    const graph::OpGraph& graph = problem_.graph();
    std::vector<Edge> edges;
    for (std::size_t i = 0; i < graph.tensor_count(); ++i) {
        const TensorId t(i);
        if (problem_.facts().is_resident(t)) continue;
        const std::int32_t producer = groups_.of[graph.tensor(t).producer.index()];
        const Bytes bytes =
            (problem_.facts().has_gradient(t) ? 2 : 1) * problem_.facts().tensor_bytes(t);
        for (const graph::Use use : graph.uses(t)) {
            const std::int32_t user = groups_.of[use.op.index()];
            if (user == producer) continue;
            edges.push_back({std::min(producer, user), std::max(producer, user), t, bytes});
        }
    }
    const auto by_from = [](const Edge& e) { return std::tie(e.from, e.to, e.tensor); };
    const auto by_to = [](const Edge& e) { return std::tie(e.to, e.from, e.tensor); };
    std::sort(edges.begin(), edges.end(),
              [&](const Edge& a, const Edge& b) { return by_from(a) < by_from(b); });
    edges.erase(std::unique(edges.begin(), edges.end(),
                            [&](const Edge& a, const Edge& b) { return by_from(a) == by_from(b); }),
                edges.end());
    const auto from = [](const Edge& e) { return e.from; };
    const auto to = [](const Edge& e) { return e.to; };
    outgoing_ = lists_of(edges, size(), from, to);
    std::sort(edges.begin(), edges.end(),
              [&](const Edge& a, const Edge& b) { return by_to(a) < by_to(b); });
    incoming_ = lists_of(edges, size(), to, from);
}

void GroupGraph::rank_groups() {
    path_to_sink_.resize(size());
    rank_.resize(size());
    for (std::size_t g = size(); g-- > 0;) {
        Time path;
        Time rank;
        for (const GroupEdge& edge : outgoing(g)) {
            const auto next = static_cast<std::size_t>(edge.group);
            path = std::max(path, path_to_sink_[next]);
            rank = std::max(rank, rank_[next] + mean_copy_time(edge));
        }
        path_to_sink_[g] = path + mean_time_[g];
        rank_[g] = rank + mean_time_[g];
    }
}

Time GroupGraph::mean_copy_time(const GroupEdge& edge) const {
    if (sample_.empty()) return Time{0};
    Int128 sum = 0;
    for (const auto& [from, to] : sample_) sum += copy_time(edge, from, to).raw();
    return Time(static_cast<std::int64_t>(sum / kSampledPairs));
}

Time GroupGraph::copy_time(const GroupEdge& edge, int from, int to) const {
    if (from == to) return Time{0};
    const Time there = problem_.transfers().copy_time(edge.tensor, from, to);
    return problem_.facts().has_gradient(edge.tensor)
               ? there + problem_.transfers().copy_time(edge.tensor, to, from)
               : there;
}

Time GroupGraph::total_time(int device) const {
    return class_total_[static_cast<std::size_t>(problem_.prices().device_class(device))];
}

plan::Strategy GroupGraph::strategy(const Placement& placement) const {
    std::vector<int> devices(groups_.of.size());
    for (std::size_t i = 0; i < devices.size(); ++i) {
        devices[i] = placement[static_cast<std::size_t>(groups_.of[i])];
    }
    plan::Strategy strategy = plan::whole_ops(devices, problem_.policy());
    plan::apply_recompute(problem_.facts().recompute(), strategy);
    return strategy;
}

Placement GroupGraph::placement(const plan::Strategy& strategy) const {
    Placement placement(size());
    for (std::size_t g = 0; g < size(); ++g) {
        placement[g] = strategy.device_of(groups_.members[g][0]);
    }
    return placement;
}

}  // namespace partita::search
