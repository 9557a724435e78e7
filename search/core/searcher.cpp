// SPDX-License-Identifier: Apache-2.0
#include "search/core/searcher.h"

namespace partita::search {

std::string_view name_of(Status status) {
    switch (status) {
    case Status::in_progress: return "in_progress";
    case Status::optimal: return "optimal";
    case Status::found: return "found";
    case Status::budget_exhausted: return "budget_exhausted";
    case Status::none_found: return "none_found";
    case Status::infeasible: return "infeasible";
    }
    return {};
}

}  // namespace partita::search
