// SPDX-License-Identifier: Apache-2.0
#include <partita/plan.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "api/exports.h"
#include "api/impl.h"
#include "api/names.h"
#include "api/pricing.h"
#include "api/report/report.h"
#include "api/request.h"
#include "base/error.h"
#include "base/files.h"
#include "plan/description/communication.h"
#include "plan/description/parallelism.h"
#include "plan/description/throughput.h"
#include "plan/exporters/training_grid.h"
#include "plan/files/verify.h"
#include "plan/layout/layout.h"
#include "plan/problem/micro_batches.h"
#include "plan/problem/recompute_regions.h"

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
            .update_devices = devices_of(op.update.config),
            .recompute = api::to_public(op.recompute)};
}

plan::Problem problem_of(const plan::Plan& plan, const Model& model,
                         const std::filesystem::path& profile = {}) {
    return api::make_problem(model.impl().loaded, *plan.machine, api::problem_options(plan),
                             api::load_costs(profile, *plan.machine));
}

/// The layouts of one op.
class LayoutReader {
public:
    LayoutReader(const plan::Problem& problem, const plan::Strategy& strategy)
        : problem_(problem), micro_batches_(strategy.policy.micro_batches) {}

    OpLayouts read(graph::OpId id, const plan::OpDecision& decision) {
        const graph::Op& op = problem_.graph().op(id);
        const bool trains = problem_.mode() == plan::Mode::training;
        OpLayouts layouts{.op = op.name,
                          .operands = all(id, decision.config, plan::Side::operand, op.inputs),
                          .results = all(id, decision.config, plan::Side::result, op.outputs),
                          .operand_gradients = {},
                          .result_gradients = {},
                          .update = {}};
        if (!trains) return layouts;
        layouts.operand_gradients =
            all(id, decision.config, plan::Side::operand_gradient, op.inputs);
        layouts.result_gradients =
            all(id, decision.config, plan::Side::result_gradient, op.outputs);
        const plan::OpConfig& update = decision.update.update;
        if (!update.devices.empty()) {
            layouts.update = all(id, update, plan::Side::result, op.outputs).front();
        }
        return layouts;
    }

private:
    std::vector<TensorLayout> all(graph::OpId id, const plan::OpConfig& config, plan::Side side,
                                  std::span<const graph::TensorId> tensors) {
        const graph::OpRule& rule = problem_.facts().rule(id);
        const plan::Parts parts(rule, config,
                                plan::micro_batch_box(problem_.facts(), id, micro_batches_, 0));
        std::vector<TensorLayout> layouts;
        for (std::size_t i = 0; i < tensors.size(); ++i) {
            TensorLayout& layout = layouts.emplace_back();
            if (!tensors[i].valid()) continue;
            const graph::Tensor& tensor = problem_.graph().tensor(tensors[i]);
            layout.tensor = tensor.name;
            fill(layout,
                 plan::layout_of(rule, parts, config.devices, side, i, tensor.shape, regions_));
        }
        return layouts;
    }

    void fill(TensorLayout& layout, const plan::Layout& from) const {
        layout.summands = from.summands;
        if (from.is_partial()) layout.combine = name_of(from.combine);
        for (const plan::Piece& piece : from.pieces) {
            TensorPart& part = layout.parts.emplace_back();
            part.device = piece.device;
            part.summand = piece.summand;
            part.holds = piece.region >= 0;
            if (!part.holds) continue;
            for (const graph::Positions& positions : regions_[piece.region].dims) {
                std::vector<PositionRange>& ranges = part.dims.emplace_back();
                for (const graph::Range& range : positions) {
                    ranges.push_back({range.begin, range.end});
                }
            }
        }
    }

    const plan::Problem& problem_;
    int micro_batches_;
    plan::RegionTable regions_;
};

TaskPlan to_public(const plan::Problem& problem, const plan::TaskGraph& tasks, plan::TaskId id,
                   Time begin) {
    const plan::Task& task = tasks.tasks[id.index()];
    TaskPlan result{
        .name = task_name(problem, task),
        .kind = std::string(task.kind == plan::TaskKind::collective ? cost::name_of(task.collective)
                                                                    : name_of(task.kind)),
        .op = task.op.valid() ? problem.graph().op(task.op).name : "",
        .tensor = {},
        .of_gradient = task.gradient,
        .fused = task.fused,
        .devices = {task.device},
        .part = task.part,
        .micro_batch = task.micro_batch,
        .begin = begin,
        .end = begin + task.duration,
        .bytes = task.bytes,
        .algorithm = {},
        .protocol = {},
        .stands_for = tasks.copies_of(id.index())};
    if (task.tensor.valid()) result.tensor = problem.graph().tensor(task.tensor).name;
    if (task.to >= 0) result.devices.push_back(task.to);
    if (task.ranks >= 0) {
        const auto ranks = tasks.ranks[static_cast<std::size_t>(task.ranks)];
        result.devices.assign(ranks.begin(), ranks.end());
    }
    if (task.kind == plan::TaskKind::collective) {
        result.algorithm = cost::name_of(task.algorithm);
        result.protocol = cost::name_of(task.protocol);
    }
    return result;
}

}  // namespace

