// SPDX-License-Identifier: Apache-2.0
//
// Exact: the best plan there is, with its proof, or how far from it the plan at hand can be.
//
//     throughput of given costs   branch and bound on placements (search/loads/tree.h). Asks for plans below a
//                                 target between bound and value: none found raises the lower bound, one
//                                 found is the new value. A target that takes too long gives way to lower
//                                 ones, easier to prove, and has more time when its turn comes again
//     everything else             local search; the engine's lower bound stands
//
//     lower bound ├──────●────────────────────┤ value        target: a share of what is between them
//
// The tree starts from the best contiguous plan, from what local search makes of it (search/loads/search.h),
// and from what searchers before it found.
//
// Optimal: when bound and value meet. Ends: then, or, where nobody gave a limit of time, after some 60 s of
// one core.
// Random: the seed, in local search alone. Threads: local search; the tree has one.
#pragma once

#include <cstdint>
#include <memory>

#include "search/contiguous.h"
#include "search/loads/graph.h"
#include "search/loads/search.h"
#include "search/loads/tree.h"
#include "search/local_search.h"
#include "search/searcher.h"

namespace partita::search {

struct ExactOptions {
    std::int64_t operations = 60'000'000'000;  ///< of about 1 ns, without a limit of time
};

class Exact final : public Searcher {
public:
    explicit Exact(ExactOptions options = {});
    ~Exact() override;

    /// The contiguous plans; local search; then about a tenth of a second of the tree.
    [[nodiscard]] Status step(Engine& engine) override;

private:
    [[nodiscard]] Status begin(Engine& engine);
    [[nodiscard]] Status seed(Engine& engine);
    [[nodiscard]] Status aim(Engine& engine);
    [[nodiscard]] Status end_target(Engine& engine);
    [[nodiscard]] Status give_way(Engine& engine);

    ExactOptions options_;
    std::unique_ptr<Contiguous> contiguous_;
    std::unique_ptr<LoadSearch> local_;
    std::unique_ptr<LocalSearch> general_;
    LoadProblem load_;
    std::unique_ptr<LoadTree> tree_;
    std::int64_t beyond_ = 0;  ///< more than any load
    std::int64_t bound_ = 0;   ///< no plan is below
    std::int64_t target_ = 0;  ///< the tree looks for plans below
    std::int64_t spent_ = 0;   ///< operations, of all targets
    std::int64_t left_ = 0;    ///< operations, of this target
    std::int64_t turn_ = 0;    ///< operations that a target has
    double share_ = 0;         ///< of the way from bound to value
};

}  // namespace partita::search
