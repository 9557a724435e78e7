// SPDX-License-Identifier: Apache-2.0
#include "cost/collectives/collective_table.h"

#include <filesystem>
#include <fstream>
#include <numeric>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/error.h"
#include "base/json.h"
#include "cost/collectives/collective_algorithms.h"
#include "cost/collectives/collective_file.h"
#include "cost/machine/machine_file.h"

namespace partita::cost {
namespace {

const std::string kHeader =
    "set,collective,algorithm,protocol,ranks,nodes,gpus_per_node,bytes,time_us,algbw_GBps,"
    "busbw_GBps,place,source\n";

std::string row(int ranks, int bytes, const std::string& time) {
    const std::string n = std::to_string(ranks);
    return "s,all_reduce,,," + n + ",1," + n + "," + std::to_string(bytes) + "," + time +
           ",0,0,in,here\n";
}

CollectiveTable table_of(const std::string& lines) {
    return {read_collective_log(kHeader + lines, "log.csv"), "log.csv"};
}

std::optional<CollectivePrice> at(const CollectiveTable& table, std::int64_t bytes, int ranks = 2) {
    return table.time_of(Collective::all_reduce, Bytes{bytes}, ranks, 1);
}

TEST(CollectiveTable, IsExactAtMeasuredSizesAndStraightBetweenThem) {
    const auto table = table_of(row(2, 1000, "10") + row(2, 2000, "14.5") + row(4, 1000, "30"));
    EXPECT_EQ(at(table, 1000)->time, microseconds(10));
    EXPECT_EQ(at(table, 1000)->source, CostSource::measured);
    EXPECT_EQ(at(table, 2000)->time, nanoseconds(14'500));
    EXPECT_EQ(at(table, 1500)->time, nanoseconds(12'250));
    EXPECT_EQ(at(table, 1500)->source, CostSource::interpolated);
    EXPECT_EQ(at(table, 1000, 4)->time, microseconds(30));
}

TEST(CollectiveTable, BeyondTheLargestSizeItsBandwidthCounts) {
    const auto table = table_of(row(2, 1000, "10") + row(2, 2000, "14"));
    EXPECT_EQ(at(table, 6000)->time, microseconds(42));
}

TEST(CollectiveTable, DoesNotKnowOtherNumbersOfRanks) {
    EXPECT_EQ(at(table_of(row(2, 1000, "10")), 1000, 3), std::nullopt);
}

TEST(CollectiveTable, SeveralRowsOfOneSizeCountAsTheirMedian) {
    const auto table = table_of(row(2, 1000, "10") + row(2, 1000, "90") + row(2, 1000, "12"));
    EXPECT_EQ(at(table, 1000)->time, microseconds(12));
}

TEST(CollectiveTable, FallingNeighboursAreAveraged) {
    const auto table =
        table_of(row(2, 1000, "10") + row(2, 2000, "16") + row(2, 3000, "12") + row(2, 4000, "20"));
    EXPECT_EQ(at(table, 1000)->time, microseconds(10));
    EXPECT_EQ(at(table, 2000)->time, microseconds(14));
    EXPECT_EQ(at(table, 3000)->time, microseconds(14));
    EXPECT_EQ(at(table, 4000)->time, microseconds(20));
}

std::string message_of(const std::string& text) {
    try {
        static_cast<void>(read_collective_log(text, "log.csv"));
    } catch (const InputError& error) {
        return error.what();
    }
    return "accepted";
}

TEST(CollectiveLog, BadLinesAreRefusedWithTheirNumber) {
    EXPECT_EQ(message_of("set,collective\n"), "log.csv: line 1: expected the columns " +
                                                  kHeader.substr(0, kHeader.size() - 1) +
                                                  ". Add them.");
    EXPECT_EQ(message_of(kHeader + row(2, 1000, "10") + "s,all_reduce\n"),
              "log.csv: line 3: expected 13 columns, got 2. Correct the line.");
    EXPECT_EQ(message_of(kHeader + row(2, 1000, "fast")),
              "log.csv: line 2: expected time_us from 0.001 to 10^9, got \"fast\". Correct the "
              "line.");
    EXPECT_EQ(message_of(kHeader + row(2, 1000, "nan")),
              "log.csv: line 2: expected time_us from 0.001 to 10^9, got \"nan\". Correct the "
              "line.");
    EXPECT_EQ(message_of(kHeader + "s,all_sum,,,2,1,2,8,1,0,0,in,here\n"),
              "log.csv: line 2: expected a collective such as all_reduce, got \"all_sum\". Correct "
              "the line.");
    EXPECT_EQ(message_of(kHeader + "s,all_reduce,,,8,2,8,8,1,0,0,in,here\n"),
              "log.csv: line 2: expected nodes x gpus_per_node = ranks, got 2 x 8 = 8. Correct the "
              "line.");
}

/// The first `ranks` devices of the first `nodes` nodes of 8.
std::vector<int> devices_of(int ranks, int nodes) {
    std::vector<int> devices;
    for (int node = 0; node < nodes; ++node) {
        for (int i = 0; i < ranks / nodes; ++i) devices.push_back(8 * node + i);
    }
    return devices;
}

TEST(CollectiveFile, MeasuredTimesWinOverFormulas) {
    const Machine machine = load_machine("dgx-a100:2");
    const auto model = collective_model_of(machine);
    // echo-ndv4, 16 ranks on 2 nodes, 1 MiB: 99.93 us in place, 100.1 out of place.
    const auto measured =
        model->price({Collective::all_reduce, devices_of(16, 2), Bytes{1 << 20}}, machine);
    EXPECT_EQ(measured->time, nanoseconds(100'015));
    EXPECT_EQ(measured->source, CostSource::measured);
    EXPECT_EQ(measured->algorithm, Algorithm::library);
    // Nobody measured 6 ranks, or broadcasts: formulas.
    const auto fitted =
        model->price({Collective::all_reduce, devices_of(6, 1), Bytes{1 << 20}}, machine);
    EXPECT_EQ(fitted->source, CostSource::analytic);
    EXPECT_NE(fitted->protocol, Protocol::none);
    const auto gathered =
        model->price({Collective::gather, devices_of(6, 1), Bytes{1 << 20}}, machine);
    EXPECT_EQ(
        gathered->time,
        AlphaBeta().price({Collective::gather, devices_of(6, 1), Bytes{1 << 20}}, machine)->time);
}

TEST(CollectiveFile, EveryPresetHasAModelThatKnowsEveryCollective) {
    for (const Preset& preset : presets()) {
        const Machine machine = load_machine(preset.name);
        const auto model = collective_model_of(machine);
        std::vector<int> devices(static_cast<std::size_t>(std::min(machine.device_count(), 8)));
        std::iota(devices.begin(), devices.end(), 0);
        for (int kind = 0; kind < kCollectiveCount; ++kind) {
            const CollectiveCall call{static_cast<Collective>(kind), devices, Bytes{1 << 20}};
            const auto price = model->price(call, machine);
            ASSERT_TRUE(price) << preset.name;
            EXPECT_EQ(price->time > Time{0}, devices.size() > 1) << preset.name;
            const CollectiveCall alone{call.kind, std::span(devices).first(1), call.bytes};
            EXPECT_EQ(model->price(alone, machine)->time, Time{0}) << preset.name;
        }
    }
}

RC_GTEST_PROP(CollectiveFile, PricesNeverFallWhenBytesGrow, ()) {
    static const std::vector<Machine> kMachines = {
        load_machine("dgx-a100:8"), load_machine("dgx-h100:4"), load_machine("dgx-1-v100")};
    static const std::vector<std::shared_ptr<const CollectiveModel>> kModels = {
        collective_model_of(kMachines[0]), collective_model_of(kMachines[1]),
        collective_model_of(kMachines[2])};
    const auto i = *rc::gen::inRange<std::size_t>(0, kMachines.size());
    const auto nodes = i == 2 ? 1 : 1 << *rc::gen::inRange(0, i == 0 ? 4 : 3);
    const auto ranks = nodes * *rc::gen::inRange(1, 9);
    const auto devices = devices_of(ranks, nodes);
    const auto kind = static_cast<Collective>(*rc::gen::inRange(0, kCollectiveCount));
    // Near powers of two lie the measured sizes, where tables begin and formulas end.
    const auto offset = *rc::gen::inRange<std::int64_t>(-2000, 2000);
    const auto small =
        std::max<std::int64_t>(0, (std::int64_t{1} << *rc::gen::inRange(0, 36)) + offset);
    const auto more = *rc::gen::inRange<std::int64_t>(0, 1 << *rc::gen::inRange(1, 20));
    const auto price = kModels[i]->price({kind, devices, Bytes{small}}, kMachines[i]);
    const auto larger = kModels[i]->price({kind, devices, Bytes{small + more}}, kMachines[i]);
    RC_ASSERT(price->time <= larger->time);
}

TEST(CollectiveFile, AnUnknownModelNamesTheFileThatIsMissing) {
    const Machine preset = load_machine("cpu:2");
    const Machine machine("lab", {preset.devices().begin(), preset.devices().end()},
                          {preset.switches().begin(), preset.switches().end()},
                          {preset.links().begin(), preset.links().end()}, {.model = "nowhere"});
    EXPECT_THROW(static_cast<void>(collective_model_of(machine)), InputError);
}

// A plan's costs digest holds the name.
TEST(CollectiveModelFile, IsNamedByTheContentOfItselfAndItsLogs) {
    namespace fs = std::filesystem;
    const fs::path root = fs::path(testing::TempDir()) / "collective_names";
    fs::create_directories(root / "models");
    const auto name_with = [&](const std::string& microseconds, const std::string& summary) {
        const auto write = [](const fs::path& file, const std::string& text) {
            std::ofstream(file, std::ios::binary) << text;
        };
        write(root / "log.csv",
              "set,collective,algorithm,protocol,ranks,nodes,gpus_per_node,bytes,time_us,"
              "algbw_GBps,busbw_GBps,place,source\nmine,all_reduce,,,8,1,8,1048576," +
                  microseconds + ",1,1,in,here\n");
        write(root / "models" / "mine.json",
              R"({"format": "partita-collectives", "version": 1, "name": "mine", "summary": ")" +
                  summary + R"(", "tables": [{"log": "log.csv"}]})");
        return load_collective_model(root / "models" / "mine.json")->name();
    };
    const std::string name = name_with("50", "one");
    EXPECT_EQ(name_with("50", "one"), name);
    EXPECT_NE(name_with("51", "one"), name);
    EXPECT_NE(name_with("50", "two"), name);
    fs::remove_all(root);
}

}  // namespace
}  // namespace partita::cost
