// SPDX-License-Identifier: Apache-2.0
//
// Contiguous: each device gets one contiguous piece of the graph, so that every sample passes it
// once, and the busiest device is as quick as can be.
//
//     orders    the best cut of some linear orders into pieces      quick, an upper limit
//     ideals    the best of all contiguous plans below that limit   search/max_load/contiguous/piece_table.h
//
// A plan is contiguous when its pieces are differences of a rising sequence of ideals (sets that
// hold all predecessors of what they hold) of the forward graph; backward ops go where their colour
// class goes.
//
// Optimal: among contiguous plans, for the throughput of given costs; the result says so in a note.
// Other plans may be better, so the status is optimal only where the value meets the engine's lower
// bound. Not so, with a note, with more than `most_ideals` ideals, or where too many devices differ
// from all others: then it is the best cut of the orders. For other problems loads are estimates
// and only the orders are tried; what does not fit the memory is repaired
// (search/list_scheduling/memory_repair.h), and may then be less contiguous.
// Ends: when that is known. With given costs infeasible means that no contiguous plan was found
// that fits. Random: none. The value does not depend on the order or the numbers of ops.
// Time: as many pairs of ideals as make pieces within the limit, 20 ns each; memory: piece_table.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "search/core/searcher.h"
#include "search/max_load/contiguous/piece_table.h"
#include "search/max_load/model/piece_devices.h"
#include "search/max_load/model/piece_graph.h"

namespace partita::search {

struct ContiguousOptions {
    std::size_t most_ideals = 100'000;
    std::size_t most_bytes = std::size_t{1} << 30U;  ///< of the table
};

class Contiguous final : public Searcher {
public:
    explicit Contiguous(ContiguousOptions options = {});
    ~Contiguous() override;

    /// The orders; then some ten million pairs of ideals.
    [[nodiscard]] Status step(Engine& engine) override;

private:
    [[nodiscard]] Status cut_orders(Engine& engine);
    [[nodiscard]] Status open_table(Engine& engine);
    [[nodiscard]] Status finish(Engine& engine);
    void propose_anything(Engine& engine);

    ContiguousOptions options_;
    bool exact_ = false;
    PieceDevices devices_;
    PieceGraph graph_;
    std::unique_ptr<PieceTable> table_;
};

}  // namespace partita::search
