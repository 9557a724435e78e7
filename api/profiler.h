// SPDX-License-Identifier: Apache-2.0
//
// Measures into a profile database what plans of a model are made of. Parts are measured where they
// are used: whole models run, split in one way after another
// (search/profiling/covering_strategies.h), each until the median of its iterations is stable.
// Copies and collectives come along, and by size from small programs of their own
// (transfer_probes.h).
//
//     strategies ─▶ those with unknown parts ─▶ run ─▶ rows ─▶ database, after every run
//
// Only what the database lacks is measured, so an interrupted call goes on where it was.
//
// Other programs, and other guests of a host, slow runs down for seconds at a time. So all runs can
// be repeated in rounds: of the same run the quickest round counts, of a part that several runs
// have the median of these.
//
// Threads: one. Errors: what Runtime::execute() and ProfileDatabase throw.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "api/measured_rows.h"
#include "api/pricing.h"
#include "cost/profile/profile_database.h"
#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"
#include "runtime/interface/runtime.h"

namespace partita::api {

struct ProfilerOptions {
    std::string devices;  ///< real ones, as of ExecuteRequest
    runtime::SourceOptions sources;
    bool repeat = false;  ///< what is known too
    int warmup = 2;
    int iterations = 20;  ///< of a run, at most
    int rounds = 1;       ///< in which all runs are repeated
    const std::atomic<bool>* cancelled = nullptr;
    /// How much is done, 0 to 1, and what is known by now.
    std::function<void(double, const std::string&)> progress;
};

struct ProfileReport {
    std::int64_t runs = 0;        ///< in all rounds
    std::int64_t known_runs = 0;  ///< left out: all that they are made of was there
    std::int64_t large_runs = 0;  ///< left out: this host has not enough memory
    bool interrupted = false;
    std::vector<cost::DeviceProfile> rows;  ///< written, keys rising
};

class Profiler {
public:
    /// References must outlive it.
    Profiler(runtime::Runtime& runtime, cost::ProfileDatabase& database, ProfilerOptions options)
        : runtime_(runtime), database_(database), options_(std::move(options)) {}

    /// Runs those of the strategies that have parts of which no row is known, in the order of their
    /// simulation.
    void measure(const plan::Problem& problem, const std::vector<plan::Strategy>& strategies);
    /// The same of one, in an order of its own.
    void measure(const plan::Problem& problem, const plan::Strategy& strategy,
                 const plan::Priced& priced);

    [[nodiscard]] ProfileReport report() const;

private:
    /// What was measured of one thing: per run its quickest round.
    template <class Row>
    struct Seen {
        Row row;
        std::map<std::size_t, cost::Measurement> times;
    };
    struct SeenRows {
        std::map<std::string, Seen<cost::MeasuredWork>> works;
        std::map<std::string, Seen<cost::MeasuredTransfer>> transfers;
    };

    [[nodiscard]] bool is_wanted(const plan::Problem& problem, const plan::Strategy& strategy,
                                 const plan::Priced& priced);
    void run(std::size_t number, const plan::Problem& problem, const plan::Strategy& strategy,
             const plan::Priced& priced);
    /// False once interrupted.
    bool goes_on();
    [[nodiscard]] bool is_known(const plan::Problem& problem, const plan::Strategy& strategy,
                                const plan::TaskGraph& tasks);
    void keep(std::size_t number, std::vector<cost::DeviceProfile> rows);
    std::set<std::string>& known(const cost::DeviceKey& device);

    runtime::Runtime& runtime_;
    cost::ProfileDatabase& database_;
    ProfilerOptions options_;
    ProfileReport report_;
    std::map<cost::DeviceKey, std::set<std::string>> known_;  ///< texts of rows, as far as read
    std::map<cost::DeviceKey, SeenRows> seen_;
    std::size_t runs_ = 0;  ///< numbers of runs, whatever round
};

}  // namespace partita::api
