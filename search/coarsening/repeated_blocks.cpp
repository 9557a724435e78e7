// SPDX-License-Identifier: Apache-2.0
#include "search/coarsening/repeated_blocks.h"

#include <algorithm>
#include <string_view>

#include "search/support/random.h"

namespace partita::search {

using graph::OpId;
using graph::TensorId;

namespace {

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
    return mix(hash ^ mix(value));
}

std::uint64_t hash_of(std::string_view text) {
    std::uint64_t hash = text.size();
    for (const char c : text) hash = mixed(hash, static_cast<unsigned char>(c));
    return hash;
}

/// What an op is, apart from where it lies.
std::uint64_t kind_of(const plan::GraphFacts& facts, OpId id) {
    const graph::OpGraph& graph = facts.graph();
    const graph::Op& op = graph.op(id);
    std::uint64_t hash = hash_of(op.type);
    for (const graph::Factor& factor : facts.rule(id).factors) {
        hash = mixed(hash, hash_of(factor.name));
        hash = mixed(hash, static_cast<std::uint64_t>(factor.extent));
    }
    for (const TensorId t : op.inputs) {
        hash = mixed(hash, t.valid() ? hash_of(graph.op(graph.tensor(t).producer).type) : 0);
    }
    return hash;
}

}  // namespace

RepeatedBlocks::RepeatedBlocks(const plan::Problem& problem) {
    const std::size_t count = problem.graph().op_count();
    for (std::size_t i = 0; i < count; ++i) {
        if (problem.facts().has_forward(OpId(i))) ops_.emplace_back(i);
    }
    std::vector<std::uint64_t> kinds;
    for (const OpId op : ops_) kinds.push_back(kind_of(problem.facts(), op));
    for (std::size_t begin = 0; begin < ops_.size();) {
        const Run run = run_at(begin, kinds);
        begin += std::max<std::size_t>(run.period * run.count, 1);
        if (run.count >= 2) runs_.push_back(run);
    }
    list_twins(count);
}

/// The run that covers most ops from `begin` on; of equal ones that of the shortest period.
RepeatedBlocks::Run RepeatedBlocks::run_at(std::size_t begin,
                                           const std::vector<std::uint64_t>& kinds) const {
    Run best;
    const std::size_t left = kinds.size() - begin;
    for (std::size_t period = 1; period <= std::min(kLongestBlock, left / 2); ++period) {
        if (kinds[begin] != kinds[begin + period]) continue;
        std::size_t same = 0;
        while (begin + period + same < kinds.size() &&
               kinds[begin + same] == kinds[begin + period + same]) {
            ++same;
        }
        const std::size_t count = same / period + 1;
        if (count >= 2 && count * period > best.count * best.period) best = {begin, period, count};
    }
    return best;
}

void RepeatedBlocks::list_twins(std::size_t op_count) {
    first_twin_.resize(op_count);
    twin_count_.assign(op_count, 1);
    for (const Run& run : runs_) {
        for (std::size_t place = 0; place < run.period; ++place) {
            const auto first = static_cast<std::uint32_t>(twins_.size());
            for (std::size_t i = 0; i < run.count; ++i) {
                const OpId op = ops_[run.begin + i * run.period + place];
                first_twin_[op.index()] = first;
                twin_count_[op.index()] = static_cast<std::uint32_t>(run.count);
                twins_.push_back(op);
            }
        }
    }
    for (std::size_t i = 0; i < op_count; ++i) {
        if (twin_count_[i] > 1) continue;
        first_twin_[i] = static_cast<std::uint32_t>(twins_.size());
        twins_.emplace_back(i);
    }
}

}  // namespace partita::search
