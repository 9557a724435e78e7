// SPDX-License-Identifier: Apache-2.0
//
// This host as a machine, and figures of GPUs from what a driver reports.
#include "cost/discovery/discover.h"

#include <gtest/gtest.h>

#include <thread>

#include "cost/discovery/cuda_figures.h"
#include "cost/discovery/host.h"
#include "cost/machine/machine_file.h"
#include "graph/dtype.h"

namespace partita::cost {
namespace {

TEST(Discover, FindsOneDeviceForEachCoreThatMayBeUsed) {
    const Machine machine = discover_machine();
    int cpus = 0;
    Bytes memory;
    for (const Device& device : machine.devices()) {
        if (device.kind != DeviceKind::cpu) continue;
        ++cpus;
        memory += device.memory;
    }
    const HostLimits limits = host_limits();
    EXPECT_EQ(cpus, limits.cores);
    EXPECT_LE(cpus, static_cast<int>(std::thread::hardware_concurrency()));
    EXPECT_LE(memory, limits.memory);
    EXPECT_GT(memory, limits.memory - Bytes{limits.cores});
}

TEST(Discover, WritesAFileThatCanBeRead) {
    const std::string text = to_json(discover_machine());
    EXPECT_EQ(to_json(parse_machine(text, "host.json")), text);
}

// Wide enough for a slow or busy host, narrow enough to notice a wrong unit.
TEST(Discover, MeasuresPlausibleSpeeds) {
    const HostSpeed speed = measure_host(1, Bytes{1 << 30});
    EXPECT_GT(speed.memory_bandwidth, 50'000'000);
    EXPECT_LT(speed.memory_bandwidth, 10'000'000'000'000);
    EXPECT_GT(speed.flops, 20'000'000);
    EXPECT_LT(speed.flops, 10'000'000'000'000);
}

double relative_error(std::int64_t got, double expected) {
    return std::abs(static_cast<double>(got) / expected - 1);
}

// 108 SMs at 1.41 GHz, 5120 bits at 1.593 GHz: the data sheet says 19.5, 312 and 624 TFLOP/s and
// 2,039 GB/s.
TEST(CudaFigures, OfAnA100AgreeWithItsDataSheet) {
    const Device device = cuda_device({.name = "NVIDIA A100-SXM4-80GB",
                                       .memory = Bytes{std::int64_t{80} << 30},
                                       .capability = 80,
                                       .multiprocessors = 108,
                                       .clock_hz = 1'410'000'000,
                                       .memory_clock_hz = 1'593'000'000,
                                       .memory_bus_bits = 5120});
    EXPECT_EQ(device.model, "NVIDIA A100-SXM4-80GB");
    EXPECT_LT(relative_error(device.vector_flops, 19.5e12), 0.005);
    EXPECT_LT(relative_error(device.matrix_flops_of(graph::DType::float32), 19.5e12), 0.005);
    EXPECT_LT(relative_error(device.matrix_flops_of(graph::DType::bfloat16), 312e12), 0.005);
    EXPECT_LT(relative_error(device.matrix_flops_of(graph::DType::int8), 624e12), 0.005);
    EXPECT_LT(relative_error(device.memory_bandwidth, 2039e9), 0.005);
    EXPECT_GT(device.launch_interval, Time{0});
}

TEST(CudaFigures, NameTheKernelTableOfTheirArchitectureAsThePresetsDo) {
    const auto figures = [](int capability) {
        return cuda_device({.capability = capability, .multiprocessors = 1, .clock_hz = 1});
    };
    const Device a100 = load_machine("dgx-a100").device(0);
    EXPECT_EQ(figures(80).kernels, a100.kernels);
    EXPECT_EQ(figures(80).launch_interval, a100.launch_interval);
    const Device h100 = load_machine("dgx-h100").device(0);
    EXPECT_EQ(figures(90).kernels, h100.kernels);
    EXPECT_EQ(figures(90).launch_interval, h100.launch_interval);
    EXPECT_EQ(figures(75).kernels, nullptr);
    EXPECT_GT(figures(75).launch_interval, h100.launch_interval);
}

// 40 SMs at 1.59 GHz: 8.1 and 65 TFLOP/s.
TEST(CudaFigures, OfAT4AgreeWithItsDataSheet) {
    const Device device = cuda_device({.name = "Tesla T4",
                                       .memory = Bytes{std::int64_t{16} << 30},
                                       .capability = 75,
                                       .multiprocessors = 40,
                                       .clock_hz = 1'590'000'000,
                                       .memory_clock_hz = 5'001'000'000,
                                       .memory_bus_bits = 256});
    EXPECT_LT(relative_error(device.vector_flops, 8.1e12), 0.01);
    EXPECT_LT(relative_error(device.matrix_flops_of(graph::DType::float16), 65e12), 0.01);
    EXPECT_LT(relative_error(device.memory_bandwidth, 320e9), 0.01);
}

TEST(CudaFigures, UnknownArchitecturesAreTakenAsTheNewestBefore) {
    const auto flops = [](int capability) {
        return cuda_device({.capability = capability, .multiprocessors = 1, .clock_hz = 1})
            .matrix_flops_of(graph::DType::float16);
    };
    EXPECT_EQ(flops(87), flops(86));
    EXPECT_EQ(flops(120), flops(90));
    EXPECT_EQ(flops(35), flops(60));  // older than the table: its first row
}

TEST(CudaFigures, OfASilentDriverAreStillAMachine) {
    Device device = cuda_device({});
    device.name = "gpu0";
    EXPECT_NO_THROW(Machine("silent", {device}, {}, {}));
}

}  // namespace
}  // namespace partita::cost
