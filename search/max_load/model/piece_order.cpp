// SPDX-License-Identifier: Apache-2.0
#include "search/max_load/model/piece_order.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <queue>
#include <set>
#include <tuple>

#include "base/csr.h"
#include "base/hash_index.h"
#include "search/max_load/model/piece_graph.h"

namespace partita::search {

namespace {

using Lists = Csr<std::int32_t>;

std::size_t index(std::int32_t vertex) {
    return static_cast<std::size_t>(vertex);
}

Lists lists_of(std::size_t size, const std::vector<std::pair<std::int32_t, std::int32_t>>& edges,
               bool reversed) {
    Lists lists;
    lists.offsets.assign(size + 1, 0);
    const auto from = [&](const auto& edge) { return reversed ? edge.second : edge.first; };
    for (const auto& edge : edges) ++lists.offsets[index(from(edge)) + 1];
    std::partial_sum(lists.offsets.begin(), lists.offsets.end(), lists.offsets.begin());
    lists.items.resize(edges.size());
    std::vector<std::uint32_t> next(lists.offsets.begin(), lists.offsets.end() - 1);
    for (const auto& edge : edges) {
        lists.items[next[index(from(edge))]++] = reversed ? edge.first : edge.second;
    }
    return lists;
}

/// Tarjan's algorithm with a stack of its own: graphs may be deep.
class Components {
public:
    Components(std::size_t size, Lists next)
        : next_(std::move(next)), found_(size, -1), low_(size, 0) {
        numbering_.of.assign(size, -1);
    }

    Numbering find() {
        for (std::size_t v = 0; v < found_.size(); ++v) {
            if (found_[v] < 0) visit(static_cast<std::int32_t>(v));
        }
        return std::move(numbering_);
    }

private:
    struct Frame {
        std::int32_t vertex = 0;
        std::size_t edge = 0;
    };

    void enter(std::int32_t vertex) {
        found_[index(vertex)] = low_[index(vertex)] = clock_++;
        open_.push_back(vertex);
        frames_.push_back({vertex, 0});
    }

    void visit(std::int32_t root) {
        enter(root);
        while (!frames_.empty()) {
            Frame& frame = frames_.back();
            const auto next = next_[index(frame.vertex)];
            if (frame.edge < next.size()) {
                const std::int32_t to = next[frame.edge++];
                const std::int32_t vertex = frame.vertex;
                if (found_[index(to)] < 0) {
                    enter(to);
                } else if (numbering_.of[index(to)] < 0) {
                    low_[index(vertex)] = std::min(low_[index(vertex)], found_[index(to)]);
                }
                continue;
            }
            leave(frame.vertex);
        }
    }

    void leave(std::int32_t vertex) {
        frames_.pop_back();
        if (!frames_.empty()) {
            std::int32_t& low = low_[index(frames_.back().vertex)];
            low = std::min(low, low_[index(vertex)]);
        }
        if (low_[index(vertex)] != found_[index(vertex)]) return;
        for (;;) {
            const std::int32_t member = open_.back();
            open_.pop_back();
            numbering_.of[index(member)] = static_cast<std::int32_t>(numbering_.size);
            if (member == vertex) break;
        }
        ++numbering_.size;
    }

    Lists next_;
    std::vector<std::int32_t> found_;
    std::vector<std::int32_t> low_;
    std::vector<std::int32_t> open_;
    std::vector<Frame> frames_;
    Numbering numbering_;
    std::int32_t clock_ = 0;
};

/// Longest path, in edges, from a vertex without predecessors.
std::vector<std::int32_t> depths(std::size_t size, const Lists& next, const Lists& before) {
    std::vector<std::int32_t> depth(size, 0);
    std::vector<std::size_t> waiting(size);
    std::vector<std::int32_t> ready;
    for (std::size_t v = 0; v < size; ++v) {
        waiting[v] = before[v].size();
        if (waiting[v] == 0) ready.push_back(static_cast<std::int32_t>(v));
    }
    while (!ready.empty()) {
        const std::int32_t vertex = ready.back();
        ready.pop_back();
        for (const std::int32_t to : next[index(vertex)]) {
            depth[index(to)] = std::max(depth[index(to)], depth[index(vertex)] + 1);
            if (--waiting[index(to)] == 0) ready.push_back(to);
        }
    }
    return depth;
}

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
    Hash hash;
    hash.add(static_cast<std::int64_t>(a));
    hash.add(static_cast<std::int64_t>(b));
    return hash.value();
}

/// What each vertex looks like: its costs, then round by round those of what surrounds it. Sums, so
/// that the order of neighbours does not matter.
class Looks {
public:
    explicit Looks(const PieceGraph& graph, const std::vector<std::int32_t>& depth)
        : graph_(graph), look_(graph.size) {
        for (std::size_t v = 0; v < graph.size; ++v) {
            Hash hash;
            hash.add(depth[v]);
            hash.add(graph.bytes[v]);
            for (std::size_t k = 0; k < graph.kinds; ++k) hash.add(graph.time(v, k));
            look_[v] = hash.value();
        }
    }

