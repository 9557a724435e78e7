// SPDX-License-Identifier: Apache-2.0
#include "importers/onnx/reading_order.h"

#include <functional>
#include <queue>
#include <set>
#include <string>
#include <unordered_map>

namespace partita::importers {

namespace {

/// Names that a node reads, those that its bodies take from outside included.
void add_names_read(const onnx::NodeProto& node, std::set<std::string>& names, int depth) {
    if (depth > kMaxDepth) return;
    for (const std::string& name : node.input()) names.insert(name);
    for (const auto& attribute : node.attribute()) {
        if (!attribute.has_g()) continue;
        for (const auto& inner : attribute.g().node()) add_names_read(inner, names, depth + 1);
        for (const auto& output : attribute.g().output()) names.insert(output.name());
    }
}

}  // namespace

std::vector<int> reading_order(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes) {
    std::unordered_map<std::string, int> maker;
    for (int i = 0; i < nodes.size(); ++i) {
        for (const std::string& name : nodes[i].output()) {
            if (!name.empty()) maker.emplace(name, i);
        }
    }
    std::vector<std::vector<int>> readers(static_cast<std::size_t>(nodes.size()));
    std::vector<int> waiting(static_cast<std::size_t>(nodes.size()));
    bool sorted = true;
    for (int i = 0; i < nodes.size(); ++i) {
        std::set<std::string> names;
        add_names_read(nodes[i], names, 0);
        std::set<int> makers;
        for (const std::string& name : names) {
            const auto found = maker.find(name);
            if (found != maker.end()) makers.insert(found->second);
        }
        for (const int made : makers) {
            sorted = sorted && made < i;
            readers[static_cast<std::size_t>(made)].push_back(i);
            ++waiting[static_cast<std::size_t>(i)];
        }
    }
    std::vector<int> order;
    order.reserve(waiting.size());
    if (sorted) {
        for (int i = 0; i < nodes.size(); ++i) order.push_back(i);
        return order;
    }
    std::priority_queue<int, std::vector<int>, std::greater<>> ready;
    for (int i = 0; i < nodes.size(); ++i) {
        if (waiting[static_cast<std::size_t>(i)] == 0) ready.push(i);
    }
    while (!ready.empty()) {
        const int node = ready.top();
        ready.pop();
        order.push_back(node);
        for (const int reader : readers[static_cast<std::size_t>(node)]) {
            if (--waiting[static_cast<std::size_t>(reader)] == 0) ready.push(reader);
        }
    }
    return order;
}

}  // namespace partita::importers
