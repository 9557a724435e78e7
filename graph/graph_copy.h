// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "graph/op_graph.h"

namespace partita::graph {

/// Names for what is added to a graph.
class UnusedNames {
public:
    explicit UnusedNames(const OpGraph& graph) {
        for (const Op& op : graph.ops()) names_.insert(op.name);
        for (const Tensor& tensor : graph.tensors()) names_.insert(tensor.name);
    }

    /// Changed where the graph or an earlier call has it.
    std::string operator()(std::string name) {
        while (!names_.insert(name).second) name += '@';
        return name;
    }

private:
    std::set<std::string> names_;
};

/// A graph copied op by op, by whoever changes something on the way.
class GraphCopy {
public:
    /// `from` must outlive it.
    explicit GraphCopy(const OpGraph& from)
        : unused(from), from_(from), copies_(from.tensor_count()) {
        to.name = from.name;
    }

    /// What stands for the original's tensor; invalid: nothing yet.
    [[nodiscard]] TensorId& operator[](TensorId original) { return copies_[original.index()]; }

    /// An op of tensors of the original: its operands must have been copied, its results are.
    void add(Op op) {
        for (TensorId& t : op.inputs) {
            if (t.valid()) t = (*this)[t];
        }
        for (TensorId& t : op.outputs) {
            if (!t.valid()) continue;
            const TensorId result = to.add_tensor(from_.tensor(t));
            t = (*this)[t] = result;
        }
        to.add_op(std::move(op));
    }

    OpGraph to;
    UnusedNames unused;

private:
    const OpGraph& from_;
    std::vector<TensorId> copies_;
};

}  // namespace partita::graph
