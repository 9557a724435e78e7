// SPDX-License-Identifier: Apache-2.0
#include "importers/onnx/input_shapes.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "importers/onnx/model_error.h"
#include "importers/onnx/npy_file.h"
#include "importers/onnx/onnx_types.h"
#include "importers/onnx/tensor_file.h"
#include "importers/onnx/tensor_files.h"

namespace partita::importers {

using graph::Shape;

namespace {

constexpr std::int64_t kRealLimit = 64;

struct InputDim {
    std::string symbol;           ///< "" when it has none
    std::int64_t extent = -1;     ///< -1: open
    bool declared_batch = false;  ///< denotation DATA_BATCH
};

struct Input {
    std::string name;
    bool tensor = true;
    bool ranked = true;
    std::vector<InputDim> dims;
};

bool names_the_batch(std::string symbol) {
    std::transform(symbol.begin(), symbol.end(), symbol.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    constexpr std::array<std::string_view, 5> kNames = {"n", "b", "bs", "nbatch", "bsz"};
    return std::find(kNames.begin(), kNames.end(), symbol) != kNames.end() ||
           symbol.rfind("batch", 0) == 0;
}

bool is_sample_dim(const InputDim& dim) {
    return dim.declared_batch || names_the_batch(dim.symbol);
}

class Binder {
public:
    Binder(const onnx::ModelProto& model, const OnnxOptions& options, const std::string& file)
        : options_(options), file_(file), exact_roles_(has_exact_roles(model)) {
        const onnx::GraphProto& graph = model.graph();
        std::set<std::string> initializers;
        for (const auto& tensor : graph.initializer()) initializers.insert(tensor.name());
        for (const auto& tensor : graph.sparse_initializer()) {
            initializers.insert(tensor.values().name());
        }
        for (const auto& info : graph.input()) {
            if (initializers.count(info.name()) == 0) read(info);
        }
    }

    BoundInputs bind() {
        apply_bind();
        apply_shapes(options_.input_shapes, "--shape");
        if (!options_.inputs.empty()) apply_shapes(read_data_set(), "--inputs");
        sample_dims();
        if (options_.batch) apply_batch();
        substitute();
        complain_about_missing();
        for (const Input& input : inputs_) {
            if (!input.tensor) continue;
            Shape shape;
            for (const InputDim& dim : input.dims) shape.push_back(dim.extent);
            bound_.shapes[input.name] = std::move(shape);
        }
        return std::move(bound_);
    }

private:
    void read(const onnx::ValueInfoProto& info) {
        Input input{.name = info.name()};
        input.tensor = !info.has_type() || info.type().has_tensor_type();
        input.ranked = info.type().has_tensor_type() && info.type().tensor_type().has_shape();
        for (const auto& dim : info.type().tensor_type().shape().dim()) {
            InputDim read{.symbol = printable(dim.dim_param())};
            read.declared_batch = dim.denotation() == "DATA_BATCH";
            // Some exporters write -1 for "any".
            if (dim.has_dim_value() && dim.dim_value() >= 0) read.extent = dim.dim_value();
            input.dims.push_back(std::move(read));
        }
        inputs_.push_back(std::move(input));
    }

    /// All symbolic names, in the order of the inputs.
    std::vector<std::string> symbols() const {
        std::vector<std::string> names;
        std::set<std::string> seen;
        for (const Input& input : inputs_) {
            for (const InputDim& dim : input.dims) {
                if (dim.symbol.empty() || dim.extent >= 0) continue;
                if (seen.insert(dim.symbol).second) names.push_back(dim.symbol);
            }
        }
        return names;
    }

    void set_symbol(const std::string& symbol, std::int64_t extent, const std::string& option) {
        const auto [known, added] = bound_.bindings.emplace(symbol, extent);
        if (added || known->second == extent) return;
        throw UsageError(
            fmt::format("{}: {} gives '{}' the value {}, but it already has {}. Make "
                        "the options agree.",
                        file_, option, symbol, extent, known->second));
    }

    void apply_bind() {
        const std::vector<std::string> known = symbols();
        for (const auto& [name, extent] : options_.bindings) {
            if (std::find(known.begin(), known.end(), name) == known.end()) {
                throw UsageError(fmt::format(
                    "{}: --bind {}={}: no input has a symbolic dim '{}'. {}", file_, name, extent,
                    name,
                    known.empty()
                        ? std::string("All dims have values; leave --bind out.")
                        : fmt::format("The model's are '{}'.", fmt::join(known, "', '"))));
            }
            if (extent < 1) {
                throw UsageError(
                    fmt::format("{}: --bind {}={}: expected an extent >= 1. Give it "
                                "one, e.g. --bind {}=128.",
                                file_, name, extent, name));
            }
            bound_.bindings[name] = extent;
        }
    }

    void apply_shapes(const std::map<std::string, Shape>& shapes, const std::string& option) {
        for (const auto& [name, shape] : shapes) {
            const auto input =
                std::find_if(inputs_.begin(), inputs_.end(),
                             [&wanted = name](const Input& i) { return i.name == wanted; });
            if (input == inputs_.end()) {
                std::vector<std::string> names;
                for (const Input& i : inputs_) names.push_back(i.name);
                throw UsageError(fmt::format("{}: {} {}:{}: no such input. The model's are '{}'.",
                                             file_, option, name, fmt::join(shape, "x"),
                                             fmt::join(names, "', '")));
            }
            apply_shape(*input, shape, option);
        }
    }

    void apply_shape(Input& input, const Shape& shape, const std::string& option) {
        const std::string given =
            fmt::format("{}: {} {}:{}", file_, option, input.name, fmt::join(shape, "x"));
        if (!input.tensor) throw UsageError(fmt::format("{}: the input is no tensor.", given));
        if (!input.ranked) {
            input.dims.assign(shape.size(), {});
            input.ranked = true;
        }
        if (shape.size() != input.dims.size()) {
            throw UsageError(
                fmt::format("{}: the input has {} dims, not {}. Give one extent per "
                            "dim.",
                            given, input.dims.size(), shape.size()));
        }
        for (std::size_t d = 0; d < shape.size(); ++d) {
            InputDim& dim = input.dims[d];
            if (shape[d] < 0 || (dim.extent >= 0 && dim.extent != shape[d])) {
                throw UsageError(fmt::format(
                    "{}: dim {}: expected {}, got {}. Correct the shape.", given, d,
                    dim.extent >= 0 ? fmt::format("{}", dim.extent) : std::string("an extent >= 0"),
                    shape[d]));
            }
            if (!dim.symbol.empty() && dim.extent < 0) set_symbol(dim.symbol, shape[d], option);
            dim.extent = shape[d];
        }
    }

    std::map<std::string, Shape> read_data_set() {
        const TensorFiles files(options_.inputs);
        std::map<std::string, Shape> shapes;
        for (std::size_t i = 0; i < inputs_.size(); ++i) {
            if (!inputs_[i].tensor) continue;
            const auto found = files.find("input", i, inputs_[i].name);
            if (!found) {
                throw InputError(
                    fmt::format("{}: there is no input_{}.pb and no {}; expected the tensor of "
                                "input '{}'. Give "
                                "a folder with one file per input, or numpy's archive.",
                                options_.inputs.string(), i, array_file_name(inputs_[i].name),
                                inputs_[i].name));
            }
            const std::filesystem::path& path = *found;
            const std::optional<onnx::TensorProto> message =
                read_tensor_message(*files.open(path), path);
            if (!message || !fault_of(*message).empty()) {
                throw InputError(
                    fmt::format("{}: expected an ONNX tensor for input '{}', got "
                                "something else. Write the data set again.",
                                path.string(), inputs_[i].name));
            }
            const onnx::TensorProto& tensor = *message;
            shapes[inputs_[i].name] = dims_of(tensor);
            // Shapes depend on integers, and on scales and steps, which are few.
            const bool integral = is_integral(dtype_from_onnx(tensor.data_type()));
            std::optional<Literal> literal =
                literal_of(tensor, integral ? options_.fold_limit : kRealLimit);
            if (literal) bound_.contents[inputs_[i].name] = std::move(*literal);
        }
        return shapes;
    }

    /// Which dim of each input carries the batch: the one the model names; the first symbolic one
    /// when it names none; dim 0 when nothing is symbolic.
    void sample_dims() {
        bool named = exact_roles_;
        bool symbolic = false;
        for (const Input& input : inputs_) {
            for (const InputDim& dim : input.dims) {
                named = named || is_sample_dim(dim);
                symbolic = symbolic || !dim.symbol.empty() || dim.extent < 0;
            }
        }
        for (const Input& input : inputs_) {
            int chosen = -1;
            for (std::size_t d = 0; d < input.dims.size() && chosen < 0; ++d) {
                const InputDim& dim = input.dims[d];
                const bool open = !dim.symbol.empty() || dim.extent < 0;
                if (named ? is_sample_dim(dim) : !symbolic || open) chosen = static_cast<int>(d);
            }
            bound_.sample_dims.push_back(chosen);
        }
        named_ = named;
    }

    void apply_batch() {
        if (*options_.batch < 1) {
            throw UsageError(
                fmt::format("{}: --batch {}: expected a number >= 1. Give it one, e.g. "
                            "--batch 64.",
                            file_, *options_.batch));
        }
        std::vector<std::string> bound;
        for (std::size_t i = 0; i < inputs_.size(); ++i) {
            if (bound_.sample_dims[i] < 0) continue;
            InputDim& dim = inputs_[i].dims[static_cast<std::size_t>(bound_.sample_dims[i])];
            if (dim.symbol.empty() && dim.extent >= 0) continue;
            if (!dim.symbol.empty()) {
                set_symbol(dim.symbol, *options_.batch, "--batch");
            } else {
                dim.extent = *options_.batch;
            }
            bound.push_back(fmt::format(
                "dim {} of input '{}'{}", bound_.sample_dims[i], inputs_[i].name,
                dim.symbol.empty() ? std::string() : fmt::format(" ('{}')", dim.symbol)));
        }
        if (bound.empty()) {
            throw UsageError(
                fmt::format("{}: --batch {}: no input has a symbolic dim. Leave --batch "
                            "out; the model's shapes are fixed.",
                            file_, *options_.batch));
        }
        constexpr std::size_t kMostNamed = 4;  // decoders have a cache for each layer
        std::string more;
        if (bound.size() > kMostNamed) {
            more = fmt::format(" and such a dim of {} other inputs", bound.size() - kMostNamed + 1);
            bound.resize(kMostNamed - 1);
        }
        bound_.notes.push_back(fmt::format("--batch {} bound {}{}{}.", *options_.batch,
                                           fmt::join(bound, ", "), more,
                                           named_ ? "" : ", the first symbolic dim of each input"));
    }

    void substitute() {
        for (Input& input : inputs_) {
            for (InputDim& dim : input.dims) {
                const auto known = bound_.bindings.find(dim.symbol);
                if (dim.extent < 0 && known != bound_.bindings.end()) dim.extent = known->second;
            }
        }
    }

    void complain_about_missing() const {
        std::string first;
        std::vector<std::string> others;
        std::set<std::string> seen;
        for (const Input& input : inputs_) {
            if (!input.tensor) continue;
            if (!input.ranked) {
                note_missing(first, others,
                             fmt::format("input '{}' has no shape. Give it one, e.g. --shape "
                                         "{}:1x3x224x224",
                                         input.name, input.name),
                             fmt::format("the shape of '{}'", input.name));
            }
            for (std::size_t d = 0; d < input.dims.size(); ++d) {
                const InputDim& dim = input.dims[d];
                if (dim.extent >= 0) continue;
                if (!dim.symbol.empty() && !seen.insert(dim.symbol).second) continue;
                note_missing(first, others, missing_text(input, d),
                             dim.symbol.empty() ? fmt::format("dim {} of '{}'", d, input.name)
                                                : fmt::format("'{}'", dim.symbol));
            }
        }
        if (first.empty()) return;
        if (!others.empty()) first += fmt::format(" (also missing: {})", fmt::join(others, ", "));
        throw UsageError(fmt::format("{}: {}.", file_, first));
    }

    static void note_missing(std::string& first, std::vector<std::string>& others, std::string text,
                             std::string name) {
        if (first.empty()) {
            first = std::move(text);
        } else {
            others.push_back(std::move(name));
        }
    }

    static std::string missing_text(const Input& input, std::size_t d) {
        const InputDim& dim = input.dims[d];
        if (!dim.symbol.empty()) {
            return fmt::format(
                "input '{}', dim {}: symbolic '{}' has no value. Give it one, e.g. "
                "--bind {}={}",
                input.name, d, dim.symbol, dim.symbol, names_the_batch(dim.symbol) ? 1 : 128);
        }
        Shape example;
        for (const InputDim& other : input.dims)
            example.push_back(std::max<std::int64_t>(other.extent, 1));
        return fmt::format(
            "input '{}', dim {}: has neither a name nor a value. Give the input a "
            "shape, e.g. --shape {}:{}",
            input.name, d, input.name, fmt::join(example, "x"));
    }

    const OnnxOptions& options_;
    const std::string& file_;
    std::vector<Input> inputs_;
    BoundInputs bound_;
    bool named_ = false;
    bool exact_roles_;
};

}  // namespace

BoundInputs bind_inputs(const onnx::ModelProto& model, const OnnxOptions& options,
                        const std::string& file) {
    return Binder(model, options, file).bind();
}

bool has_exact_roles(const onnx::ModelProto& model) {
    return std::any_of(model.metadata_props().begin(), model.metadata_props().end(),
                       [](const auto& entry) { return entry.key() == kExactRoles; });
}

}  // namespace partita::importers
