// SPDX-License-Identifier: Apache-2.0
#include "cost/profile/profiled_cost_model.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "cost/profile/profiled_collectives.h"

namespace partita::cost {
namespace {

// 100 GFLOP/s, 10 GB/s, a task each microsecond.
Device core() {
    Device device;
    device.name = "cpu0";
    device.model = "a core";
    device.kind = DeviceKind::cpu;
    device.memory = Bytes{1'000'000};
    device.memory_bandwidth = 10'000'000'000;
    device.launch_interval = microseconds(1);
    device.matrix_flops.fill(100'000'000'000);
    device.vector_flops = 100'000'000'000;
    return device;
}

Machine machine() {
    return {"one", {core()}, {}, {}};
}

/// A product of that many FLOPs and bytes, called by both.
struct Product {
    Product(std::int64_t flops, std::int64_t bytes)
        : signature{
              .family = "forward MatMul.13",
              .text = "forward MatMul.13 " + std::to_string(flops) + " " + std::to_string(bytes)} {
        work.type = "MatMul";
        work.flops = Flops(flops);
        work.bytes = Bytes(bytes);
        work.matrix_product = true;
    }
    [[nodiscard]] Work asked() const {
        Work with = work;
        with.signature = &signature;
        return with;
    }
    [[nodiscard]] MeasuredWork took(Time time) const {
        return measured_work(asked(), {.median = time, .versions = {}, .date = {}});
    }
    [[nodiscard]] Time roofline() const { return Roofline().price(work, core())->time; }

    WorkSignature signature;
    Work work;
};

Profile profile_of(std::vector<MeasuredWork> works) {
    Profile profile{.file = "p.sqlite", .date = {}, .devices = {}, .keys = {}};
    profile.devices.push_back(
        {.device = device_key(core()), .works = std::move(works), .transfers = {}});
    return profile;
}

std::optional<Price> price(const std::vector<MeasuredWork>& works, const Product& product) {
    return ProfiledCostModel(profile_of(works), machine()).price(product.asked(), core());
}

constexpr std::int64_t kMega = 1'000'000;

TEST(ProfiledCostModel, KnowsWhatWasMeasured) {
    const Product product(8 * kMega, kMega);
    const Price expected{.time = microseconds(123), .source = CostSource::measured};
    EXPECT_EQ(price({product.took(microseconds(123))}, product), expected);
}

TEST(ProfiledCostModel, KnowsNothingOfOtherDevicesOperatorsAndGivenCosts) {
    const Product product(8 * kMega, kMega);
    const ProfiledCostModel model(profile_of({product.took(microseconds(123))}), machine());
    Device other = core();
    other.model = "another core";
    EXPECT_EQ(model.price(product.asked(), other), std::nullopt);
    EXPECT_EQ(model.price(product.work, core()), std::nullopt) << "not signed";
    Product conv(8 * kMega, kMega);
    conv.signature = {.family = "forward Conv.1", .text = "forward Conv.1 8"};
    EXPECT_EQ(model.price(conv.asked(), core()), std::nullopt);
    const graph::GivenCosts given;
    Work costed = product.asked();
    costed.given = &given;
    EXPECT_EQ(model.price(costed, core()), std::nullopt);
}

// Measured: 3 times the roofline at 8 MFLOP (80 us), 1.5 times at 32 MFLOP (320 us). Half way
// between them in logarithms lies 16 MFLOP (160 us): sqrt(3 * 1.5) times.
TEST(ProfiledCostModel, InterpolatesTheRatioToTheRoofline) {
    const std::vector<MeasuredWork> rows = {Product(8 * kMega, 1).took(microseconds(240)),
                                            Product(32 * kMega, 1).took(microseconds(480))};
    const auto between = price(rows, Product(16 * kMega, 1));
    ASSERT_TRUE(between);
    EXPECT_EQ(between->source, CostSource::interpolated);
    EXPECT_NEAR(between->time / microseconds(160), std::sqrt(4.5), 1e-6);
}

TEST(ProfiledCostModel, ReachesAFactorOfFourBeyondWhatWasMeasured) {
    const std::vector<MeasuredWork> row = {Product(8 * kMega, kMega).took(microseconds(240))};
    EXPECT_TRUE(price(row, Product(31 * kMega, kMega)));
    EXPECT_FALSE(price(row, Product(33 * kMega, kMega)));
    EXPECT_TRUE(price(row, Product(8 * kMega, kMega / 4 + 1)));
    EXPECT_FALSE(price(row, Product(8 * kMega, kMega / 5)));
    // Between two, of which each lies within a factor of 16.
    std::vector<MeasuredWork> rows = row;
    rows.push_back(Product(1000 * kMega, kMega).took(microseconds(900)));
    EXPECT_TRUE(price(rows, Product(90 * kMega, kMega)));
    rows.back() = Product(3000 * kMega, kMega).took(microseconds(900));
    EXPECT_FALSE(price(rows, Product(140 * kMega, kMega)));
}

TEST(ProfiledCostModel, FindsWorkOnElementsByItsNumbers) {
    Work pack{.type = "Pack", .phase = Phase::pack, .bytes = Bytes(8000), .elements = 1000};
    const ProfiledCostModel model(
        profile_of({measured_work(pack, {.median = microseconds(7), .versions = {}, .date = {}})}),
        machine());
    EXPECT_EQ(model.price(pack, core())->time, microseconds(7));
    pack.elements = 2000;
    pack.bytes = Bytes(16000);
    EXPECT_EQ(model.price(pack, core())->source, CostSource::interpolated);
    pack.dtype = graph::DType::float16;
    EXPECT_EQ(model.price(pack, core()), std::nullopt);
}

TEST(ProfiledCostModel, IsNamedByWhatItPricesBy) {
    MeasuredWork row = Product(8, 1).took(microseconds(3));
    const auto name = [&] { return ProfiledCostModel(profile_of({row}), machine()).name(); };
    const std::string before = name();
    row.time.date = "2026-11-23";
    row.time.upper = row.time.median + Time{5};
    row.time.repetitions = 7;
    EXPECT_EQ(name(), before);
    row.time.median += Time{1};
    EXPECT_NE(name(), before);
}

RC_GTEST_PROP(ProfiledCostModel, NoPriceIsBelowItsLeastShareOrOutsideOfItsNeighbours, ()) {
    const auto number = [](std::int64_t most) {
        return *rc::gen::inRange<std::int64_t>(1, most + 1);
    };
    std::vector<MeasuredWork> rows;
    double least = 1e300;
    double most = 0;
    for (std::int64_t i = number(12); i > 0; --i) {
        const Product product(number(100 * kMega), number(kMega));
        const Time time(number(1'000'000'000));
        rows.push_back(product.took(time));
        least = std::min(least, time / product.roofline());
        most = std::max(most, time / product.roofline());
    }
    std::ranges::sort(rows, {}, [](const auto& row) { return row.signature.text; });
    const auto again =
        std::ranges::unique(rows, {}, [](const auto& row) { return row.signature.text; });
    rows.erase(again.begin(), again.end());
    const ProfiledCostModel model(profile_of(rows), machine());
    const Product product(number(100 * kMega), number(kMega));
    const Share share = model.least_share(product.work, core());
    RC_ASSERT(share <= Share{});
    const auto found = model.price(product.asked(), core());
    if (!found) return;
    RC_ASSERT(found->time >= share.of(product.roofline()));
    const double ratio = found->time / product.roofline();
    RC_ASSERT(ratio >= std::min(least, 1.0) * 0.999);
    RC_ASSERT(ratio <= most * 1.001 + 1e-3);
}

/// Median over all rows of how far the prediction from the others is off.
double leave_one_out(const std::vector<MeasuredWork>& rows, const std::vector<Product>& products,
                     bool analytic) {
    std::vector<double> errors;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        std::vector<MeasuredWork> others = rows;
        others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
        const auto found = price(others, products[i]);
        const Time predicted = found && !analytic ? found->time : products[i].roofline();
        errors.push_back(std::abs(std::log(predicted / rows[i].time.median)));
    }
    std::ranges::sort(errors);
    return errors[errors.size() / 2];
}

// An overhead of 3 us, an efficiency that grows with each extent, up to 4 % of noise: whole
// products and what is left of them when one extent is split in 2, 4 and 8.
TEST(ProfiledCostModel, PredictsAProductThatIsLeftOut) {
    std::vector<Product> products;
    std::vector<MeasuredWork> rows;
    const auto add = [&](double m, double n, double k) {
        const double flops = 2 * m * n * k;
        const double bytes = 4 * (m * k + k * n + m * n);
        const double reached = 90e9 * m / (m + 16) * n / (n + 24) * k / (k + 32);
        const double noise = 0.04 * std::sin(12.9898 * static_cast<double>(rows.size()));
        const double seconds = (3e-6 + std::max(flops / reached, bytes / 12e9)) * std::exp(noise);
        const Product product(static_cast<std::int64_t>(flops), static_cast<std::int64_t>(bytes));
        for (const MeasuredWork& row : rows) {
            if (row.signature == product.signature) return;
        }
        products.push_back(product);
        rows.push_back(product.took(time_from_seconds(seconds)));
    };
    for (const double m : {64.0, 128.0, 512.0, 2048.0}) {
        for (const double n : {512.0, 1000.0, 2048.0}) {
            for (const double parts : {1.0, 2.0, 4.0, 8.0}) {
                add(m / parts, n, 512);
                add(m, n / parts, 512);
                add(m, n, 512 / parts);
            }
        }
    }
    const double interpolated = leave_one_out(rows, products, /*analytic=*/false);
    const double analytic = leave_one_out(rows, products, /*analytic=*/true);
    EXPECT_LT(interpolated, 0.07) << "analytic " << analytic;
    EXPECT_GT(analytic, 3 * interpolated);
}

TEST(ProfiledCollectives, KnowCallsAmongDevicesThatWereMeasured) {
    std::vector<Device> devices(3, core());
    for (std::size_t i = 0; i < 3; ++i) devices[i].name = "cpu" + std::to_string(i);
    devices[2].model = "another core";
    std::vector<Link> links(3);
    for (int i = 0; i < 3; ++i) {
        links[static_cast<std::size_t>(i)].from = i;
        links[static_cast<std::size_t>(i)].to = 3;
        links[static_cast<std::size_t>(i)].bandwidth = 1'000'000'000;
    }
    const Machine three("three", devices, {"memory"}, links);
    Profile profile = profile_of({});
    const auto took = [](std::int64_t time) {
        return Measurement{.median = microseconds(time), .versions = {}, .date = {}};
    };
    profile.devices[0].transfers = {
        {.copy = true, .bytes = Bytes(1000), .variant = {}, .time = took(10)},
        {.copy = true, .bytes = Bytes(3000), .variant = {}, .time = took(30)},
        {.kind = Collective::all_reduce, .bytes = Bytes(1000), .variant = {}, .time = took(50)}};
    const ProfiledCollectives model(profile);
    EXPECT_EQ(model.copy_price(0, 1, Bytes(1000), three)->source, CostSource::measured);
    EXPECT_EQ(model.copy_price(0, 1, Bytes(2000), three)->time, microseconds(20));
    EXPECT_EQ(model.copy_price(0, 2, Bytes(1000), three), std::nullopt);
    const std::vector<int> alike = {0, 1};
    const std::vector<int> mixed = {1, 2};
    const auto call = [](const std::vector<int>& ranks, Collective kind) {
        return CollectiveCall{.kind = kind, .devices = ranks, .bytes = Bytes(1000)};
    };
    EXPECT_EQ(model.price(call(alike, Collective::all_reduce), three)->time, microseconds(50));
    EXPECT_EQ(model.price(call(mixed, Collective::all_reduce), three), std::nullopt);
    EXPECT_EQ(model.price(call(alike, Collective::broadcast), three), std::nullopt);
}

TEST(ProfiledCostModel, CpusThatDifferInThreadsAloneHaveMeasuredTimesOfTheirOwn) {
    Device other = core();
    other.name = "cpu1";
    other.threads = 4;
    const Machine both("both", {core(), other}, {"bus"}, [] {
        std::vector<Link> links(2);
        for (int i = 0; i < 2; ++i) {
            links[static_cast<std::size_t>(i)].from = i;
            links[static_cast<std::size_t>(i)].to = 2;
            links[static_cast<std::size_t>(i)].bandwidth = 1'000'000'000;
        }
        return links;
    }());
    const Product product(1'000'000, 1000);
    Profile profile = profile_of({product.took(microseconds(100))});
    profile.devices.push_back(
        {.device = device_key(other), .works = {product.took(microseconds(30))}, .transfers = {}});
    const ProfiledCostModel model(profile, both);
    EXPECT_EQ(model.price(product.asked(), core())->time, microseconds(100));
    EXPECT_EQ(model.price(product.asked(), other)->time, microseconds(30));
    EXPECT_FALSE(priced_alike(core(), other));
    EXPECT_TRUE(priced_alike(core(), core()));
}

}  // namespace
}  // namespace partita::cost
