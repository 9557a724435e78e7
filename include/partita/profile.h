// SPDX-License-Identifier: Apache-2.0
//
// import_times(): what somebody else measured, such as a trace of torch.profiler, becomes a profile
// database, by which plans are priced (PlanOptions::profile).
//
//     partita::import_times(model, machine, options, "trace.json", "profile.sqlite");
//     options.profile = "profile.sqlite";
//     partita::find_plan(model, machine, options);
//
// docs/file-formats.md ("Times of operators") has the formats. write_costs(): the same of what a function
// says each work takes, a cost model of your own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <partita/error.h>
#include <partita/machine.h>
#include <partita/model.h>
#include <partita/search.h>
#include <partita/types.h>

namespace partita {

/// Of the works of a step on one device (or of the plan that was asked for) what has a time now.
struct ImportReport {
    struct Missing {
        std::string work;        ///< as the database would have it
        std::int64_t tasks = 0;  ///< in a step
        Time predicted;          ///< of all of these
        std::string why;
    };
    struct Unused {
        std::string call;  ///< operator and shapes
        std::int64_t calls = 0;
        Time time;  ///< of all of these
    };
    std::string device;            ///< the model that rows were written for
    std::string measured_on;       ///< as the file says it; may be ""
    std::int64_t operators = 0;    ///< in the file, of different shapes
    std::int64_t rows = 0;         ///< written
    std::int64_t unknown = 0;      ///< lines of a table of works that the model does not have
    std::int64_t works = 0;        ///< of a step
    std::int64_t found = 0;        ///< of these
    Time predicted;                ///< of all works of a step
    Time predicted_found;          ///< of what was found, by the prices without it
    Time measured_found;           ///< the same, as measured
    std::vector<Missing> missing;  ///< the longest first
    std::vector<Unused> unused;    ///< the longest first
};

/// The options say how a step goes: mode, optimizer, loss, ...; those of a search count for nothing.
/// Throws InputError for a file that is no such, MismatchError when it has nothing of the model's,
/// both before anything is written, and UsageError for a machine whose devices are of several kinds.
ImportReport import_times(const Model& model, const Machine& machine, const PlanOptions& options,
                          const std::filesystem::path& file, const std::filesystem::path& database);

/// Something that a task of a plan does, on one device.
struct Work {
    std::string text;  ///< "forward MatMul.13 (float32[8,64], float32[64,32]) -> (float32[8,32])"
    double flops = 0;
    Bytes bytes;     ///< read and written
    Time predicted;  ///< by the prices without it
};
/// What it takes there, > 0; nullopt: the prices without it hold.
using WorkCosts = std::function<std::optional<Time>(const Work&)>;

/// Asks once for each different work of all parts of ops that a search may propose; what plans do
/// besides is priced by what is near (docs/cost-model.md). Options and errors: as import_times(), and
/// UsageError for a time that is not > 0.
ImportReport write_costs(const Model& model, const Machine& machine, const PlanOptions& options,
                         const WorkCosts& costs, const std::filesystem::path& database);

/// A copy or a collective among devices of a machine, as somebody measured it.
struct TransferTime {
    std::string kind;  ///< "copy", "all-reduce", "all-gather", "reduce-scatter", "all-to-all", ...
    int ranks = 2;     ///< of a copy 2
    /// Of all-reduce, broadcast and reduce the buffer; of all-gather, reduce-scatter, scatter and
    /// gather the whole one; of all-to-all that of one rank; of a copy the message.
    Bytes bytes;
    Time time;  ///< > 0, of the slowest rank
};

/// Adds rows to the database, for all machines with such devices. Throws UsageError for an unknown kind,
/// a number that cannot be, and a machine whose devices are of several kinds.
void write_transfers(const Machine& machine, std::span<const TransferTime> transfers,
                     const std::filesystem::path& database);

}  // namespace partita
