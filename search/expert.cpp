// SPDX-License-Identifier: Apache-2.0
#include "search/expert.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <vector>

#include "graph/op_graph.h"
#include "search/device_loads.h"

namespace partita::search {

namespace {

/// Groups that are cut as one, in order.
using Stretch = std::vector<std::size_t>;

std::string_view block_of(const GroupGraph& graph, std::size_t g) {
    for (const graph::OpId op : graph.groups().members[g]) {
        const graph::Op& facts = graph.problem().graph().op(op);
        if (facts.kind == graph::OpKind::compute && !facts.block.empty()) return facts.block;
    }
    return {};
}

std::vector<Stretch> stretches_of(const GroupGraph& graph) {
    std::vector<Stretch> stretches;
    std::map<std::string_view, std::size_t> known;
    std::size_t current = 0;
    for (std::size_t g = 0; g < graph.size(); ++g) {
        const std::string_view block = block_of(graph, g);
        if (!block.empty() || stretches.empty()) {
            const auto [at, added] = known.try_emplace(block, stretches.size());
            if (added) stretches.emplace_back();
            current = at->second;
        }
        stretches[current].push_back(g);
    }
    if (stretches.size() >= static_cast<std::size_t>(graph.device_count())) return stretches;
    stretches.clear();
    for (std::size_t g = 0; g < graph.size(); ++g) stretches.push_back({g});
    return stretches;
}

/// Times per device class and bytes of every stretch.
class Cut {
public:
    explicit Cut(const GroupGraph& graph) : graph_(graph), stretches_(stretches_of(graph)) {
        const auto classes = static_cast<std::size_t>(graph.problem().device_class_count());
        std::vector<int> device_of_class(classes, 0);
        for (int d = graph.device_count(); d-- > 0;) {
            device_of_class[static_cast<std::size_t>(graph.problem().device_class(d))] = d;
        }
        time_.resize(stretches_.size() * classes);
        bytes_.resize(stretches_.size());
        for (std::size_t s = 0; s < stretches_.size(); ++s) {
            for (const std::size_t g : stretches_[s]) {
                bytes_[s] += graph.bytes(g);
                for (std::size_t c = 0; c < classes; ++c) {
                    time_[s * classes + c] += graph.time(g, device_of_class[c]);
                }
            }
        }
    }

    /// The number of stretches that fit when every device works for at most `limit`; their devices
    /// in `owner`.
    std::size_t fill(Time limit, std::vector<int>& owner) const {
        owner.assign(stretches_.size(), -1);
        std::size_t s = 0;
        for (int d = 0; d < graph_.device_count(); ++d) {
            Time load;
            Bytes bytes;
            while (s < stretches_.size()) {
                load += time(s, d);
                bytes += bytes_[s];
                if (load > limit || bytes > graph_.problem().memory_capacity(d)) break;
                owner[s++] = d;
            }
        }
        return s;
    }

    /// The owners under the smallest limit that places as much as any limit does.
    [[nodiscard]] std::vector<int> best() const {
        std::vector<int> owner;
        Time high;
        for (int d = 0; d < graph_.device_count(); ++d) high = std::max(high, graph_.total_time(d));
        const std::size_t most = fill(high, owner);
        Time low;
        while (high.raw() - low.raw() > std::max<std::int64_t>(1, high.raw() / 1000)) {
            const Time middle(low.raw() + (high.raw() - low.raw()) / 2);
            (fill(middle, owner) == most ? high : low) = middle;
        }
        fill(high, owner);
        return owner;
    }

    [[nodiscard]] const std::vector<Stretch>& stretches() const { return stretches_; }

private:
    [[nodiscard]] Time time(std::size_t s, int device) const {
        const plan::Problem& problem = graph_.problem();
        return time_[s * static_cast<std::size_t>(problem.device_class_count()) +
                     static_cast<std::size_t>(problem.device_class(device))];
    }

    const GroupGraph& graph_;
    std::vector<Stretch> stretches_;
    std::vector<Time> time_;
    std::vector<Bytes> bytes_;
};

}  // namespace

Placement place_expert(const GroupGraph& graph) {
    Placement placement(graph.size(), -1);
    const Cut cut(graph);
    const std::vector<int> owner = cut.best();
    DeviceLoads loads(graph);
    for (std::size_t s = 0; s < cut.stretches().size(); ++s) {
        for (const std::size_t g : cut.stretches()[s]) {
            const std::vector<int>& allowed = graph.devices(g);
            int device = owner[s];
            const bool usable = device >= 0 && loads.fits(g, device) &&
                                std::binary_search(allowed.begin(), allowed.end(), device);
            if (!usable) device = loads.least_loaded(g);
            placement[g] = device >= 0 ? device : loads.roomiest(g);
            loads.add(g, placement[g]);
        }
    }
    return placement;
}

}  // namespace partita::search
