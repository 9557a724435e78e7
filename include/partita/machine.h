// SPDX-License-Identifier: Apache-2.0
//
// Machine: devices, switches, and the links that join them.
//
//     partita::Machine::load("dgx-h100:4")      a preset, here of 4 nodes (Machine::presets())
//     partita::Machine::load("lab.json")        a machine file (docs/file-formats.md)
//     partita::Machine::discover()              this host
//
//     partita::MachineSpec spec{.name = "pair"};                   by hand
//     spec.devices = {{.name = "gpu0", .memory = partita::gibibytes(80), ...}, ...};
//     spec.links = {{.from = "gpu0", .to = "gpu1", .bandwidth = 300'000'000'000}};
//     partita::Machine pair(spec);
//
// spec() turns any machine back into a MachineSpec: load a preset, change a figure, make a new one.
//
// Threads: never changes, so any number may read it. Copies share it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <partita/error.h>
#include <partita/types.h>

namespace partita {

enum class DeviceKind : std::uint8_t { gpu, cpu };

struct DeviceSpec {
    std::string name;   ///< unique, also among switches
    std::string model;  ///< e.g. "NVIDIA A100-SXM4-80GB"; "": the name
    DeviceKind kind = DeviceKind::gpu;
    int node = 0;  ///< devices of a node share a host; >= 0
    Bytes memory;  ///< capacity, > 0
    /// Of it, what plans leave free: contexts, communicators' buffers, fragmentation; >= 0. Presets
    /// and machine files: 5 % of a GPU's unless they say.
    Bytes reserved;
    std::int64_t memory_bandwidth = 0;  ///< bytes/s, > 0
    Time launch_interval;               ///< the host starts one task per interval; >= 0
    /// FLOP/s of matrix products by element type, vendor's peaks. float32 must be there; types that
    /// are not are as fast as float32.
    std::map<DType, std::int64_t> matrix_flops;
    std::int64_t tf32_flops = 0;    ///< the same of float32 products in TF32; 0: as float32
    std::int64_t vector_flops = 0;  ///< FLOP/s of everything else, > 0
    /// A table of data/kernels, such as "hopper": what kernels reach of the peaks, by family; "":
    /// none.
    std::string kernels;
    double compute_efficiency = 1.0;  ///< the same of kernels that no table has, in (0, 1]
    double memory_efficiency = 1.0;   ///< in (0, 1]
    double price_per_hour = 0;        ///< >= 0, in whatever currency; 0: not said
};

/// How a link's bandwidth is used: once per direction, in one direction only, or by both together.
enum class LinkMode : std::uint8_t { duplex, directed, shared };

struct LinkSpec {
    std::string name;            ///< "": after what it joins
    std::string from;            ///< a device or a switch
    std::string to;              ///< a device or a switch
    std::int64_t bandwidth = 0;  ///< bytes/s, > 0, vendor's peak
    Time latency;                ///< >= 0
    LinkMode mode = LinkMode::duplex;
    double efficiency = 1.0;  ///< share of the peak that copies reach, in (0, 1]
};

struct SwitchSpec {
    std::string name;
    bool reduces = false;  ///< it can add what passes (NVLink SHARP, InfiniBand SHARP)
};

struct MachineSpec {
    std::string name;
    std::vector<DeviceSpec> devices;  ///< their positions are the device numbers of plans
    std::vector<SwitchSpec> switches;
    std::vector<LinkSpec> links;  ///< every device must reach every other
    /// A calibrated model of data/collectives/models, such as "nccl-a100"; "": from the links.
    std::string collectives;
    /// Extents of the torus that the devices of every node are in their order, the last axis fastest,
    /// so that collectives go along all axes at once; empty: they are none. The links are listed all
    /// the same.
    std::vector<int> torus;
};

class Machine {
public:
    /// Throws InputError naming machine and field: a figure out of range, a name given twice, a
    /// link to nowhere, devices that nothing joins.
    explicit Machine(const MachineSpec& spec);

    /// A preset with optional size ("cpu:2", "p100-cluster:2x4", "tpu-v5e:4x8"), or a machine file
    /// when `spec` ends in ".json". Throws UsageError for an unknown preset, naming the known ones,
    /// InputError for a bad file.
    [[nodiscard]] static Machine load(const std::string& spec);
    /// This host with its CPUs, or its GPUs where it has any. Measures the CPU's speed for a
    /// moment.
    [[nodiscard]] static Machine discover();
    /// Names that load() takes.
    [[nodiscard]] static std::vector<std::string> presets();

    [[nodiscard]] const std::string& name() const;
    [[nodiscard]] int device_count() const;
    [[nodiscard]] MachineSpec spec() const;
    /// A machine file, canonical.
    [[nodiscard]] std::string json() const;
    /// Throws UsageError when the file cannot be written.
    void save(const std::filesystem::path& file) const;

    struct Impl;  ///< of the library
    [[nodiscard]] const Impl& impl() const { return *impl_; }
    explicit Machine(std::shared_ptr<const Impl> impl);  ///< of the library

private:
    std::shared_ptr<const Impl> impl_;  ///< shared by copies
};

}  // namespace partita
