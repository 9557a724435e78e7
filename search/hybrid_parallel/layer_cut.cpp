// SPDX-License-Identifier: Apache-2.0
#include "search/hybrid_parallel/layer_cut.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "graph/op_globs.h"
#include "graph/op_graph.h"

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

std::vector<Stretch> stretches_of(const GroupGraph& graph, std::size_t slots) {
    std::vector<Stretch> stretches;
    std::map<std::string_view, std::size_t> known;
    std::size_t current = 0;
    for (std::size_t g = 0; g < graph.size(); ++g) {
        const std::string_view block = block_of(graph, g);
        if (!block.empty() || stretches.empty()) {
            const auto [entry, added] = known.try_emplace(block, stretches.size());
            if (added) stretches.emplace_back();
            current = entry->second;
        }
        stretches[current].push_back(g);
    }
    if (stretches.size() >= slots) return stretches;
    stretches.clear();
    for (std::size_t g = 0; g < graph.size(); ++g) stretches.push_back({g});
    return stretches;
}

/// Times per device class and bytes of every stretch.
class Cut {
public:
    Cut(const GroupGraph& graph, const std::vector<Slot>& slots)
        : graph_(graph), slots_(slots), stretches_(stretches_of(graph, slots.size())) {
        const auto classes =
            static_cast<std::size_t>(graph.problem().prices().device_class_count());
        std::vector<int> device_of_class(classes, 0);
        for (int d = graph.device_count(); d-- > 0;) {
            device_of_class[static_cast<std::size_t>(graph.problem().prices().device_class(d))] = d;
        }
        time_.resize(stretches_.size() * classes);
        bytes_.resize(stretches_.size());
        saved_.resize(stretches_.size());
        for (std::size_t s = 0; s < stretches_.size(); ++s) {
            for (const std::size_t g : stretches_[s]) {
                bytes_[s] += graph.bytes(g) - graph.saved_bytes(g);
                saved_[s] += graph.saved_bytes(g);
                for (std::size_t c = 0; c < classes; ++c) {
                    time_[s * classes + c] += graph.time(g, device_of_class[c]);
                }
            }
        }
    }

    /// The number of stretches that fit when every slot works for at most `limit`; their slots
    /// in `owner`.
    std::size_t fill(Time limit, std::vector<int>& owner) const {
        owner.assign(stretches_.size(), -1);
        std::size_t s = 0;
        for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
            Time load;
            Bytes bytes;
            Bytes saved;
            while (s < stretches_.size()) {
                load += time(s, slots_[slot].device);
                bytes += bytes_[s];
                saved += saved_[s];
                const Bytes held = bytes + Bytes(saved.raw() / slots_[slot].saved_parts);
                if (load > limit || held > slots_[slot].memory) break;
                owner[s++] = static_cast<int>(slot);
            }
        }
        return s;
    }

    /// The owners under the smallest limit that places as much as any limit does.
    [[nodiscard]] std::vector<int> best() const {
        std::vector<int> owner;
        Time high;
        for (const Slot& slot : slots_) high = std::max(high, graph_.total_time(slot.device));
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
        return time_[s * static_cast<std::size_t>(problem.prices().device_class_count()) +
                     static_cast<std::size_t>(problem.prices().device_class(device))];
    }

    const GroupGraph& graph_;
    const std::vector<Slot>& slots_;
    std::vector<Stretch> stretches_;
    std::vector<Time> time_;
    std::vector<Bytes> bytes_;  ///< without what is saved for backward
    std::vector<Bytes> saved_;
};

}  // namespace

std::vector<int> cut_layers(const GroupGraph& graph, const std::vector<Slot>& slots) {
    const Cut cut(graph, slots);
    const std::vector<int> owner = cut.best();
    std::vector<int> slot_of(graph.size(), -1);
    for (std::size_t s = 0; s < cut.stretches().size(); ++s) {
        for (const std::size_t g : cut.stretches()[s]) slot_of[g] = owner[s];
    }
    return slot_of;
}

std::map<std::string_view, int> slots_of_layers(const graph::OpGraph& graph,
                                                std::span<const int> layers) {
    std::map<std::string_view, int> slots;
    std::size_t slot = 0;
    int room = layers.empty() ? 0 : layers.front();
    for (const std::string_view name : graph::layers_of(graph)) {
        while (room == 0 && slot + 1 < layers.size()) room = layers[++slot];
        --room;
        slots.emplace(name, static_cast<int>(slot));
    }
    return slots;
}

std::vector<int> slots_by_layers(const graph::OpGraph& graph, std::span<const int> layers) {
    const auto slots = slots_of_layers(graph, layers);
    std::size_t behind = 0;  // all layers
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        const graph::Op& op = graph.ops()[i];
        if (op.kind == graph::OpKind::compute && slots.contains(op.block)) behind = i + 1;
    }
    std::vector<int> slot_of(graph.op_count(), 0);
    int current = 0;
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        const graph::Op& op = graph.ops()[i];
        const auto layer = slots.find(op.block);
        if (op.kind == graph::OpKind::compute && layer != slots.end()) {
            current = layer->second;
        } else if (i >= behind) {
            current = static_cast<int>(layers.size()) - 1;
        }
        slot_of[i] = current;
    }
    return slot_of;
}

}  // namespace partita::search
