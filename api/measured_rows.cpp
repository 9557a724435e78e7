// SPDX-License-Identifier: Apache-2.0
#include "api/measured_rows.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "base/statistics.h"
#include "plan/tasks/task_measurements.h"

namespace partita::api {
namespace {

using cost::MeasuredTransfer;
using cost::MeasuredWork;
using cost::Measurement;

/// Rows of one key, and what was measured of each.
template <class Row>
struct Pool {
    Row row;
    std::vector<Measurement> times;
};

template <class Row>
std::vector<Row> rows_of(auto& pools) {
    std::vector<Row> rows;
    for (auto& [key, pool] : pools) {
        pool.row.time = pooled(std::move(pool.times));
        rows.push_back(std::move(pool.row));
    }
    return rows;
}

auto key_of(const MeasuredTransfer& row) {
    return std::tuple(row.copy, row.kind, row.ranks, row.nodes, row.bytes, row.dtype);
}

struct Pools {
    std::map<std::string, Pool<MeasuredWork>> works;
    std::map<decltype(key_of(MeasuredTransfer{})), Pool<MeasuredTransfer>> transfers;
};

template <class Row, class Key>
void add(std::map<Key, Pool<Row>>& pools, const Key& key, Row row) {
    auto [pool, is_new] = pools.try_emplace(key);
    pool->second.times.push_back(row.time);
    if (is_new) pool->second.row = std::move(row);
}

}  // namespace

Measurement pooled(std::vector<Measurement> all) {
    const auto middle = [&](Time Measurement::*member) {
        return quantile(all, 0.5, member).*member;
    };
    Measurement one = all.front();
    one.median = middle(&Measurement::median);
    one.lower = std::min(one.median, middle(&Measurement::lower));
    one.upper = std::max(one.median, middle(&Measurement::upper));
    one.repetitions = 0;
    for (const Measurement& each : all) {
        one.repetitions += each.repetitions;
        one.date = std::max(one.date, each.date);
    }
    return one;
}

std::vector<cost::DeviceProfile> measured_rows(const MeasuredRun& run, const std::string& versions,
                                               std::int64_t seconds) {
    const plan::TaskMeasurements works(run.problem, run.strategy, run.tasks);
    Measurement time;
    time.repetitions = std::ssize(run.result.iterations);
    time.versions = versions;
    time.date = cost::utc_date(seconds);
    std::map<cost::DeviceKey, Pools> pools;
    for (std::size_t t = 0; t < run.tasks.size(); ++t) {
        const plan::TaskId task(t);
        const runtime::TaskTime& taken = run.result.times[t];
        const Time least = picoseconds(1);
        time.median = std::max(least, taken.median);
        time.lower = std::max(least, taken.lower);
        time.upper = std::max(least, taken.upper);
        const cost::DeviceKey device = works.device(task, run.result.hardware.threads);
        if (auto work = works.work(task, time)) {
            const std::string text = work->signature.text;
            add(pools[device].works, text, std::move(*work));
        } else if (run.result.hardware.is_own) {
            auto transfer = works.transfer(task, time, run.result.hardware.transport);
            if (transfer) {
                const auto key = key_of(*transfer);
                add(pools[device].transfers, key, std::move(*transfer));
            }
        }
    }
    std::vector<cost::DeviceProfile> rows;
    for (auto& [device, of_device] : pools) {
        rows.push_back({.device = device,
                        .works = rows_of<MeasuredWork>(of_device.works),
                        .transfers = rows_of<MeasuredTransfer>(of_device.transfers)});
    }
    return rows;
}

RowCount add_rows(cost::ProfileDatabase& database, const std::vector<cost::DeviceProfile>& rows) {
    RowCount count;
    for (const cost::DeviceProfile& device : rows) {
        database.add(device.device, device.works);
        database.add(device.device, device.transfers);
        count.works += std::ssize(device.works);
        count.transfers += std::ssize(device.transfers);
    }
    return count;
}

}  // namespace partita::api
