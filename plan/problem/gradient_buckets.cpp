// SPDX-License-Identifier: Apache-2.0
#include "plan/problem/gradient_buckets.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "graph/op_globs.h"
#include "plan/problem/op_costs.h"
#include "plan/strategy/strategy.h"

namespace partita::plan {

using graph::OpId;
using graph::OpKind;
using graph::TensorId;

namespace {

constexpr Bytes kFirstBucket{1 << 20};

/// When a bucket is closed.
class Closing {
public:
    Closing(const graph::OpGraph& graph, Bytes size) : graph_(graph), size_(size) {
        const auto layers = graph::layers_of(graph);
        layers_.insert(layers.begin(), layers.end());
    }

    /// Does the parameter with that first reader begin another?
    bool before(OpId reader) {
        if (size_ == kLayerBuckets) return is_other_layer(reader);
        if (filled_ < full_) return false;
        const bool is_first = full_ == Bytes{0} && size_ != kOneBucket;
        full_ = is_first ? std::min(size_, kFirstBucket) : size_;
        filled_ = Bytes{0};
        return true;
    }
    void add(Bytes gradient) { filled_ += gradient; }

private:
    bool is_other_layer(OpId reader) {
        std::string_view layer;
        if (reader.index() < graph_.op_count()) {
            const graph::Op& op = graph_.op(reader);
            if (layers_.empty()) layer = op.name;
            if (layers_.contains(op.block)) layer = op.block;
        }
        return std::exchange(layer_, layer) != layer;
    }

    const graph::OpGraph& graph_;
    Bytes size_;
    std::set<std::string_view> layers_;
    std::optional<std::string_view> layer_;  ///< "": outside of layers
    Bytes filled_;
    Bytes full_;  ///< of the bucket at hand
};

}  // namespace

GradientBuckets::GradientBuckets(const graph::OpGraph& graph, const std::vector<char>& has_gradient,
                                 Bytes size)
    : of_(graph.op_count(), -1), of_fetches_(graph.op_count(), -1) {
    std::vector<std::pair<OpId, OpId>> order;  // first reader, parameter
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        const graph::Op& op = graph.ops()[i];
        if (op.kind != OpKind::parameter) continue;
        OpId first(graph.op_count());
        for (const graph::Use& use : graph.uses(op.outputs[0])) first = std::min(first, use.op);
        order.emplace_back(first, OpId(i));
    }
    std::ranges::sort(order, std::greater<>());
    Closing closing(graph, size);
    for (const auto& [reader, parameter] : order) {
        if (closing.before(reader)) {
            members_.emplace_back();
            fetched_.emplace_back();
        }
        const auto bucket = static_cast<std::int32_t>(members_.size()) - 1;
        const TensorId t = graph.op(parameter).outputs[0];
        if (graph.uses(t).size() == 1) {
            of_fetches_[parameter.index()] = bucket;
            fetched_.back().push_back(parameter);
        }
        if (has_gradient[t.index()] == 0) continue;
        closing.add(gradient_bytes_of(graph.tensor(t), graph.tensor(t).elements()));
        of_[parameter.index()] = bucket;
        members_.back().push_back(parameter);
    }
}

}  // namespace partita::plan
