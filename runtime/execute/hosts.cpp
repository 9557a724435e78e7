// SPDX-License-Identifier: Apache-2.0
#include "runtime/execute/hosts.h"

#include <algorithm>
#include <set>
#include <sstream>
#include <utility>

namespace partita::runtime {

int Hosts::core_count(int usable) const {
    return std::max(1, usable / sharing(ids.size()));
}

int Hosts::first_core(int usable) const {
    return core_count(usable) * sharing(own());
}

/// Of the processes below that one, those that may use the same cores as this one.
int Hosts::sharing(std::size_t below) const {
    int count = 0;
    for (std::size_t p = 0; p < below; ++p) {
        if (is_here(p) && cores[p] == cores[own()]) ++count;
    }
    return count;
}

bool are_own_gpus(const Hosts& hosts, std::span<const std::string> devices) {
    std::set<std::pair<std::string, std::string>> known;  // host, GPU
    for (std::size_t process = 0; process < devices.size(); ++process) {
        std::istringstream names(devices[process]);
        for (std::string name; names >> name;) {
            if (name == "cpu" || !known.emplace(hosts.ids[process], name).second) return false;
        }
    }
    return true;
}

}  // namespace partita::runtime
