// SPDX-License-Identifier: Apache-2.0
//
// Roofline, given costs and the decorators.
#include "cost/cost_model.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <stdexcept>

#include "base/error.h"

namespace partita::cost {
namespace {

// 1 TFLOP/s of matrix products, 4 in float16, 0.5 of anything else, 100 GB/s, a task each 5 us
Device gpu() {
    Device device;
    device.name = "gpu0";
    device.memory = Bytes{1'000'000};
    device.memory_bandwidth = 100'000'000'000;
    device.launch_interval = microseconds(5);
    device.matrix_flops[static_cast<std::size_t>(graph::DType::float32)] = 1'000'000'000'000;
    device.matrix_flops[static_cast<std::size_t>(graph::DType::float16)] = 4'000'000'000'000;
    device.vector_flops = 500'000'000'000;
    return device;
}

Work work(std::int64_t flops, std::int64_t bytes) {
    Work work;
    work.type = "Test";
    work.flops = Flops(flops);
    work.bytes = Bytes(bytes);
    return work;
}

Time roofline(const Work& work, const Device& device = gpu()) {
    return Roofline().price(work, device)->time;
}

TEST(Roofline, ComputeBoundWorkTakesItsFlops) {
    Work product = work(/*flops=*/1'000'000'000, /*bytes=*/1'000);
    EXPECT_EQ(roofline(product), milliseconds(2));  // 10^9 / (0.5 * 10^12)
    product.matrix_product = true;
    EXPECT_EQ(roofline(product), milliseconds(1));
    product.dtype = graph::DType::float16;
    EXPECT_EQ(roofline(product), microseconds(250));
    product.dtype = graph::DType::int8;  // no figure of its own: as float32
    EXPECT_EQ(roofline(product), milliseconds(1));
}

TEST(Roofline, ProductsOfLessPrecisionTakeTheFlopsOfTheirUnits) {
    Device device = gpu();
    Work product = work(/*flops=*/1'000'000'000, /*bytes=*/1'000);
    product.matrix_product = true;
    product.product_type = graph::ProductType::tf32;
    EXPECT_EQ(roofline(product, device), milliseconds(1)) << "no such units: as float32";
    EXPECT_FALSE(device.has_products(graph::ProductType::tf32));
    device.tf32_flops = 2'000'000'000'000;
    EXPECT_TRUE(device.has_products(graph::ProductType::tf32));
    EXPECT_EQ(roofline(product, device), microseconds(500));
    product.dtype = graph::DType::float16;
    product.product_type = graph::ProductType::float8;
    EXPECT_EQ(roofline(product, device), microseconds(250)) << "as float16";
    device.matrix_flops[static_cast<std::size_t>(graph::DType::float8e4m3fn)] = 8'000'000'000'000;
    EXPECT_EQ(roofline(product, device), microseconds(125));
    product.matrix_product = false;
    EXPECT_EQ(roofline(product, device), milliseconds(2)) << "not of other work";
}

TEST(Roofline, MemoryBoundWorkTakesItsBytes) {
    EXPECT_EQ(roofline(work(1'000, 1'000'000)), microseconds(10));
}

TEST(Roofline, NoTaskIsShorterThanTheLaunchInterval) {
    EXPECT_EQ(roofline(work(1, 1)), microseconds(5));
    EXPECT_EQ(roofline(work(0, 0)), microseconds(5));
}

TEST(Roofline, EfficiencyDividesThePeaks) {
    Device device = gpu();
    device.compute_efficiency = 0.5;
    EXPECT_EQ(roofline(work(1'000'000'000, 0), device), milliseconds(4));
    device.memory_efficiency = 0.25;
    EXPECT_EQ(roofline(work(0, 1'000'000), device), microseconds(40));
}

TEST(Roofline, AnAliasIsFree) {
    Work reshape = work(0, 1'000'000);
    reshape.alias = true;
    EXPECT_EQ(roofline(reshape), Time{0});
}

TEST(Roofline, RoundsUp) {
    Device device = gpu();
    device.launch_interval = Time{0};
    device.vector_flops = 3'000'000'000'000;  // 3 FLOP in a picosecond
    EXPECT_EQ(roofline(work(1, 0), device), Time{1});
    EXPECT_EQ(roofline(work(4, 0), device), Time{2});
}

TEST(Roofline, TimesOutOfRangeThrow) {
    Device device = gpu();
    device.vector_flops = 1;
    EXPECT_THROW(roofline(work(std::numeric_limits<std::int64_t>::max(), 0), device),
                 OverflowError);
}

RC_GTEST_PROP(RooflineProperty, RisesWithFlopsAndBytesAndNeverBelowTheLaunchInterval, ()) {
    const auto amount = [] { return *rc::gen::inRange<std::int64_t>(0, 1'000'000'000'000); };
    Work small = work(amount(), amount());
    small.matrix_product = *rc::gen::arbitrary<bool>();
    Work large = small;
    large.flops += Flops(amount());
    large.bytes += Bytes(amount());
    Device device = gpu();
    device.compute_efficiency = *rc::gen::inRange(1, 101) / 100.0;
    device.memory_efficiency = *rc::gen::inRange(1, 101) / 100.0;
    RC_ASSERT(roofline(small, device) >= device.launch_interval);
    RC_ASSERT(roofline(small, device) <= roofline(large, device));
    RC_ASSERT(roofline(small, device) >= transfer_time(small.bytes, device.memory_bandwidth));
}

TEST(GivenCosts, DependOnTheKindOfDeviceAlone) {
    graph::GivenCosts given;
    given.accelerator_time = Time{7};
    given.cpu_time = Time{70};
    Work node = work(1'000'000, 1'000'000);
    EXPECT_EQ(GivenCostModel().price(node, gpu()), std::nullopt);
    node.given = &given;
    EXPECT_EQ(GivenCostModel().price(node, gpu()), (Price{Time{7}, CostSource::given}));
    Device cpu = gpu();
    cpu.kind = DeviceKind::cpu;
    EXPECT_EQ(GivenCostModel().price(node, cpu), (Price{Time{70}, CostSource::given}));
}

TEST(DefaultCostModel, PrefersGivenCosts) {
    graph::GivenCosts given;
    given.accelerator_time = Time{7};
    Work node = work(0, 0);
    EXPECT_EQ(default_cost_model()->price(node, gpu()),
              (Price{microseconds(5), CostSource::analytic}));
    node.given = &given;
    EXPECT_EQ(default_cost_model()->price(node, gpu()), (Price{Time{7}, CostSource::given}));
    EXPECT_EQ(default_cost_model()->name(), "given, roofline");
}

TEST(FirstMatch, NeedsAModel) {
    EXPECT_THROW(FirstMatch({}), std::invalid_argument);
}

}  // namespace
}  // namespace partita::cost
