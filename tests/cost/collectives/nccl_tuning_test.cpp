// SPDX-License-Identifier: Apache-2.0
//
// NCCL's tuning formulas against what NCCL 2.27.5 itself prints for HGX H100 nodes with one 400
// Gb/s port per GPU (data/collectives/h100_nccl_tuner_log.csv): every latency and bandwidth of ring
// and tree, to the printed digit. The topology is the one that the log shows: two channels per
// rank, 8 at most, an Intel CPU.
#include "cost/collectives/nccl_tuning.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "cost/machine/data_folder.h"

namespace partita::cost {
namespace {

const std::filesystem::path kData = data_folder() / "collectives";

const NcclTuning& hopper() {
    static const NcclTuning kTuning = [] {
        const NcclTopology topology{.generation = 2,
                                    .amd_cpu = false,
                                    .channels_per_rank = 2,
                                    .most_channels = 8,
                                    .node_channels = 16,
                                    .node_bandwidth = 400,
                                    .nic_bandwidth = 48,
                                    .nvls = true};
        return NcclTuning(nccl_constants(), topology);
    }();
    return kTuning;
}

struct LogRow {
    Collective kind = Collective::all_reduce;
    Algorithm algorithm = Algorithm::ring;
    Protocol protocol = Protocol::simple;
    int nodes = 0;
    int ranks = 0;
    double latency = 0;
    double bandwidth = 0;
};

std::vector<LogRow> log_rows() {
    std::ifstream file(kData / "h100_nccl_tuner_log.csv");
    std::string line;
    std::getline(file, line);
    std::vector<LogRow> rows;
    while (std::getline(file, line)) {
        std::istringstream fields(line);
        std::array<std::string, 8> field;
        for (std::string& each : field) std::getline(fields, each, ',');
        rows.push_back({.kind = field[0] == "all_reduce"   ? Collective::all_reduce
                                : field[0] == "all_gather" ? Collective::all_gather
                                                           : Collective::reduce_scatter,
                        .algorithm = field[1] == "ring"   ? Algorithm::ring
                                     : field[1] == "tree" ? Algorithm::tree
                                                          : Algorithm::nvls_tree,
                        .protocol = field[2] == "LL"      ? Protocol::ll
                                    : field[2] == "LL128" ? Protocol::ll128
                                                          : Protocol::simple,
                        .nodes = std::stoi(field[3]),
                        .ranks = std::stoi(field[5]),
                        .latency = std::stod(field[6]),
                        .bandwidth = std::stod(field[7])});
    }
    return rows;
}

TEST(NcclTuning, PrintsWhatNcclPrints) {
    int compared = 0;
    for (const LogRow& row : log_rows()) {
        // NVLS tree changed after 2.27.5: 20.9 us through the network instead of 14, and bandwidth
        // by n / steps instead of 1/2.
        if (row.algorithm == Algorithm::nvls_tree) continue;
        const auto line =
            hopper().line(row.kind, row.algorithm, row.protocol, row.ranks, row.nodes);
        ASSERT_TRUE(line);
        const auto where = [&] {
            std::ostringstream text;
            text << name_of(row.kind) << ' ' << name_of(row.algorithm) << ' '
                 << name_of(row.protocol) << " on " << row.ranks << " ranks, " << row.nodes
                 << " nodes";
            return text.str();
        };
        EXPECT_NEAR(line->latency(), row.latency, 0.051) << where();
        EXPECT_NEAR(line->bandwidth(), row.bandwidth, 0.051) << where();
        ++compared;
    }
    EXPECT_EQ(compared, 240);
}

TEST(NcclTuning, TakesTheCheapestPair) {
    // 2 x 8 ranks: tree LL for small, NVLS tree or ring for large calls.
    EXPECT_EQ(hopper().price(Collective::all_reduce, Bytes{1024}, 16, 2)->algorithm,
              Algorithm::tree);
    EXPECT_EQ(hopper().price(Collective::all_reduce, Bytes{1024}, 16, 2)->protocol, Protocol::ll);
    EXPECT_EQ(hopper().price(Collective::all_gather, Bytes{1 << 30}, 16, 2)->algorithm,
              Algorithm::ring);
    EXPECT_EQ(hopper().price(Collective::all_gather, Bytes{1 << 30}, 16, 2)->protocol,
              Protocol::simple);
    EXPECT_EQ(hopper().price(Collective::all_reduce, Bytes{1 << 30}, 8, 1)->algorithm,
              Algorithm::nvls);
    EXPECT_EQ(hopper().price(Collective::all_to_all, Bytes{1024}, 16, 2), std::nullopt);
}

RC_GTEST_PROP(NcclTuning, PricesNeverFallWhenBytesGrow, ()) {
    // Sizes around powers of two, where the tree's correction changes, and anywhere.
    const auto nodes = 1 << *rc::gen::inRange(0, 4);
    const auto ranks = nodes * *rc::gen::inRange(2, 9);
    const auto octave = *rc::gen::inRange(0, 34);
    const auto offset = *rc::gen::inRange<std::int64_t>(-70, 70);
    const auto small = std::max<std::int64_t>(0, (std::int64_t{1} << octave) + offset);
    const auto more = *rc::gen::inRange<std::int64_t>(0, 1 << *rc::gen::inRange(1, 20));
    for (const Collective kind :
         {Collective::all_reduce, Collective::all_gather, Collective::broadcast}) {
        const auto price = hopper().price(kind, Bytes{small}, ranks, nodes);
        const auto larger = hopper().price(kind, Bytes{small + more}, ranks, nodes);
        RC_ASSERT(price->time <= larger->time);
    }
}

}  // namespace
}  // namespace partita::cost
