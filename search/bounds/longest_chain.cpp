// SPDX-License-Identifier: Apache-2.0
#include "search/bounds/longest_chain.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>

#include "graph/op_graph.h"
#include "search/bounds/uniform_reads.h"

namespace partita::search {

using graph::Op;
using graph::OpId;
using graph::TensorId;
using plan::Problem;

namespace {

/// Tasks by number: forwards, then backwards.
class Chains {
public:
    Chains(const Problem& problem, const PartCosts& parts, const WorkBound& work)
        : problem_(problem),
          graph_(problem.graph()),
          ops_(graph_.op_count()),
          length_(2 * ops_, 0),
          longest_(2 * ops_, 0),
          before_(2 * ops_, kNone) {
        for (std::size_t i = 0; i < ops_; ++i) {
            for (std::size_t c = 0; c < work.classes().count(); ++c) {
                if (work.may_use(OpId(i), c)) shorten(i, parts.of(OpId(i), c));
            }
        }
    }

    std::vector<ChainTask> longest() {
        for (std::size_t i = 0; i < ops_; ++i) end_forward(OpId(i));
        for (std::size_t i = ops_; i-- > 0;) end_backward(OpId(i));
        const auto last = std::ranges::max_element(longest_) - longest_.begin();
        std::vector<ChainTask> chain;
        if (longest_.empty() || longest_[static_cast<std::size_t>(last)] == 0) return chain;
        for (auto at = static_cast<std::size_t>(last); at != kNone; at = before_[at]) {
            chain.push_back({OpId(at % ops_), at >= ops_});
        }
        std::ranges::reverse(chain);
        return chain;
    }

private:
    static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

    void shorten(std::size_t i, std::span<const PartCost> parts) {
        const auto least = [](std::int64_t& length, std::int64_t other) {
            length = length == 0 ? other : std::min(length, other);
        };
        for (const PartCost& part : parts) {
            least(length_[i], part.forward.raw());
            least(length_[ops_ + i], part.backward.raw());
        }
    }

    void end_forward(OpId id) {
        const Op& op = graph_.op(id);
        if (!problem_.facts().has_forward(id)) return;
        start(id.index());
        for (std::size_t i = 0; i < op.inputs.size(); ++i) {
            follow(id.index(), op.inputs[i], {id, static_cast<std::uint32_t>(i)});
        }
    }

    /// A loss follows the forward of what it reads, any other backward those of the readers.
    void end_backward(OpId id) {
        if (!problem_.facts().has_backward(id)) return;
        const Op& op = graph_.op(id);
        start(ops_ + id.index());
        if (op.kind == graph::OpKind::output) {
            for (std::size_t i = 0; i < op.inputs.size(); ++i) {
                follow(ops_ + id.index(), op.inputs[i], {id, static_cast<std::uint32_t>(i)});
            }
            return;
        }
        for (const TensorId t : op.outputs) {
            if (!problem_.facts().has_gradient(t)) continue;
            for (const graph::Use use : graph_.uses(t)) {
                if (!problem_.facts().has_backward(use.op) || !reads_evenly(use)) continue;
                extend(ops_ + use.op.index(), ops_ + id.index());
            }
        }
    }

    void follow(std::size_t task, TensorId t, graph::Use use) {
        if (!t.valid() || problem_.facts().is_resident(t)) return;
        const OpId producer = graph_.tensor(t).producer;
        if (!problem_.facts().has_forward(producer) || !reads_evenly(use)) return;
        extend(producer.index(), task);
    }

    [[nodiscard]] bool reads_evenly(graph::Use use) const { return is_read_evenly(problem_, use); }

    void start(std::size_t task) { longest_[task] = length_[task]; }

    void extend(std::size_t from, std::size_t task) {
        if (longest_[from] + length_[task] <= longest_[task]) return;
        longest_[task] = longest_[from] + length_[task];
        before_[task] = from;
    }

    const Problem& problem_;
    const graph::OpGraph& graph_;
    std::size_t ops_;
    std::vector<std::int64_t> length_;   ///< per task, at its shortest, ps
    std::vector<std::int64_t> longest_;  ///< of chains that end with the task
    std::vector<std::size_t> before_;
};

}  // namespace

std::vector<ChainTask> longest_chain(const Problem& problem, const PartCosts& parts,
                                     const WorkBound& work) {
    return Chains(problem, parts, work).longest();
}

}  // namespace partita::search
