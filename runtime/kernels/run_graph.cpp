// SPDX-License-Identifier: Apache-2.0
#include "runtime/kernels/run_graph.h"

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <ATen/Functions.h>
#include <c10/util/Exception.h>

#include "base/error.h"
#include "graph/operators/op_rule.h"
#include "graph/operators/part.h"
#include "runtime/kernels/part_kernel.h"

namespace partita::runtime {

using graph::OpId;
using graph::OpKind;
using graph::TensorId;

namespace {

/// The positions of a dim, in one piece. Extents may be fewer than planned where they depend on
/// data.
at::Tensor taken(const at::Tensor& tensor, std::int64_t dim, const graph::Positions& positions) {
    if (positions.empty()) return tensor.narrow(dim, 0, 0);
    Tensors pieces;
    for (const graph::Range& range : positions) {
        pieces.push_back(tensor.slice(dim, range.begin, range.end));
    }
    return pieces.size() == 1 ? pieces.front() : at::cat(pieces, dim);
}

class GraphRun {
public:
    GraphRun(const graph::OpGraph& graph, const SourceValue& source, at::Device device)
        : graph_(graph), source_(source), device_(device), values_(graph.tensor_count()) {
        for (std::size_t t = 0; t < graph.tensor_count(); ++t) {
            uses_.push_back(graph.uses(TensorId(t)).size());
        }
    }

    void give(TensorId t, at::Tensor value) {
        if (uses_[t.index()] > 0) values_[t.index()] = std::move(value);
    }
    at::Tensor take(TensorId t) {
        if (!t.valid()) return {};
        at::Tensor value = values_[t.index()];
        if (--uses_[t.index()] == 0) values_[t.index()] = at::Tensor();
        return value;
    }

    void load(TensorId t) {
        const bool stays = device_.is_cpu() || is_read_on_host(graph_, t);
        const at::Tensor value = source_(graph_.tensor(t));
        give(t, stays ? value : value.to(device_, value.scalar_type(), /*non_blocking=*/true));
    }

    void compute(OpId id) {
        const graph::Op& op = graph_.op(id);
        Tensors inputs;
        for (const TensorId t : op.inputs) inputs.push_back(take(t));
        Tensors results = run_op(graph_, id, inputs, source_, device_);
        for (std::size_t i = 0; i < op.outputs.size(); ++i) {
            if (op.outputs[i].valid()) give(op.outputs[i], std::move(results[i]));
        }
    }

private:
    const graph::OpGraph& graph_;
    const SourceValue& source_;
    at::Device device_;
    std::vector<at::Tensor> values_;
    std::vector<std::size_t> uses_;
};

}  // namespace

at::Tensor taken(at::Tensor tensor, const graph::Region& region) {
    for (std::size_t dim = 0; dim < region.dims.size(); ++dim) {
        tensor = taken(tensor, static_cast<std::int64_t>(dim), region.dims[dim]);
    }
    return tensor;
}

// Says the op where it fails; oneDNN's errors are not c10's.
Tensors run_op(const graph::OpGraph& graph, OpId id, std::span<const at::Tensor> inputs,
               const SourceValue& source, at::Device device) {
    const auto failure = [&](const std::string& what) {
        const graph::Op& op = graph.op(id);
        return std::runtime_error("'" + op.name + "' (" + op.type + "): " + what);
    };
    try {
        const graph::OpRule rule = graph::rule_of(graph, id);
        const PartKernel kernel(graph, id, rule, graph::whole_box(rule), device, source);
        return kernel.run(read_by(kernel, inputs));
    } catch (const InputError&) {
        throw;
    } catch (const c10::Error& error) {
        throw failure(error.what_without_backtrace());
    } catch (const std::exception& error) {
        throw failure(error.what());
    }
}

Tensors read_by(const PartKernel& kernel, std::span<const at::Tensor> inputs) {
    Tensors operands(inputs.begin(), inputs.end());
    for (std::size_t i = 0; i < operands.size(); ++i) {
        const graph::PartOperand& wanted = kernel.op().operands[i];
        if (wanted.source != graph::PartOperand::Source::region) continue;
        operands[i] = taken(operands[i], wanted.region);
    }
    return operands;
}

Tensors run_graph(const graph::OpGraph& graph, std::span<const at::Tensor> inputs,
                  const SourceValue& source, at::Device device) {
    GraphRun run(graph, source, device);
    Tensors outputs;
    std::size_t next = 0;
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        const graph::Op& op = graph.op(OpId(i));
        switch (op.kind) {
        case OpKind::input: run.give(op.outputs[0], inputs[next++]); break;
        case OpKind::parameter:
        case OpKind::constant: run.load(op.outputs[0]); break;
        case OpKind::output: outputs.push_back(run.take(op.inputs[0])); break;
        case OpKind::compute: run.compute(OpId(i)); break;
        }
    }
    return outputs;
}

}  // namespace partita::runtime
