// SPDX-License-Identifier: Apache-2.0
//
// What a search found for each of several sizes: which are worth having, and which one is best.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/units.h"
#include "cli/console.h"
#include "cli/load.h"
#include "cli/sizes.h"
#include "plan/description/throughput.h"
#include "search/portfolio/search_run.h"

namespace partita::cli {

struct SizeRow {
    Size size;
    int devices = 0;            ///< of the machine
    double price_per_hour = 0;  ///< of all of them; 0: not said
    std::string status;
    std::optional<Time> value;  ///< none: no plan
    std::optional<double> gap;
    Bytes memory;  ///< of the device that holds most
    plan::Throughput throughput;
    std::string configuration;
};

class SizeTable {
public:
    /// `most_time`: of a step that reaches it the fewest devices are best.
    explicit SizeTable(std::optional<Time> most_time) : most_time_(most_time) {}

    void add(const Size& size, const Loaded& loaded, const search::SearchResult& result);
    /// A size for which what is asked for cannot be had at all.
    void add_refused(const Size& size, const cost::Machine& machine);

    /// The row with the least time per sample, of equals the one with fewest devices; with a time to
    /// reach, of those that do the fewest devices. nullopt: no row has a plan.
    [[nodiscard]] std::optional<std::size_t> best() const;
    /// Rows that no other beats in devices (their price, where all have one) without being slower per
    /// sample.
    [[nodiscard]] std::vector<std::size_t> front() const;

    [[nodiscard]] std::string text(const Terminal& terminal) const;
    [[nodiscard]] nlohmann::ordered_json json() const;
    [[nodiscard]] const std::vector<SizeRow>& rows() const { return rows_; }

private:
    [[nodiscard]] bool all_have_prices() const;
    [[nodiscard]] bool reaches(const SizeRow& row) const;
    [[nodiscard]] std::string answers() const;

    std::optional<Time> most_time_;
    std::vector<SizeRow> rows_;
};

}  // namespace partita::cli
