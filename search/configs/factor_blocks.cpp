// SPDX-License-Identifier: Apache-2.0
#include "search/configs/factor_blocks.h"

#include <algorithm>

#include "plan/strategy/axis.h"

namespace partita::search {

using graph::OpId;
using graph::TensorId;
using plan::Problem;

namespace {

/// More blocks than that are no fused projection but a merged dim, whose major factor one splits.
constexpr std::int64_t kMostBlocks = 8;

class Finder {
public:
    explicit Finder(const Problem& problem)
        : problem_(problem),
          wanted_(problem.graph().tensor_count()),
          found_(problem.graph().op_count()) {
        for (std::size_t t = 0; t < wanted_.size(); ++t) {
            wanted_[t].resize(problem.graph().tensor(TensorId(t)).shape.size());
        }
    }

    std::vector<std::vector<FactorBlocks>> run() {
        for (std::size_t i = found_.size(); i-- > 0;) {
            take_from_results(OpId(i));
            pass_to_operands(OpId(i));
        }
        return std::move(found_);
    }

private:
    static void add(std::vector<std::int64_t>& wanted, std::int64_t blocks) {
        if (blocks < 2 || blocks > kMostBlocks) return;
        const auto at = std::lower_bound(wanted.begin(), wanted.end(), blocks);
        if (at == wanted.end() || *at != blocks) wanted.insert(at, blocks);
    }

    /// What the readers of a result want of the factor that makes up one of its dims.
    void take_from_results(OpId id) {
        const graph::Op& op = problem_.graph().op(id);
        const graph::OpRule& rule = problem_.facts().rule(id);
        std::vector<FactorBlocks>& found = found_[id.index()];
        for (std::size_t i = 0; i < op.outputs.size(); ++i) {
            const auto& dims = rule.results[i].dims;
            for (std::size_t d = 0; d < dims.size(); ++d) {
                if (dims[d].factors.size() != 1 || dims[d].window) continue;
                const int factor = dims[d].factors[0];
                const graph::Factor& of = rule.factors[static_cast<std::size_t>(factor)];
                for (const std::int64_t blocks : wanted_[op.outputs[i].index()][d]) {
                    if (of.splittable && has_axis(rule, plan::Axis::along(factor, 2, blocks)))
                        found.push_back({factor, blocks});
                }
            }
        }
        std::sort(found.begin(), found.end());
        found.erase(std::unique(found.begin(), found.end()), found.end());
    }

    void pass_to_operands(OpId id) {
        const graph::Op& op = problem_.graph().op(id);
        const graph::OpRule& rule = problem_.facts().rule(id);
        for (std::size_t i = 0; i < op.inputs.size(); ++i) {
            if (!op.inputs[i].valid()) continue;
            const auto& dims = rule.operands[i].dims;
            for (std::size_t d = 0; d < dims.size(); ++d) {
                if (!dims[d].window) pass_on(id, dims[d], wanted_[op.inputs[i].index()][d]);
            }
        }
    }

    /// The dim is wanted in as many blocks as there are positions before the minor factor, times
    /// those of the factor itself.
    void pass_on(OpId id, const graph::DimRule& dim, std::vector<std::int64_t>& wanted) const {
        const graph::OpRule& rule = problem_.facts().rule(id);
        std::int64_t majors = 1;
        for (const int factor : dim.factors) {
            const graph::Factor& of = rule.factors[static_cast<std::size_t>(factor)];
            if (of.splittable) add(wanted, majors);
            for (const FactorBlocks& own : found_[id.index()]) {
                if (own.factor == factor) add(wanted, majors * own.blocks);
            }
            if (majors > kMostBlocks || of.extent > kMostBlocks) break;
            majors *= of.extent;
        }
    }

    const Problem& problem_;
    std::vector<std::vector<std::vector<std::int64_t>>> wanted_;  ///< per tensor and dim, rising
    std::vector<std::vector<FactorBlocks>> found_;
};

}  // namespace

std::vector<std::vector<FactorBlocks>> blocks_of_factors(const Problem& problem) {
    return Finder(problem).run();
}

std::vector<plan::Axis> axes_to_split(const graph::OpRule& rule,
                                      const std::vector<FactorBlocks>& blocks) {
    std::vector<plan::Axis> axes{plan::Axis::replicas(1)};
    for (std::size_t f = 0; f < rule.factors.size(); ++f) {
        const bool may_split = rule.factors[f].splittable && rule.factors[f].extent > 1;
        if (may_split) axes.push_back(plan::Axis::along(f, 1));
    }
    for (const FactorBlocks& of : blocks) {
        axes.push_back(plan::Axis::along(of.factor, 1, of.blocks));
    }
    return axes;
}

}  // namespace partita::search
