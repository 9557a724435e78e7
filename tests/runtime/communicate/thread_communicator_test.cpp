// SPDX-License-Identifier: Apache-2.0
#include "tests/runtime/communicate/thread_communicator.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/communicate/conformance.h"
#include "tests/runtime/communicate/on_device.h"
#include "tests/runtime/communicate/ranks.h"
#include "tests/runtime/pretend_gpus/pretend_gpu.h"

namespace partita::runtime {
namespace {

using graph::Combine;
using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;

class ThreadCommunicator : public testing::TestWithParam<std::tuple<int, Conformance>> {};

TEST_P(ThreadCommunicator, Conforms) {
    const auto& [size, row] = GetParam();
    const auto errors = run(thread_communicators(size), [&](Communicator& communicator) {
        check_conformance(communicator, row);
    });
    EXPECT_THAT(errors, testing::Each(""));
}

INSTANTIATE_TEST_SUITE_P(
    Of, ThreadCommunicator,
    testing::Combine(testing::Range(1, 9),
                     testing::ValuesIn(std::vector<Conformance>(conformance_checks().begin(),
                                                                conformance_checks().end()))),
    [](const auto& test) {
        return std::to_string(std::get<0>(test.param)) + "Ranks" +
               std::string(std::get<1>(test.param).name);
    });

/// Those of threads, rank by rank on devices.
Ranks on_devices(int size, const std::function<at::Device(int)>& device) {
    Ranks ranks;
    for (auto& each : thread_communicators(size)) {
        const at::Device own = device(each->rank());
        ranks.push_back(std::make_unique<OnDevice>(std::move(each), own));
    }
    return ranks;
}

class ThreadCommunicatorOnGpus : public testing::TestWithParam<Conformance> {
protected:
    static void expect_conforms(const Ranks& ranks) {
        const auto errors = run(
            ranks, [](Communicator& communicator) { check_conformance(communicator, GetParam()); });
        EXPECT_THAT(errors, testing::Each(""));
    }
};

TEST_P(ThreadCommunicatorOnGpus, ConformsAndDoesNotRace) {
    for (const int gpus : {1, 2, 4}) {
        reset_pretend_gpus();
        expect_conforms(on_devices(4, [&](int rank) { return pretend_gpu(rank % gpus); }));
        EXPECT_THAT(races(), testing::IsEmpty()) << gpus << " GPUs";
    }
}

class ThreadCommunicatorOnCuda : public ThreadCommunicatorOnGpus {};

TEST_P(ThreadCommunicatorOnCuda, Conforms) {
    const int gpus = cuda_gpus();
    if (gpus == 0) GTEST_SKIP() << "no GPU here";
    expect_conforms(on_devices(4, [&](int rank) {
        return at::Device(at::kCUDA, static_cast<at::DeviceIndex>(rank % gpus));
    }));
}

const auto kConformance = testing::ValuesIn(
    std::vector<Conformance>(conformance_checks().begin(), conformance_checks().end()));

std::string name_of_check(const testing::TestParamInfo<Conformance>& test) {
    return std::string(test.param.name);
}

INSTANTIATE_TEST_SUITE_P(All, ThreadCommunicatorOnGpus, kConformance, name_of_check);
INSTANTIATE_TEST_SUITE_P(All, ThreadCommunicatorOnCuda, kConformance, name_of_check);

CommunicatorOptions briefly() {
    return {.timeout = milliseconds(100), .names = {"gpu0", "gpu1", "gpu2"}};
}

TEST(ThreadCommunicator, NamesTheRankThatNeverComes) {
    const auto errors = run(thread_communicators(3, briefly()), [](Communicator& communicator) {
        if (communicator.rank() == 1) return;
        communicator.set_label("task 417 'all-reduce fc.grad'");
        communicator.all_reduce(at::zeros({5}), Combine::sum);
    });
    EXPECT_THAT(errors[0], AllOf(HasSubstr("rank 0 of 3 (gpu0), task 417 'all-reduce fc.grad': "),
                                 HasSubstr("rank 1 (gpu1) did not come within 0.1 s")));
    EXPECT_THAT(errors[2], HasSubstr("rank 1 (gpu1) did not come within 0.1 s"));
}

TEST(ThreadCommunicator, NamesTheSenderThatNeverComes) {
    const auto errors = run(thread_communicators(3, briefly()), [](Communicator& communicator) {
        if (communicator.rank() == 2) communicator.receive(at::zeros({5}), 1);
    });
    EXPECT_THAT(errors[2], HasSubstr("receive: rank 1 (gpu1) did not come within 0.1 s"));
}

TEST(ThreadCommunicator, NamesTheReceiverThatNeverComes) {
    const auto errors = run(thread_communicators(3, briefly()), [](Communicator& communicator) {
        if (communicator.rank() == 2) communicator.send(at::zeros({5}), 0);
    });
    EXPECT_THAT(errors[2], HasSubstr("send: rank 0 (gpu0) did not come within 0.1 s"));
}

// With the default time-out of a minute this test would end in its own time-out.
TEST(ThreadCommunicator, OneFailureStopsTheOthersAtOnce) {
    const auto errors = run(thread_communicators(3), [](Communicator& communicator) {
        if (communicator.rank() == 1) return communicator.abort("gpu1: out of memory");
        if (communicator.rank() == 2) return communicator.receive(at::zeros({5}), 1);
        communicator.all_reduce(at::zeros({5}), Combine::sum);
    });
    EXPECT_THAT(errors[0], HasSubstr("stopped, because of: gpu1: out of memory"));
    EXPECT_THAT(errors[2], HasSubstr("stopped, because of: gpu1: out of memory"));
}

TEST(ThreadCommunicator, GroupsWithOneAbortFailTogether) {
    CommunicatorOptions options;
    options.abort = std::make_shared<Abort>();
    const Ranks one = thread_communicators(2, options);
    const Ranks other = thread_communicators(2, options);
    one[0]->abort("disk full");
    EXPECT_THROW(other[1]->barrier(), DeviceError);
}

struct Mismatch {
    std::string_view name;
    void (*work)(Communicator&);
    std::string_view message;
};
class ThreadCommunicatorPlans : public testing::TestWithParam<Mismatch> {};

TEST_P(ThreadCommunicatorPlans, OfAnotherRankAreNoticed) {
    const auto errors = run(thread_communicators(2), GetParam().work);
    EXPECT_THAT(errors, testing::Contains(HasSubstr(std::string(GetParam().message))));
    EXPECT_THAT(errors, testing::Not(testing::Contains("")));
}

INSTANTIATE_TEST_SUITE_P(
    Of, ThreadCommunicatorPlans,
    testing::Values(
        Mismatch{"AnotherSize",
                 [](Communicator& c) { c.all_reduce(at::zeros({5 + c.rank()}), Combine::sum); },
                 "'all-reduce of 6 Float' against 'all-reduce of 5 Float' here"},
        Mismatch{"AnotherType",
                 [](Communicator& c) {
                     c.broadcast(at::zeros({5}, c.rank() == 0 ? at::kInt : at::kFloat), 0);
                 },
                 "'broadcast of 5 Float' against 'broadcast of 5 Int' here"},
        Mismatch{"AnotherOperation",
                 [](Communicator& c) {
                     if (c.rank() == 0) return c.broadcast(at::zeros({5}), 0);
                     c.all_reduce(at::zeros({5}), Combine::sum);
                 },
                 "'all-reduce of 5 Float' against 'broadcast of 5 Float' here"},
        Mismatch{"AnotherTask",
                 [](Communicator& c) {
                     c.set_label("task " + std::to_string(c.rank()));
                     c.barrier();
                     c.all_reduce(at::zeros({5}), Combine::sum);
                 },
                 "'task 1: all-reduce of 5 Float' against 'task 0: all-reduce of 5 Float' here"},
        Mismatch{"AnotherMessage",
                 [](Communicator& c) {
                     if (c.rank() == 0) return c.send(at::zeros({5}), 1);
                     c.receive(at::zeros({6}), 0);
                 },
                 "'message of 5 Float' against 'message of 6 Float' here"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(ThreadCommunicator, FailureOfALibraryStopsAll) {
    const auto errors = run(thread_communicators(2), [](Communicator& communicator) {
        communicator.all_reduce(at::zeros({5}, at::kComplexFloat), Combine::max);
    });
    EXPECT_THAT(errors[0], HasSubstr("all-reduce: "));
    EXPECT_THAT(errors[1], HasSubstr("all-reduce: "));
}

}  // namespace
}  // namespace partita::runtime
