// SPDX-License-Identifier: Apache-2.0
//
// Reshape, Flatten, Squeeze, Unsqueeze: merged and divided dims, found from the extents alone.
#include <algorithm>
#include <numeric>

#include "graph/operators/op_rules.h"

namespace partita::graph {

namespace {

bool is_empty(const Shape& shape) {
    return std::find(shape.begin(), shape.end(), 0) != shape.end();
}

/// One side of a Reshape while its dims are consumed from the left.
struct ReshapeSide {
    const Shape& shape;
    std::vector<std::vector<int>> factors;  ///< found so far, per dim
    std::size_t at = 0;                     ///< the dim being consumed
    std::int64_t rest = 1;                  ///< what is left of its extent

    explicit ReshapeSide(const Shape& s) : shape(s), factors(s.size()) { load(); }
    void load() { rest = at < shape.size() ? shape[at] : 1; }
    [[nodiscard]] bool done() const { return at == shape.size(); }
    void next() {
        ++at;
        load();
    }
    /// The consumed dim is the product of the factor and what remains.
    void take(int factor, std::int64_t extent) {
        factors[at].push_back(factor);
        rest /= extent;
    }
};

/// Finds the factors that both shapes share, in row-major order, major first. Equal elements lie in
/// equal digits, so the major digits of both may be one factor while their extents agree:
///
///     [8 6 4] -> [8 24]      8 | 6 4     d0 d1 d2 -> d0 (d1 d2)
///     [12 5]  -> [4 15]      4 3 5       (d0 d1) d2 -> d0 (d1 d2)
///     [6 35]  -> [10 21]     2 | 3 35 against 5 21: coprime, so the rest is never split; each side
///                            fills its started dim with a factor of its own
class ReshapeMatcher {
public:
    explicit ReshapeMatcher(RuleBuilder& b) : b_(b), in_(b.shape(0)), out_(b.result_shape(0)) {}

    void run() {
        while (!in_.done() || !out_.done()) step();
        for (std::size_t i = 0; i < in_.factors.size(); ++i) {
            b_.operand(0, static_cast<int>(i), in_.factors[i]);
        }
        for (std::size_t i = 0; i < out_.factors.size(); ++i) {
            b_.result(0, static_cast<int>(i), out_.factors[i]);
        }
    }

private:
    void step() {
        const bool fresh_one_in = !in_.done() && in_.shape[in_.at] == 1;
        const bool fresh_one_out = !out_.done() && out_.shape[out_.at] == 1;
        if (fresh_one_in && fresh_one_out) {
            share(1);  // a batch of 1 stays the batch
            in_.next();
            out_.next();
        } else if (fresh_one_in || in_.rest == 1) {
            skip(in_, out_);
        } else if (fresh_one_out || out_.rest == 1) {
            skip(out_, in_);
        } else if (const std::int64_t common = std::gcd(in_.rest, out_.rest); common > 1) {
            share(common);
            advance();
        } else {
            give_up();
            advance();
        }
    }

    /// Leaves a dim that holds nothing more; the other side waits.
    void skip(ReshapeSide& side, ReshapeSide& other) { side.done() ? other.next() : side.next(); }

    void advance() {
        if (in_.rest == 1 && !in_.done()) in_.next();
        if (out_.rest == 1 && !out_.done()) out_.next();
    }

    void share(std::int64_t extent) {
        const int factor = b_.add(numbered('d', count_++), extent);
        in_.take(factor, extent);
        out_.take(factor, extent);
    }

    /// The remaining digits are coprime: consume whole dims until both products agree again.
    void give_up() {
        std::int64_t in_product = fill(in_);
        std::int64_t out_product = fill(out_);
        while (in_product != out_product) {
            ReshapeSide& shorter = in_product < out_product ? in_ : out_;
            std::int64_t& product = in_product < out_product ? in_product : out_product;
            shorter.next();
            product = checked_product(product, shorter.rest);
            shorter.rest = 1;
        }
    }

    /// Completes a started dim with a factor that only this side has. Returns what it consumed.
    std::int64_t fill(ReshapeSide& side) {
        const std::int64_t rest = side.rest;
        if (!side.factors[side.at].empty()) {
            side.take(b_.add(numbered('u', fillers_++), rest, /*splittable=*/false), rest);
        }
        side.rest = 1;
        return rest;
    }

    RuleBuilder& b_;
    ReshapeSide in_;
    ReshapeSide out_;
    int count_ = 0;
    int fillers_ = 0;
};

}  // namespace

OpRule reshape_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    if (!b.has_operand(0) || !b.has_result(0)) b.fail("expected an operand and a result");
    const Shape& from = b.shape(0);
    const Shape& to = b.result_shape(0);
    // Nothing to split, and no digits to compare.
    if (is_empty(from) || is_empty(to)) return b.finish();
    std::int64_t from_elements = 1;
    std::int64_t to_elements = 1;
    for (const std::int64_t extent : from) from_elements = checked_product(from_elements, extent);
    for (const std::int64_t extent : to) to_elements = checked_product(to_elements, extent);
    if (from_elements != to_elements) {
        b.fail("expected as many elements in the result as in the operand, " +
               std::to_string(from_elements) + ", got " + std::to_string(to_elements));
    }
    ReshapeMatcher(b).run();
    return b.finish();
}

}  // namespace partita::graph
