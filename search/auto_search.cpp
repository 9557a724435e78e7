// SPDX-License-Identifier: Apache-2.0
#include "search/auto_search.h"

#include "search/engine.h"
#include "search/searchers.h"

namespace partita::search {

Status AutoSearch::step(Engine& engine) {
    const auto rows = searcher_table();
    while (row_ < rows.size() && !rows[row_].in_auto) ++row_;
    if (row_ == rows.size()) return Status::found;
    if (!current_) current_ = rows[row_].make(engine);
    engine.set_searcher(rows[row_].name);
    const Status status = current_->step(engine);
    if (status == Status::in_progress || status == Status::optimal) return status;
    current_.reset();
    ++row_;
    return Status::in_progress;
}

}  // namespace partita::search
