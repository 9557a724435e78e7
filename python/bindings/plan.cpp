// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "python/bindings/core.h"

namespace partita::python {
namespace {

using Degrees = std::vector<std::pair<std::string, int>>;

Degrees pairs(const std::vector<FactorDegree>& degrees) {
    Degrees pairs;
    for (const FactorDegree& degree : degrees) pairs.emplace_back(degree.factor, degree.degree);
    return pairs;
}

std::vector<FactorDegree> degrees(const Degrees& pairs) {
    std::vector<FactorDegree> degrees;
    for (const auto& [factor, degree] : pairs) degrees.push_back({factor, degree});
    return degrees;
}

void bind_layouts(nb::module_& m) {
    nb::class_<TensorPart>(m, "TensorPart", "What one part of an op holds of a tensor.")
        .def_ro("device", &TensorPart::device)
        .def_ro("holds", &TensorPart::holds, "False: nothing of it.")
        .def_prop_ro(
            "dims",
            [](const TensorPart& part) {
                std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>> dims;
                for (const auto& ranges : part.dims) {
                    auto& dim = dims.emplace_back();
                    for (const PositionRange& range : ranges) {
                        dim.emplace_back(range.begin, range.end);
                    }
                }
                return dims;
            },
            "Per dim its positions, as ranges (begin, end); nearly always one.")
        .def_ro("summand", &TensorPart::summand,
                "An element is the sum over the distinct summands of the parts that hold it.");
    nb::class_<TensorLayout>(m, "TensorLayout", "How a tensor lies on devices for one op.")
        .def_ro("tensor", &TensorLayout::tensor)
        .def_ro("parts", &TensorLayout::parts,
                "One per part of the op, in the order of its devices.")
        .def_ro("summands", &TensorLayout::summands)
        .def_ro("combine", &TensorLayout::combine, "How summands combine: \"sum\", \"max\", ...");
    nb::class_<OpLayouts>(m, "OpLayouts",
                          "What an op needs of its operands, and of the gradients of its results, "
                          "and what it makes.")
        .def_ro("op", &OpLayouts::op)
        .def_ro("operands", &OpLayouts::operands)
        .def_ro("results", &OpLayouts::results)
        .def_ro("operand_gradients", &OpLayouts::operand_gradients)
        .def_ro("result_gradients", &OpLayouts::result_gradients)
        .def_ro("update", &OpLayouts::update);
}

Recompute recompute_of(std::string_view choice) {
    for (const Recompute each : {Recompute::none, Recompute::selective, Recompute::full}) {
        if (to_text(each) == choice) return each;
    }
    throw UsageError(fmt::format(
        "recompute: '{}' is nothing that an op can do. Say none, selective or full.", choice));
}

void bind_rows(nb::module_& m) {
    nb::class_<OpPlan>(m, "OpPlan", "How one op is split and where its parts run.")
        .def(
            "__init__",
            [](OpPlan* op, std::string name, std::string type, const Degrees& of,
               std::vector<int> devices, const Degrees& update, std::vector<int> update_devices,
               std::string_view recompute) {
                new (op) OpPlan{.name = std::move(name),
                                .type = std::move(type),
                                .degrees = degrees(of),
                                .devices = std::move(devices),
                                .update_degrees = degrees(update),
                                .update_devices = std::move(update_devices),
                                .recompute = recompute_of(recompute)};
            },
            nb::arg("name"), nb::arg("type"), nb::arg("degrees"), nb::arg("devices"),
            nb::arg("update_degrees") = Degrees{}, nb::arg("update_devices") = std::vector<int>{},
            nb::arg("recompute") = "none")
        .def_ro("name", &OpPlan::name)
        .def_ro("type", &OpPlan::type)
        .def_prop_rw(
            "degrees", [](const OpPlan& op) { return pairs(op.degrees); },
            [](OpPlan& op, const Degrees& of) { op.degrees = degrees(of); },
            "(factor, parts), major to minor; empty: whole, on one device.")
        .def_rw("devices", &OpPlan::devices, "One per part.")
        .def_prop_rw(
            "update_degrees", [](const OpPlan& op) { return pairs(op.update_degrees); },
            [](OpPlan& op, const Degrees& of) { op.update_degrees = degrees(of); },
            "Of a trained parameter: who updates which part of it; empty: those that keep it.")
        .def_rw("update_devices", &OpPlan::update_devices)
        .def_prop_rw(
            "recompute", [](const OpPlan& op) { return to_text(op.recompute); },
            [](OpPlan& op, std::string_view choice) { op.recompute = recompute_of(choice); },
            "Of an op that runs once more for the backward: what its layer block recomputes, "
            "\"selective\" or \"full\"; \"none\" elsewhere.")
        .def("__repr__", [](const OpPlan& op) {
            std::string text;
            for (const FactorDegree& degree : op.degrees) {
                text += fmt::format("{} {}, ", degree.factor, degree.degree);
            }
            return fmt::format("<partita.OpPlan {} ({}): {}on {}>", op.name, op.type, text,
                               fmt::join(op.devices, " "));
        });
    nb::class_<RecomputedOps>(m, "RecomputedOps", "Ops of a layer block that run once more.")
        .def_ro("block", &RecomputedOps::block)
        .def_ro("ops", &RecomputedOps::ops, "In this order.");
    nb::class_<DeviceUse>(m, "DeviceUse")
        .def_ro("name", &DeviceUse::name)
        .def_prop_ro("busy", &seconds_of<DeviceUse, &DeviceUse::busy>,
                     "Seconds of computing per iteration.")
        .def_prop_ro("memory", &bytes_of<DeviceUse, &DeviceUse::memory>, "Peak, in bytes.")
        .def_prop_ro("capacity", &bytes_of<DeviceUse, &DeviceUse::capacity>, "In bytes.");
    nb::class_<PlanDescription>(m, "PlanDescription",
                                "What a plan is, read off its ops: degrees of parallelism of most "
                                "FLOPs in products with weights.")
        .def_ro("devices", &PlanDescription::devices)
        .def_ro("stages", &PlanDescription::stages)
        .def_ro("chunks", &PlanDescription::chunks)
        .def_ro("data", &PlanDescription::data)
        .def_ro("tensor", &PlanDescription::tensor)
        .def_ro("context", &PlanDescription::context)
        .def_ro("experts", &PlanDescription::experts)
        .def_ro("zero", &PlanDescription::zero)
        .def_ro("share", &PlanDescription::share)
        .def_ro("regular", &PlanDescription::regular)
        .def_ro("lines", &PlanDescription::lines)
        .def("__str__", [](const PlanDescription& description) {
            std::string text;
            for (const std::string& line : description.lines) {
                text += (text.empty() ? "" : "\n") + line;
            }
            return text;
        });
    nb::class_<Throughput>(m, "Throughput", "What an iteration gets through; 0: not known.")
        .def_ro("samples_per_second", &Throughput::samples_per_second)
        .def_ro("tokens_per_second", &Throughput::tokens_per_second)
        .def_ro("flops_per_device", &Throughput::flops_per_device)
        .def_ro("mfu", &Throughput::mfu);
    nb::class_<CommunicationPlan>(m, "CommunicationPlan", "What moves of one kind in an iteration.")
        .def_ro("kind", &CommunicationPlan::kind)
        .def_ro("of", &CommunicationPlan::of)
        .def_ro("messages", &CommunicationPlan::messages)
        .def_prop_ro("bytes_per_device",
                     &bytes_of<CommunicationPlan, &CommunicationPlan::bytes_per_device>)
        .def_prop_ro("time_per_device",
                     &seconds_of<CommunicationPlan, &CommunicationPlan::time_per_device>,
                     "Seconds, as if nothing else went on.");
    nb::class_<TaskPlan>(m, "TaskPlan", "One task of an iteration, as predicted.")
        .def_ro("name", &TaskPlan::name)
        .def_ro("kind", &TaskPlan::kind)
        .def_ro("op", &TaskPlan::op)
        .def_ro("tensor", &TaskPlan::tensor)
        .def_ro("of_gradient", &TaskPlan::of_gradient)
        .def_ro("fused", &TaskPlan::fused, "Tensors that move with it.")
        .def_ro("devices", &TaskPlan::devices,
                "Of a copy from where and to where, of a collective its ranks.")
        .def_ro("part", &TaskPlan::part)
        .def_ro("micro_batch", &TaskPlan::micro_batch)
        .def_prop_ro("begin", &seconds_of<TaskPlan, &TaskPlan::begin>, "Seconds.")
        .def_prop_ro("end", &seconds_of<TaskPlan, &TaskPlan::end>, "Seconds.")
        .def_prop_ro("bytes", &bytes_of<TaskPlan, &TaskPlan::bytes>,
                     "Of a copy what is sent, of a collective the buffer of a rank.")
        .def_ro("algorithm", &TaskPlan::algorithm)
        .def_ro("protocol", &TaskPlan::protocol)
        .def_ro("stands_for", &TaskPlan::stands_for,
                "Of a folded plan: tasks on devices that do the same.")
        .def("__repr__", [](const TaskPlan& task) {
            return fmt::format("<partita.TaskPlan {}: {} to {}>", task.name, to_text(task.begin),
                               to_text(task.end));
        });
    nb::class_<DeviceMesh>(m, "DeviceMesh", "Devices of a plan that is a regular grid, row-major.")
        .def_ro("axes", &DeviceMesh::axes, "\"stage\", \"data\", \"context\", \"tensor\".")
        .def_ro("shape", &DeviceMesh::shape)
        .def_ro("devices", &DeviceMesh::devices);
    nb::class_<CollectivePlan>(m, "CollectivePlan")
        .def_ro("task", &CollectivePlan::task)
        .def_ro("algorithm", &CollectivePlan::algorithm)
        .def_ro("protocol", &CollectivePlan::protocol);
}

}  // namespace

void bind_plan(nb::module_& m) {
    bind_rows(m);
    bind_layouts(m);
    nb::class_<Plan>(m, "Plan", "Which device runs which part of which op, and in what order.")
        .def_static("load", &Plan::load, nb::arg("file"), "Reads plan.json.")
        .def_static("parse", &Plan::parse, nb::arg("json"))
        .def_prop_ro("mode", [](const Plan& plan) { return to_text(plan.mode()); })
        .def_prop_ro("objective", [](const Plan& plan) { return to_text(plan.objective()); })
        .def_prop_ro("micro_batches", &Plan::micro_batches)
        .def_prop_ro("schedule", [](const Plan& plan) { return to_text(plan.schedule()); })
        .def_prop_ro(
            "value", [](const Plan& plan) { return seconds(plan.value()); },
            "Predicted seconds of the iteration (of the objective throughput: per batch).")
        .def_prop_ro("value_ps", [](const Plan& plan) { return plan.value().raw(); })
        .def_prop_ro(
            "lower_bound",
            [](const Plan& plan) -> std::optional<double> {
                const std::optional<Time> bound = plan.lower_bound();
                return bound ? std::optional(seconds(*bound)) : std::nullopt;
            },
            "Seconds that no legal plan is below; None: not known.")
        .def_prop_ro("ops", &Plan::ops, "In the model's order.")
        .def("op", &Plan::op, nb::arg("name"))
        .def_prop_ro("devices", &Plan::devices, "By device number.")
        .def_prop_ro("collectives", &Plan::collectives)
        .def_prop_ro("machine", &Plan::machine)
        .def("description", &Plan::description, nb::arg("model"))
        .def("throughput", &Plan::throughput, nb::arg("model"))
        .def("communication", &Plan::communication, nb::arg("model"), "Most time first.")
        .def(
            "tasks", &Plan::tasks, nb::arg("model"),
            "All that runs in an iteration, in the plan's order; of a folded plan on one device of "
            "each kind.")
        .def("mesh", &Plan::mesh, nb::arg("model"),
             "None: it is no regular grid, or its ranks are in another order.")
        .def("layouts", &Plan::layouts, nb::arg("model"),
             "How each op's tensors lie on devices, in the first micro-batch.")
        .def("recomputed", &Plan::recomputed, nb::arg("model"),
             "Ops that run once more for the backward, by layer block; what of each block runs "
             "again does so at one time.")
        .def("json", &Plan::json, "plan.json: the same plan is the same bytes.")
        .def("save", &Plan::save, nb::arg("file"))
        .def(
            "verify",
            [](const Plan& plan, const Model& model,
               const std::optional<std::filesystem::path>& profile) {
                const nb::gil_scoped_release released;
                return plan.verify(model, profile.value_or(std::filesystem::path{}));
            },
            nb::arg("model"), nb::arg("profile") = nb::none(),
            "What is wrong with it for this model, one sentence each; empty: legal.")
        .def("report", &Plan::report, nb::arg("model"),
             "The page of `partita plan --report`, as one HTML text.")
        .def(
            "export",
            [](const Plan& plan, const std::string& format, const Model& model) -> nb::object {
                const std::string text = plan.export_as(format, model);
                if (format == "onnx-sharding") return nb::bytes(text.data(), text.size());
                return nb::str(text.data(), text.size());
            },
            nb::arg("format"), nb::arg("model"),
            "For another tool: \"dot\", \"chrome-trace\", \"dtensor\", \"shardy\", \"nccl-tuner\", "
            "\"megatron\", \"deepspeed\", \"torchtitan\": str; \"onnx-sharding\": bytes.")
        .def(
            "export_to",
            [](const Plan& plan, const std::filesystem::path& output, const std::string& format,
               const Model& model) { plan.export_to(output, format, model); },
            nb::arg("output"), nb::arg("format"), nb::arg("model"),
            "The same into a file; of \"parts\" (an ONNX file for each device, of a plan of whole "
            "ops) into a folder.")
        .def("__repr__", [](const Plan& plan) {
            return fmt::format("<partita.Plan {} of {} ops: {}>", to_text(plan.mode()),
                               plan.ops().size(), to_text(plan.value()));
        });
}

}  // namespace partita::python
