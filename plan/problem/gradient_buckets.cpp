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

namespace {

constexpr Bytes kFirstBucket{1 << 20};

/// Where buckets end.
class BucketEnds {
public:
    BucketEnds(const graph::OpGraph& graph, Bytes size) : graph_(graph), size_(size) {
        const auto layers = graph::layers_of(graph);
        layers_.insert(layers.begin(), layers.end());
    }

    /// Adds a gradient of so many bytes. Is it the first of a bucket?
    bool add(OpId first_reader, Bytes gradient) {
        const bool begins = size_ == kLayerBuckets ? is_other_layer(first_reader) : is_full();
        filled_ += gradient;
        return begins;
    }

private:
    /// Then what comes next is empty.
    bool is_full() {
        if (filled_ < full_) return false;
        const bool is_first = full_ == Bytes{0} && size_ != kOneBucket;
        full_ = is_first ? std::min(size_, kFirstBucket) : size_;
        filled_ = Bytes{0};
        return true;
    }
    bool is_other_layer(OpId reader) {
        const graph::Op& op = graph_.op(reader);
        std::string_view layer = layers_.contains(op.block) ? std::string_view(op.block) : "";
        if (layers_.empty()) layer = op.name;
        return std::exchange(layer_, layer) != layer;
    }

    const graph::OpGraph& graph_;
    Bytes size_;
    std::set<std::string_view> layers_;
    std::optional<std::string_view> layer_;  ///< of the bucket at hand; "": outside of layers
    Bytes filled_;                           ///< the same
    Bytes full_;
};

}  // namespace

GradientBuckets::GradientBuckets(const graph::OpGraph& graph, const std::vector<char>& has_gradient,
                                 const std::vector<char>& is_batched, Bytes size)
    : of_(graph.op_count(), -1), of_fetches_(graph.op_count(), -1) {
    std::vector<std::pair<OpId, OpId>> order;  // first reader, parameter
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        const graph::Op& op = graph.ops()[i];
        if (op.kind != OpKind::parameter || has_gradient[op.outputs[0].index()] == 0) continue;
        OpId first(graph.op_count());
        for (const graph::Use& use : graph.uses(op.outputs[0])) first = std::min(first, use.op);
        order.emplace_back(first, OpId(i));
    }
    std::ranges::sort(order, std::greater<>());
    BucketEnds ends(graph, size);
    for (const auto& [reader, parameter] : order) {
        const graph::Tensor& tensor = graph.tensor(graph.op(parameter).outputs[0]);
        if (ends.add(reader, gradient_bytes_of(tensor, tensor.elements()))) members_.emplace_back();
        const auto bucket = static_cast<std::int32_t>(members_.size()) - 1;
        of_[parameter.index()] = bucket;
        members_.back().push_back(parameter);
        const bool one_reader = graph.uses(graph.op(parameter).outputs[0]).size() == 1;
        if (one_reader && is_batched[reader.index()] != 0) of_fetches_[parameter.index()] = bucket;
    }
}

}  // namespace partita::plan
