// SPDX-License-Identifier: Apache-2.0
#include "api/constraint_globs.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace partita::api {
namespace {

template <class Value>
void sort_without_repeats(std::vector<Value>& values) {
    std::ranges::sort(values);
    const auto repeats = std::ranges::unique(values);
    values.erase(repeats.begin(), repeats.end());
}

}  // namespace

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

std::vector<graph::OpId> matching_ops(const graph::OpGraph& graph, std::string_view glob) {
    std::vector<graph::OpId> found;
    for (std::size_t index = 0; index < graph.op_count(); ++index) {
        const graph::Op& op = graph.ops()[index];
        if (glob_matches(glob, op.name) || (!op.block.empty() && glob_matches(glob, op.block)))
            found.emplace_back(index);
    }
    return found;
}

std::optional<graph::OpId> restrict_devices(plan::Constraints& constraints,
                                            const graph::OpGraph& graph,
                                            const std::vector<graph::OpId>& ops,
                                            std::vector<int> devices) {
    sort_without_repeats(devices);
    constraints.allowed.resize(graph.op_count());
    for (const graph::OpId op : ops) {
        std::vector<int>& allowed = constraints.allowed[op.index()];
        if (allowed.empty()) {
            allowed = devices;
            continue;
        }
        std::vector<int> both;
        std::ranges::set_intersection(allowed, devices, std::back_inserter(both));
        if (both.empty()) return op;
        allowed = std::move(both);
    }
    return std::nullopt;
}

void keep_together(plan::Constraints& constraints, std::vector<graph::OpId> ops) {
    sort_without_repeats(ops);
    if (ops.size() > 1) constraints.together.push_back(std::move(ops));
}

}  // namespace partita::api
