// SPDX-License-Identifier: Apache-2.0
#include "plan/problem/problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/sha256.h"
#include "cost/profile/profile.h"
#include "plan/problem/micro_batches.h"
#include "plan/problem/op_costs.h"
#include "plan/problem/op_priorities.h"

namespace partita::plan {

using graph::OpId;
using graph::OpKind;
using graph::TensorId;
using graph::TensorRole;

namespace {

/// A row of scores makes one softmax, so the loss task of a part must see all of the row.
/// `is_loss`: per op.
void keep_classes_together(const graph::OpGraph& graph, const std::vector<char>& is_loss,
                           std::vector<graph::OpRule>& rules) {
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        if (graph.ops()[i].kind != OpKind::output || is_loss[i] == 0) continue;
        const std::vector<graph::DimRule>& dims = rules[i].operands[0].dims;
        if (dims.empty()) continue;
        for (const int f : dims.back().factors) {
            rules[i].factors[static_cast<std::size_t>(f)].splittable = false;
        }
    }
}

/// Nodes of a workload that no accelerator supports are for CPUs alone.
void keep_on_cpus(const graph::OpGraph& graph, const cost::Machine& machine,
                  Constraints& constraints) {
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        const auto& given = graph.ops()[i].given;
        if (!given || given->on_accelerator) continue;
        constraints.allowed.resize(graph.op_count());
        std::vector<int>& allowed = constraints.allowed[i];
        std::vector<int> cpus;
        for (int d = 0; d < machine.device_count(); ++d) {
            const bool free =
                allowed.empty() || std::find(allowed.begin(), allowed.end(), d) != allowed.end();
            if (free && machine.device(d).kind == cost::DeviceKind::cpu) cpus.push_back(d);
        }
        if (cpus.empty()) {
            throw InputError(fmt::format(
                "model '{}': node '{}' runs on CPUs alone (supportedOnFpga), but machine '{}' has "
                "none that it may use. Add a CPU (maxCPUs), or let accelerators support it.",
                graph.name, graph.ops()[i].name, machine.name()));
        }
        allowed = std::move(cpus);
    }
}

}  // namespace

std::string_view name_of(Mode mode) {
    switch (mode) {
    case Mode::inference: return "inference";
    case Mode::training: return "training";
    }
    return {};
}

std::string_view name_of(Objective objective) {
    switch (objective) {
    case Objective::latency: return "latency";
    case Objective::throughput: return "throughput";
    case Objective::step_time: return "step-time";
    }
    return {};
}

Problem::Problem(const graph::OpGraph& graph, const cost::Machine& machine,
                 std::shared_ptr<const cost::CostModel> costs, ProblemOptions options,
                 std::shared_ptr<const cost::CollectiveModel> transfers)
    : graph_(graph), machine_(machine), costs_(std::move(costs)), options_(std::move(options)) {
    uses_signatures_ = costs_->uses_signatures();
    measures_transfers_ = transfers != nullptr;
    check();
    keep_on_cpus(graph_, machine_, options_.constraints);
    rules_ = graph::rules_of(graph_);
    all_devices_.resize(static_cast<std::size_t>(machine_.device_count()));
    std::iota(all_devices_.begin(), all_devices_.end(), 0);
    classify_devices();
    collectives_ = cost::collective_model_of(machine_);
    if (transfers) {
        collectives_ = std::make_shared<cost::FirstCollectiveMatch>(
            std::vector{std::move(transfers), std::move(collectives_)});
    }
    find_resident_tensors();
    find_batch();
    find_gradients();
    price_ops();
    priorities_ = op_priorities(*this);
    if (const auto fault = find_batch_fault(*this, 1)) throw InputError(*fault + ".");
    if (const auto fault = find_batch_fault(*this, options_.policy.micro_batches)) {
        throw UsageError(fmt::format("--micro-batches: {}. Use fewer, or 1.", *fault));
    }
    find_micro_batches();
    const bool batched =
        std::find(batched_ops_.begin(), batched_ops_.end(), 1) != batched_ops_.end();
    if (options_.policy.schedule.kind != ScheduleKind::none && !batched) {
        throw UsageError(
            fmt::format("--schedule {}: nothing in the model depends on a batch. Leave it out.",
                        to_text(options_.policy.schedule)));
    }
}

