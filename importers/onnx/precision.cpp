// SPDX-License-Identifier: Apache-2.0
#include "importers/onnx/precision.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <set>
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

constexpr std::int64_t kNarrowBytes = 2;
constexpr std::int64_t kWideBytes = 4;

/// What is finite stays finite.
std::uint16_t rounded(float value, DType to) {
    const bool half = to == DType::float16;
    const std::uint16_t bits = half ? double_to_half(value) : double_to_bfloat16(value);
    const std::uint16_t infinity = half ? 0x7c00 : 0x7f80;
    const bool overflows = (bits & 0x7fffU) == infinity && std::isfinite(value);
    return overflows ? static_cast<std::uint16_t>(bits - 1) : bits;
}

class NarrowSource final : public graph::TensorSource {
public:
    NarrowSource(std::unique_ptr<TensorSource> wide, std::set<std::string> names, DType to)
        : wide_(std::move(wide)), names_(std::move(names)), to_(to) {}

    void read(const std::string& name, Bytes offset, std::span<std::byte> out) const override {
        if (!names_.contains(name)) {
            wide_->read(name, offset, out);
            return;
        }
        // Readers may ask for half an element.
        const auto size = static_cast<std::int64_t>(out.size());
        const std::int64_t first = offset.raw() / kNarrowBytes;
        const std::int64_t end = (offset.raw() + size + kNarrowBytes - 1) / kNarrowBytes;
        std::vector<float> values(static_cast<std::size_t>(end - first));
        wide_->read(name, Bytes(first * kWideBytes), std::as_writable_bytes(std::span(values)));
        std::vector<std::uint16_t> narrow;
        narrow.reserve(values.size());
        for (const float value : values) narrow.push_back(rounded(value, to_));
        const auto bytes = std::as_bytes(std::span(narrow));
        const auto skipped = static_cast<std::size_t>(offset.raw() - first * kNarrowBytes);
        if (!out.empty()) std::memcpy(out.data(), bytes.data() + skipped, out.size());
    }

private:
    std::unique_ptr<TensorSource> wide_;
    std::set<std::string> names_;
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

class Narrowing {
public:
    Narrowing(OpGraph& graph, DType to, const std::string& file)
        : graph_(graph), to_(to), file_(file), narrow_(graph.tensor_count(), 0) {}

    /// Names of sources that are narrow now.
    std::set<std::string> run() {
        for (std::size_t i = 0; i < narrow_.size(); ++i) {
            narrow_[i] = graph_.tensors()[i].dtype == DType::float32 ? 1 : 0;
        }
        for (const Op& op : graph_.ops()) refuse_bodies(op);
        for (const Op& op : graph_.ops()) keep_fixed(op);
        std::set<std::string> sources;
        for (std::size_t i = 0; i < narrow_.size(); ++i) {
            if (narrow_[i] == 0) continue;
            Tensor& tensor = graph_.tensor(TensorId(i));
            tensor.dtype = to_;
            ++count_;
            const OpKind kind = graph_.op(tensor.producer).kind;
            const bool stored = kind == OpKind::parameter || kind == OpKind::constant;
            if (stored) sources.insert(tensor.name);
        }
        for (std::size_t i = 0; i < graph_.op_count(); ++i) change_attributes(graph::OpId(i));
        return sources;
    }

    [[nodiscard]] std::int64_t count() const { return count_; }

private:
    [[noreturn]] void refuse(const Op& op) const {
        throw UsageError(
            fmt::format("{}: op '{}': --precision: {} computes in float32 alone. Leave the option "
                        "out, or export the model in {}.",
                        file_, op.name, op.type, graph::name_of(to_)));
    }

    void refuse_bodies(const Op& op) const {
        for (const graph::Body& body : op.bodies) {
            const bool any = std::ranges::any_of(
                body.graph->tensors(), [](const Tensor& t) { return t.dtype == DType::float32; });
            if (any) refuse(op);
        }
    }

    void keep_fixed(const Op& op) {
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
        narrow_[t.index()] = 0;
    }

    /// Those that name the element type of the first result.
    void change_attributes(graph::OpId id) {
        Op& op = graph_.op(id);
        const bool changed = op.kind == OpKind::compute && !op.outputs.empty() &&
                             op.outputs[0].valid() && narrow_[op.outputs[0].index()] != 0;
        if (!changed) return;
        // Numbers of DType are those of ONNX.
        for (const char* const name : {"to", "dtype"}) {
            if (op.attributes.get_int(name, 0) != static_cast<std::int64_t>(DType::float32)) {
                continue;
            }
            op.attributes.set(name, static_cast<std::int64_t>(to_));
        }
    }

    OpGraph& graph_;
    DType to_;
    const std::string& file_;
    std::vector<char> narrow_;  ///< per tensor
    std::int64_t count_ = 0;
};

}  // namespace

Narrowed narrowed(OpGraph graph, std::unique_ptr<graph::TensorSource> source, DType to,
                  const std::string& file) {
    Narrowed result{.graph = std::move(graph), .source = nullptr, .note = {}};
    Narrowing narrowing(result.graph, to, file);
    std::set<std::string> names = narrowing.run();
    result.source = std::make_unique<NarrowSource>(std::move(source), std::move(names), to);
    result.note = fmt::format("{} tensors are {} that the file says to be float32 (--precision).",
                              narrowing.count(), graph::name_of(to));
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
