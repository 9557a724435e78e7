// SPDX-License-Identifier: Apache-2.0
#include <partita/plan.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "api/impl.h"
#include "api/names.h"
#include "api/pricing.h"
#include "api/request.h"
#include "base/error.h"
#include "base/files.h"
#include "plan/description/communication.h"
#include "plan/description/parallelism.h"
#include "plan/description/throughput.h"
#include "plan/exporters/exporter.h"
#include "plan/files/verify.h"

namespace partita {
namespace {

std::vector<FactorDegree> degrees_of(const plan::PlannedConfig& config) {
    std::vector<FactorDegree> degrees;
    for (const plan::PlannedAxis& axis : config.degrees) {
        degrees.push_back({axis.factor, axis.degree});
    }
    return degrees;
}

std::vector<int> devices_of(const plan::PlannedConfig& config) {
    std::vector<int> devices;
    for (int part = 0; part < config.devices.size(); ++part)
        devices.push_back(config.devices[part]);
    return devices;
}

OpPlan to_public(const plan::PlannedOp& op) {
    return {.name = op.name,
            .type = op.type,
            .degrees = degrees_of(op.config),
            .devices = devices_of(op.config),
            .update_degrees = degrees_of(op.update.config),
            .update_devices = devices_of(op.update.config)};
}

plan::Problem problem_of(const plan::Plan& plan, const Model& model,
                         const std::filesystem::path& profile = {}) {
    return api::make_problem(model.impl().loaded, *plan.machine, api::problem_options(plan),
                             api::load_costs(profile, *plan.machine));
}

}  // namespace

Plan::Plan(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

Plan Plan::load(const std::filesystem::path& file) {
    return Plan(std::make_shared<const Impl>(Impl{plan::read_plan(file)}));
}

Plan Plan::parse(std::string_view json) {
    return Plan(std::make_shared<const Impl>(Impl{plan::parse_plan(json, "plan")}));
}

Mode Plan::mode() const {
    return api::to_public(impl_->plan.mode);
}

Objective Plan::objective() const {
    return api::to_public(impl_->plan.objective);
}

int Plan::micro_batches() const {
    return impl_->plan.policy.micro_batches;
}

Schedule Plan::schedule() const {
    return api::to_public(impl_->plan.policy.schedule.kind);
}

Time Plan::value() const {
    return impl_->plan.value;
}

std::optional<Time> Plan::lower_bound() const {
    return impl_->plan.lower_bound;
}

std::vector<OpPlan> Plan::ops() const {
    std::vector<OpPlan> ops;
    for (const plan::PlannedOp& op : impl_->plan.ops) ops.push_back(to_public(op));
    return ops;
}

OpPlan Plan::op(std::string_view name) const {
    const auto found = std::ranges::find(impl_->plan.ops, name, &plan::PlannedOp::name);
    if (found != impl_->plan.ops.end()) return to_public(*found);
    throw UsageError(fmt::format("{}: the plan has no op '{}'. Plan::ops() lists them.",
                                 impl_->plan.model_file, name));
}

std::vector<DeviceUse> Plan::devices() const {
    std::vector<DeviceUse> uses;
    for (std::size_t d = 0; d < impl_->plan.devices.size(); ++d) {
        const cost::Device& device = impl_->plan.machine->device(static_cast<int>(d));
        uses.push_back({.name = device.name,
                        .busy = impl_->plan.devices[d].busy,
                        .memory = impl_->plan.devices[d].memory,
                        .capacity = device.memory - device.reserved});
    }
    return uses;
}

std::vector<CollectivePlan> Plan::collectives() const {
    std::vector<CollectivePlan> collectives;
    for (const plan::PlannedCollective& collective : impl_->plan.collectives) {
        collectives.push_back({collective.task, std::string(cost::name_of(collective.algorithm)),
                               std::string(cost::name_of(collective.protocol))});
    }
    return collectives;
}

Machine Plan::machine() const {
    return Machine(std::make_shared<const Machine::Impl>(Machine::Impl{*impl_->plan.machine}));
}

PlanDescription Plan::description(const Model& model) const {
    const plan::Problem problem = problem_of(impl_->plan, model);
    const plan::Strategy strategy = plan::strategy_of(impl_->plan, problem);
    const plan::Parallelism read = plan::parallelism_of(problem, strategy);
    return {.devices = read.devices,
            .stages = static_cast<int>(read.stages.size()),
            .chunks = read.chunks,
            .data = read.data,
            .tensor = read.tensor,
            .context = read.context,
            .experts = read.experts,
            .zero = static_cast<int>(read.zero),
            .share = read.share,
            .regular = read.regular(strategy.policy),
            .lines = plan::lines_of(read, strategy.policy)};
}

Throughput Plan::throughput(const Model& model) const {
    const plan::Problem problem = problem_of(impl_->plan, model);
    const plan::Throughput found =
        plan::throughput_of(problem, plan::strategy_of(impl_->plan, problem), impl_->plan.value);
    return {.samples_per_second = found.samples,
            .tokens_per_second = found.tokens,
            .flops_per_device = found.flops_per_device,
            .mfu = found.mfu};
}

std::vector<CommunicationPlan> Plan::communication(const Model& model) const {
    const plan::Problem problem = problem_of(impl_->plan, model);
    const plan::Priced priced =
        api::price_as_planned(problem, plan::strategy_of(impl_->plan, problem), impl_->plan);
    std::vector<CommunicationPlan> list;
    for (const plan::Communication& each : plan::communication_of(problem, priced.tasks)) {
        list.push_back({.kind = std::string(each.kind),
                        .of = std::string(name_of(each.moved)),
                        .messages = each.messages,
                        .bytes_per_device = each.bytes_per_device,
                        .time_per_device = each.time_per_device});
    }
    return list;
}

std::string Plan::json() const {
    return plan::to_json(impl_->plan);
}

void Plan::save(const std::filesystem::path& file) const {
    write_file(file, json());
}

std::vector<std::string> Plan::verify(const Model& model,
                                      const std::filesystem::path& profile) const {
    return plan::verify(problem_of(impl_->plan, model, profile), impl_->plan);
}

std::string Plan::export_as(std::string_view format, const Model& model) const {
    plan::check_format(format);
    const plan::Problem problem = problem_of(impl_->plan, model);
    const plan::Strategy strategy = plan::strategy_of(impl_->plan, problem);
    const plan::Priced priced = api::price_as_planned(problem, strategy, impl_->plan);
    return plan::export_as(format, {.problem = problem,
                                    .strategy = strategy,
                                    .tasks = &priced.tasks,
                                    .timeline = priced.timeline ? &*priced.timeline : nullptr});
}

}  // namespace partita