void Problem::check() const {
    graph::check(graph_);
    for (const graph::Op& op : graph_.ops()) {
        const auto left_out = std::find_if(op.outputs.begin(), op.outputs.end(),
                                           [](TensorId t) { return !t.valid(); });
        if (left_out == op.outputs.end()) continue;
        throw InputError(
            fmt::format("model '{}': node '{}' ({}) leaves out its output {}, whose shape is not "
                        "known then. Name the output in the model.",
                        graph_.name, op.name, op.type, left_out - op.outputs.begin()));
    }
    const int devices = machine_.device_count();
    const auto& allowed = options_.constraints.allowed;
    if (allowed.size() > graph_.op_count()) {
        throw UsageError(fmt::format("constraints name {} ops, the model has {}", allowed.size(),
                                     graph_.op_count()));
    }
    for (std::size_t i = 0; i < allowed.size(); ++i) {
        for (const int device : allowed[i]) {
            if (device >= 0 && device < devices) continue;
            throw UsageError(
                fmt::format("op '{}' is fixed to device {}, but machine '{}' has devices 0 to {}",
                            graph_.ops()[i].name, device, machine_.name(), devices - 1));
        }
    }
    for (const auto& group : options_.constraints.together) {
        for (const OpId op : group) {
            if (op.index() >= graph_.op_count()) {
                throw UsageError(fmt::format("constraint 'together' names op number {} of {}",
                                             op.value, graph_.op_count()));
            }
        }
    }
    const bool given = std::any_of(graph_.ops().begin(), graph_.ops().end(),
                                   [](const graph::Op& op) { return op.given.has_value(); });
    if (given && options_.mode == Mode::training) {
        throw UsageError(
            "a workload with given costs holds its backward nodes itself; plan it with "
            "--mode inference");
    }
}

void Problem::classify_devices() {
    for (int device = 0; device < machine_.device_count(); ++device) {
        const auto same = std::find_if(class_device_.begin(), class_device_.end(), [&](int other) {
            return cost::priced_alike(machine_.device(other), machine_.device(device));
        });
        device_class_.push_back(static_cast<int>(same - class_device_.begin()));
        if (same == class_device_.end()) class_device_.push_back(device);
    }
    class_count_ = static_cast<int>(class_device_.size());
}

void Problem::find_resident_tensors() {
    for (const graph::Tensor& tensor : graph_.tensors()) {
        const bool parameter = tensor.role == TensorRole::parameter;
        resident_.push_back(tensor.role == TensorRole::constant ||
                            (parameter && options_.mode == Mode::inference));
    }
}

void Problem::find_batch() {
    const auto origins = graph::tensor_origins(graph_, rules_, options_.input_sample_dims);
    batched_.assign(graph_.tensor_count(), 0);
    batched_ops_.assign(graph_.op_count(), 0);
    for (std::size_t i = 0; i < graph_.op_count(); ++i) {
        const graph::Op& op = graph_.ops()[i];
        batch_digits_.push_back(graph::batch_digits(graph_, OpId(i), rules_[i], origins));
        bool batched = op.kind == OpKind::input && origins[op.outputs[0].index()].sample_dim >= 0;
        for (const TensorId t : op.inputs) {
            batched = batched || (t.valid() && batched_[t.index()] != 0);
        }
        batched_ops_[i] = batched ? 1 : 0;
        for (const TensorId t : op.outputs) batched_[t.index()] = batched ? 1 : 0;
        if (options_.constraints.unsplit.empty()) continue;
        soap_classes_.push_back(graph::soap_classes(graph_, OpId(i), rules_[i], origins));
    }
}

void Problem::find_gradients() {
    gradient_.assign(graph_.tensor_count(), 0);
    backward_.assign(graph_.op_count(), 0);
    if (options_.mode == Mode::inference) return;
    GradientPaths paths = gradient_paths(graph_, options_.policy);
    gradient_ = std::move(paths.gradient);
    backward_ = std::move(paths.backward);
    if (options_.policy.loss == LossKind::cross_entropy) {
        keep_classes_together(graph_, backward_, rules_);
    }
}

const std::vector<int>& Problem::allowed_devices(OpId op) const {
    const auto& allowed = options_.constraints.allowed;
    if (op.index() >= allowed.size() || allowed[op.index()].empty()) return all_devices_;
    return allowed[op.index()];
}

