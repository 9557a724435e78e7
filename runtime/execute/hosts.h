// SPDX-License-Identifier: Apache-2.0
//
// Where the processes of one run lie, as all of them know it, and what follows for their cores and
// GPUs. Cores of a host are divided among its processes that may use the same ones:
//
//     8 cores, 2 processes that may use all of them     4 cores each, the first of them 0 and 4
//     the same, bound to cores 0-3 and 4-7              4 cores each, the first of them 0 and 0 of their own
//
// Pure.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace partita::runtime {

struct Hosts {
    std::vector<std::string> ids;    ///< per process: of its host
    std::vector<std::string> cores;  ///< per process: those that it may use, as text to compare
    int self = 0;

    /// Does it lie on the host of this process?
    [[nodiscard]] bool is_here(std::size_t process) const { return ids[process] == ids[own()]; }
    /// That this process has for itself, of so many that it may use; 1 or more.
    [[nodiscard]] int core_count(int usable) const;
    /// The first of those, counted among the ones that it may use.
    [[nodiscard]] int first_core(int usable) const;

private:
    [[nodiscard]] std::size_t own() const { return static_cast<std::size_t>(self); }
    [[nodiscard]] int sharing(std::size_t below) const;
};

/// Has every device of the plan a GPU of its own? `devices`: per process those that it drives, each
/// followed by a space ("cuda:0 cuda:1 ", "cpu "), one name per device of the plan.
bool are_own_gpus(const Hosts& hosts, std::span<const std::string> devices);

}  // namespace partita::runtime
