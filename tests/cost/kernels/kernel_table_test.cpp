// SPDX-License-Identifier: Apache-2.0
//
// Curves of kernels: what bounds count on, how files are read, and whether the tables that are
// shipped say of measured rows what they claim.
#include "cost/kernels/kernel_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <string>

#include <fmt/format.h>

#include "base/error.h"
#include "cost/cost_model.h"
#include "cost/machine/machine_fields.h"
#include "cost/machine/machine_file.h"
#include "tests/support/csv_rows.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"

namespace partita::cost {
namespace {

using graph::DType;
using graph::ProductType;
using testing::HasSubstr;

RC_GTEST_PROP(KernelCurve, PartsTakeNoLessInSumThanTheWhole, ()) {
    const KernelCurve curve{.start = Time(*rc::gen::inRange<std::int64_t>(1'000, 10'000'000)),
                            .compute = *rc::gen::inRange(1, 101) / 100.0,
                            .memory = *rc::gen::inRange(1, 101) / 100.0};
    constexpr std::int64_t kMost = 1'000'000'000'000;
    const auto parts = *rc::gen::nonEmpty(
        rc::gen::container<std::vector<std::pair<std::int64_t, std::int64_t>>>(rc::gen::pair(
            rc::gen::inRange<std::int64_t>(0, kMost), rc::gen::inRange<std::int64_t>(0, kMost))));
    Time flops, bytes, sum;
    for (const auto& [of_flops, of_bytes] : parts) {
        flops += Time(of_flops);
        bytes += Time(of_bytes);
        sum += curve.time(Time(of_flops), Time(of_bytes));
    }
    RC_ASSERT(sum >= curve.time(flops, bytes));
}

RC_GTEST_PROP(KernelCurve, RisesWithFlopsAndBytes, ()) {
    const KernelCurve curve{.start = Time(1'000'000), .compute = 0.7, .memory = 0.3};
    const Time flops(*rc::gen::inRange<std::int64_t>(0, 1'000'000'000));
    const Time bytes(*rc::gen::inRange<std::int64_t>(0, 1'000'000'000));
    const Time more(*rc::gen::inRange<std::int64_t>(0, 1'000'000'000));
    RC_ASSERT(curve.time(flops + more, bytes) >= curve.time(flops, bytes));
    RC_ASSERT(curve.time(flops, bytes + more) >= curve.time(flops, bytes));
}

TEST(KernelCurve, IsTheNormOfBothTimesAfterAStart) {
    const KernelCurve curve{.start = Time(1'000'000), .compute = 0.5, .memory = 0.25};
    EXPECT_EQ(curve.time(Time(1'500'000), Time(1'000'000)), Time(1'000'000 + 5'000'000));
    EXPECT_EQ(curve.time(Time(0), Time(0)), Time(1'000'000));
}

class KernelFile : public testing::Test {
protected:
    std::shared_ptr<const KernelTable> read(const std::string& kernels) {
        const auto path = folder_.path() / "some.json";
        std::ofstream(path)
            << R"({"format": "partita-kernels", "version": 1, "name": "some", "kernels": [)"
            << kernels << "]}";
        return read_kernel_table(path);
    }
    std::string error_of(const std::string& kernels) {
        try {
            static_cast<void>(read(kernels));
        } catch (const InputError& error) {
            return error.what();
        }
        return "";
    }

private:
    TemporaryFolder folder_;
};

constexpr std::string_view kProduct =
    R"({"family": "product", "phase": "forward", "types": ["bfloat16"], "start_ps": 3000000, "compute": 0.8, "memory": 0.7, "error": 0.1})";

std::string with(std::string_view from, std::string_view to) {
    std::string text(kProduct);
    text.replace(text.find(from), from.size(), to);
    return text;
}

TEST_F(KernelFile, StandsInForTheOther16BitTypeAndForABackward) {
    const auto table = read(std::string(kProduct));
    const auto find = [&](bool backward, DType dtype,
                          ProductType product = ProductType::as_stored) {
        return table->find(KernelFamily::product, backward, dtype, product);
    };
    const KernelCurve* const curve = find(false, DType::bfloat16);
    ASSERT_NE(curve, nullptr);
    EXPECT_EQ(curve->start, Time(3'000'000));
    EXPECT_EQ(find(false, DType::float16), curve);
    EXPECT_EQ(find(true, DType::bfloat16), curve);
    EXPECT_EQ(find(false, DType::float32), nullptr);
    EXPECT_EQ(find(false, DType::float32, ProductType::tf32), nullptr);
    EXPECT_EQ(table->find(KernelFamily::softmax, false, DType::bfloat16, ProductType::as_stored),
              nullptr);
}

TEST_F(KernelFile, RowsThatBeginAnywhereHaveCurvesOfTheirOwn) {
    const auto of_rows = [](int bytes) {
        return with(R"("start_ps")", fmt::format(R"("row_bytes": {}, "start_ps")", bytes));
    };
    const auto table = read(std::string(kProduct) + ", " + of_rows(4) + ", " + of_rows(1));
    const auto find = [&](int row_bytes, bool backward = false) {
        return table->find(KernelFamily::product, backward, DType::bfloat16, ProductType::as_stored,
                           row_bytes);
    };
    EXPECT_EQ(find(8), find(4));
    EXPECT_EQ(find(2), find(1));
    EXPECT_NE(find(4), find(1));
    EXPECT_NE(find(16), find(4));
    EXPECT_EQ(find(8, /*backward=*/true), find(4));
    const auto aligned = read(std::string(kProduct));
    EXPECT_NE(
        aligned->find(KernelFamily::product, false, DType::bfloat16, ProductType::as_stored, 2),
        nullptr);
}

TEST_F(KernelFile, NamesFileAndFieldOfWhatIsWrong) {
    EXPECT_THAT(error_of(with("product", "prodct")),
                AllOf(HasSubstr("some.json"), HasSubstr("kernels[0].family")));
    EXPECT_THAT(error_of(with("bfloat16", "bfloat17")), HasSubstr("kernels[0].types[0]"));
    EXPECT_THAT(error_of(with("forward", "sideways")), HasSubstr("kernels[0].phase"));
    for (const auto* const bytes : {"0", "3", "16"}) {
        const std::string rows = std::string(R"("row_bytes": )") + bytes + R"(, "start_ps")";
        EXPECT_THAT(error_of(with(R"("start_ps")", rows)), HasSubstr("kernels[0].row_bytes"));
    }
    EXPECT_THAT(error_of(with("3000000", "0")), HasSubstr("kernels[0].start_ps"));
    EXPECT_THAT(error_of(with("0.8", "1.1")), HasSubstr("kernels[0].compute"));
    EXPECT_THAT(error_of(with("0.7", "0")), HasSubstr("kernels[0].memory"));
    EXPECT_THAT(error_of(std::string(kProduct) + ", " + std::string(kProduct)),
                AllOf(HasSubstr("kernels[1].types[0]"), HasSubstr("already")));
}

TEST_F(KernelFile, ItsDigestFollowsItsContent) {
    EXPECT_EQ(read(std::string(kProduct))->digest(), read(std::string(kProduct))->digest());
    EXPECT_NE(read(std::string(kProduct))->digest(), read(with("0.8", "0.81"))->digest());
}

TEST(KernelTable, AMachineThatNamesNoneSaysWhere) {
    EXPECT_THROW(static_cast<void>(kernel_table_named("no-such-table")), InputError);
    EXPECT_THROW(static_cast<void>(kernel_table_named("../kernels/hopper")), InputError);
}

TEST(KernelTable, AMachineFileNamesItAndTheDigestKnowsIt) {
    const Machine machine = load_machine("dgx-h200:1x1");
    std::string text = to_json(machine);
    const Machine again = parse_machine(text, "again.json");
    EXPECT_EQ(again.device(0).kernels, machine.device(0).kernels);
    EXPECT_EQ(digest(again), digest(machine));
    const std::string named = R"("kernels": "hopper", )";
    text.erase(text.find(named), named.size());
    const Machine bare = parse_machine(text, "bare.json");
    EXPECT_EQ(bare.device(0).kernels, nullptr);
    EXPECT_NE(digest(bare), digest(machine));
    text.insert(text.find(R"("memory_bandwidth")"), R"("kernels": "../hopper", )");
    EXPECT_THROW(static_cast<void>(parse_machine(text, "bad.json")), InputError);
}

Device h200() {
    return load_machine("dgx-h200").device(0);
}

TEST(KernelTable, PricesWhatItHasAndLeavesTheRestToTheRoofline) {
    Work work{.type = "MatMul",
              .flops = Flops(std::int64_t{1} << 40),
              .bytes = Bytes(std::int64_t{1} << 28),
              .dtype = DType::bfloat16,
              .matrix_product = true};
    const Device device = h200();
    EXPECT_EQ(Roofline().price(work, device)->source, CostSource::fitted);
    Device bare = device;
    bare.kernels = nullptr;
    EXPECT_EQ(Roofline().price(work, bare)->source, CostSource::analytic);
    work.type = "LSTM";
    EXPECT_EQ(*Roofline().price(work, device), *Roofline().price(work, bare));
}

/// Mean |predicted / measured - 1| over every other product of a type, those that were not fitted.
double error_on_products(const std::string& type, DType dtype, ProductType product) {
    const Device device = h200();
    double sum = 0;
    int number = 0, count = 0;
    for (const tests::CsvRow& row : tests::profile_rows("h200/products.csv")) {
        if (row.at("type") != type || number++ % 2 == 0) continue;
        const std::int64_t m = std::stoll(row.at("m")), k = std::stoll(row.at("k")),
                           n = std::stoll(row.at("n"));
        const std::int64_t width = bits_of(dtype) / 8;
        const Work work{.type = "MatMul",
                        .flops = (2 * m * k) * Flops(n),
                        .bytes = Bytes(width * (m * k + k * n + m * n)),
                        .dtype = dtype,
                        .matrix_product = true,
                        .product_type = product};
        const double predicted = 1e6 * to_seconds(Roofline().price(work, device)->time);
        sum += std::abs(predicted / std::stod(row.at("time_us")) - 1);
        ++count;
    }
    EXPECT_GT(count, 100);
    return sum / count;
}

TEST(KernelTable, ProductsOfAnH200TakeWhatWasMeasured) {
    EXPECT_LT(error_on_products("bfloat16", DType::bfloat16, ProductType::as_stored), 0.12);
    EXPECT_LT(error_on_products("tf32", DType::float32, ProductType::tf32), 0.20);
    EXPECT_LT(error_on_products("float32", DType::float32, ProductType::as_stored), 0.16);
}

}  // namespace
}  // namespace partita::cost
