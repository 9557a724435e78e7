// SPDX-License-Identifier: Apache-2.0
#include "cost/collectives/nccl_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/error.h"
#include "base/json.h"
#include "cost/machine/machine_file.h"

namespace partita::cost {
namespace {

constexpr NcclFit kNcclsOwn = {.launch = 1e-9,
                               .channel = 1e-9,
                               .base = 1,
                               .hop = 1,
                               .net_ll = 1,
                               .net_ll128 = 1,
                               .net_simple = 1,
                               .ll = 1,
                               .share_ll128 = 0.92,
                               .rate = 240,
                               .nic_rate = 24,
                               .copy = 1e-9};

/// Nodes of 8 A100.
NcclTopology ampere() {
    return {.generation = 1, .node_bandwidth = 240, .nic_bandwidth = 24};
}

NcclTuning tuning(const NcclTopology& topology = ampere()) {
    return {nccl_constants(), topology};
}

double time_of(const NcclFit& fit, Bytes bytes, int ranks, int nodes = 1,
               const NcclTuning& own = tuning()) {
    return nccl_time(fit, own, Collective::all_reduce, bytes, ranks, nodes).microseconds;
}

TEST(NcclChoices, CoverEverySizeOnceAndAreTheCheapest) {
    for (const auto& [ranks, nodes] : {std::pair{2, 1}, {8, 1}, {2, 2}, {16, 2}, {64, 8}}) {
        const auto choices = tuning().choices(Collective::all_gather, ranks, nodes);
        for (std::int64_t bytes = 1; bytes < 1'000'000'000'000; bytes += bytes / 2 + 1) {
            const auto size = static_cast<double>(bytes);
            int takes = 0;
            double least = 1e30;
            double taken = 0;
            for (const Protocol protocol : kNcclProtocols) {
                const auto line =
                    tuning().line(Collective::all_gather, Algorithm::ring, protocol, ranks, nodes);
                least = std::min(least, line->latency() + size / (1000 * line->bandwidth()));
            }
            for (const auto& choice : choices.all()) {
                if (size < choice.from || size >= choice.to) continue;
                ++takes;
                taken = choice.line.latency() + size / (1000 * choice.line.bandwidth());
            }
            EXPECT_EQ(takes, 1) << ranks << " ranks, " << size << " bytes";
            EXPECT_NEAR(taken, least, 1e-6 * least) << ranks << " ranks, " << size << " bytes";
        }
    }
}

TEST(NcclModel, WithNcclsOwnConstantsARingTakesWhatNcclSays) {
    // 8 ranks, 256 MiB: ring Simple, 14 rounds of 1/8 over 240 GB/s behind 8.4 + 14 x 3.4 us.
    const double bytes = 1 << 28;
    EXPECT_NEAR(time_of(kNcclsOwn, Bytes{1 << 28}, 8), 8.4 + 14 * 3.4 + bytes * 14 / 8 / 240e3, 1);
    // 2 ranks, 1 KiB: ring LL, 6.6 + 2 x 0.6 us.
    EXPECT_NEAR(time_of(kNcclsOwn, Bytes{1024}, 2), 7.8, 0.1);
}

TEST(NcclModel, EveryConstantMovesSomePriceAndNoneTheWrongWay) {
    for (const NcclFitField& field : kNcclFitFields) {
        NcclFit more = kNcclsOwn;
        more.*field.value = field.value == &NcclFit::launch ? 1000 : more.*field.value * 1.5 + 0.1;
        const bool faster = field.name == "rate" || field.name == "nic_rate" ||
                            field.name == "ll" || field.name == "share_ll128";
        bool differs = false;
        for (const auto& [ranks, nodes] : {std::pair{8, 1}, {16, 2}}) {
            for (int k = 0; k < 35; ++k) {
                const Bytes size{std::int64_t{1} << k};
                const double before = time_of(kNcclsOwn, size, ranks, nodes);
                const double after = time_of(more, size, ranks, nodes);
                differs = differs || after != before;
                EXPECT_TRUE(faster ? after <= before : after >= before) << field.name;
            }
        }
        EXPECT_TRUE(differs) << field.name;
    }
}

TEST(NcclModel, StartingChannelsIsPaidOncePerGrainOfBytes) {
    // LL on a ring of 2: one channel up to 8 KiB, two at 16 KiB, 24 from 192 KiB.
    NcclFit fit = kNcclsOwn;
    const auto added = [&](std::int64_t bytes) {
        fit.channel = 1;
        const double with = time_of(fit, Bytes{bytes}, 2);
        fit.channel = 1e-9;
        return with - time_of(fit, Bytes{bytes}, 2);
    };
    EXPECT_NEAR(added(1024), 1, 1e-6);
    EXPECT_NEAR(added(16'384), 2, 1e-6);
    EXPECT_NEAR(added(1 << 19), 24, 1e-6);
}

TEST(NcclModel, TheHostStartsTheRanksOfItsNodeOneAfterTheOther) {
    NcclFit fit = kNcclsOwn;
    fit.launch = 4;
    EXPECT_DOUBLE_EQ(time_of(fit, Bytes{8}, 8), 32);
    EXPECT_DOUBLE_EQ(time_of(fit, Bytes{8}, 7), 28);
    EXPECT_GT(time_of(fit, Bytes{1 << 30}, 8), 32);
}

TEST(NcclModel, MoreLinksOfAMeshAreFaster) {
    NcclTopology mesh = ampere();
    mesh.links = {{4, 4}, {8, 6}};
    NcclTopology sparse = mesh;
    sparse.links = {{4, 1}, {8, 6}};
    EXPECT_LT(time_of(kNcclsOwn, Bytes{1 << 28}, 4, 1, tuning(mesh)),
              time_of(kNcclsOwn, Bytes{1 << 28}, 4, 1, tuning(sparse)));
    EXPECT_EQ(time_of(kNcclsOwn, Bytes{1 << 28}, 8, 1, tuning(mesh)),
              time_of(kNcclsOwn, Bytes{1 << 28}, 8, 1, tuning(sparse)));
}

RC_GTEST_PROP(NcclModel, PricesNeverFallWhenBytesGrow, ()) {
    NcclFit fit = kNcclsOwn;
    for (const NcclFitField& field : kNcclFitFields) {
        // From a tenth to ten times: where NCCL's choice is far from the cheapest, too.
        fit.*field.value *= std::pow(10, *rc::gen::inRange(-100, 101) / 100.0);
    }
    fit.channel *= 1e9;
    const auto nodes = 1 << *rc::gen::inRange(0, 4);
    const auto ranks = std::max(2, nodes * *rc::gen::inRange(1, 9));
    double before = 0;
    for (std::int64_t size = 1; size < 100'000'000'000; size += size / 4 + 1) {
        const double time = time_of(fit, Bytes{size}, ranks, nodes);
        RC_ASSERT(time >= before);
        before = time;
    }
}

TEST(NcclModel, SeveralNodesOfAnAllToAllAreLeftToOthers) {
    const Machine machine = load_machine("dgx-a100:2");
    const NcclModel model({{Collective::all_to_all, kNcclsOwn}}, tuning(), "here");
    std::vector<int> devices(16);
    std::iota(devices.begin(), devices.end(), 0);
    const auto priced = [&](int ranks) {
        const auto some = std::span(devices).first(static_cast<std::size_t>(ranks));
        return model.price({Collective::all_to_all, some, Bytes{1 << 20}}, machine).has_value();
    };
    EXPECT_TRUE(priced(8));
    EXPECT_FALSE(priced(16));
}

TEST(NcclModel, AMissingConstantIsNamed) {
    const JsonFile json(R"({"launch": 3})", "fit.json");
    try {
        static_cast<void>(read_nccl_fit(json.root()));
        FAIL();
    } catch (const InputError& error) {
        EXPECT_NE(std::string(error.what()).find("channel"), std::string::npos) << error.what();
    }
}

}  // namespace
}  // namespace partita::cost
