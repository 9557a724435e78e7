// SPDX-License-Identifier: Apache-2.0
#include "graph/op_globs.h"

#include <map>
#include <set>

#include <cstddef>

namespace partita::graph {

// The usual two fingers: on a mismatch, let the last `*` swallow one character more.
bool glob_matches(std::string_view glob, std::string_view text) {
    std::size_t g = 0;
    std::size_t t = 0;
    std::size_t star = std::string_view::npos;
    std::size_t swallowed = 0;
    while (t < text.size()) {
        if (g < glob.size() && glob[g] == '*') {
            star = g++;
            swallowed = t;
        } else if (g < glob.size() && (glob[g] == '?' || glob[g] == text[t])) {
            ++g;
            ++t;
        } else if (star != std::string_view::npos) {
            g = star + 1;
            t = ++swallowed;
        } else {
            return false;
        }
    }
    while (g < glob.size() && glob[g] == '*') ++g;
    return g == glob.size();
}

std::vector<OpId> matching_ops(const OpGraph& graph, std::string_view glob) {
    std::vector<OpId> found;
    for (std::size_t index = 0; index < graph.op_count(); ++index) {
        const Op& op = graph.ops()[index];
        if (glob_matches(glob, op.name) || (!op.block.empty() && glob_matches(glob, op.block)))
            found.emplace_back(index);
    }
    return found;
}

std::string_view name_of_repeats(std::string_view block) {
    const std::size_t last = block.find_last_not_of("0123456789");
    if (last == std::string_view::npos || last + 1 == block.size()) return {};
    return block.substr(0, last + 1);
}

std::vector<std::string_view> layers_of(const OpGraph& graph) {
    std::vector<std::string_view> layers;
    std::set<std::string_view> known;
    std::map<std::string_view, int> repeats;
    for (const Op& op : graph.ops()) {
        const std::string_view name = name_of_repeats(op.block);
        if (op.kind != OpKind::compute || name.empty() || !known.insert(op.block).second) continue;
        layers.push_back(op.block);
        ++repeats[name];
    }
    std::erase_if(layers,
                  [&](std::string_view layer) { return repeats.at(name_of_repeats(layer)) < 2; });
    return layers;
}

}  // namespace partita::graph
