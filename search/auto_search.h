// SPDX-License-Identifier: Apache-2.0
//
// Auto: every searcher of the table that is marked for it, one after the other; the best plan of all
// carries the name of the searcher that found it.
//
// Optimal: no. Ends: after the last of them, or with the budget.
#pragma once

#include <memory>

#include "search/searcher.h"

namespace partita::search {

class AutoSearch final : public Searcher {
public:
    [[nodiscard]] Status step(Engine& engine) override;

private:
    std::size_t row_ = 0;  ///< of searcher_table()
    std::unique_ptr<Searcher> current_;
};

}  // namespace partita::search
