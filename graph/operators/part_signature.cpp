// SPDX-License-Identifier: Apache-2.0
#include "graph/operators/part_signature.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>
#include <variant>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace partita::graph {

namespace {

/// Attributes that say how large a part is, or how far from a border; sorted.
constexpr std::array<std::string_view, 15> kSizes = {
    "ends",      "group",          "hidden_size",  "kv_num_heads", "num_groups",
    "num_heads", "output_padding", "output_shape", "pads",         "q_num_heads",
    "repeats",   "shape",          "sizes",        "split",        "starts"};
static_assert(std::ranges::is_sorted(kSizes));
/// Attributes of BlockAttention that say where a part is, and nothing of its work.
constexpr std::array<std::string_view, 3> kPlaces = {"first_query", "query_blocks", "step"};

/// Integer operands of the whole that are longer than this are data, not what an op is to do.
constexpr std::size_t kMostIntegers = 64;

class Writer {
public:
    Writer(const OpGraph& graph, const Op& op, const PartOp& part)
        : graph_(graph), op_(op), part_(part) {}

    PartSignature run() {
        add_operator();
        add_attributes();
        add_bodies();
        both(" (");
        for (std::size_t i = 0; i < part_.operands.size(); ++i) add_operand(i);
        both(") -> (");
        for (std::size_t i = 0; i < part_.results.size(); ++i) add_result(i);
        both(")");
        if (part_.row_mask) add_mask(*part_.row_mask);
        return std::move(signature_);
    }

private:
    void text(std::string_view piece) { signature_.text += piece; }
    void family(std::string_view piece) { signature_.family += piece; }
    void both(std::string_view piece) {
        text(piece);
        family(piece);
    }

    void add_operator() {
        if (!part_.domain.empty()) both(fmt::format("{:?}:", part_.domain));
        both(fmt::format("{}.{}", part_.type, part_.opset));
        if (op_.product_type != ProductType::as_stored) {
            both(fmt::format(" {}", name_of(op_.product_type)));
        }
    }

    static std::string text_of(const AttributeValue& value) {
        return std::visit(
            [](const auto& of) {
                using Value = std::decay_t<decltype(of)>;
                if constexpr (std::is_same_v<Value, std::string>) {
                    return fmt::format("{:?}", of);
                } else if constexpr (std::is_same_v<Value, std::vector<std::string>>) {
                    return fmt::format("{}", of);  // quoted, in brackets
                } else if constexpr (std::is_arithmetic_v<Value>) {
                    return fmt::format("{}", of);
                } else {
                    return fmt::format("{}", fmt::join(of, ","));
                }
            },
            value);
    }

    void add_attributes() {
        for (const auto& [name, value] : part_.attributes.entries()) {
            const bool is_place = std::ranges::find(kPlaces, name) != kPlaces.end();
            if (is_place && part_.type == "BlockAttention") continue;
            const std::string piece = fmt::format(" {}={}", name, text_of(value));
            text(piece);
            if (!std::ranges::binary_search(kSizes, std::string_view(name))) family(piece);
        }
        // One group is another algorithm than many, however many these are.
        if (part_.attributes.get_int("group", 1) > 1) family(" groups");
    }

    void add_bodies() {
        for (const Body& body : op_.bodies) {
            both(fmt::format(" {}=sha256:{}", body.name, digest(*body.graph)));
        }
        if (op_.trip_count) both(fmt::format(" trips={}", *op_.trip_count));
    }

    void add_extents(DType dtype, const Region& region) {
        text(name_of(dtype));
        text("[");
        for (std::size_t d = 0; d < region.dims.size(); ++d) {
            fmt::format_to(std::back_inserter(signature_.text), "{}{}", d == 0 ? "" : ",",
                           count(region.dims[d]));
        }
        text("]");
        fmt::format_to(std::back_inserter(signature_.family), "{}/{}", name_of(dtype),
                       region.dims.size());
    }

    void add_operand(std::size_t i) {
        const PartOperand& operand = part_.operands[i];
        if (i > 0) both(", ");
        switch (operand.source) {
        case PartOperand::Source::left_out: both("-"); return;
        case PartOperand::Source::integers:
            text(fmt::format("{}[{}]={}", name_of(operand.dtype), fmt::join(operand.shape, ","),
                             fmt::join(operand.integers, ",")));
            family(fmt::format("{}/{}", name_of(operand.dtype), operand.shape.size()));
            return;
        case PartOperand::Source::region: break;
        }
        const Tensor& tensor = graph_.tensor(op_.inputs[i]);
        add_extents(tensor.dtype, operand.region);
        // Axes, a depth, ...: what to do, and the same for all parts.
        const auto& known = tensor.known_integers;
        if (!known || known->size() > kMostIntegers) return;
        if (operand.region == whole_region(tensor.shape)) {
            text(fmt::format("={}", fmt::join(*known, ",")));
        }
    }

    void add_result(std::size_t i) {
        const PartResult& result = part_.results[i];
        if (i > 0) both(", ");
        if (!result.is_wanted) {
            both("-");
            return;
        }
        add_extents(graph_.tensor(op_.outputs[i]).dtype, result.region);
        if (!result.crop.empty()) both(" cropped");
        if (result.weight != 1.0) both(" weighted");
    }

    void add_mask(const RowMask& mask) {
        const auto piece = [&](std::int64_t rows) {
            return fmt::format(" mask({} {} {})", mask.operand, mask.result_dim, rows);
        };
        text(piece(mask.rows.end - mask.rows.begin));
        family(piece(0));
    }

    const OpGraph& graph_;
    const Op& op_;
    const PartOp& part_;
    PartSignature signature_;
};

}  // namespace

PartSignature part_signature(const OpGraph& graph, OpId op, const PartOp& part) {
    return Writer(graph, graph.op(op), part).run();
}

}  // namespace partita::graph
