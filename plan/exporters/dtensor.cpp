// SPDX-License-Identifier: Apache-2.0
#include "plan/exporters/dtensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "base/json.h"
#include "plan/exporters/axis_sharding.h"

namespace partita::plan {
namespace {
using graph::OpId;
using graph::TensorId;

/// As torch.distributed names them.
std::string_view reduce_op(graph::Combine combine) {
    return name_of(combine == graph::Combine::none ? graph::Combine::sum : combine);
}

class DTensorWriter {
public:
    explicit DTensorWriter(const ExportInput& input) : input_(input) {}

    std::string write() {
        std::vector<std::string> ops;
        for (std::size_t i = 0; i < input_.problem.graph().op_count(); ++i) {
            ops.push_back(op_text(OpId(i)));
        }
        std::vector<std::string> devices;
        for (const cost::Device& device : input_.problem.machine().devices()) {
            devices.push_back(json_quoted(device.name));
        }
        return fmt::format(
            "{{\"format\": \"partita-dtensor\", \"version\": 1,\n"
            " \"model\": {}, \"machine\": {}, \"micro_batches\": {},\n"
            " \"devices\": [{}],\n \"meshes\": [\n  {}],\n \"ops\": [\n  {}]}}\n",
            json_quoted(input_.problem.graph().name), json_quoted(input_.problem.machine().name()),
            input_.strategy.policy.micro_batches, fmt::join(devices, ", "),
            fmt::join(meshes_, ",\n  "), fmt::join(ops, ",\n  "));
    }

private:
    std::string op_text(OpId id) {
        const graph::Op& op = input_.problem.graph().op(id);
        const OpConfig& config = input_.strategy.config(id);
        std::string text =
            fmt::format(R"({{"name": {}, "type": {}, {}, "operands": [{}], "results": [{}])",
                        json_quoted(op.name), json_quoted(op.type), mesh_text(id, config),
                        tensors(id, config, Side::operand), tensors(id, config, Side::result));
        const OpConfig& update = input_.strategy.update(id).update;
        if (!update.devices.empty()) {
            text += fmt::format(R"(, "update": {{{}, "results": [{}]}})", mesh_text(id, update),
                                tensors(id, update, Side::result));
        }
        return text + '}';
    }

    std::string tensors(OpId id, const OpConfig& config, Side side) const {
        const graph::Op& op = input_.problem.graph().op(id);
        const std::vector<TensorId>& ids = side == Side::result ? op.outputs : op.inputs;
        std::vector<std::string> texts;
        for (std::size_t i = 0; i < ids.size(); ++i) {
            texts.push_back(ids[i].valid() ? tensor_text(id, config, side, i, ids[i]) : "null");
        }
        return fmt::format("{}", fmt::join(texts, ", "));
    }

    std::string tensor_text(OpId id, const OpConfig& config, Side side, std::size_t index,
                            TensorId t) const {
        const graph::Tensor& tensor = input_.problem.graph().tensor(t);
        const Sharding sharding =
            sharding_of(input_.problem, id, config, input_.strategy.policy.micro_batches, side,
                        index, Cut::in_turn);
        std::string text = fmt::format(R"({{"tensor": {}, )", json_quoted(tensor.name));
        if (side == Side::result) {
            text += fmt::format(R"("shape": [{}], )", fmt::join(tensor.shape, ", "));
        }
        const bool has_name = sharding.combine != graph::Combine::log_sum_exp;
        const std::string fault = sharding.fault.empty() && !has_name
                                      ? "parts combine by log_sum_exp, which torch does not know"
                                      : sharding.fault;
        if (!fault.empty()) {
            return text + fmt::format(R"("not_expressible": {}}})", json_quoted(fault));
        }
        return text + fmt::format(R"("placements": [{}]}})", placements(config, sharding));
    }

    static std::string placements(const OpConfig& config, const Sharding& sharding) {
        std::vector<std::string> of_axes(std::max<std::size_t>(config.axes.size(), 1),
                                         "Replicate()");
        for (std::size_t d = 0; d < sharding.dims.size(); ++d) {
            for (const std::size_t axis : sharding.dims[d]) {
                of_axes[axis] = fmt::format("Shard({})", d);
            }
        }
        for (const std::size_t axis : sharding.partial) {
            of_axes[axis] = fmt::format("Partial('{}')", reduce_op(sharding.combine));
        }
        for (std::string& text : of_axes) text = json_quoted(text);
        return fmt::format("{}", fmt::join(of_axes, ", "));
    }

    /// The number of its mesh and what each dim of it splits. Meshes are told apart by shape and
    /// ranks alone: tensors of one mesh can meet in an op, those of two cannot.
    std::string mesh_text(OpId id, const OpConfig& config) {
        std::vector<std::string> factors;
        std::vector<int> shape;
        for (const Axis& axis : config.axes) {
            factors.push_back(json_quoted(name_of(input_.problem.facts().rule(id), axis)));
            shape.push_back(axis.degree);
        }
        if (shape.empty()) {  // one device: DTensor has no mesh without dims
            factors.push_back(json_quoted("*"));
            shape.push_back(1);
        }
        std::vector<int> ranks;
        for (int part = 0; part < config.devices.size(); ++part) {
            ranks.push_back(config.devices[part]);
        }
        const std::string mesh = fmt::format(R"({{"shape": [{}], "ranks": [{}]}})",
                                             fmt::join(shape, ", "), fmt::join(ranks, ", "));
        const auto known = std::find(meshes_.begin(), meshes_.end(), mesh);
        const auto number = known - meshes_.begin();
        if (known == meshes_.end()) meshes_.push_back(mesh);
        return fmt::format(R"("mesh": {}, "factors": [{}])", number, fmt::join(factors, ", "));
    }

    const ExportInput& input_;
    std::vector<std::string> meshes_;
};

}  // namespace

std::string dtensor(const ExportInput& input) {
    return DTensorWriter(input).write();
}

}  // namespace partita::plan
