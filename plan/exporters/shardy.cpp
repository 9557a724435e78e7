// SPDX-License-Identifier: Apache-2.0
#include "plan/exporters/shardy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "plan/exporters/axis_sharding.h"
#include "plan/exporters/mlir_text.h"
#include "plan/exporters/shardy_mesh.h"

namespace partita::plan {
namespace {

using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::TensorId;

std::string value(TensorId t) {
    return fmt::format("%t{}", t.value);
}

class ShardyWriter {
public:
    explicit ShardyWriter(const ExportInput& input)
        : input_(input), graph_(input.problem.graph()), homes_(graph_.tensor_count()) {}

    std::string write() {
        for (std::size_t i = 0; i < graph_.op_count(); ++i) {
            add_mesh(input_.strategy.config(OpId(i)));
            add_mesh(input_.strategy.update(OpId(i)).update);
        }
        for (std::size_t i = 0; i < graph_.op_count(); ++i) add_op(OpId(i));
        std::string text = head() + "module {\n";
        for (const ShardyMesh& mesh : meshes_) text += definition(mesh);
        text += fmt::format("  func.func @main({}) -> ({}) {{\n", fmt::join(arguments_, ","),
                            fmt::join(result_types_, ","));
        text += body_;
        text += results_.empty() ? "    return\n"
                                 : fmt::format("    return {} : {}\n", fmt::join(results_, ", "),
                                               fmt::join(returned_types_, ", "));
        return text + "  }\n}\n";
    }

private:
    /// A sharding as text, and what it cannot say.
    struct Said {
        std::string sharding;  ///< "<@mesh_0, [{"a"}, {}]>"
        std::string comment;
        bool expressible = true;
    };

    [[nodiscard]] std::string head() const {
        std::string text = fmt::format(
            "// Shardings of {} on {} by Shardy. Read it with unregistered dialects allowed.\n",
            mlir_quoted(graph_.name), mlir_quoted(input_.problem.machine().name()));
        if (input_.strategy.policy.micro_batches > 1) {
            text += fmt::format(
                "// They hold in each of {} micro-batches; types are those of the "
                "whole batch.\n",
                input_.strategy.policy.micro_batches);
        }
        return text;
    }

    void add_mesh(const OpConfig& config) {
        if (config.devices.empty()) return;
        if (find_mesh(config.devices) == meshes_.end()) {
            const bool one = config.devices.size() == 1;
            const auto name = one ? fmt::format("device_{}", config.devices[0])
                                  : fmt::format("mesh_{}", mesh_count_++);
            meshes_.emplace_back(name, config.devices);
        }
        find_mesh(config.devices)->add(config);
    }

    std::vector<ShardyMesh>::iterator find_mesh(const DeviceSet& devices) {
        return std::find_if(meshes_.begin(), meshes_.end(),
                            [&](const ShardyMesh& mesh) { return mesh.devices() == devices; });
    }

    /// With the devices behind the ids, where these are not all of the machine.
    [[nodiscard]] std::string definition(const ShardyMesh& mesh) const {
        const DeviceSet& set = mesh.devices();
        std::string text = "  " + mesh.definition();
        if (!mesh.is_one_device() && set.size() < input_.problem.device_count()) {
            std::vector<int> devices;
            for (int part = 0; part < set.size(); ++part) devices.push_back(set[part]);
            std::sort(devices.begin(), devices.end());
            text += fmt::format("  // its ids are devices {}", fmt::join(devices, " "));
        }
        return text + '\n';
    }

    Said said(OpId id, const OpConfig& config, Side side, std::size_t index) {
        const ShardyMesh& mesh = *find_mesh(config.devices);
        if (mesh.is_one_device()) return {.sharding = fmt::format("<@{}, []>", mesh.name())};
        const Sharding sharding =
            sharding_of(input_.problem, id, config, input_.strategy.policy.micro_batches, side,
                        index, Cut::at_once);
        const std::vector<MeshSpan> spans = spans_of(config);
        const auto axes = [&](const std::vector<std::size_t>& of) {
            std::vector<MeshSpan> chosen;
            for (const std::size_t axis : of) chosen.push_back(spans[axis]);
            return mesh.axes(chosen);
        };
        const bool is_sum = sharding.combine == graph::Combine::sum;
        const bool expressible = sharding.fault.empty() && (sharding.partial.empty() || is_sum);
        std::vector<std::string> dims;
        for (const auto& cutting : sharding.dims) {
            dims.push_back(expressible ? fmt::format("{{{}}}", axes(cutting)) : "{?}");
        }
        Said said{.expressible = expressible};
        said.sharding = fmt::format("<@{}, [{}]", mesh.name(), fmt::join(dims, ", "));
        if (!sharding.fault.empty()) {
            said.comment = "not expressible: " + sharding.fault;
        } else if (!expressible) {
            said.comment = "not expressible: partial, and no sum";
        } else if (!sharding.partial.empty()) {
            said.sharding += fmt::format(", unreduced={{{}}}", axes(sharding.partial));
            said.comment = "partial sums, added where they are read";
        }
        said.sharding += '>';
        return said;
    }