Bytes Problem::memory_capacity(int device) const {
    const Bytes capacity = machine_.device(device).memory;
    return std::min(capacity, options_.constraints.memory_limit.value_or(capacity));
}

bool Problem::may_split(OpId op, std::size_t factor) const {
    const std::vector<graph::SoapClass>& unsplit = options_.constraints.unsplit;
    if (unsplit.empty()) return true;
    const graph::SoapClass soap = soap_classes_[op.index()][factor];
    return std::find(unsplit.begin(), unsplit.end(), soap) == unsplit.end();
}

void Problem::find_micro_batches() {
    micro_batches_ = {options_.policy.micro_batches};
    const std::int64_t extent = batch_extent(*this);
    for (int count = 1; count <= options_.constraints.most_micro_batches; count *= 2) {
        if (count > 1 && (extent % count != 0 || find_batch_fault(*this, count))) break;
        micro_batches_.push_back(count);
    }
    std::sort(micro_batches_.begin(), micro_batches_.end());
    micro_batches_.erase(std::unique(micro_batches_.begin(), micro_batches_.end()),
                         micro_batches_.end());
}

bool Problem::allows(const Policy& policy) const {
    Policy wanted = options_.policy;
    if (options_.constraints.free_schedule) wanted.schedule = policy.schedule;
    if (std::binary_search(micro_batches_.begin(), micro_batches_.end(), policy.micro_batches)) {
        wanted.micro_batches = policy.micro_batches;
    }
    return policy == wanted;
}

bool Problem::fixes_batch() const {
    return options_.objective == Objective::step_time &&
           (options_.constraints.most_micro_batches == 0 || !options_.constraints.free_schedule);
}

Problem Problem::with_free_batch() const {
    Problem free = *this;
    free.options_.policy.micro_batches = 1;
    free.options_.policy.schedule = {};
    free.options_.constraints.most_micro_batches = kMostChosenMicroBatches;
    free.options_.constraints.free_schedule = true;
    free.find_micro_batches();
    return free;
}

std::int64_t Problem::split_limit(OpId op) const {
    if (options_.constraints.whole_ops) return 1;
    const auto most = static_cast<std::int64_t>(allowed_devices(op).size());
    std::int64_t limit = 1;
    const std::vector<graph::Factor>& factors = rule(op).factors;
    for (std::size_t f = 0; f < factors.size(); ++f) {
        if (!factors[f].splittable || factors[f].extent < 1 || !may_split(op, f)) continue;
        limit *= std::min(factors[f].extent, most);
        if (limit >= most) return most;
    }
    return limit;
}

Bytes Problem::read_bytes(graph::Use use) const {
    const graph::Tensor& tensor = graph_.tensor(graph_.op(use.op).inputs[use.operand]);
    const graph::Region read = region_of(rule(use.op), rule(use.op).operands[use.operand],
                                         tensor.shape, graph::whole_box(rule(use.op)));
    return bytes_of(tensor, read.volume());
}

bool Problem::has_forward(OpId op) const {
    return graph_.op(op).kind == OpKind::compute;
}

Bytes Problem::tensor_bytes(TensorId t) const {
    return graph_.tensor(t).bytes();
}

Bytes Problem::persistent_bytes(OpId op) const {
    const graph::Op& source = graph_.op(op);
    if (source.given) return source.given->memory;
    if (source.kind == OpKind::compute || source.kind == OpKind::output) return Bytes{0};
    const TensorId t = source.outputs[0];
    if (!has_gradient(t)) return tensor_bytes(t);
    return 2 * tensor_bytes(t) + optimizer_state_bytes(graph_.tensor(t),
                                                       graph_.tensor(t).elements(),
                                                       options_.policy.optimizer);
}

std::string Problem::model_digest() const {
    return "sha256:" + graph::digest(graph_);
}

std::string Problem::costs_digest() const {
    Sha256 sha;
    sha.add(costs_->name()).add(collectives_->name()).add(std::int64_t{class_count_});
    for (const auto* prices : {&forward_, &backward_price_, &update_}) {
        for (const cost::Price& price : *prices) sha.add(price.time.raw());
    }
    return "sha256:" + sha.finish();
}

}  // namespace partita::plan
