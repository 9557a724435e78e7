// SPDX-License-Identifier: Apache-2.0
//
// What an incremental lowering asks of the pipeline.
#include <span>
#include <utility>

#include "plan/incremental/lowering.h"
#include "plan/legality/stages.h"

namespace partita::plan {

using graph::OpId;

bool IncrementalLowering::keeps_schedule() {
    if (!is_scheduled() || !pending_.stages_differ) return true;
    Pipeline pipeline = pipeline_of(problem_, [&](graph::OpId op) -> std::span<const std::int32_t> {
        return layouts_.of(op, 0).devices;
    });
    if (!plan::keeps_schedule(policy_, pipeline)) return false;
    const auto recompute_of = [&](OpId op) { return layouts_.recompute(op); };
    if (find_recomputed_in_chunks(problem_, pipeline, recompute_of) != nullptr) return false;
    const Pipeline& before = block_order_.pipeline();
    const bool is_same = pipeline.stages == before.stages && pipeline.position == before.position;
    if (!is_same) pending_.next_order.emplace(problem_, policy_, std::move(pipeline));
    return true;
}

/// Those whose schedule key differs, too.
void IncrementalLowering::find_moved_blocks() {
    if (!pending_.next_order) return;
    for (std::size_t i = 0; i < graph_.op_count(); ++i) {
        const OpId op(i);
        for (int m = 0; m < rows().micro_batches() && rows().runs_in(op, m); ++m) {
            for (const Pass pass : rows().passes()) {
                if (pending_.next_order->of(op, m, pass) == block_order_.of(op, m, pass)) continue;
                pending_.blocks.add(block_row({op, m, pass}));
            }
        }
    }
}

}  // namespace partita::plan
