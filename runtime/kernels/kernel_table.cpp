// SPDX-License-Identifier: Apache-2.0
#include "runtime/kernels/kernel_table.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>

#include "base/error.h"

namespace partita::runtime {

namespace {

constexpr std::array kFamilies = {
    activation_kernels, attention_kernels,     axis_kernels,        block_attention_kernels,
    cast_kernels,       control_kernels,       convolution_kernels, deform_conv_kernels,
    index_kernels,      logic_kernels,         loss_kernels,        matrix_kernels,
    movement_kernels,   normalization_kernels, optimizer_kernels,   pointwise_kernels,
    pooling_kernels,    quantization_kernels,  random_kernels,      recurrent_kernels,
    reduction_kernels,  reshape_kernels,       resize_kernels,      roi_pooling_kernels,
    shape_kernels,      signal_kernels,        variadic_kernels,    vision_kernels,
};

using Key = std::pair<std::string_view, std::string_view>;

Key key_of(const KernelRow& row) {
    return {row.domain, row.type};
}

const std::vector<const KernelRow*>& table() {
    static const std::vector<const KernelRow*> kTable = [] {
        std::vector<const KernelRow*> rows;
        for (const auto family : kFamilies) {
            for (const KernelRow& row : family()) rows.push_back(&row);
        }
        std::ranges::sort(rows, {}, [](const KernelRow* row) { return key_of(*row); });
        return rows;
    }();
    return kTable;
}

/// Those of the bodies too.
void collect_missing(const graph::OpGraph& graph,
                     std::map<std::pair<std::string, std::string>, std::string>& missing) {
    for (const graph::Op& op : graph.ops()) {
        if (op.kind != graph::OpKind::compute) continue;
        if (find_kernel(op.domain, op.type) == nullptr) {
            missing.emplace(std::pair(op.domain, op.type), op.name);
        }
        for (const graph::Body& body : op.bodies) collect_missing(*body.graph, missing);
    }
}

}  // namespace

const KernelRow* find_kernel(std::string_view domain, std::string_view type) {
    const Key key{domain, type};
    const auto found = std::ranges::lower_bound(table(), key, {},
                                                [](const KernelRow* row) { return key_of(*row); });
    return found != table().end() && key_of(**found) == key ? *found : nullptr;
}

std::vector<const KernelRow*> all_kernels() {
    return table();
}

bool is_read_on_host(const graph::OpGraph& graph, graph::TensorId tensor) {
    const auto uses = graph.uses(tensor);
    const auto on_host = [&](const graph::Use& use) {
        const graph::Op& op = graph.op(use.op);
        if (op.kind != graph::OpKind::compute) return false;
        const KernelRow* const row = find_kernel(op.domain, op.type);
        return row != nullptr && row->reads_on_host(use.operand);
    };
    return !uses.empty() && std::ranges::all_of(uses, on_host);
}

void check_kernels(const graph::OpGraph& graph) {
    const auto narrow =
        std::ranges::find(graph.ops(), graph::ProductType::float8, &graph::Op::product_type);
    if (narrow != graph.ops().end()) {
        throw UsageError(graph.name + ": op '" + narrow->name +
                         "': products in float8 are priced, not executed. Plan without "
                         "products=fp8.");
    }
    std::map<std::pair<std::string, std::string>, std::string> missing;
    collect_missing(graph, missing);
    if (missing.empty()) return;
    std::string list;
    for (const auto& [key, op] : missing) {
        list += (list.empty() ? "" : ", ") + (key.first.empty() ? "" : key.first + ".") +
                key.second + " ('" + op + "')";
    }
    throw UsageError(graph.name + ": no kernel for " + list +
                     ". Such a model can be planned, not executed.");
}

}  // namespace partita::runtime
