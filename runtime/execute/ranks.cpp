// SPDX-License-Identifier: Apache-2.0
#include "runtime/execute/ranks.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <numeric>
#include <set>
#include <utility>

#include <ATen/Functions.h>

#include "base/error.h"
#include "cost/discovery/host.h"
#include "plan/simulation/peak_memory.h"
#include "runtime/communicate/nccl_communicator.h"
#include "runtime/execute/hosts.h"

namespace partita::runtime {

namespace {

constexpr auto kStart = std::chrono::seconds(10);  // that processes may begin apart

/// The same for all processes of a host, in whatever containers they are.
std::string host() {
    std::string boot;
    if (std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot)) return boot;
    std::array<char, 256> name{};
    return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "?";
}

/// The cores that this process may use, as text to compare.
std::string own_cores() {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0) return "?";
    std::string text;
    for (int core = 0; core < CPU_SETSIZE; ++core) {
        if (CPU_ISSET(core, &set)) text += std::to_string(core) + ",";
    }
    return text;
}

Hosts find_hosts(Communicator& world) {
    return {.ids = share(world, host()), .cores = share(world, own_cores()), .self = world.rank()};
}

/// Throws when what a rank was given is not what rank 0 was given.
void check_same_run(Communicator& world, const ExecuteRequest& request) {
    const std::string who =
        "rank " + std::to_string(world.rank()) + " of " + std::to_string(world.size()) + ": ";
    for (const auto& [what, text] : request.same) {
        try {
            check_same(world, what, text);
        } catch (const MismatchError& error) {
            throw DeviceError(who + error.what());
        }
    }
}

Bytes on_this_host(const std::vector<Bytes>& of_devices, const Ownership& ownership,
                   const Hosts& hosts) {
    Bytes sum{0};
    for (std::size_t d = 0; d < of_devices.size(); ++d) {
        const auto process = static_cast<std::size_t>(ownership.process_of(static_cast<int>(d)));
        if (hosts.is_here(process)) sum += of_devices[d];
    }
    return sum;
}

LocalDevices local_devices(const Ownership& ownership, const Hosts& hosts,
                           const cost::Machine& machine) {
    LocalDevices local;
    for (std::size_t d = 0; d < ownership.process_of_device.size(); ++d) {
        const int process = ownership.process_of_device[d];
        if (process == ownership.self) local.devices.push_back(static_cast<int>(d));
        const bool is_gpu = machine.device(static_cast<int>(d)).kind == cost::DeviceKind::gpu;
        if (is_gpu && process < ownership.self &&
            hosts.is_here(static_cast<std::size_t>(process))) {
            ++local.first_gpu;
        }
    }
    return local;
}

/// Has every device of the plan a GPU of its own? The same answer on all processes.
bool have_own_gpus(Communicator& world, const Placement& placement, const Hosts& hosts) {
    std::string own;
    for (std::size_t d = 0; d < placement.device.size(); ++d) {
        if (placement.worker[d] >= 0) own += placement.device[d].str() + " ";
    }
    return are_own_gpus(hosts, share(world, own));
}

/// "2 ranks of cpu:1, 1 thread each", or what each of them has.
std::string text_of(const std::vector<std::string>& devices) {
    const std::set<std::string> kinds(devices.begin(), devices.end());
    const std::string count = std::to_string(devices.size()) + " ranks";
    if (kinds.size() == 1) return count + " of " + devices[0];
    std::string text = count;
    for (std::size_t rank = 0; rank < devices.size(); ++rank) {
        text += (rank == 0 ? ": " : "; ") + devices[rank];
    }
    return text;
}

/// The largest of each number that any rank has, on rank 0.
template <class Field, class Rows>
void take_largest(Communicator& world, Rows& rows, const Field& field) {
    const at::Tensor numbers = at::empty({std::ssize(rows)}, at::kLong);
    auto* const raw = numbers.mutable_data_ptr<std::int64_t>();
    for (std::size_t i = 0; i < rows.size(); ++i) raw[i] = field(rows[i]).raw();
    world.reduce(numbers, graph::Combine::max, 0);
    for (std::size_t i = 0; i < rows.size(); ++i) {
        auto& value = field(rows[i]);
        value = std::remove_reference_t<decltype(value)>(raw[i]);
    }
}

/// Those of all ranks, in their order.
std::vector<plan::TaskRun> all_runs(Communicator& world, const std::vector<plan::TaskRun>& mine) {
    constexpr std::size_t kNumbers = 4;
    std::string text(mine.size() * kNumbers * sizeof(std::int64_t), '\0');
    auto* out = text.data();
    const auto write = [&out](std::int64_t number) {
        std::memcpy(out, &number, sizeof number);
        out += sizeof number;
    };
    for (const plan::TaskRun& run : mine) {
        write(run.task.value);
        write(run.device);
        write(run.start.raw());
        write(run.end.raw());
    }
    std::vector<plan::TaskRun> runs;
    for (const std::string& of_rank : share(world, text)) {
        const auto* in = of_rank.data();
        const auto read = [&in] {
            std::int64_t number = 0;
            std::memcpy(&number, in, sizeof number);
            in += sizeof number;
            return number;
        };
        for (std::size_t i = 0; i < of_rank.size() / (kNumbers * sizeof(std::int64_t)); ++i) {
            plan::TaskRun run;
            run.task = plan::TaskId(static_cast<std::size_t>(read()));
            run.device = static_cast<int>(read());
            run.start = Time(read());
            run.end = Time(read());
            runs.push_back(run);
        }
    }
    return runs;
}

}  // namespace

