// SPDX-License-Identifier: Apache-2.0
#include "runtime/communicate/all_reduce.h"

#include <atomic>
#include <bit>
#include <cmath>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/communicate/conformance.h"
#include "tests/runtime/communicate/ranks.h"

namespace partita::runtime {
namespace {

using cost::Algorithm;
using graph::Combine;

// Passes everything on, and counts what goes out and how often it waits.
class Counting final : public Communicator {
public:
    explicit Counting(Communicator& inner)
        : Communicator(inner.rank(), inner.size(), {}), inner_(inner) {}
    std::int64_t bytes = 0;
    int rounds = 0;

protected:
    void do_transfer(std::span<const Message> sends, std::span<const Message> receives) override {
        for (const Message& message : sends)
            bytes += static_cast<std::int64_t>(message.tensor.nbytes());
        ++rounds;
        inner_.transfer(sends, receives);
    }

private:
    Communicator& inner_;
};

struct Work {
    std::int64_t bytes = 0;  // of the busiest rank
    int rounds = 0;
};

Work work_of(int ranks, std::int64_t count,
             const std::function<void(Communicator&, const at::Tensor&)>& run_it) {
    std::vector<Work> each(ranks);
    run(thread_communicators(ranks), [&](Communicator& communicator) {
        Counting counting(communicator);
        run_it(counting, at::ones({count}));
        each[communicator.rank()] = {counting.bytes, counting.rounds};
    });
    Work most;
    for (const Work& work : each) {
        most = {std::max(most.bytes, work.bytes), std::max(most.rounds, work.rounds)};
    }
    return most;
}

Work work_of(Algorithm algorithm, int ranks, std::int64_t count) {
    return work_of(ranks, count, [&](Communicator& communicator, const at::Tensor& tensor) {
        all_reduce(communicator, tensor, Combine::sum, algorithm);
    });
}

class AllReduce : public testing::TestWithParam<std::tuple<int, AllReduceRow>> {};

TEST_P(AllReduce, IsThePlainSum) {
    const auto& [ranks, row] = GetParam();
    const auto errors =
        run(thread_communicators(ranks), [&, algorithm = row.algorithm](Communicator& c) {
            check_all_reduce(c, [&](const at::Tensor& tensor, Combine how) {
                all_reduce(c, tensor, how, algorithm);
            });
        });
    EXPECT_THAT(errors, testing::Each(""));
}

INSTANTIATE_TEST_SUITE_P(
    Of, AllReduce,
    testing::Combine(testing::Range(1, 9),
                     testing::ValuesIn(std::vector<AllReduceRow>(all_reduce_algorithms().begin(),
                                                                 all_reduce_algorithms().end()))),
    [](const auto& test) {
        std::string name(cost::name_of(std::get<1>(test.param).algorithm));
        std::erase(name, '-');
        return std::to_string(std::get<0>(test.param)) + "Ranks_" + name;
    });

// d bytes of 840 floats, which all numbers of ranks up to 8 divide.
constexpr std::int64_t kCount = 840;
constexpr std::int64_t kBytes = 4 * kCount;

TEST(RingAllReduce, SendsTwoPartsLessThanTwiceTheTensor) {
    for (int n = 2; n <= 8; ++n) {
        const Work work = work_of(Algorithm::ring, n, kCount);
        EXPECT_EQ(work.bytes, 2 * (n - 1) * kBytes / n) << n;
        EXPECT_EQ(work.rounds, 2 * (n - 1)) << n;
    }
}

TEST(TreeAllReduce, TakesTwoRoundsPerLevel) {
    for (const int n : {2, 3, 4, 5, 8}) {
        const int levels = std::bit_width(static_cast<unsigned>(n - 1));
        const Work work = work_of(Algorithm::tree, n, kCount);
        EXPECT_EQ(work.bytes, levels * kBytes) << n;  // the root broadcasts
        EXPECT_EQ(work.rounds, 2 * levels) << n;
    }
}

TEST(ButterflyAllReduce, TakesOneRoundPerBit) {
    for (const int n : {2, 4, 8}) {
        const int bits = std::countr_zero(static_cast<unsigned>(n));
        const Work work = work_of(Algorithm::butterfly, n, kCount);
        EXPECT_EQ(work.bytes, bits * kBytes) << n;
        EXPECT_EQ(work.rounds, bits) << n;
    }
}

TEST(HalvingDoublingAllReduce, SendsAsLittleAsARingInFewerRounds) {
    for (const int n : {2, 4, 8}) {
        const int bits = std::countr_zero(static_cast<unsigned>(n));
        const Work work = work_of(Algorithm::halving_doubling, n, kCount);
        EXPECT_EQ(work.bytes, 2 * (n - 1) * kBytes / n) << n;
        EXPECT_EQ(work.rounds, 2 * bits) << n;
    }
}

// What every communicator does that has nothing better.
TEST(DirectAllReduce, SendsAsLittleAsARingInTwoRounds) {
    for (int n = 2; n <= 8; ++n) {
        const Work work = work_of(n, kCount, [](Communicator& c, const at::Tensor& tensor) {
            c.all_reduce(tensor, Combine::sum);
        });
        EXPECT_EQ(work.bytes, 2 * (n - 1) * kBytes / n) << n;
        EXPECT_EQ(work.rounds, 2) << n;
    }
}

// The direct collectives, over transfers between threads.
TEST(Communicator, DirectCollectivesConform) {
    for (const int ranks : {2, 3, 5}) {
        for (const Conformance& row : conformance_checks()) {
            const auto errors = run(thread_communicators(ranks), [&](Communicator& communicator) {
                Counting counting(communicator);
                check_conformance(counting, row);
            });
            EXPECT_THAT(errors, testing::Each("")) << row.name << ' ' << ranks;
        }
    }
}

}  // namespace
}  // namespace partita::runtime
