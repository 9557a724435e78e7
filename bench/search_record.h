// SPDX-License-Identifier: Apache-2.0
//
// What search_times measured, one search per line of a CSV file. Files are added to and kept: the
// best value of a case is the best that any search in any file of the folder ever found.
//
//     date,network,devices,samples_per_gpu,searcher,seed,threads,seconds,...,problem,...,trajectory
//     2026-11-22,alexnet,16,256,mcmc,1,1,60,...,9f31c2...,...,0.021:52140000 1.310:41770000
//
// `problem` stands for everything that a value depends on: model, machine, prices and how a plan is
// simulated (through the value of data parallelism). Rows of another problem are kept and not used.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/units.h"

namespace partita::bench {

/// The best value so far changed.
struct Improvement {
    double seconds = 0;  ///< since the search began
    Time value;
    friend bool operator==(const Improvement&, const Improvement&) = default;
};

/// Which search.
struct SearchCase {
    std::string network;
    int devices = 0;
    std::int64_t samples_per_gpu = 0;
    std::string searcher;
    std::uint64_t seed = 1;
    int threads = 1;
    double seconds = 0;                 ///< the budget; 0: none
    std::int64_t most_evaluations = 0;  ///< the budget; 0: none
    std::string problem;
    friend bool operator==(const SearchCase&, const SearchCase&) = default;
};

struct SearchRecord {
    std::string date;  ///< YYYY-MM-DD
    SearchCase of;
    Time data_parallel;
    Time heuristics;  ///< the best of the cheap searchers
    double heuristics_seconds = 0;
    Time lower_bound;
    Time value;
    std::int64_t evaluations = 0;
    double elapsed = 0;  ///< seconds
    std::vector<Improvement> trajectory;
    friend bool operator==(const SearchRecord&, const SearchRecord&) = default;
};

std::string to_csv(std::span<const SearchRecord> records);
/// Throws InputError naming the file and the line that is none of ours.
std::vector<SearchRecord> records_from_csv(std::string_view text, const std::string& file);

/// Of all search_times*.csv in the folder, in order of their names; none when there is no folder.
std::vector<SearchRecord> read_records(const std::filesystem::path& folder);

/// Seconds until the value was at most `share` (0.01) above `best`; nullopt: it never was.
std::optional<double> seconds_to(const SearchRecord& record, Time best, double share);

}  // namespace partita::bench
