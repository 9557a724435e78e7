// SPDX-License-Identifier: Apache-2.0
#include "graph/fusion/attention.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph_copy.h"

namespace partita::graph {

namespace {

constexpr std::size_t kRank = 4;
constexpr int kOpset = 23;  ///< the first with Attention

/// The ops of one attention.
struct Found {
    TensorId query;
    TensorId turned_key;  ///< [batch heads size length]
    TensorId value;
    std::vector<TensorId> masks;  ///< that are added, or one condition
    bool hides = false;           ///< the condition is true of keys to leave out
    std::optional<OpId> scaling;  ///< a Mul or Div of the scores
    std::optional<OpId> dropout;  ///< of the softmax's result, that trains
    double ratio = 0;             ///< of what it drops
    std::set<OpId> inner;         ///< all but the last product
};

/// Of two tensors that go together, aligned from the right.
Shape broadcast(Shape a, Shape b) {
    if (a.size() < b.size()) std::swap(a, b);
    const std::size_t missing = a.size() - b.size();
    for (std::size_t i = 0; i < b.size(); ++i) a[missing + i] = std::max(a[missing + i], b[i]);
    return a;
}

class Finder {
public:
    Finder(const OpGraph& graph, const NumberOf& number) : graph_(graph), number_(number) {}

    [[nodiscard]] std::optional<Found> at(OpId root) const {
        if (!is_product(root)) return std::nullopt;
        Found found{.value = graph_.op(root).inputs[1]};
        const std::optional<TensorId> weights = softmax_of(graph_.op(root).inputs[0], found);
        const auto scores = weights ? softmax_operand(*weights, found) : std::nullopt;
        if (!scores || !add_scores(*scores, found) || !suits(found)) return std::nullopt;
        return found;
    }

private:
    [[nodiscard]] const Shape& shape(TensorId t) const { return graph_.tensor(t).shape; }
    [[nodiscard]] OpId producer(TensorId t) const { return graph_.tensor(t).producer; }
    [[nodiscard]] bool is(OpId id, const char* type, std::size_t operands) const {
        const Op& op = graph_.op(id);
        return op.kind == OpKind::compute && op.domain.empty() && op.type == type &&
               op.inputs.size() == operands && op.outputs.size() == 1 &&
               op.attributes.find("broadcast") == nullptr &&  // before operator set 7
               std::ranges::all_of(op.inputs, [](TensorId t) { return t.valid(); });
    }
    [[nodiscard]] bool is_product(OpId id) const {
        return is(id, "MatMul", 2) && shape(graph_.op(id).inputs[0]).size() == kRank &&
               shape(graph_.op(id).inputs[1]).size() == kRank;
    }
    [[nodiscard]] bool is_read_once(TensorId t) const { return graph_.uses(t).size() == 1; }

    /// The share of elements that a Dropout drops; nullopt: it is none, its mask is read, or constants
    /// alone do not tell. Before operator set 7 an attribute says if it trains, since 12 the third operand.
    [[nodiscard]] std::optional<double> dropped_share(OpId id) const {
        const Op& op = graph_.op(id);
        if (op.kind != OpKind::compute || op.type != "Dropout" || !op.domain.empty()) return {};
        if (op.outputs.size() > 1 && op.outputs[1].valid()) return {};
        const auto has = [&](std::size_t i) {
            return op.inputs.size() > i && op.inputs[i].valid();
        };
        const bool is_old = op.opset > 0 && op.opset < 7;
        std::optional<double> trains = is_old && op.attributes.get_int("is_test", 0) == 0 ? 1 : 0;
        if (!is_old && has(2)) trains = number_(op.inputs[2]);
        if (!trains || *trains == 0) return trains;
        const std::optional<double> ratio =
            has(1) ? number_(op.inputs[1]) : op.attributes.get_float("ratio", 0.5);
        return ratio && *ratio >= 0 && *ratio < 1 ? ratio : std::nullopt;
    }

