// SPDX-License-Identifier: Apache-2.0
#include "tests/plan/layout/laid_out.h"

#include <algorithm>

#include "plan/problem/micro_batches.h"

namespace partita::plan {
namespace {

Indices indices_of(const graph::Positions& positions) {
    Indices indices;
    for (const graph::Range range : positions) {
        for (std::int64_t i = range.begin; i < range.end; ++i) indices.push_back(i);
    }
    return indices;
}

std::vector<Indices> indices_of(const graph::Region& region) {
    std::vector<Indices> dims;
    for (const graph::Positions& positions : region.dims) dims.push_back(indices_of(positions));
    return dims;
}

LaidOut lay_out(const Problem& problem, graph::OpId op, const OpConfig& config, Side side,
                std::size_t index, const graph::Box& base) {
    const graph::OpRule& rule = problem.facts().rule(op);
    const graph::Op& node = problem.graph().op(op);
    const bool is_result = side == Side::result;
    const graph::TensorRule& tensor = is_result ? rule.results[index] : rule.operands[index];
    LaidOut laid{.op = op, .side = side, .index = index, .config = &config};
    laid.tensor = is_result ? node.outputs[index] : node.inputs[index];
    const graph::Shape& shape = problem.graph().tensor(laid.tensor).shape;
    laid.whole = indices_of(region_of(rule, tensor, shape, base));
    for (std::size_t d = 0; d < shape.size(); ++d) {
        laid.windowed.push_back(tensor.dims[d].window.has_value());
        if (laid.windowed[d]) laid.whole[d] = indices_of(graph::all_positions(shape[d]));
    }
    RegionTable regions;
    const Parts parts(rule, config, base);
    const Layout layout = layout_of(rule, parts, config.devices, side, index, shape, regions);
    laid.combine = layout.combine;
    for (const Piece& piece : layout.pieces) {
        LaidOutPiece own{.device = piece.device, .present = piece.region >= 0};
        own.summand = piece.summand;
        if (own.present) own.dims = indices_of(regions[piece.region]);
        laid.pieces.push_back(std::move(own));
    }
    return laid;
}

}  // namespace

bool LaidOut::is_windowed() const {
    return std::find(windowed.begin(), windowed.end(), true) != windowed.end();
}

std::vector<std::vector<LaidOut>> laid_out(const Problem& problem, const Strategy& strategy) {
    std::vector<std::vector<LaidOut>> all;
    const int micro_batches = strategy.policy.micro_batches;
    const auto add = [&](graph::OpId op, const OpConfig& config, Side side, std::size_t count) {
        const graph::Op& node = problem.graph().op(op);
        for (std::size_t i = 0; i < count; ++i) {
            if (!(side == Side::result ? node.outputs : node.inputs)[i].valid()) continue;
            all.emplace_back();
            for (int m = 0; m < micro_batches; ++m) {
                const graph::Box base = micro_batch_box(problem.facts(), op, micro_batches, m);
                all.back().push_back(lay_out(problem, op, config, side, i, base));
            }
        }
    };
    for (std::size_t i = 0; i < problem.graph().op_count(); ++i) {
        const graph::OpId op(i);
        const graph::Op& node = problem.graph().op(op);
        add(op, strategy.config(op), Side::operand, node.inputs.size());
        add(op, strategy.config(op), Side::result, node.outputs.size());
        const OpConfig& update = strategy.update(op).update;
        if (!update.devices.empty()) add(op, update, Side::result, 1);
    }
    return all;
}

Indices chunk(const Indices& positions, std::int64_t count, std::int64_t index) {
    const auto extent = static_cast<std::int64_t>(positions.size());
    const std::int64_t size = (extent + count - 1) / count;
    const std::int64_t begin = std::min(extent, index * size);
    return {positions.begin() + begin, positions.begin() + std::min(extent, begin + size)};
}

bool says(const LaidOut& tensor, const LaidOutPiece& piece, const std::vector<Indices>& given) {
    if (!piece.present) return false;
    for (std::size_t d = 0; d < given.size(); ++d) {
        const bool agrees = tensor.windowed[d]
                                ? std::includes(given[d].begin(), given[d].end(),
                                                piece.dims[d].begin(), piece.dims[d].end())
                                : given[d] == piece.dims[d];
        if (!agrees) return false;
    }
    return true;
}

}  // namespace partita::plan