    std::vector<std::uint64_t> refine() {
        constexpr std::size_t kWork = 5'000'000;  // pins and edges of all rounds together
        std::size_t work = graph_.edges.size() + graph_.size;
        for (const PieceNet& net : graph_.nets) work += 1 + net.others.size();
        std::size_t known = distinct();
        for (std::size_t left = kWork; left >= work; left -= work) {
            round();
            const std::size_t now = distinct();
            if (now <= known || now == graph_.size) break;
            known = now;
        }
        return std::move(look_);
    }

private:
    [[nodiscard]] std::size_t distinct() const {
        std::vector<std::uint64_t> sorted = look_;
        std::sort(sorted.begin(), sorted.end());
        return static_cast<std::size_t>(std::unique(sorted.begin(), sorted.end()) - sorted.begin());
    }

    void round() {
        constexpr std::uint64_t kAhead = 1;
        constexpr std::uint64_t kBehind = 2;
        constexpr std::uint64_t kSource = 3;
        constexpr std::uint64_t kOther = 4;
        std::vector<std::uint64_t> sum(graph_.size, 0);
        for (const auto& [from, to] : graph_.edges) {
            sum[index(from)] += mixed(kAhead, look_[index(to)]);
            sum[index(to)] += mixed(kBehind, look_[index(from)]);
        }
        for (const PieceNet& net : graph_.nets) {
            std::uint64_t all =
                mixed(static_cast<std::uint64_t>(net.cost), look_[index(net.source)]);
            for (const std::int32_t other : net.others) all += mixed(kOther, look_[index(other)]);
            sum[index(net.source)] += mixed(kSource, all);
            for (const std::int32_t other : net.others) sum[index(other)] += mixed(kOther, all);
        }
        for (std::size_t v = 0; v < graph_.size; ++v) look_[v] = mixed(look_[v], sum[v]);
    }

    const PieceGraph& graph_;
    std::vector<std::uint64_t> look_;
};

/// The order in which vertices become ready and leave a queue where the largest key goes first; a
/// key is given when the vertex becomes ready. Ties: the smaller number.
template <class Key>
std::vector<std::int32_t> order_by(const PieceGraph& graph, const Lists& next, const Lists& before,
                                   Key key) {
    using Entry = std::tuple<std::int64_t, std::int32_t>;
    std::priority_queue<Entry> ready;
    std::vector<std::size_t> waiting(graph.size);
    std::int64_t clock = 0;
    for (std::size_t v = 0; v < graph.size; ++v) {
        waiting[v] = before[v].size();
        const auto vertex = static_cast<std::int32_t>(v);
        if (waiting[v] == 0) ready.emplace(key(vertex, clock), -vertex);
    }
    std::vector<std::int32_t> place(graph.size);
    for (std::int32_t at = 0; !ready.empty(); ++at) {
        const std::int32_t vertex = -std::get<1>(ready.top());
        ready.pop();
        place[index(vertex)] = at;
        ++clock;
        for (const std::int32_t to : next[index(vertex)]) {
            if (--waiting[index(to)] == 0) ready.emplace(key(to, clock), -to);
        }
    }
    return place;
}

/// Longest path to the end by the time on the quickest kind of device.
std::vector<std::int64_t> urgency(const PieceGraph& graph, const Lists& next) {
    std::vector<std::int64_t> rank(graph.size, 0);
    for (std::size_t v = graph.size; v-- > 0;) {
        std::int64_t best = kNever;
        for (std::size_t k = 0; k < graph.kinds; ++k) best = std::min(best, graph.time(v, k));
        for (const std::int32_t to : next[v]) rank[v] = std::max(rank[v], rank[index(to)]);
        rank[v] = std::min(kNever, rank[v] + best);
    }
    return rank;
}

}  // namespace

Numbering strong_components(std::size_t size,
                            const std::vector<std::pair<std::int32_t, std::int32_t>>& edges) {
    return Components(size, lists_of(size, edges, false)).find();
}

std::vector<std::int32_t> canonical_order(const PieceGraph& graph) {
    const Lists next = lists_of(graph.size, graph.edges, false);
    const Lists before = lists_of(graph.size, graph.edges, true);
    const std::vector<std::int32_t> depth = depths(graph.size, next, before);
    const std::vector<std::uint64_t> look = Looks(graph, depth).refine();
    std::vector<std::size_t> vertices(graph.size);
    std::iota(vertices.begin(), vertices.end(), 0U);
    std::sort(vertices.begin(), vertices.end(), [&](std::size_t a, std::size_t b) {
        return std::tie(depth[a], look[a], a) < std::tie(depth[b], look[b], b);
    });
    std::vector<std::int32_t> place(graph.size);
    for (std::size_t i = 0; i < vertices.size(); ++i) {
        place[vertices[i]] = static_cast<std::int32_t>(i);
    }
    return place;
}

std::vector<std::vector<std::int32_t>> linear_orders(const PieceGraph& graph) {
    const Lists next = lists_of(graph.size, graph.edges, false);
    const Lists before = lists_of(graph.size, graph.edges, true);
    const auto newest = [](std::int32_t /*vertex*/, std::int64_t clock) { return clock; };
    const std::vector<std::int64_t> rank = urgency(graph, next);
    std::vector<std::int32_t> canonical(graph.size);
    std::iota(canonical.begin(), canonical.end(), 0);
    std::vector<std::int32_t> from_back = order_by(graph, before, next, newest);
    for (std::int32_t& place : from_back) place = static_cast<std::int32_t>(graph.size) - 1 - place;
    return {std::move(canonical), order_by(graph, next, before, newest), std::move(from_back),
            order_by(graph, next, before, [&](std::int32_t vertex, std::int64_t /*clock*/) {
                return rank[index(vertex)];
            })};
}

}  // namespace partita::search