    /// What a softmax gives; nullopt: `t` is something else.
    [[nodiscard]] std::optional<TensorId> softmax_of(TensorId t, Found& found) const {
        if (!is_read_once(t)) return std::nullopt;
        const OpId by = producer(t);
        if (const std::optional<double> share = dropped_share(by)) {
            if (*share > 0) {
                if (found.dropout) return std::nullopt;
                found.dropout = by;
                found.ratio = *share;
            }
            found.inner.insert(by);
            return softmax_of(graph_.op(by).inputs[0], found);
        }
        if (is(by, "Softmax", 1)) return t;
        if (!is(by, "Where", 3)) return std::nullopt;
        const Op& where = graph_.op(by);
        const OpId is_nan = producer(where.inputs[0]);
        const TensorId weights = where.inputs[2];
        const bool guards = is(is_nan, "IsNaN", 1) && graph_.op(is_nan).inputs[0] == weights &&
                            number_(where.inputs[1]) == 0.0 && is_read_once(where.inputs[0]) &&
                            graph_.uses(weights).size() == 2;
        if (!guards || !is(producer(weights), "Softmax", 1)) return std::nullopt;
        found.inner.insert({by, is_nan});
        return weights;
    }

    /// Of a softmax over keys.
    [[nodiscard]] std::optional<TensorId> softmax_operand(TensorId weights, Found& found) const {
        const OpId id = producer(weights);
        const Op& op = graph_.op(id);
        const bool old = op.opset > 0 && op.opset < 13;  // one row of all dims from the axis on
        const std::int64_t axis = op.attributes.get_int("axis", old ? 1 : -1);
        const bool is_last = axis == kRank - 1 || axis == -1;
        if (!is_last || !is_read_once(op.inputs[0])) return std::nullopt;
        found.inner.insert(id);
        return op.inputs[0];
    }

    /// Product, scaled or not, plus masks or not.
    bool add_scores(TensorId scores, Found& found) const {
        if (add_scaled(scores, found)) return true;
        const OpId sum = producer(scores);
        if (is(sum, "Where", 3)) return found.masks.empty() && add_filled(sum, found);
        if (!is(sum, "Add", 2)) return false;
        for (const std::size_t side : {0, 1}) {
            const TensorId rest = graph_.op(sum).inputs[side];
            const TensorId mask = graph_.op(sum).inputs[1 - side];
            if (!is_mask(mask, shape(scores)) || !is_read_once(rest)) continue;
            found.masks.push_back(mask);
            if (add_scores(rest, found)) {
                found.inner.insert(sum);
                return true;
            }
            found.masks.pop_back();
        }
        return false;
    }

    /// Scores, or what a softmax makes zero.
    bool add_filled(OpId where, Found& found) const {
        constexpr double kHidden = -1e4;
        const Op& op = graph_.op(where);
        if (!is_mask(op.inputs[0], shape(op.outputs[0]))) return false;
        for (const std::size_t side : {1, 2}) {
            const std::optional<double> filling = number_(op.inputs[side]);
            const TensorId rest = op.inputs[3 - side];
            if (!filling || *filling > kHidden || !is_read_once(rest)) continue;
            if (!add_scaled(rest, found)) continue;
            found.inner.insert(where);
            found.masks = {op.inputs[0]};
            found.hides = side == 1;
            return true;
        }
        return false;
    }

    /// Attention takes a mask that names all keys.
    [[nodiscard]] bool is_mask(TensorId t, const Shape& scores) const {
        const Shape& mask = shape(t);
        if (mask.size() < 2 || mask.size() > kRank || mask.back() != scores.back()) return false;
        for (std::size_t i = 0; i < mask.size(); ++i) {
            const std::int64_t full = scores[kRank - mask.size() + i];
            if (mask[i] != 1 && mask[i] != full) return false;
        }
        return true;
    }

