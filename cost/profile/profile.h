// SPDX-License-Identifier: Apache-2.0
//
// Measured times, as they lie in a profile database and as a cost model reads them.
//
// The time of a work is what the executor sees of its task: from the moment at which the task can
// start on its device to the moment at which what it writes is there, with all that the executor
// does for it. That of a transfer is the same of a copy or a collective, of the slowest rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"
#include "cost/collectives/collective.h"
#include "cost/cost_model.h"
#include "cost/machine/machine.h"
#include "cost/work_signature.h"
#include "graph/dtype.h"

namespace partita::cost {

/// What was measured on: rows of one key are comparable.
struct DeviceKey {
    std::string model;    ///< Device::model
    std::string setting;  ///< what else changes its times, "threads=1" or ""
    friend auto operator<=>(const DeviceKey&, const DeviceKey&) = default;
};

/// The key under which a device of a machine finds its rows.
DeviceKey device_key(const Device& device);
/// The key of what a CPU device did with so many threads.
DeviceKey device_key(const Device& device, int threads);

/// Do all prices of two devices agree: figures, and the key of measured rows? CPU devices of
/// different `threads` do not.
bool priced_alike(const Device& one, const Device& other);

/// One measured time and where it comes from.
struct Measurement {
    Time median;  ///< > 0
    Time lower;   ///< quartile, <= median
    Time upper;   ///< quartile, >= median
    std::int64_t repetitions = 1;
    std::string versions;  ///< of the libraries, "LibTorch 2.11.0, cuDNN 9.19, driver 580.65"
    std::string date;      ///< UTC, "2026-11-22T14:05:00Z": later ones compare greater
    friend bool operator==(const Measurement&, const Measurement&) = default;
};

struct MeasuredWork {
    WorkSignature signature;
    // Of its Work, as the planner would price it: what interpolation starts from.
    std::string type;
    Phase phase = Phase::forward;
    Flops flops;
    Bytes bytes;
    graph::DType dtype = graph::DType::float32;
    bool matrix_product = false;
    graph::ProductType product_type = graph::ProductType::as_stored;
    Measurement time;
    friend bool operator==(const MeasuredWork&, const MeasuredWork&) = default;
};

/// The row of a work whose signature is set, or that is on elements alone.
MeasuredWork measured_work(const Work& work, Measurement time);

/// A copy (from one device to another) or a collective among devices of one key.
struct MeasuredTransfer {
    bool copy = false;
    Collective kind = Collective::broadcast;  ///< not of a copy
    int ranks = 2;                            ///< >= 2
    int nodes = 1;                            ///< >= 1, divides ranks
    Bytes bytes;                              ///< as CollectiveCall counts; of a copy the message
    graph::DType dtype = graph::DType::float32;
    std::string variant;  ///< how it was done: "threads", "nccl", "mpi"
    Measurement time;
    friend bool operator==(const MeasuredTransfer&, const MeasuredTransfer&) = default;
};

/// All that is known of one key, in the order of the database's keys.
struct DeviceProfile {
    DeviceKey device;
    std::vector<MeasuredWork> works;
    std::vector<MeasuredTransfer> transfers;
};

/// What a database knows of the devices of a machine.
struct Profile {
    std::string file;                    ///< without folder
    std::string date;                    ///< day of the latest row, "2026-11-22"; "" without rows
    std::vector<DeviceProfile> devices;  ///< keys that have rows, rising
    std::vector<DeviceKey> keys;         ///< all that have rows in the file, rising

    [[nodiscard]] const DeviceProfile* find(const DeviceKey& device) const;
    /// SHA-256 of all rows: keys, works and medians; not of spreads, versions and dates.
    [[nodiscard]] std::string digest() const;
};

/// In the format of Measurement::date. `seconds` since 1970-01-01.
std::string utc_date(std::int64_t seconds);

}  // namespace partita::cost
