// SPDX-License-Identifier: Apache-2.0
#include "runtime/execute/output_pieces.h"

#include <algorithm>
#include <map>

#include "plan/layout/layout.h"
#include "plan/problem/micro_batches.h"

namespace partita::runtime {

using graph::OpId;
using graph::TensorId;
using plan::Buffer;
using plan::BufferId;

namespace {

class Finder {
public:
    Finder(const plan::Problem& problem, const plan::Strategy& strategy,
           const plan::TaskGraph& tasks, std::span<const std::int64_t> position)
        : problem_(problem), strategy_(strategy), tasks_(tasks), position_(position) {}

    std::vector<OutputPiece> run() {
        std::map<std::uint32_t, std::vector<BufferId>> buffers;
        for (std::size_t b = 0; b < tasks_.buffers.size(); ++b) {
            const Buffer& buffer = tasks_.buffers[b];
            if (buffer.region < 0 || buffer.gradient || buffer.message) continue;
            buffers[buffer.tensor.value].emplace_back(b);
        }
        const graph::OpGraph& graph = problem_.graph();
        const int micro_batches = strategy_.policy.micro_batches;
        for (std::size_t i = 0; i < graph.op_count(); ++i) {
            if (graph.op(OpId(i)).kind != graph::OpKind::output) continue;
            const int own = problem_.facts().is_batched(OpId(i)) ? micro_batches : 1;
            for (int m = 0; m < own; ++m) {
                add(OpId(i), m, own > 1 ? m : -1, buffers[graph.op(OpId(i)).inputs[0].value]);
            }
        }
        return std::move(pieces_);
    }

private:
    [[nodiscard]] const Buffer& buffer_of(BufferId id) const { return tasks_.buffers[id.index()]; }
    /// When its value is there.
    [[nodiscard]] std::int64_t time_of(BufferId id) const {
        const plan::TaskId writer = buffer_of(id).writer;
        return writer.valid() ? position_[writer.index()] : -1;
    }

    /// The latest value on the device of each part that holds all of it: what lies there before may
    /// be a summand.
    void add(OpId id, int micro_batch, int label, const std::vector<BufferId>& buffers) {
        const graph::OpRule& rule = problem_.facts().rule(id);
        const plan::OpConfig& config = strategy_.config(id);
        const TensorId t = problem_.graph().op(id).inputs[0];
        const graph::Shape& shape = problem_.graph().tensor(t).shape;
        const plan::Parts parts(rule, config,
                                plan::micro_batch_box(problem_.facts(), id,
                                                      strategy_.policy.micro_batches, micro_batch));
        for (int p = 0; p < parts.size(); ++p) {
            const graph::Region region =
                graph::region_of(rule, rule.operands[0], shape, parts.box(p));
            const int device = config.devices[p];
            std::vector<BufferId> here;
            for (const BufferId b : buffers) {
                const Buffer& buffer = buffer_of(b);
                const bool mine = buffer.device == device &&
                                  (buffer.micro_batch == label || buffer.micro_batch < 0);
                const graph::Region& held = (*tasks_.regions)[buffer.region];
                if (mine && !graph::intersection(held, region).empty()) here.push_back(b);
            }
            std::ranges::stable_sort(here, {}, [&](BufferId b) { return time_of(b); });
            const auto whole = std::find_if(here.rbegin(), here.rend(), [&](BufferId b) {
                return graph::contains((*tasks_.regions)[buffer_of(b).region], region);
            });
            if (whole != here.rend()) here = {*whole};
            for (const BufferId b : here) pieces_.push_back({b, t, device});
        }
    }

    const plan::Problem& problem_;
    const plan::Strategy& strategy_;
    const plan::TaskGraph& tasks_;
    std::span<const std::int64_t> position_;
    std::vector<OutputPiece> pieces_;
};

}  // namespace

std::vector<OutputPiece> output_pieces(const plan::Problem& problem, const plan::Strategy& strategy,
                                       const plan::TaskGraph& tasks,
                                       std::span<const std::int64_t> position) {
    return Finder(problem, strategy, tasks, position).run();
}

}  // namespace partita::runtime