    /// Masks that are added before the scores are must not make something larger than each is.
    [[nodiscard]] bool masks_fit(const Found& found) const {
        Tensor all;
        std::int64_t largest = 1;
        for (const TensorId t : found.masks) {
            all.shape = broadcast(std::move(all.shape), shape(t));
            largest = std::max(largest, graph_.tensor(t).elements());
        }
        return all.elements() <= largest;
    }

    bool add_scaled(TensorId scores, Found& found) const {
        if (add_product(scores, found)) return true;
        const OpId id = producer(scores);
        if (!is(id, "Mul", 2) && !is(id, "Div", 2)) return false;
        const std::size_t sides = is(id, "Mul", 2) ? 2 : 1;
        for (std::size_t side = 0; side < sides; ++side) {
            const TensorId product = graph_.op(id).inputs[side];
            const bool by_one = graph_.tensor(graph_.op(id).inputs[1 - side]).elements() == 1;
            if (!by_one || !is_read_once(product) || !add_product(product, found)) continue;
            found.inner.insert(id);
            found.scaling = id;
            return true;
        }
        return false;
    }

    bool add_product(TensorId scores, Found& found) const {
        const OpId id = producer(scores);
        if (!is_product(id)) return false;
        found.inner.insert(id);
        found.query = graph_.op(id).inputs[0];
        found.turned_key = graph_.op(id).inputs[1];
        return true;
    }

    /// Nothing broadcasts, nor has extents that are bounds.
    [[nodiscard]] bool suits(const Found& found) const {
        for (const TensorId t : {found.query, found.turned_key, found.value}) {
            if (graph_.tensor(t).upper_bound_dims != 0) return false;
        }
        const Shape& q = shape(found.query);
        const Shape& k = shape(found.turned_key);
        const Shape& v = shape(found.value);
        return masks_fit(found) && q[0] == k[0] && q[1] == k[1] && q[3] == k[2] && v[0] == k[0] &&
               v[1] == k[1] && v[2] == k[3];
    }

    const OpGraph& graph_;
    const NumberOf& number_;
};

/// By their last product.
std::map<OpId, Found> all_of(const OpGraph& graph, const NumberOf& number) {
    const Finder finder(graph, number);
    std::map<OpId, Found> found;
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        if (auto attention = finder.at(OpId(i))) found.emplace(OpId(i), std::move(*attention));
    }
    return found;
}

/// Copies a graph with Attention in place of what was found.
class AttentionFusion {
public:
    AttentionFusion(const OpGraph& from, const std::map<OpId, Found>& found)
        : from_(from), found_(found), copy_(from) {
        for (const auto& [root, each] : found) {
            skipped_.insert(each.inner.begin(), each.inner.end());
            if (is_own_transposition(each.turned_key)) {
                skipped_.insert(from.tensor(each.turned_key).producer);
            }
        }
    }

    OpGraph run() {
        for (std::size_t i = 0; i < from_.op_count(); ++i) {
            const OpId id(i);
            if (skipped_.contains(id)) continue;
            const auto attention = found_.find(id);
            if (attention == found_.end()) {
                copy_.add(from_.op(id));
            } else {
                add_attention(from_.op(id), attention->second);
            }
        }
        return std::move(copy_.to);
    }

private:
    /// An op of one result; operands and result are of the new graph.
    TensorId add(Op op, Tensor result) {
        const TensorId t = copy_.to.add_tensor(std::move(result));
        op.outputs = {t};
        copy_.to.add_op(std::move(op));
        return t;
    }

    void add_attention(const Op& last, const Found& found) {
        Op op;
        op.name = last.name;
        op.type = "Attention";
        op.opset = kOpset;
        op.block = last.block;
        op.inputs = {scaled_query(found), key(found, last), copy_[found.value]};
        if (!found.masks.empty()) op.inputs.push_back(mask(found, last));
        op.attributes.set("scale", 1.0);
        if (found.dropout) {
            const Op& dropout = from_.op(*found.dropout);
            op.attributes.set(std::string(kDropoutRatio), found.ratio);
            op.attributes.set(std::string(kDropoutName), dropout.name);
            if (const AttributeValue* seed = dropout.attributes.find("seed")) {
                op.attributes.set("seed", *seed);
            }
        }
        const TensorId result = last.outputs[0];
        copy_[result] = add(std::move(op), from_.tensor(result));
    }

