// SPDX-License-Identifier: Apache-2.0
//
// Pretend GPUs find what they are there to find.
#include "tests/runtime/pretend_gpus/pretend_gpu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

namespace partita::runtime {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class PretendGpu : public testing::Test {
protected:
    PretendGpu() : impl_((reset_pretend_gpus(), pretend_gpu(0).type())) {}

    [[nodiscard]] c10::Stream new_stream(int gpu) const {
        return impl_.getStreamFromGlobalPool(pretend_gpu(gpu));
    }
    void use(c10::Stream stream) const { impl_.exchangeStream(stream); }
    static at::Tensor ones(int gpu) { return at::ones({4, 4}).to(pretend_gpu(gpu)); }

    c10::impl::VirtualGuardImpl impl_;
};

TEST_F(PretendGpu, ComputesWhatTheCpuComputes) {
    const at::Tensor a = at::randn({3, 5});
    const at::Tensor b = at::randn({5, 2});
    const at::Tensor product = at::mm(a.to(pretend_gpu(1)), b.to(pretend_gpu(1)));
    EXPECT_EQ(product.device(), pretend_gpu(1));
    EXPECT_TRUE(at::equal(product.cpu(), at::mm(a, b)));
    EXPECT_THAT(races(), IsEmpty());
}

TEST_F(PretendGpu, RefusesTensorsOfTwoDevices) {
    EXPECT_ANY_THROW(ones(0) + ones(1));
    EXPECT_ANY_THROW(ones(0) + at::ones({4, 4}));
    EXPECT_NO_THROW(ones(0) + at::ones({}));
}

TEST_F(PretendGpu, RefusesTypesThatCudaKernelsLack) {
    const at::Tensor numbers = at::ones({4, 4}, at::kLong).to(pretend_gpu(0));
    EXPECT_ANY_THROW(at::mm(numbers, numbers));
    EXPECT_NO_THROW(at::mm(numbers.to(at::kDouble), numbers.to(at::kDouble)));
}

TEST_F(PretendGpu, WhatTheHostWaitsForIsWrittenDown) {
    const at::Tensor a = ones(0);
    EXPECT_THAT(take_waits(), ElementsAre("copy from the host"));
    const at::Tensor b = at::ones({2}).to(pretend_gpu(0), at::kFloat, /*non_blocking=*/true) + 1;
    EXPECT_THAT(take_waits(), IsEmpty());
    EXPECT_EQ(b.sum().item<float>(), 4);
    EXPECT_THAT(take_waits(), ElementsAre("aten::_local_scalar_dense"));
    EXPECT_EQ(at::nonzero(b).cpu().size(0), 2);
    EXPECT_THAT(take_waits(), ElementsAre("aten::nonzero", "copy to the host"));
}

TEST_F(PretendGpu, WhoDoesNotWaitRaces) {
    use(new_stream(0));
    const at::Tensor a = ones(0) + 1;
    const c10::Stream other = new_stream(0);
    impl_.recordDataPtrOnStream(a.storage().data_ptr(), other);
    use(other);
    const at::Tensor b = a * 2;
    EXPECT_THAT(races(), ElementsAre(HasSubstr("writes what aten::mul")));
}

TEST_F(PretendGpu, WhoWaitsForAnEventDoesNot) {
    use(new_stream(0));
    const at::Tensor a = ones(0) + 1;
    c10::Event event(pretend_gpu(0).type());
    event.record(impl_.getStream(pretend_gpu(0)));
    const c10::Stream other = new_stream(0);
    impl_.recordDataPtrOnStream(a.storage().data_ptr(), other);
    use(other);
    event.block(other);
    const at::Tensor b = a * 2;
    EXPECT_THAT(races(), IsEmpty());
}

TEST_F(PretendGpu, WritersMustWaitForReaders) {
    use(new_stream(0));
    const at::Tensor a = ones(0);
    impl_.synchronizeDevice(0);
    const at::Tensor b = a * 2;
    use(new_stream(0));
    a.add_(1);
    EXPECT_THAT(races(), ElementsAre(HasSubstr("reads what aten::add")));
}

TEST_F(PretendGpu, NeighbouringColumnsDoNotConflict) {
    use(new_stream(0));
    const at::Tensor a = ones(0);
    impl_.synchronizeDevice(0);
    a.narrow(1, 0, 2).add_(1);
    const c10::Stream other = new_stream(0);
    impl_.recordDataPtrOnStream(a.storage().data_ptr(), other);
    use(other);
    a.narrow(1, 2, 2).add_(1);
    EXPECT_THAT(races(), IsEmpty());
    a.narrow(1, 1, 2).add_(1);
    EXPECT_THAT(races(), ElementsAre(HasSubstr("writes"), HasSubstr("")));
}

TEST_F(PretendGpu, MemoryThatIsStillReadMustNotBeGivenBack) {
    use(new_stream(0));
    at::Tensor a = ones(0);
    impl_.synchronizeDevice(0);
    use(new_stream(0));
    const at::Tensor b = a * 2;
    a.reset();
    EXPECT_THAT(races(), ElementsAre(HasSubstr("whoever gets the memory next")));
}

TEST_F(PretendGpu, MemoryOfWhichTheAllocatorKnowsMay) {
    use(new_stream(0));
    at::Tensor a = ones(0);
    impl_.synchronizeDevice(0);
    const c10::Stream other = new_stream(0);
    use(other);
    const at::Tensor b = a * 2;
    impl_.recordDataPtrOnStream(a.storage().data_ptr(), other);
    a.reset();
    EXPECT_THAT(races(), IsEmpty());
}

}  // namespace
}  // namespace partita::runtime
