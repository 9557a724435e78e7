// SPDX-License-Identifier: Apache-2.0
#include "importers/onnx/precision.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <onnx/defs/schema.h>

#include "base/error.h"
#include "importers/onnx/literal.h"

namespace partita::importers {

using graph::DType;
using graph::Op;
using graph::OpGraph;
using graph::OpKind;
using graph::Tensor;
using graph::TensorId;

namespace {

std::int64_t bytes_of(DType dtype) {
    return graph::bits_of(dtype) / 8;
}

/// What is finite stays finite. `out`: an element of type `to`.
void write_rounded(double value, DType to, std::byte* out) {
    if (to == DType::float32) {
        const auto wide = static_cast<float>(value);
        std::memcpy(out, &wide, sizeof wide);
        return;
    }
    const bool half = to == DType::float16;
    std::uint16_t bits = half ? double_to_half(value) : double_to_bfloat16(value);
    const std::uint16_t infinity = half ? 0x7c00 : 0x7f80;
    if ((bits & 0x7fffU) == infinity && std::isfinite(value)) --bits;
    std::memcpy(out, &bits, sizeof bits);
}

class ConvertedSource final : public graph::TensorSource {
public:
    /// `from`: types of those that are converted.
    ConvertedSource(std::unique_ptr<TensorSource> source, std::map<std::string, DType> from,
                    DType to)
        : source_(std::move(source)), from_(std::move(from)), to_(to) {}

    void read(const std::string& name, Bytes offset, std::span<std::byte> out) const override {
        const auto found = from_.find(name);
        if (found == from_.end()) {
            source_->read(name, offset, out);
            return;
        }
        // Readers may ask for part of an element.
        const std::int64_t size = bytes_of(to_);
        const std::int64_t read_size = bytes_of(found->second);
        const std::int64_t first = offset.raw() / size;
        const std::int64_t end = (offset.raw() + std::ssize(out) + size - 1) / size;
        std::vector<std::byte> stored(static_cast<std::size_t>((end - first) * read_size));
        source_->read(name, Bytes(first * read_size), stored);
        std::vector<std::byte> elements(static_cast<std::size_t>((end - first) * size));
        for (std::int64_t i = 0; i < end - first; ++i) {
            const auto element = std::span(stored).subspan(static_cast<std::size_t>(i * read_size),
                                                           static_cast<std::size_t>(read_size));
            write_rounded(to_real(found->second, element), to_, elements.data() + i * size);
        }
        const auto skipped = static_cast<std::size_t>(offset.raw() - first * size);
        if (!out.empty()) std::memcpy(out.data(), elements.data() + skipped, out.size());
    }

private:
    std::unique_ptr<TensorSource> source_;
    std::map<std::string, DType> from_;
    DType to_;
};

/// Does the operator know this operand or result in float32, but in no 16 bits?
class Schemas {
public:
    explicit Schemas(const Op& op)
        : schema_(op.kind == OpKind::compute
                      ? onnx::OpSchemaRegistry::Schema(op.type, std::max(op.opset, 1), op.domain)
                      : nullptr) {}

    [[nodiscard]] bool fixes_operand(std::size_t number) const {
        return schema_ != nullptr && is_fixed(schema_->inputs(), number);
    }
    [[nodiscard]] bool fixes_result(std::size_t number) const {
        return schema_ != nullptr && is_fixed(schema_->outputs(), number);
    }

private:
    using Formals = std::vector<onnx::OpSchema::FormalParameter>;

    static bool is_fixed(const Formals& formals, std::size_t number) {
        if (formals.empty()) return false;
        const auto& types = formals[std::min(number, formals.size() - 1)].GetTypes();
        const auto knows = [&](std::string_view type) {
            return std::ranges::any_of(types, [&](const auto* each) { return *each == type; });
        };
        return knows("tensor(float)") && !knows("tensor(float16)") && !knows("tensor(bfloat16)");
    }

    const onnx::OpSchema* schema_;
};

class Conversion {
public:
    Conversion(OpGraph& graph, DType to, const std::string& file)
        : graph_(graph), to_(to), file_(file), changes_(graph.tensor_count(), 0) {}

    /// Stored tensors that have another type now, and which they had.
    std::map<std::string, DType> run() {
        for (std::size_t i = 0; i < changes_.size(); ++i) {
            const DType dtype = graph_.tensors()[i].dtype;
            changes_[i] = graph::is_precision(dtype) && dtype != to_ ? 1 : 0;
        }
        for (const Op& op : graph_.ops()) refuse_bodies(op);
        for (const Op& op : graph_.ops()) keep_fixed(op);
        std::map<std::string, DType> stored;
        for (std::size_t i = 0; i < changes_.size(); ++i) {
            if (changes_[i] == 0) continue;
            Tensor& tensor = graph_.tensor(TensorId(i));
            const DType from = std::exchange(tensor.dtype, to_);
            ++counts_[from];
            const OpKind kind = graph_.op(tensor.producer).kind;
            const bool is_stored = kind == OpKind::parameter || kind == OpKind::constant;
            if (is_stored) stored.emplace(tensor.name, from);
        }
        for (std::size_t i = 0; i < graph_.op_count(); ++i) change_attributes(graph::OpId(i));
        return stored;
    }

