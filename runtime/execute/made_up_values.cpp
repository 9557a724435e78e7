// SPDX-License-Identifier: Apache-2.0
#include "runtime/execute/made_up_values.h"

#include <algorithm>
#include <array>

#include <ATen/Functions.h>

namespace partita::runtime {

using graph::OpGraph;
using graph::TensorId;

namespace {

std::uint64_t mixed(std::uint64_t z) {
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31U);
}

/// FNV-1a.
std::uint64_t hash_of(std::string_view text) {
    std::uint64_t hash = 0xCBF29CE484222325U;
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
    return hash;
}

/// Calls `then` with the first element and the length of every run of the last dim.
template <class Then>
void for_each_run(const graph::Shape& shape, const graph::Region& region, std::size_t dim,
                  std::int64_t base, Then& then) {
    if (dim == shape.size()) return then(base, std::int64_t{1});
    for (const graph::Range& range : region.dims[dim]) {
        if (dim + 1 == shape.size()) {
            then(base * shape[dim] + range.begin, range.end - range.begin);
            continue;
        }
        for (std::int64_t i = range.begin; i < range.end; ++i) {
            for_each_run(shape, region, dim + 1, base * shape[dim] + i, then);
        }
    }
}

struct ScaleOperand {
    std::string_view type;
    std::uint32_t operand;
};
constexpr std::array kScales = {
    ScaleOperand{"BatchNormalization", 1},
    ScaleOperand{"BatchNormalization", 4},
    ScaleOperand{"GroupNormalization", 1},
    ScaleOperand{"InstanceNormalization", 1},
    ScaleOperand{"LayerNormalization", 1},
    ScaleOperand{"RMSNormalization", 1},
    ScaleOperand{"Div", 1},
    ScaleOperand{"Sqrt", 0},
    ScaleOperand{"Log", 0},
    ScaleOperand{"Reciprocal", 0},
};

constexpr std::array<std::string_view, 10> kViews = {"Cast",    "Identity",  "Reshape",   "Flatten",
                                                     "Squeeze", "Unsqueeze", "Transpose", "Slice",
                                                     "Expand",  "Split"};

}  // namespace

at::Tensor made_up_values(std::uint64_t seed, std::string_view name, const graph::Shape& shape,
                          const graph::Region& region) {
    at::Tensor values = at::empty(extents_of(region), at::TensorOptions().dtype(at::kDouble));
    auto* out = values.mutable_data_ptr<double>();
    const std::uint64_t start = mixed(seed ^ hash_of(name));
    const auto write = [&](std::int64_t first, std::int64_t length) {
        for (std::int64_t i = first; i < first + length; ++i) {
            const std::uint64_t bits =
                mixed(start + (static_cast<std::uint64_t>(i) + 1) * 0x9E3779B97F4A7C15U);
            *out++ = static_cast<double>(bits >> 11U) * 0x1.0p-53;
        }
    };
    if (values.numel() > 0) for_each_run(shape, region, 0, 0, write);
    return values;
}

std::optional<std::int64_t> selected_rows(const OpGraph& graph, TensorId id) {
    std::optional<std::int64_t> fewest;
    const auto meet = [&](std::optional<std::int64_t> rows) {
        if (rows && (!fewest || *rows < *fewest)) fewest = rows;
    };
    for (const graph::Use use : graph.uses(id)) {
        const graph::Op& op = graph.op(use.op);
        if (op.type == "Gather" && use.operand == 1) {
            const graph::Shape& table = graph.tensor(op.inputs[0]).shape;
            const std::int64_t axis = op.attributes.get_int("axis", 0);
            const auto rank = static_cast<std::int64_t>(table.size());
            meet(table[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)]);
        } else if (op.type == "OneHot" && use.operand == 0) {
            const auto& depth = graph.tensor(op.inputs[1]).known_integers;
            if (depth && !depth->empty()) meet(depth->front());
        } else if (use.operand == 0 && std::ranges::find(kViews, op.type) != kViews.end()) {
            for (const TensorId result : op.outputs) {
                if (result.valid()) meet(selected_rows(graph, result));
            }
        }
    }
    return fewest;
}

bool is_scale(const OpGraph& graph, TensorId id) {
    return std::ranges::any_of(graph.uses(id), [&](const graph::Use& use) {
        return std::ranges::any_of(kScales, [&](const ScaleOperand& scale) {
            return graph.op(use.op).type == scale.type && use.operand == scale.operand;
        });
    });
}

std::int64_t fan_in(const OpGraph& graph, TensorId id) {
    const graph::Shape& shape = graph.tensor(id).shape;
    const std::int64_t elements = std::max<std::int64_t>(1, graph.tensor(id).elements());
    std::int64_t most = 1;
    for (const graph::Use use : graph.uses(id)) {
        const graph::Op& op = graph.op(use.op);
        if (op.type == "Gather" || shape.size() < 2) continue;
        const bool rows_are_results = op.type == "Conv" || op.attributes.get_int("transB", 0) != 0;
        const std::int64_t results = rows_are_results ? shape.front() : shape.back();
        most = std::max(most, elements / std::max<std::int64_t>(1, results));
    }
    return most;
}

}  // namespace partita::runtime