    TensorId mask(const Found& found, const Op& last) {
        TensorId all = copy_[found.masks[0]];
        for (std::size_t i = 1; i < found.masks.size(); ++i) {
            const TensorId more = copy_[found.masks[i]];
            all = add_to_mask("Add", {all, more}, last);
        }
        return found.hides ? add_to_mask("Not", {all}, last) : all;
    }

    /// Of tensors of the new graph, the first of which has the result's type.
    TensorId add_to_mask(const char* type, std::vector<TensorId> operands, const Op& last) {
        Tensor result = copy_.to.tensor(operands[0]);
        for (const TensorId t : operands) {
            result.shape = broadcast(std::move(result.shape), copy_.to.tensor(t).shape);
        }
        Op op;
        op.type = type;
        op.opset = kOpset;
        op.block = last.block;
        op.inputs = std::move(operands);
        op.name = result.name = copy_.unused(last.name + "/mask");
        result.role = TensorRole::activation;
        result.known_integers.reset();
        return add(std::move(op), std::move(result));
    }

    TensorId scaled_query(const Found& found) {
        const TensorId query = copy_[found.query];
        if (!found.scaling) return query;
        Op op = from_.op(*found.scaling);
        Tensor result = from_.tensor(op.outputs[0]);
        result.shape = from_.tensor(found.query).shape;
        for (TensorId& t : op.inputs) {
            const bool is_scale = copy_[t].valid();
            t = is_scale ? copy_[t] : query;
        }
        return add(std::move(op), std::move(result));
    }

    /// Made by a Transpose for this product alone.
    [[nodiscard]] bool is_own_transposition(TensorId t) const {
        const Op& op = from_.op(from_.tensor(t).producer);
        return op.kind == OpKind::compute && op.domain.empty() && op.type == "Transpose" &&
               from_.uses(t).size() == 1;
    }

    TensorId key(const Found& found, const Op& last) {
        const Tensor& turned = from_.tensor(found.turned_key);
        Tensor result = turned;
        std::swap(result.shape[2], result.shape[3]);
        if (is_own_transposition(found.turned_key)) {
            Op op = from_.op(turned.producer);
            std::vector<std::int64_t> perm = op.attributes.get_ints("perm");
            if (perm.empty()) perm = {3, 2, 1, 0};
            std::swap(perm[2], perm[3]);
            op.inputs[0] = copy_[op.inputs[0]];
            if (std::ranges::is_sorted(perm)) return op.inputs[0];
            op.attributes.set("perm", std::move(perm));
            return add(std::move(op), std::move(result));
        }
        Op op;
        op.name = result.name = copy_.unused(last.name + "/keys");
        op.type = "Transpose";
        op.opset = kOpset;
        op.block = last.block;
        op.inputs = {copy_[found.turned_key]};
        op.attributes.set("perm", std::vector<std::int64_t>{0, 1, 3, 2});
        return add(std::move(op), std::move(result));
    }

    const OpGraph& from_;
    const std::map<OpId, Found>& found_;
    std::set<OpId> skipped_;
    GraphCopy copy_;
};

}  // namespace

int products_as_attention(const OpGraph& graph, const NumberOf& number) {
    return static_cast<int>(all_of(graph, number).size());
}

FusedAttention with_fused_attention(const OpGraph& graph, const NumberOf& number) {
    const std::map<OpId, Found> found = all_of(graph, number);
    return {.graph = AttentionFusion(graph, found).run(), .count = static_cast<int>(found.size())};
}

}  // namespace partita::graph