ProcessRanks::ProcessRanks(std::unique_ptr<Processes> processes, std::shared_ptr<Abort> abort,
                           std::chrono::milliseconds timeout)
    : processes_(std::move(processes)),
      abort_(std::move(abort)),
      timeout_(timeout),
      rank_(processes_->rank()),
      size_(processes_->size()) {}

std::chrono::milliseconds ProcessRanks::patience() const {
    return timeout_ + kStart;
}

void ProcessRanks::fail(int exit_code, const std::string& reason) {
    if (processes_) {
        abort_->raise(reason);
        processes_->end_all(exit_code);
    }
    std::_Exit(exit_code);
}

std::unique_ptr<ProcessRanks> join_ranks(const Launch& launch, std::chrono::milliseconds timeout) {
    auto abort = std::make_shared<Abort>();
    auto processes = join_processes(launch, {.timeout = timeout + kStart, .abort = abort});
    if (!processes) return nullptr;
    return std::make_unique<ProcessRanks>(std::move(processes), std::move(abort), timeout);
}

std::vector<int> divided(const cost::Machine& machine, int processes) {
    const int count = machine.device_count();
    if (processes > count) {
        throw UsageError(std::to_string(processes) + " processes for " + std::to_string(count) +
                         " devices. Start at most one per device of the plan.");
    }
    std::vector<int> order(static_cast<std::size_t>(count));
    std::iota(order.begin(), order.end(), 0);
    const auto node_of = [&](int device) { return machine.device(device).node; };
    std::ranges::stable_sort(order, {}, node_of);
    std::set<int> nodes;
    for (const int device : order) nodes.insert(node_of(device));
    std::vector<int> process_of_device(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
        const auto node = std::distance(nodes.begin(), nodes.find(node_of(order[i])));
        const auto block = static_cast<std::int64_t>(i) * processes / count;
        process_of_device[static_cast<std::size_t>(order[i])] =
            static_cast<int>(std::ssize(nodes) == processes ? node : block);
    }
    return process_of_device;
}

Team make_team(ProcessRanks& ranks, const ExecuteRequest& request) {
    const cost::Machine& machine = request.problem->machine();
    Communicator& world = ranks.processes().world();
    world.set_timeout(ranks.patience());
    check_same_run(world, request);
    const Hosts hosts = find_hosts(world);

    Team team;
    team.peers.world = &world;
    team.peers.mailbox = &ranks.processes().mailbox();
    team.peers.abort = ranks.abort();
    team.peers.timeout = ranks.timeout();
    team.peers.patience = ranks.patience();
    for (const cost::Device& device : machine.devices()) team.peers.devices.push_back(device.name);
    Ownership& ownership = team.peers.ownership;
    ownership.self = ranks.rank();
    ownership.process_of_device = divided(machine, ranks.size());
    const LocalDevices local = local_devices(ownership, hosts, machine);
    const int usable = cost::host_limits().cores;
    team.devices = real_devices(request.devices, machine, hosts.core_count(usable), local);
    team.devices.first_core = hosts.first_core(usable);
    const bool by_kind = request.devices.empty();  // GPUs of the plan are GPUs, here and elsewhere
    const auto first = static_cast<std::size_t>(local.devices[0]);
    if (by_kind || team.devices.placement.device[first].is_cpu()) {
        std::vector<Bytes> memory = plan::peak_memory(*request.tasks, request.order);
        for (std::size_t d = 0; by_kind && d < memory.size(); ++d) {
            const bool is_gpu = machine.device(static_cast<int>(d)).kind == cost::DeviceKind::gpu;
            if (is_gpu) memory[d] = Bytes{0};
        }
        team.host_memory = on_this_host(memory, ownership, hosts);
    }
    Hardware& hardware = team.devices.hardware;
    team.devices.placement.own_gpus = have_own_gpus(world, team.devices.placement, hosts);
    const std::string within = hardware.transport;
    hardware.text = text_of(share(world, hardware.text));
    const auto own = share(world, hardware.is_own ? "own" : "shared");
    hardware.is_own = std::ranges::count(own, "own") == std::ssize(own);
    hardware.transport = ranks.processes().name();
    if (team.devices.placement.own_gpus && has_nccl()) {
        hardware.transport += ", NCCL and device copies";
    } else if (ranks.size() < machine.device_count()) {
        hardware.transport += " and " + within;
    }
    ownership.workers_of_their_own = hardware.is_own;
    return team;
}

void merge(Communicator& world, ExecuteResult& result) {
    world.set_label("measured times");
    take_largest(world, result.times, [](TaskTime& each) -> Time& { return each.median; });
    take_largest(world, result.times, [](TaskTime& each) -> Time& { return each.lower; });
    take_largest(world, result.times, [](TaskTime& each) -> Time& { return each.upper; });
    take_largest(world, result.memory, [](Bytes& each) -> Bytes& { return each; });
    result.runs = all_runs(world, result.runs);
}

}  // namespace partita::runtime
