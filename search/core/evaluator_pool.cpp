// SPDX-License-Identifier: Apache-2.0
#include "search/core/evaluator_pool.h"

#include <algorithm>
#include <thread>

namespace partita::search {

namespace {

int worker_count(int threads) {
    if (threads > 0) return threads;
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace

EvaluatorPool::EvaluatorPool(const plan::Problem& problem, plan::Scheduler scheduler, int threads)
    : problem_(problem),
      scheduler_(scheduler),
      workers_(worker_count(threads)),
      evaluators_(static_cast<std::size_t>(workers_.count())) {}

plan::Evaluator& EvaluatorPool::evaluator(int worker) {
    auto& own = evaluators_[static_cast<std::size_t>(worker)];
    if (!own) own = plan::make_evaluator(problem_, scheduler_);
    return *own;
}

std::optional<plan::TaskGraph> EvaluatorPool::take_folded(const plan::Strategy& strategy) {
    for (const auto& evaluator : evaluators_) {
        if (!evaluator) continue;
        if (auto tasks = evaluator->take_folded(strategy)) return tasks;
    }
    return std::nullopt;
}

}  // namespace partita::search