    void add_op(OpId id) {
        const Op& op = graph_.op(id);
        if (op.kind == OpKind::input || op.kind == OpKind::parameter) {
            add_argument(id);
        } else if (op.kind == OpKind::output) {
            add_result(id);
        } else {
            add_compute(id);
        }
    }

    void add_argument(OpId id) {
        const Op& op = graph_.op(id);
        const TensorId t = op.outputs[0];
        homes_[t.index()] = said(id, input_.strategy.config(id), Side::result, 0);
        arguments_.push_back(fmt::format(
            "\n    {}: {} {{partita.name = {}, sdy.sharding = #sdy.sharding{}}}", value(t),
            mlir_type(graph_.tensor(t)), mlir_quoted(op.name), homes_[t.index()].sharding));
        comment(value(t), homes_[t.index()]);
        const OpConfig& update = input_.strategy.update(id).update;
        if (update.devices.empty()) return;
        const Said updated = said(id, update, Side::result, 0);
        body_ += fmt::format("    // {}: updated as {}\n", value(t),
                             updated.expressible ? updated.sharding : updated.comment);
    }

    void add_result(OpId id) {
        const Op& op = graph_.op(id);
        const std::string type = mlir_type(graph_.tensor(op.inputs[0]));
        const Said need = said(id, input_.strategy.config(id), Side::operand, 0);
        results_.push_back(operand(op.inputs[0], need));
        returned_types_.push_back(type);
        result_types_.push_back(
            fmt::format("\n    {} {{partita.name = {}, sdy.sharding = #sdy.sharding{}}}", type,
                        mlir_quoted(op.name), need.sharding));
    }

    void add_compute(OpId id) {
        const Op& op = graph_.op(id);
        const OpConfig& config = input_.strategy.config(id);
        std::vector<std::string> operands;
        std::vector<std::string> operand_types;
        for (std::size_t i = 0; i < op.inputs.size(); ++i) {
            if (!op.inputs[i].valid()) continue;
            operands.push_back(operand(op.inputs[i], said(id, config, Side::operand, i)));
            operand_types.push_back(mlir_type(graph_.tensor(op.inputs[i])));
        }
        std::vector<std::string> results;
        std::vector<std::string> types;
        std::vector<std::string> shardings;
        for (std::size_t i = 0; i < op.outputs.size(); ++i) {
            const TensorId t = op.outputs[i];
            if (!t.valid()) continue;
            Said& home = homes_[t.index()] = said(id, config, Side::result, i);
            comment(value(t), home);
            results.push_back(value(t));
            types.push_back(mlir_type(graph_.tensor(t)));
            shardings.push_back(home.sharding);
        }
        body_ += fmt::format(
            "    {}{}{}({}) {{name = {}, sdy.sharding = #sdy.sharding_per_value<[{}]>}} : ({}) -> "
            "({})\n",
            fmt::join(results, ", "), results.empty() ? "" : " = ", mlir_op_name(op),
            fmt::join(operands, ", "), mlir_quoted(op.name), fmt::join(shardings, ", "),
            fmt::join(operand_types, ", "), fmt::join(types, ", "));
    }

    /// The tensor as it is needed: as it lies, or through a reshard that others may have asked for.
    std::string operand(TensorId t, const Said& need) {
        std::string home = value(t);
        if (!need.expressible) {
            comment(home + " as the next op reads it", need);
            return home;
        }
        if (need.sharding == homes_[t.index()].sharding) return home;
        const auto [known, is_new] = reshards_.emplace(std::pair{t.value, need.sharding}, "");
        if (is_new) {
            known->second = fmt::format("%r{}", reshards_.size() - 1);
            body_ += fmt::format("    {} = sdy.reshard {} {} : {}\n", known->second, home,
                                 need.sharding, mlir_type(graph_.tensor(t)));
        }
        return known->second;
    }

    void comment(const std::string& subject, const Said& said) {
        if (said.comment.empty()) return;
        body_ += fmt::format("    // {}: {}\n", subject, said.comment);
    }

    const ExportInput& input_;
    const graph::OpGraph& graph_;
    std::vector<ShardyMesh> meshes_;
    int mesh_count_ = 0;
    std::vector<Said> homes_;  ///< per tensor
    std::map<std::pair<std::uint32_t, std::string>, std::string> reshards_;
    std::vector<std::string> arguments_;
    std::vector<std::string> results_;
    std::vector<std::string> result_types_;
    std::vector<std::string> returned_types_;
    std::string body_;
};

}  // namespace

std::string shardy(const ExportInput& input) {
    return ShardyWriter(input).write();
}

}  // namespace partita::plan
