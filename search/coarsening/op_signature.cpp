// SPDX-License-Identifier: Apache-2.0
#include "search/coarsening/op_signature.h"

#include "graph/op_graph.h"

namespace partita::search {

using graph::Op;
using graph::OpId;
using plan::Problem;

namespace {

class SignatureBuilder {
public:
    explicit SignatureBuilder(const Problem& problem)
        : problem_(problem), graph_(problem.graph()) {}

    [[nodiscard]] OpSignature of(OpId id, std::int64_t runs, std::int64_t most) const {
        const Op& op = graph_.op(id);
        const graph::OpRule& rule = problem_.facts().rule(id);
        OpSignature like{.type = op.type, .numbers = {}};
        add(like, static_cast<std::int64_t>(op.kind), most);
        const Int128 flops = rule.flops.raw();
        add(like, static_cast<std::int64_t>(flops >> 62), static_cast<std::int64_t>(flops & kLow));
        add(like, rule.matrix_product, rule.alias);
        add(like, static_cast<std::int64_t>(rule.saves_operands),
            static_cast<std::int64_t>(rule.saves_results));
        add(like, rule.bytes_moved ? rule.bytes_moved->raw() : -1, runs);
        add(like, problem_.facts().has_forward(id), problem_.facts().has_backward(id));
        for (std::size_t f = 0; f < rule.factors.size(); ++f) {
            const bool split =
                rule.factors[f].splittable && problem_.constraints().may_split(id, f);
            add(like, rule.factors[f].extent, split);
            add(like, problem_.facts().batch_digits(id)[f].extent, -1);
        }
        for (std::size_t i = 0; i < op.inputs.size(); ++i) {
            add_tensor(like, op.inputs[i], rule.operands[i]);
        }
        for (std::size_t i = 0; i < op.outputs.size(); ++i) {
            add_tensor(like, op.outputs[i], rule.results[i]);
        }
        return like;
    }

private:
    static constexpr Int128 kLow = (Int128{1} << 62) - 1;

    static void add(OpSignature& like, std::int64_t a, std::int64_t b) {
        like.numbers.push_back(a);
        like.numbers.push_back(b);
    }

    void add_tensor(OpSignature& like, graph::TensorId t, const graph::TensorRule& rule) const {
        add(like, -2, t.valid());
        if (!t.valid()) return;
        const graph::Tensor& tensor = graph_.tensor(t);
        add(like, tensor.bytes().raw(), static_cast<std::int64_t>(tensor.dtype));
        add(like, problem_.facts().has_gradient(t), problem_.facts().is_batched(t));
        add(like, rule.apply_once, static_cast<std::int64_t>(rule.dims.size()));
        for (const std::int64_t extent : tensor.shape) like.numbers.push_back(extent);
        for (const graph::DimRule& dim : rule.dims) {
            add(like, -3, dim.window.has_value());
            add(like, -4, dim.rotation.value_or(-1));
            if (dim.window) {
                add(like, dim.window->stride, dim.window->before);
                add(like, dim.window->after, dim.window->divisor);
            }
            for (const int f : dim.factors) like.numbers.push_back(f);
        }
    }

    const Problem& problem_;
    const graph::OpGraph& graph_;
};

}  // namespace

OpSignature op_signature(const Problem& problem, OpId op, std::int64_t runs, std::int64_t most) {
    return SignatureBuilder(problem).of(op, runs, most);
}

}  // namespace partita::search
