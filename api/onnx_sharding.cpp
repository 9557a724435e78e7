// SPDX-License-Identifier: Apache-2.0
#include "api/onnx_sharding.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include "api/onnx_nodes.h"
#include "base/error.h"
#include "importers/onnx/external_data.h"
#include "importers/onnx/model_file.h"
#include "plan/exporters/axis_sharding.h"
#include "plan/legality/stages.h"

namespace partita::api {
namespace {

using graph::OpId;
using graph::TensorId;

constexpr const char* kConfiguration = "partita";
constexpr std::int64_t kFirstMultiDeviceVersion = 11;

/// Devices that have each part of a tensor, in the order of the proposal: the last dim fastest.
std::vector<std::vector<std::int64_t>> devices_of_parts(const plan::OpConfig& config,
                                                        const plan::Sharding& sharding) {
    std::size_t parts = 1;
    for (const std::vector<std::size_t>& axes : sharding.dims) {
        for (const std::size_t axis : axes) {
            parts *= static_cast<std::size_t>(config.axes[axis].degree);
        }
    }
    std::vector<std::vector<std::int64_t>> devices(parts);
    std::vector<std::size_t> digits(config.axes.size());
    for (int part = 0; part < config.devices.size(); ++part) {
        auto left = static_cast<std::size_t>(part);
        for (std::size_t axis = digits.size(); axis-- > 0;) {
            const auto degree = static_cast<std::size_t>(config.axes[axis].degree);
            digits[axis] = left % degree;
            left /= degree;
        }
        std::size_t at = 0;
        for (const std::vector<std::size_t>& axes : sharding.dims) {
            for (const std::size_t axis : axes) {
                at = at * static_cast<std::size_t>(config.axes[axis].degree) + digits[axis];
            }
        }
        const std::int64_t device = config.devices[part];
        if (std::ranges::find(devices[at], device) == devices[at].end())
            devices[at].push_back(device);
    }
    return devices;
}

class ShardingWriter {
public:
    ShardingWriter(const plan::Problem& problem, const plan::Strategy& strategy)
        : problem_(problem),
          strategy_(strategy),
          pipeline_(plan::pipeline_of(problem, strategy)),
          nodes_(problem.graph()) {}

    void annotate(onnx::ModelProto& model) const {
        model.set_ir_version(std::max(model.ir_version(), kFirstMultiDeviceVersion));
        onnx::DeviceConfigurationProto& configuration = *model.add_configuration();
        configuration.set_name(kConfiguration);
        configuration.set_num_devices(problem_.device_count());
        for (const cost::Device& device : problem_.machine().devices()) {
            configuration.add_device(device.name);
        }
        for (onnx::NodeProto& node : *model.mutable_graph()->mutable_node()) {
            if (const std::optional<OpId> op = nodes_.op(node)) annotate(node, *op);
        }
    }

private:
    void annotate(onnx::NodeProto& node, OpId op) const {
        onnx::NodeDeviceConfigurationProto& own = *node.add_device_configurations();
        own.set_configuration_id(kConfiguration);
        if (pipeline_.stages > 1 && pipeline_.has(op)) {
            own.set_pipeline_stage(pipeline_.position[op.index()]);
        }
        const graph::Op& of = problem_.graph().op(op);
        const auto add = [&](plan::Side side, const std::vector<TensorId>& tensors,
                             const auto& names) {
            for (std::size_t i = 0; i < tensors.size(); ++i) {
                if (!tensors[i].valid()) continue;
                const std::string& name = problem_.graph().tensor(tensors[i]).name;
                if (std::ranges::find(names, name) == names.end()) continue;
                add_spec(own, op, side, i, name);
            }
        };
        add(plan::Side::operand, of.inputs, node.input());
        add(plan::Side::result, of.outputs, node.output());
    }

    void add_spec(onnx::NodeDeviceConfigurationProto& node, OpId op, plan::Side side,
                  std::size_t index, const std::string& name) const {
        for (const onnx::ShardingSpecProto& said : node.sharding_spec()) {
            if (said.tensor_name() == name) return;  // an operand that is there twice
        }
        const plan::OpConfig& config = strategy_.config(op);
        const plan::Sharding sharding = plan::sharding_of(
            problem_, op, config, strategy_.policy.micro_batches, side, index, plan::Cut::at_once);
        if (!sharding.fault.empty()) return;
        onnx::ShardingSpecProto& spec = *node.add_sharding_spec();
        spec.set_tensor_name(name);
        for (std::size_t d = 0; d < sharding.dims.size(); ++d) {
            std::int64_t shards = 1;
            for (const std::size_t axis : sharding.dims[d]) shards *= config.axes[axis].degree;
            if (shards == 1) continue;
            onnx::ShardedDimProto& dim = *spec.add_sharded_dim();
            dim.set_axis(static_cast<std::int64_t>(d));
            dim.add_simple_sharding()->set_num_shards(shards);
        }
        std::int64_t group = 0;
        for (const std::vector<std::int64_t>& devices : devices_of_parts(config, sharding)) {
            if (devices.size() == 1) {
                spec.add_device(devices.front());
                continue;
            }
            spec.add_device(--group);  // groups are below all devices
            onnx::IntIntListEntryProto& entry = *spec.add_index_to_device_group_map();
            entry.set_key(group);
            for (const std::int64_t device : devices) entry.add_value(device);
        }
    }

    const plan::Problem& problem_;
    const plan::Strategy& strategy_;
    plan::Pipeline pipeline_;
    OnnxNodes nodes_;
};

}  // namespace

std::string onnx_with_sharding(const std::filesystem::path& model, const plan::Problem& problem,
                               const plan::Strategy& strategy) {
    const auto proto = importers::parse_file(model, model.filename().string());
    ShardingWriter(problem, strategy).annotate(*proto);
    std::string bytes = proto->SerializeAsString();
    if (bytes.empty()) {  // protobuf's limit
        throw InputError(fmt::format(
            "{}: has more than 2 GB with its shardings. Export the weights as external data.",
            model.filename().string()));
    }
    return bytes;
}

bool has_external_data(const std::filesystem::path& model) {
    const auto proto = importers::parse_file(model, model.filename().string());
    return !importers::external_locations(*proto).empty();
}

}  // namespace partita::api
