// SPDX-License-Identifier: Apache-2.0
#include "tests/runtime/hostile_models.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <utility>

#include <onnx/onnx_pb.h>

#include "base/error.h"
#include "importers/onnx/onnx_types.h"
#include "importers/onnx/tensor_bytes.h"
#include "search/support/random.h"

namespace partita::runtime {

namespace fs = std::filesystem;
using graph::HostTensor;
using search::Random;

namespace {

/// A model of one or a few nodes with what it is run on.
struct ModelCase {
    onnx::ModelProto model;
    std::vector<onnx::TensorProto> inputs;  ///< contents in raw_data
};

constexpr std::array<std::int64_t, 16> kIntegers = {0,
                                                    1,
                                                    -1,
                                                    2,
                                                    -2,
                                                    3,
                                                    5,
                                                    7,
                                                    64,
                                                    -64,
                                                    1'000'000,
                                                    std::int64_t{1} << 31,
                                                    -(std::int64_t{1} << 31),
                                                    std::int64_t{1} << 32,
                                                    std::numeric_limits<std::int64_t>::max(),
                                                    std::numeric_limits<std::int64_t>::min()};
constexpr std::array<float, 10> kFloats = {0,
                                           -0.0F,
                                           1,
                                           -1,
                                           0.5F,
                                           1e30F,
                                           -1e30F,
                                           std::numeric_limits<float>::quiet_NaN(),
                                           std::numeric_limits<float>::infinity(),
                                           2.5F};
constexpr std::array<std::int64_t, 8> kExtents = {0, 1, 2, 3, 4, 5, 17, 1000};

template <class Message>
Message read(const fs::path& file) {
    std::ifstream stream(file, std::ios::binary);
    Message message;
    if (!stream || !message.ParseFromIstream(&stream)) {
        throw InputError(file.string() + ": is no such message.");
    }
    return message;
}

template <class Range>
auto pick(const Range& values, Random& random) {
    return values[random.below(std::size(values))];
}

std::int64_t elements_of(const onnx::TensorProto& tensor) {
    std::int64_t elements = 1;
    for (const std::int64_t dim : tensor.dims()) elements *= dim;
    return elements;
}

/// Whole elements in raw_data, which is then all there is.
onnx::TensorProto with_raw_data(const onnx::TensorProto& tensor, const fs::path& file) {
    onnx::TensorProto raw;
    raw.set_data_type(tensor.data_type());
    *raw.mutable_dims() = tensor.dims();
    const bool numbers = importers::fault_of(tensor).empty() && !importers::is_external(tensor) &&
                         tensor.data_type() != onnx::TensorProto::STRING;
    if (!numbers) throw InputError(file.string() + ": holds no tensor of numbers.");
    const std::vector<std::byte> bytes = importers::inline_bytes(tensor);
    const std::int64_t elements = elements_of(raw);
    if (elements > 0 && bytes.size() % static_cast<std::size_t>(elements) != 0) {
        throw InputError(file.string() + ": elements share bytes.");
    }
    raw.set_raw_data(bytes.data(), bytes.size());
    return raw;
}

/// Contents for its dims, the old ones over and over.
void refill(onnx::TensorProto& tensor, std::int64_t old_elements, const std::string& old) {
    const std::size_t size =
        old_elements > 0 ? old.size() / static_cast<std::size_t>(old_elements) : std::size_t{8};
    std::string bytes(static_cast<std::size_t>(elements_of(tensor)) * size, '\0');
    for (std::size_t i = 0; i < bytes.size() && !old.empty(); ++i) bytes[i] = old[i % old.size()];
    tensor.set_raw_data(bytes);
}

void change_element(onnx::TensorProto& tensor, Random& random) {
    const std::int64_t elements = elements_of(tensor);
    if (elements == 0) return;
    std::string bytes = tensor.raw_data();
    const std::size_t size = bytes.size() / static_cast<std::size_t>(elements);
    const std::size_t at = random.below(static_cast<std::uint64_t>(elements)) * size;
    std::array<char, 8> value{};
    const std::int64_t integer = pick(kIntegers, random);
    std::memcpy(value.data(), &integer, sizeof integer);
    if (tensor.data_type() == onnx::TensorProto::FLOAT) {
        const float number = pick(kFloats, random);
        std::memcpy(value.data(), &number, sizeof number);
    } else if (tensor.data_type() == onnx::TensorProto::DOUBLE) {
        const double number = pick(kFloats, random);
        std::memcpy(value.data(), &number, sizeof number);
    } else if (tensor.data_type() == onnx::TensorProto::BOOL) {
        value[0] = static_cast<char>(random.below(2));
    }
    std::memcpy(bytes.data() + at, value.data(), std::min<std::size_t>(size, value.size()));
    tensor.set_raw_data(bytes);
}

void change_shape(onnx::TensorProto& tensor, Random& random) {
    const std::int64_t old_elements = elements_of(tensor);
    const std::string old = tensor.raw_data();
    const std::uint64_t rank = static_cast<std::uint64_t>(tensor.dims_size());
    const std::uint64_t how = rank == 0 ? 2 : random.below(4);
    if (how == 3) {
        tensor.mutable_dims()->RemoveLast();
    } else if (how == 2) {
        tensor.add_dims(1 + static_cast<std::int64_t>(random.below(2)));
    } else {
        const int dim = static_cast<int>(random.below(rank));
        const std::int64_t near = tensor.dims(dim) + (random.below(2) == 0 ? 1 : -1);
        tensor.set_dims(dim, how == 0 ? std::max<std::int64_t>(near, 0) : pick(kExtents, random));
    }
    if (elements_of(tensor) > 100'000) tensor.mutable_dims()->Set(0, 1);
    refill(tensor, old_elements, old);
}

void change_attribute(onnx::AttributeProto& attribute, Random& random) {
    switch (attribute.type()) {
    case onnx::AttributeProto::INT: attribute.set_i(pick(kIntegers, random)); break;
    case onnx::AttributeProto::FLOAT: attribute.set_f(pick(kFloats, random)); break;
    case onnx::AttributeProto::INTS:
        if (attribute.ints_size() == 0 || random.below(4) == 0) {
            attribute.add_ints(pick(kIntegers, random));
        } else if (random.below(4) == 0) {
            attribute.mutable_ints()->RemoveLast();
        } else {
            const auto at = random.below(static_cast<std::uint64_t>(attribute.ints_size()));
            attribute.set_ints(static_cast<int>(at), pick(kIntegers, random));
        }
        break;
    case onnx::AttributeProto::FLOATS:
        if (attribute.floats_size() > 0 && random.below(2) == 0) {
            attribute.mutable_floats()->RemoveLast();
        } else {
            attribute.add_floats(pick(kFloats, random));
        }
        break;
    case onnx::AttributeProto::STRINGS:
        if (attribute.strings_size() > 0) attribute.mutable_strings()->RemoveLast();
        break;
    case onnx::AttributeProto::TENSOR:
        if (!attribute.t().raw_data().empty()) change_element(*attribute.mutable_t(), random);
        break;
    default: break;
    }
}

/// A node of the graph or of one of its bodies.
onnx::NodeProto* pick_node(onnx::GraphProto& graph, Random& random) {
    if (graph.node_size() == 0) return nullptr;
    const auto at = random.below(static_cast<std::uint64_t>(graph.node_size()));
    onnx::NodeProto* node = graph.mutable_node(static_cast<int>(at));
    for (onnx::AttributeProto& attribute : *node->mutable_attribute()) {
        if (!attribute.has_g() || random.below(2) == 0) continue;
        if (onnx::NodeProto* inner = pick_node(*attribute.mutable_g(), random)) return inner;
    }
    return node;
}

void change_node(onnx::NodeProto& node, Random& random) {
    const auto attributes = static_cast<std::uint64_t>(node.attribute_size());
    const auto operands = static_cast<std::uint64_t>(node.input_size());
    if (attributes > 0 && random.below(8) > 0) {
        const int at = static_cast<int>(random.below(attributes));
        if (random.below(8) > 0) return change_attribute(*node.mutable_attribute(at), random);
        node.mutable_attribute()->DeleteSubrange(at, 1);
    } else if (operands > 0) {
        const int at = static_cast<int>(random.below(operands));
        const int from = static_cast<int>(random.below(operands));
        node.set_input(at, random.below(2) == 0 ? "" : node.input(from));
    }
}

/// The contents of an input become those of an initializer.
void make_known(ModelCase& model, std::uint64_t input) {
    onnx::GraphProto& graph = *model.model.mutable_graph();
    onnx::TensorProto& known = *graph.add_initializer();
    known = model.inputs[input];
    known.set_name(graph.input(static_cast<int>(input)).name());
    graph.mutable_input()->DeleteSubrange(static_cast<int>(input), 1);
    model.inputs.erase(model.inputs.begin() + static_cast<std::ptrdiff_t>(input));
}

void change_once(ModelCase& model, Random& random) {
    onnx::GraphProto& graph = *model.model.mutable_graph();
    const std::uint64_t how = random.below(8);
    if (how == 7 && model.model.opset_import_size() > 0) {
        const auto version = 1 + static_cast<std::int64_t>(random.below(26));
        return model.model.mutable_opset_import(0)->set_version(version);
    }
    if (how >= 3 && !model.inputs.empty()) {
        const std::uint64_t input = random.below(model.inputs.size());
        if (how == 3) return make_known(model, input);
        if (how == 4) return change_shape(model.inputs[input], random);
        return change_element(model.inputs[input], random);
    }
    if (onnx::NodeProto* node = pick_node(graph, random)) change_node(*node, random);
}

/// The model's inputs have the shapes of what they are given.
void set_input_shapes(ModelCase& model) {
    for (std::size_t i = 0; i < model.inputs.size(); ++i) {
        auto& input = *model.model.mutable_graph()->mutable_input(static_cast<int>(i));
        auto& shape = *input.mutable_type()->mutable_tensor_type()->mutable_shape();
        shape.clear_dim();
        for (const std::int64_t dim : model.inputs[i].dims()) {
            shape.add_dim()->set_dim_value(dim);
        }
    }
}

HostTensor host_tensor(const onnx::TensorProto& tensor) {
    return {.name = tensor.name(),
            .dtype = importers::dtype_from_onnx(tensor.data_type()),
            .shape = importers::dims_of(tensor),
            .bytes = importers::inline_bytes(tensor)};
}

}  // namespace

struct HostileModels::Original : ModelCase {};

HostileModels::HostileModels(const fs::path& folder)
    : name_(folder.filename()), original_(std::make_unique<Original>()) {
    original_->model = read<onnx::ModelProto>(folder / "model.onnx");
    for (int i = 0; i < original_->model.graph().input_size(); ++i) {
        const fs::path file = folder / "test_data_set_0" / ("input_" + std::to_string(i) + ".pb");
        if (!fs::exists(file)) break;
        original_->inputs.push_back(with_raw_data(read<onnx::TensorProto>(file), file));
    }
    for (onnx::ValueInfoProto& output : *original_->model.mutable_graph()->mutable_output()) {
        if (!output.type().has_tensor_type()) continue;
        output.mutable_type()->mutable_tensor_type()->clear_shape();
    }
}

HostileModels::~HostileModels() = default;
HostileModels::HostileModels(HostileModels&&) noexcept = default;
HostileModels& HostileModels::operator=(HostileModels&&) noexcept = default;

HostileModel HostileModels::mutant(int index) const {
    auto seed = static_cast<std::uint64_t>(index);
    for (const char c : name_) seed = search::mix(seed ^ static_cast<unsigned char>(c));
    Random random(seed);
    ModelCase mutant = *original_;
    const std::uint64_t changes = 1 + random.below(3);
    for (std::uint64_t i = 0; i < changes; ++i) change_once(mutant, random);
    set_input_shapes(mutant);
    HostileModel result{
        .onnx = mutant.model.SerializeAsString(), .inputs = {}, .text = mutant.model.DebugString()};
    for (const onnx::TensorProto& input : mutant.inputs) {
        result.inputs.push_back(host_tensor(input));
        result.text += input.ShortDebugString() + "\n";
    }
    return result;
}

}  // namespace partita::runtime
