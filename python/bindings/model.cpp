// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <variant>

#include <fmt/format.h>
#include <nanobind/operators.h>
#include <nanobind/stl/variant.h>

#include "python/bindings/core.h"

namespace partita::python {
namespace {

/// What ONNX calls them; "" is undefined.
DType dtype_of(const std::string& name) {
    if (const std::optional<DType> dtype = graph::dtype_from_name(name)) return *dtype;
    throw UsageError(
        fmt::format("element type '{}': unknown. Use the name that ONNX gives it, e.g. float32, "
                    "bfloat16 or int64.",
                    name));
}

using AttributeValue = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>,
                                    std::vector<double>, std::vector<std::string>>;

Tensor add(Graph& graph, const std::string& type, const std::vector<std::string>& operands,
           const std::vector<std::pair<std::string, AttributeValue>>& attributes,
           const std::string& name, const std::vector<std::string>& results,
           const std::string& domain) {
    std::vector<Tensor> tensors(operands.begin(), operands.end());
    Attributes values;
    for (const auto& [key, value] : attributes) {
        values.emplace_back(key, std::visit([](const auto& of) { return Attribute(of); }, value));
    }
    return graph.add(type, std::move(tensors), std::move(values),
                     {.name = name,
                      .results = std::vector<Result>(results.begin(), results.end()),
                      .domain = domain});
}

void bind_graph(nb::module_& m) {
    nb::class_<Graph>(m, "Graph",
                      R"(A neural network written down by hand, with the operators of ONNX.

Tensors are names. Shapes of results are inferred by Model(graph), which checks everything.)")
        .def(nb::init<std::string, int>(), nb::arg("name") = "model", nb::arg("opset") = 23)
        .def(
            "input",
            [](Graph& graph, const std::string& name, const Shape& shape, const std::string& dtype,
               int batch_dim) {
                return graph.input(name, shape, {.dtype = dtype_of(dtype), .batch_dim = batch_dim})
                    .name;
            },
            nb::arg("name"), nb::arg("shape"), nb::arg("dtype") = "float32",
            nb::arg("batch_dim") = 0,
            "Given anew in each iteration. batch_dim: the dim that carries the batch; -1: none.")
        .def(
            "parameter",
            [](Graph& graph, const std::string& name, const Shape& shape,
               const std::string& dtype) {
                return graph.parameter(name, shape, dtype_of(dtype)).name;
            },
            nb::arg("name"), nb::arg("shape"), nb::arg("dtype") = "float32",
            "A weight, which training updates.")
        .def(
            "constant",
            [](Graph& graph, const std::string& name, const Shape& shape,
               const std::string& dtype) {
                return graph.constant(name, shape, dtype_of(dtype)).name;
            },
            nb::arg("name"), nb::arg("shape"), nb::arg("dtype") = "float32",
            "Never changes, and its values do not matter for shapes.")
        .def(
            "integers",
            [](Graph& graph, const std::string& name, const std::vector<std::int64_t>& values) {
                return graph.integers(name, values).name;
            },
            nb::arg("name"), nb::arg("values"), "An int64 vector, e.g. the target of a Reshape.")
        .def(
            "integer",
            [](Graph& graph, const std::string& name, std::int64_t value) {
                return graph.integer(name, value).name;
            },
            nb::arg("name"), nb::arg("value"), "An int64 scalar.")
        .def(
            "add",
            [](Graph& graph, const std::string& type, const std::vector<std::string>& operands,
               const std::vector<std::pair<std::string, AttributeValue>>& attributes,
               const std::string& name, const std::vector<std::string>& results,
               const std::string& domain) {
                return add(graph, type, operands, attributes, name, results, domain).name;
            },
            nb::arg("type"), nb::arg("operands"),
            nb::arg("attributes") = std::vector<std::pair<std::string, AttributeValue>>{},
            nb::arg("name") = "", nb::arg("results") = std::vector<std::string>{},
            nb::arg("domain") = "",
            "One op, operands in ONNX's order (\"\": left out); the name of its first result.")
        .def(
            "output", [](Graph& graph, const std::string& tensor) { graph.output(tensor); },
            nb::arg("tensor"), "A result of the model. Ops that no output needs are dropped.")
        .def(
            "save_onnx",
            [](const Graph& graph, const std::filesystem::path& file,
               const std::optional<std::map<std::string, nb::bytes>>& values) {
                if (!values) return graph.save_onnx(file);
                TensorValues spans;
                for (const auto& [name, bytes] : *values) {
                    spans[name] = std::as_bytes(std::span(bytes.c_str(), bytes.size()));
                }
                graph.save_onnx(file, spans);
            },
            nb::arg("file"), nb::arg("values") = nb::none(),
            "An ONNX file. values: bytes of parameters and constants, row-major, which are written "
            "beside it as FILE.data; others stay without.");
}

ImportOptions import_options(const std::optional<std::string>& precision,
                             const std::optional<std::string>& products,
                             const std::vector<std::string>& fuse,
                             std::optional<bool> float32_gradients) {
    ImportOptions options{.fuse = fuse, .float32_gradients = float32_gradients};
    if (precision) options.precision = dtype_of(*precision);
    if (!products) return options;
    options.products = graph::product_type_from_name(*products);
    if (options.products) return options;
    throw UsageError(fmt::format("products '{}': unknown. Use tf32 or float8.", *products));
}

}  // namespace

void bind_model(nb::module_& m) {
    bind_graph(m);

    nb::class_<OpInfo>(m, "OpInfo",
                       "One op of a model; inputs, parameters and outputs are ops too.")
        .def_ro("name", &OpInfo::name)
        .def_ro("type", &OpInfo::type)
        .def_ro("operands", &OpInfo::operands, "Tensors; \"\": left out.")
        .def_ro("results", &OpInfo::results, "Tensors; \"\": left out.");
    nb::class_<TensorInfo>(m, "TensorInfo")
        .def_ro("shape", &TensorInfo::shape)
        .def_prop_ro("dtype",
                     [](const TensorInfo& info) { return std::string(graph::name_of(info.dtype)); })
        .def_prop_ro("bytes", &bytes_of<TensorInfo, &TensorInfo::bytes>);
    nb::class_<FactorInfo>(m, "FactorInfo", "A loop of an op, which a plan may cut.")
        .def_ro("name", &FactorInfo::name)
        .def_ro("extent", &FactorInfo::extent)
        .def_ro("splittable", &FactorInfo::splittable)
        .def_prop_ro(
            "operands",
            [](const FactorInfo& info) {
                std::vector<std::pair<int, int>> dims;
                for (const DimOf& of : info.operands) dims.emplace_back(of.tensor, of.dim);
                return dims;
            },
            "(operand, dim) of each dim that it cuts.")
        .def_prop_ro(
            "results",
            [](const FactorInfo& info) {
                std::vector<std::pair<int, int>> dims;
                for (const DimOf& of : info.results) dims.emplace_back(of.tensor, of.dim);
                return dims;
            },
            "(result, dim) of each dim that it cuts; none: parts are partial.");

    nb::class_<Machine>(m, "Machine", "Devices, switches, and the links that join them.")
        .def_static("load", &Machine::load, nb::arg("spec"),
                    "A preset with optional size (\"cpu:2\", \"dgx-h100:4\") or a machine file.")
        .def_static("discover", &Machine::discover, nb::call_guard<nb::gil_scoped_release>(),
                    "This host with its CPUs, or its GPUs where it has any.")
        .def_static("presets", &Machine::presets, "Names that load() takes.")
        .def_prop_ro("name", &Machine::name)
        .def_prop_ro("device_count", &Machine::device_count)
        .def_prop_ro("device_names",
                     [](const Machine& machine) {
                         std::vector<std::string> names;
                         for (const DeviceSpec& device : machine.spec().devices) {
                             names.push_back(device.name);
                         }
                         return names;
                     })
        .def("json", &Machine::json, "A machine file, canonical.")
        .def("save", &Machine::save, nb::arg("file"))
        .def("__repr__", [](const Machine& machine) {
            return fmt::format("<partita.Machine {}: {} devices>", machine.name(),
                               machine.device_count());
        });

    nb::class_<Model>(m, "Model", "A network ready to be planned, all shapes concrete.")
        .def(
            "__init__",
            [](Model* model, const Graph& graph, const std::optional<std::string>& precision,
               const std::optional<std::string>& products, const std::vector<std::string>& fuse,
               std::optional<bool> float32_gradients) {
                ImportOptions options =
                    import_options(precision, products, fuse, float32_gradients);
                options.fused_attention = false;
                new (model) Model(graph, options);
            },
            nb::arg("graph"), nb::kw_only(), nb::arg("precision") = nb::none(),
            nb::arg("products") = nb::none(), nb::arg("fuse") = std::vector<std::string>{},
            nb::arg("float32_gradients") = nb::none(),
            "precision: float32, float16 or bfloat16, all of the model in that; products: what "
            "matrix products are in where that is less, tf32 or float8; fuse: as the program's "
            "option; float32_gradients: those of parameters in 16 bits are added up and sent so.")
        .def_static(
            "load",
            [](const std::filesystem::path& file,
               const std::map<std::string, std::int64_t>& bindings,
               const std::map<std::string, Shape>& shapes, std::optional<std::int64_t> batch,
               const std::optional<std::string>& precision,
               const std::optional<std::string>& products, const std::vector<std::string>& fuse,
               const std::optional<std::filesystem::path>& framework,
               std::optional<bool> float32_gradients) {
                ImportOptions options =
                    import_options(precision, products, fuse, float32_gradients);
                options.bindings = bindings;
                options.shapes = shapes;
                options.batch = batch;
                if (framework) options.framework = *framework;
                const nb::gil_scoped_release released;
                return Model::load(file, options);
            },
            nb::arg("file"), nb::kw_only(),
            nb::arg("bindings") = std::map<std::string, std::int64_t>{},
            nb::arg("shapes") = std::map<std::string, Shape>{}, nb::arg("batch") = nb::none(),
            nb::arg("precision") = nb::none(), nb::arg("products") = nb::none(),
            nb::arg("fuse") = std::vector<std::string>{}, nb::arg("framework") = nb::none(),
            nb::arg("float32_gradients") = nb::none(),
            R"(An .onnx file (its weights are not read) or a workload .json.

bindings: values of symbolic dims by name; shapes: of inputs by name; batch: the sample dim of all
inputs; precision, products, fuse, float32_gradients: as of a graph; framework: as the program's
option.)")
        .def_prop_ro("name", &Model::name)
        .def_prop_ro("ops", &Model::ops, "In the order of plans.")
        .def("factors", &Model::factors, nb::arg("op"), "What an op's degrees in a plan speak of.")
        .def("tensor", &Model::tensor, nb::arg("name"))
        .def_prop_ro("digest", &Model::digest)
        .def_prop_ro("notes", &Model::notes, "Sentences on how the model was understood.")
        .def("__repr__", [](const Model& model) {
            return fmt::format("<partita.Model {}: {} ops>", model.name(), model.ops().size());
        });
}

}  // namespace partita::python