    /// By the type that they had.
    [[nodiscard]] const std::map<DType, std::int64_t>& counts() const { return counts_; }

private:
    [[noreturn]] void refuse(const Op& op) const {
        throw UsageError(
            fmt::format("{}: op '{}': --precision: {} computes in {} alone. Leave the option "
                        "out, or export the model in {}.",
                        file_, op.name, op.type,
                        op.bodies.empty() ? "float32" : "the type that it was exported in",
                        graph::name_of(to_)));
    }

    void refuse_bodies(const Op& op) const {
        for (const graph::Body& body : op.bodies) {
            const bool any = std::ranges::any_of(body.graph->tensors(), [&](const Tensor& t) {
                return graph::is_precision(t.dtype) && t.dtype != to_;
            });
            if (any) refuse(op);
        }
    }

    void keep_fixed(const Op& op) {
        if (to_ == DType::float32) return;
        const Schemas schemas(op);
        for (std::size_t i = 0; i < op.inputs.size(); ++i) {
            const TensorId t = op.inputs[i];
            if (t.valid() && schemas.fixes_operand(i) && is_wide(t)) keep(op, t);
        }
        for (std::size_t i = 0; i < op.outputs.size(); ++i) {
            const TensorId t = op.outputs[i];
            if (t.valid() && schemas.fixes_result(i) && is_wide(t)) keep(op, t);
        }
    }

    [[nodiscard]] bool is_wide(TensorId t) const {
        return graph_.tensor(t).dtype == DType::float32;
    }

    /// Only where nobody else makes or reads it.
    void keep(const Op& op, TensorId t) {
        const Op& producer = graph_.op(graph_.tensor(t).producer);
        const auto results = static_cast<std::size_t>(std::ranges::find(producer.outputs, t) -
                                                      producer.outputs.begin());
        if (producer.kind == OpKind::compute && !Schemas(producer).fixes_result(results)) {
            refuse(op);
        }
        for (const graph::Use& use : graph_.uses(t)) {
            const Op& reader = graph_.op(use.op);
            if (reader.kind == OpKind::output) continue;
            if (!Schemas(reader).fixes_operand(use.operand)) refuse(op);
        }
        changes_[t.index()] = 0;
    }

    /// Those that name the element type of the first result.
    void change_attributes(graph::OpId id) {
        Op& op = graph_.op(id);
        const bool changed = op.kind == OpKind::compute && !op.outputs.empty() &&
                             op.outputs[0].valid() && changes_[op.outputs[0].index()] != 0;
        if (!changed) return;
        // Numbers of DType are those of ONNX.
        for (const char* const name : {"to", "dtype"}) {
            const std::int64_t number = op.attributes.get_int(name, 0);
            if (number < 0 || number >= graph::kDTypeCount) continue;
            if (!graph::is_precision(static_cast<DType>(number))) continue;
            op.attributes.set(name, static_cast<std::int64_t>(to_));
        }
    }

    OpGraph& graph_;
    DType to_;
    const std::string& file_;
    std::vector<char> changes_;  ///< per tensor
    std::map<DType, std::int64_t> counts_;
};

}  // namespace

Converted converted(OpGraph graph, std::unique_ptr<graph::TensorSource> source, DType to,
                    const std::string& file) {
    Converted result{.graph = std::move(graph), .source = nullptr, .note = {}};
    Conversion conversion(result.graph, to, file);
    std::map<std::string, DType> stored = conversion.run();
    result.source = std::make_unique<ConvertedSource>(std::move(source), std::move(stored), to);
    for (const auto& [from, count] : conversion.counts()) {
        result.note += fmt::format("{}{} tensors are {} that the file says to be {} (--precision).",
                                   result.note.empty() ? "" : " ", count, graph::name_of(to),
                                   graph::name_of(from));
    }
    return result;
}

void keep_gradients_in_float32(OpGraph& graph) {
    for (std::size_t i = 0; i < graph.tensor_count(); ++i) {
        Tensor& tensor = graph.tensor(TensorId(i));
        const bool narrow = tensor.dtype == DType::float16 || tensor.dtype == DType::bfloat16;
        if (narrow && tensor.role == graph::TensorRole::parameter) {
            tensor.gradient_dtype = DType::float32;
        }
    }
}

}  // namespace partita::importers