std::string_view to_text(Mode mode) {
    return api::name_of(mode);
}

std::string_view to_text(Objective objective) {
    return api::name_of(objective);
}

std::string_view to_text(Schedule schedule) {
    return api::name_of(schedule);
}

std::string_view to_text(Recompute recompute) {
    return api::name_of(recompute);
}

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

std::vector<OpLayouts> Plan::layouts(const Model& model) const {
    const plan::Problem problem = problem_of(impl_->plan, model);
    const plan::Strategy strategy = plan::strategy_of(impl_->plan, problem);
    LayoutReader reader(problem, strategy);
    std::vector<OpLayouts> layouts;
    for (std::size_t i = 0; i < strategy.ops.size(); ++i) {
        layouts.push_back(reader.read(graph::OpId(i), strategy.ops[i]));
    }
    return layouts;
}

std::vector<RecomputedOps> Plan::recomputed(const Model& model) const {
    const plan::Problem problem = problem_of(impl_->plan, model);
    const plan::Strategy strategy = plan::strategy_of(impl_->plan, problem);
    std::vector<RecomputedOps> all;
    for (const plan::LayerBlock& block : problem.facts().recompute().blocks()) {
        const plan::RecomputeRegion* const region = block.region(recompute_of(block, strategy));
        if (region == nullptr) continue;
        RecomputedOps& ops = all.emplace_back(RecomputedOps{.block = block.name, .ops = {}});
        for (const graph::OpId op : region->ops) ops.ops.push_back(problem.graph().op(op).name);
    }
    return all;
}

std::vector<TaskPlan> Plan::tasks(const Model& model) const {
    const plan::Problem problem = problem_of(impl_->plan, model);
    const plan::Priced priced =
        api::price_as_planned(problem, plan::strategy_of(impl_->plan, problem), impl_->plan);
    if (!priced.timeline) {
        throw UsageError(
            "a plan of given costs has loads and no tasks in time. Plan an ONNX model.");
    }
    std::vector<TaskPlan> tasks;
    tasks.reserve(priced.tasks.size());
    for (const plan::TaskId id : priced.timeline->commit_order) {
        tasks.push_back(to_public(problem, priced.tasks, id, priced.timeline->start[id.index()]));
    }
    return tasks;
}

std::optional<DeviceMesh> Plan::mesh(const Model& model) const {
    const plan::Problem problem = problem_of(impl_->plan, model);
    const auto grid = plan::device_grid_of(problem, plan::strategy_of(impl_->plan, problem));
    if (!grid) return std::nullopt;
    return DeviceMesh{.axes = {"stage", "data", "context", "tensor"},
                      .shape = {grid->stages, grid->data, grid->context, grid->tensor},
                      .devices = grid->devices};
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

std::string Plan::report(const Model& model) const {
    const plan::Problem problem = problem_of(impl_->plan, model);
    const plan::Strategy strategy = plan::strategy_of(impl_->plan, problem);
    const plan::Priced priced = api::price_as_planned(problem, strategy, impl_->plan);
    const std::vector<std::string> lines =
        plan::lines_of(plan::parallelism_of(problem, strategy), strategy.policy);
    api::ReportInput input{
        .problem = problem,
        .strategy = strategy,
        .evaluation = priced.evaluation,
        .tasks = priced.timeline ? &priced.tasks : nullptr,
        .timeline = priced.timeline ? &*priced.timeline : nullptr,
        .memory = priced.memory,
        .title = fmt::format("{} on {}", problem.graph().name, problem.machine().name()),
        .subtitle = fmt::format("{} ops", problem.graph().op_count()),
        .facts = {{std::string(name_of(problem.objective())), to_text(impl_->plan.value)}}};
    if (impl_->plan.lower_bound) {
        input.facts.emplace_back("lower bound", to_text(*impl_->plan.lower_bound));
    }
    input.facts.emplace_back("mode", std::string(name_of(problem.mode())));
    input.facts.emplace_back("strategy", fmt::format("{}", fmt::join(lines, "; ")));
    return api::report_page(input);
}

std::string Plan::export_as(std::string_view format, const Model& model) const {
    api::check_export_format(format);
    const plan::Problem problem = problem_of(impl_->plan, model);
    return api::export_text(format, model.impl().loaded, problem, impl_->plan);
}

void Plan::export_to(const std::filesystem::path& output, std::string_view format,
                     const Model& model) const {
    api::check_export_format(format);
    const plan::Problem problem = problem_of(impl_->plan, model);
    api::write_export(format, model.impl().loaded, problem, impl_->plan, output);
}

}  // namespace partita
