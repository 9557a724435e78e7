// SPDX-License-Identifier: Apache-2.0
//
// One evaluator for each of some threads, kept from one search to the next: what an evaluator has
// found out about ops and tensors serves every search of the same problem.
//
// Threads: one that calls, which is worker 0; the others are the pool's.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "plan/evaluation/evaluator.h"
#include "plan/problem/problem.h"
#include "search/support/worker_pool.h"

namespace partita::search {

class EvaluatorPool {
public:
    /// `threads`: 0 = one per core. The problem must outlive the pool.
    EvaluatorPool(const plan::Problem& problem, plan::Scheduler scheduler, int threads);

    [[nodiscard]] const plan::Problem& problem() const { return problem_; }
    [[nodiscard]] int threads() const { return workers_.count(); }
    /// Of a worker, or of a place in a range, by one thread at a time.
    [[nodiscard]] plan::Evaluator& evaluator(int worker);
    /// Of whichever evaluator has them (Evaluator::take_folded).
    [[nodiscard]] std::optional<plan::TaskGraph> take_folded(const plan::Strategy& strategy);
    /// WorkerPool::run().
    std::size_t run(std::size_t size, const std::function<bool(int, std::size_t)>& work) {
        return workers_.run(size, work);
    }

private:
    const plan::Problem& problem_;
    plan::Scheduler scheduler_;
    WorkerPool workers_;
    std::vector<std::unique_ptr<plan::Evaluator>> evaluators_;  ///< one per worker
};

}  // namespace partita::search
