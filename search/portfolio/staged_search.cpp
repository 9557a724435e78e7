// SPDX-License-Identifier: Apache-2.0
#include "search/portfolio/staged_search.h"

#include <utility>

#include "search/core/engine.h"

namespace partita::search {

StagedSearch::StagedSearch(std::vector<Stage> stages) : stages_(std::move(stages)) {}

StagedSearch::~StagedSearch() = default;

void StagedSearch::end_stage() {
    ++stage_;
    round_ = 0;
    turns_.clear();
}

Status StagedSearch::begin_round(Engine& engine) {
    for (; stage_ < stages_.size(); end_stage()) {
        if (stage_ > 0 && engine.best() == nullptr) return Status::found;
        const Stage& stage = stages_[stage_];
        const bool late =
            engine.best() != nullptr && engine.spent().value_or(0) >= stage.begins_below;
        if (late || round_ >= stage.rounds) continue;
        turns_ = stage.round(engine, round_++);
        next_ = 0;
        if (!turns_.empty()) return Status::in_progress;
    }
    return Status::found;
}

Status StagedSearch::step(Engine& engine) {
    if (turns_.empty()) return begin_round(engine);
    const Stage& stage = stages_[stage_];
    if (engine.best() != nullptr && engine.spent().value_or(0) >= stage.ends_at) {
        end_stage();
        return Status::in_progress;
    }
    if (next_ >= turns_.size()) next_ = 0;
    engine.set_searcher(turns_[next_].name);
    const Status status = turns_[next_].searcher->step(engine);
    if (stage.gives_starts) engine.add_start();
    if (status == Status::optimal) return status;
    if (status == Status::in_progress) {
        ++next_;
    } else {
        turns_.erase(turns_.begin() + static_cast<std::ptrdiff_t>(next_));
    }
    return Status::in_progress;
}

}  // namespace partita::search
